package run

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/progress"
)

// Hooks let a caller watch a run whose configuration is C, whose result is S and whose epochs are E. Any may be nil.
type Hooks[C, S, E any] struct {
	Start func(C, S) // once before the first epoch: what is known before training is filled in
	// Resume is called in a run that is to go on from a checkpoint: what was trained before, or found false, if there is none.
	Resume     func(found bool, epochs, step, batch int)
	Batch      func(epoch int, batches int64) // after each mini-batch; epoch from 0
	Epoch      func(E)
	Checkpoint func(epochs, step, batch int) // after each: finished epochs, and the mini-batch of the next one that comes next
}

// Unfinished is where a run stands. What the task goes on from follows it in its file.
type Unfinished[C, S any] struct {
	Version uint64 `json:"version"` // of the store
	Config  C      `json:"config"`
	Position
	Summary S `json:"summary"`
}

// Resume reads where the run that cfg resumes stands, from a file that begins with magic, and sets cfg to what it goes on with. Where
// file is "" or there is no such file a run begins, and state is nil.
func (u *Unfinished[C, S]) Resume(file, magic string, cfg *C, normalize func(*C) error) (state []byte, err error) {
	version := u.Version
	if file == "" {
		return nil, normalize(cfg)
	}
	if state, err = Find(vfs.Default, file, magic, u); err != nil {
		return nil, err
	}
	if state == nil {
		return nil, normalize(cfg)
	}
	if err := SameVersion(u.Version, version); err != nil {
		return nil, err
	}
	*cfg, err = progress.Resume(*cfg, u.Config, normalize)
	return state, err
}

// Find reads a run's file and fills head; where there is none it returns nil.
func Find(fs vfs.FS, file, magic string, head any) (state []byte, err error) {
	b, err := modelfile.Read(fs, file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("train: resume: %w", err)
	}
	return modelfile.Decode(file, magic, b, head)
}

// SameVersion refuses to go on with a run that began on another version of the store.
func SameVersion(began, now uint64) error {
	if began == now {
		return nil
	}
	return fmt.Errorf("train: resume: the run began on version %d of the store, this is version %d: open that one, or begin afresh", began, now)
}
