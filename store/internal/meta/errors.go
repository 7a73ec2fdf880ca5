package meta

import "errors"

// What package store returns under the same names; callers match with [errors.Is].
var (
	ErrNotFound  = errors.New("store: not found")
	ErrNoVersion = noVersionError{}
	ErrLocked    = errors.New("store: locked")
)

type noVersionError struct{}

func (noVersionError) Error() string {
	return "store: nothing is committed yet (an ingest is under way or was interrupted)"
}
func (noVersionError) Is(target error) bool { return target == ErrNotFound }
