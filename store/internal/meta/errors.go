package meta

import (
	"errors"
	"io/fs"
)

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

// missing says that a store is not there, and what of it is not. It matches
// ErrNotFound and, like a file that is not there, [fs.ErrNotExist].
type missing struct{ what string }

func (m *missing) Error() string { return ErrNotFound.Error() + ": " + m.what }
func (m *missing) Is(target error) bool {
	return target == ErrNotFound || target == fs.ErrNotExist
}
