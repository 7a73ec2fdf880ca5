package inspect

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/verify"
	"github.com/gstore/gstore/tools/cli/command"
)

type verifyOptions struct {
	version uint64
	engine  string
	workers int
}

// NewVerify is the command gstore verify.
func NewVerify(e *command.Env) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify STORE",
		Short: "Check every checksum and every invariant; exit code 3 names what is damaged",
		Long: `Verify reads every file of a store, its metadata and its saved models, and checks them:
all checksums, the order and range of all ids, sizes, the values of labels, splits and
relations, and that your ids and the store's map to each other. It lists all damage
that it finds, and then the exit code is 3.`,
		Example: "  gstore verify cora.gstore",
		Args:    command.StoreArgs("STORE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runVerify(cmd, e, args[0], o) },
	}
	f := cmd.Flags()
	f.Uint64Var(&o.version, "version", 0, "version to verify (0 = the newest)")
	f.StringVar(&o.engine, "engine", "auto", "I/O engine: auto, io_uring, pread or mmap")
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
	for _, d := range r.Damage {
		fmt.Fprintf(e.Stderr, "damaged: %v\n", d)
		e.Event("damage", map[string]any{"message": d.Error()})
	}
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
