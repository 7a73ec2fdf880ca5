package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gstore/gstore/store/internal/meta"
)

// Replace puts the store in folder with, which nobody has open, in place of the one in dir, in one step where the system can, and removes
// what was there. allowed, if not nil, is asked first, when nobody can write to dir any more. Readers that have dir open keep what they
// opened. It fails with ErrLocked while dir has a writer or one of its tables is trained. Of o, LockTimeout is looked at: both are on
// the operating system's file system.
func Replace(ctx context.Context, dir, with string, o Options, allowed func() error) (err error) {
	e := meta.NewEnv(dir, nil, o.LockTimeout)
	if err := e.Find(); err != nil {
		return err
	}
	var locks []*meta.Lock
	defer func() {
		for _, lk := range locks {
			err = errors.Join(err, lk.Close())
		}
	}()
	hold := func(lk *meta.Lock, err error) error {
		locks = append(locks, lk)
		return err
	}
	if err := hold(e.Lock(ctx, meta.LockWriter, true, 0)); err != nil {
		return fmt.Errorf("a writer is at work in %s: %w", dir, err)
	}
	tables, err := tableNames(ctx, e)
	if err != nil {
		return err
	}
	for _, name := range tables {
		err := hold(e.LockTable(ctx, name, false, 0)) // who reads it keeps the file that is open
		if errors.Is(err, ErrLocked) {
			return fmt.Errorf("%w: table %q of %s is being trained", ErrLocked, name, dir)
		}
		if err != nil {
			return err
		}
	}
	before, err := e.Seal()
	if err != nil {
		return err
	}
	if allowed != nil {
		if err := allowed(); err != nil {
			return err
		}
	}
	if err := hold(e.LockMetadata(ctx)); err != nil {
		return err
	}
	if now, err := e.Seal(); err != nil || now != before { // a run was recorded, which needs no writer's lock
		return errors.Join(err, fmt.Errorf("%w: %s was written to meanwhile", ErrLocked, dir))
	}
	// Who waits for these locks gets those of the same file afterwards.
	n := meta.NewEnv(with, nil, o.LockTimeout)
	if err := os.Remove(n.Path(meta.LockName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Link(e.Path(meta.LockName), n.Path(meta.LockName)); err != nil {
		return err
	}
	if err := n.SyncDir(with); err != nil {
		return err
	}
	if err := exchange(dir, with); err != nil {
		return fmt.Errorf("put %s in place of %s: %w", with, dir, err)
	}
	if err := e.SyncDir(e.FS.PathDir(dir)); err != nil {
		return err
	}
	return os.RemoveAll(with)
}

func tableNames(ctx context.Context, e meta.Env) (names []string, err error) {
	m, err := meta.Open(ctx, e, false)
	if err != nil {
		return nil, err
	}
	records, err := m.Tables()
	for _, r := range records {
		names = append(names, r.Name)
	}
	return names, errors.Join(err, m.Close())
}
