package source

import "errors"

// Sentinels that callers match with [errors.Is]. A budget too small is
// store.ErrBudget.
var (
	// ErrInput marks every error about the data the user gave; it is an [*InputError].
	ErrInput = errors.New("ingest: bad input")
	// ErrOptions marks options that contradict each other or the source.
	ErrOptions = errors.New("ingest: bad options")
	// ErrResume says that an interrupted ingest cannot be continued with these
	// options or this input.
	ErrResume = errors.New("ingest: cannot resume")
)
