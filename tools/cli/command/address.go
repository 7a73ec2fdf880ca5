package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/remote"
)

// addressKey annotates the commands whose store may be at an address.
const addressKey = "address"

// Reads makes the first argument of a command, a store, also the address of one on object storage: the command gets the folder through
// which this machine follows it ([remote.Follow]).
func Reads(e *Env, cmd *cobra.Command) *cobra.Command { return follows(e, cmd, false) }

// Writes is [Reads] of a command that changes the store: what it did is pushed to the address when it has ended well.
func Writes(e *Env, cmd *cobra.Command) *cobra.Command { return follows(e, cmd, true) }

func follows(e *Env, cmd *cobra.Command, writes bool) *cobra.Command {
	cmd.Annotations = map[string]string{addressKey: ""}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) == 0 || !remote.IsAddress(args[0]) {
			return run(cmd, args)
		}
		b, err := OpenAddress(args[0])
		if err != nil {
			return err
		}
		f, err := e.follow(cmd.Context(), b)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		args = slices.Clone(args)
		args[0] = f.Dir
		if !writes {
			return run(cmd, args)
		}
		e.waits = &[]byte{} // the summary is the last event
		defer e.tellSummary()
		if err := run(cmd, args); err != nil {
			return err
		}
		return e.pushBack(cmd.Context(), b, f)
	}
	return cmd
}

// follow brings the folder of an address up to date, and says which it is.
func (e *Env) follow(ctx context.Context, b remote.Bucket) (*remote.Followed, error) {
	tell, end := e.Moving("bytes down")
	f, err := remote.Follow(ctx, b, e.AddressDir, remote.FollowOptions{CacheBytes: int64(e.AddressBytes), Progress: tell})
	end()
	if errors.Is(err, store.ErrInvalid) { // there is no folder for it
		err = Usage(err)
	}
	if err != nil {
		return nil, err
	}
	e.Event("address", map[string]any{"address": b.String(), "store": f.Dir, "snapshot": f.Snapshot.Number, "bytes_moved": f.Moved.Bytes, "behind": f.Behind, "ahead": f.Ahead})
	if e.JSON || e.Quiet {
		return f, nil
	}
	switch {
	case f.Behind && f.Unfinished:
		fmt.Fprintf(e.Stderr, "%s: an older snapshot than %d, as %s has an unfinished run, which train --resume goes on with\n", b, f.Snapshot.Number, f.Dir)
	case f.Behind:
		fmt.Fprintf(e.Stderr, "%s: an older snapshot than %d, as another program is using %s\n", b, f.Snapshot.Number, f.Dir)
	case f.Ahead:
		fmt.Fprintf(e.Stderr, "%s: %s has more than snapshot %d; gstore push %s ADDRESS sends it\n", b, f.Dir, f.Snapshot.Number, f.Dir)
	default:
		fmt.Fprintf(e.Stderr, "%s: snapshot %d, in %s\n", b, f.Snapshot.Number, f.Dir)
	}
	return f, nil
}

// tellSummary prints the summary that has waited.
func (e *Env) tellSummary() {
	_, _ = e.Stdout.Write(*e.waits)
	e.waits = nil
}

// pushBack pushes what a command has added to the store of an address.
func (e *Env) pushBack(ctx context.Context, b remote.Bucket, f *remote.Followed) error {
	tell, end := e.Moving("bytes up")
	m, err := remote.Push(ctx, b, f.Dir, remote.PushOptions{Progress: tell})
	end()
	if err != nil {
		return fmt.Errorf("what was done is in %s, and not yet at %s: %w", f.Dir, b, err)
	}
	e.Event("pushed", map[string]any{"address": b.String(), "snapshot": m.Snapshot.Number, "new": m.Fresh, "bytes_moved": m.Bytes})
	if m.Fresh && !e.JSON && !e.Quiet {
		fmt.Fprintf(e.Stderr, "%s: pushed as snapshot %d\n", b, m.Snapshot.Number)
	}
	return nil
}

// StoreOrAddress is [StoreArgs] of a command that takes one argument, a store or the address of one on object storage.
func StoreOrAddress(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && remote.IsAddress(args[0]) {
		return nil
	}
	return StoreArgs("STORE")(cmd, args)
}

// OpenAddress opens the address of a store on object storage; what is none is a usage error.
func OpenAddress(address string) (remote.Bucket, error) {
	b, err := remote.Open(address)
	if err != nil {
		err = Usage(err)
	}
	return b, err
}

// onDisk refuses an address where a command takes none.
func onDisk(cmd *cobra.Command, address string) error {
	if _, ok := cmd.Annotations[addressKey]; ok {
		return nil
	}
	return Usagef("%s is an address, and gstore %s takes stores on disk: gstore pull %s FOLDER makes one of it, with --lazy without a copy of its data", address, cmd.Name(), address)
}
