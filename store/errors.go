package store

import (
	"errors"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store/internal/meta"
)

// Sentinels that callers match with [errors.Is]. Damage is a
// [*blocks.CorruptError], which matches [ErrCorrupt].
var (
	// ErrClosed is returned by every method of a closed Store, Writer or reader.
	ErrClosed = errors.New("store: closed")
	// ErrNotFound says that a store, version, column, file, partition or id does
	// not exist; the message says which. Where a whole store is missing the error matches
	// [fs.ErrNotExist] too.
	ErrNotFound = meta.ErrNotFound
	// ErrNoVersion says that the directory is a store in which nothing was ever
	// committed: an ingest is under way or was interrupted. It matches ErrNotFound.
	ErrNoVersion = meta.ErrNoVersion
	// ErrSwept says that the version which a Store is of was swept from the store since it was opened, with its dictionary of ids. It matches
	// ErrNotFound too.
	ErrSwept = errors.New("its dictionary went with it; open the store again")
	// ErrExists is returned by Create where a store or something else already is.
	ErrExists = errors.New("store: already exists")
	// ErrLocked says that another writer is at work, or that a lock could not be
	// had within Options.LockTimeout.
	ErrLocked = meta.ErrLocked
	// ErrBudget says that a memory budget is too small for the job; the message
	// names the smallest that would do.
	ErrBudget = errors.New("store: memory budget too small")
	// ErrInternal says that gstore panicked, which is a defect of it; the message has the stack.
	ErrInternal = panics.ErrInternal
	// ErrInvalid marks a manifest or argument that contradicts itself or the files.
	ErrInvalid = errors.New("store: invalid")
)

// invalid is an error that matches ErrInvalid and reads as it did.
type invalid struct{ error }

func (invalid) Is(target error) bool { return target == ErrInvalid }
func (e invalid) Unwrap() error      { return e.error }

// Invalid returns err, if it is one, such that it also matches [ErrInvalid]; what it says stays.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return invalid{err}
}

// The sentinels of package blocks, so that users of a store need not import it.
var (
	ErrCorrupt       = blocks.ErrCorrupt
	ErrFormatVersion = blocks.ErrFormatVersion
)
