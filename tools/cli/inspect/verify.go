package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/store/verify"
	"github.com/gstore/gstore/tools/cli/command"
)

type verifyOptions struct {
	version uint64
	engine  string
	workers int
	// snapshot is of an address.
	snapshot uint64
}

// NewVerify is the command gstore verify.
func NewVerify(e *command.Env) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify STORE|ADDRESS",
		Short: "Check every checksum and every invariant; exit code 3 names what is damaged",
		Long: `Verify reads every file of a store, its metadata and its saved models, and checks them:
all checksums, the order and range of all ids, sizes, the values of labels, splits and
relations, and that your ids and the store's map to each other. It lists all damage
that it finds, and then the exit code is 3. Of an ADDRESS on object storage it reads all
snapshots, or one, and compares every object with its checksum, without keeping it.`,
		Example: "  gstore verify cora.gstore\n  gstore verify s3://graphs/shop",
		Args:    command.StoreOrAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch address := remote.IsAddress(args[0]); {
			case address && (o.version != 0 || o.workers != 0 || cmd.Flags().Changed("engine")):
				return command.Usagef("--version, --engine and --threads are of stores on disk: of an address say --snapshot")
			case !address && o.snapshot != 0:
				return command.Usagef("--snapshot is of an address on object storage: of a store say --version")
			case address:
				return verifyAddress(cmd.Context(), e, args[0], o.snapshot)
			}
			return runVerify(cmd, e, args[0], o)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.version, "version", 0, "version to verify (0 = the newest)")
	f.StringVar(&o.engine, "engine", "auto", "I/O engine: auto, io_uring, pread or mmap")
	f.Uint64Var(&o.snapshot, "snapshot", 0, "of an address: number of the snapshot to verify (0 = all)")
	f.IntVar(&o.workers, "threads", 0, "how many pieces to check at once (0 = two for each processor)")
	return cmd
}

func runVerify(cmd *cobra.Command, e *command.Env, dir string, o verifyOptions) error {
	if o.workers < 0 {
		return command.Usagef("--threads %d: expected 0 (two for each core) or more", o.workers)
	}
	bar := e.Progress(-1, "bytes checked")
	begin := time.Now()
	r, err := verify.Store(cmd.Context(), dir, verify.Options{
		Open: store.Options{Version: o.version}, Engine: o.engine, Workers: o.workers, Model: train.VerifyFile,
		Progress: func(n int64) { _ = bar.Add64(n) },
	})
	_ = bar.Finish()
	if err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	tellDamage(e, r.Damage)
	for _, w := range r.Warnings {
		fmt.Fprintf(e.Stderr, "warning: %s\n", w)
		e.Event("warning", map[string]any{"message": w})
	}
	for _, name := range r.Busy {
		fmt.Fprintf(e.Stderr, "warning: table %s is being trained and was not checked\n", name)
		e.Event("warning", map[string]any{"message": "table " + name + " is being trained and was not checked"})
	}
	e.Event("summary", map[string]any{"version": r.Version, "files": r.Files, "tables": r.Tables, "bytes": r.Bytes, "damaged": len(r.Damage), "warnings": len(r.Warnings) + len(r.Busy),
		"seconds": seconds, "io_engine": r.Engine})
	if n := len(r.Damage); n > 0 {
		return fmt.Errorf("%s: %d damaged of %d files and %d bytes: %w", dir, n, r.Files, r.Bytes, blocks.ErrCorrupt)
	}
	if !e.JSON {
		fmt.Fprintf(e.Told(), "%s: version %d is whole: %d files, %.1f MB in %.2f s (%.2f GB/s; %s)\n",
			dir, r.Version, r.Files, float64(r.Bytes)/1e6, seconds, float64(r.Bytes)/1e9/seconds, r.Engine)
	}
	return nil
}

// verifyAddress verifies snapshots on object storage.
func verifyAddress(ctx context.Context, e *command.Env, address string, snapshot uint64) error {
	b, err := command.OpenAddress(address)
	if err != nil {
		return err
	}
	begin := time.Now()
	tell, end := e.Moving("bytes checked")
	c, err := remote.Verify(ctx, b, snapshot, tell)
	end()
	if err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	tellDamage(e, c.Damage)
	e.Event("summary", map[string]any{"address": b.String(), "snapshots": c.Snapshots, "files": c.Objects, "bytes": c.Bytes, "damaged": len(c.Damage), "seconds": seconds})
	if n := len(c.Damage); n > 0 {
		return fmt.Errorf("%s: %d damaged of %d objects and %d bytes: %w", b, n, c.Objects, c.Bytes, blocks.ErrCorrupt)
	}
	if !e.JSON {
		fmt.Fprintf(e.Told(), "%s: %d snapshot(s), whole: %d objects, %.1f MB in %.2f s\n", b, c.Snapshots, c.Objects, float64(c.Bytes)/1e6, seconds)
	}
	return nil
}

// tellDamage lists what is damaged.
func tellDamage(e *command.Env, damage []error) {
	for _, d := range damage {
		fmt.Fprintf(e.Stderr, "damaged: %v\n", d)
		e.Event("damage", map[string]any{"message": d.Error()})
	}
}
