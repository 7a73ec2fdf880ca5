package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/testdata"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	epochs int
	seed   uint64
	dir    string
}

func newDemo(e *env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Ingest the embedded Cora graph into a temporary store and train on it",
		Long: `Demo ingests Cora (2,708 papers, 5,429 citations, 7 subjects; embedded in the
program) into a store and trains a 2-layer GraphSAGE out of core on it: 8
partitions, 6 in memory at a time, accuracy by exact evaluation. The store is left for you to inspect.`,
		Example: "  gstore demo",
		Args:    exactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, &o) },
	}
	cmd.Flags().IntVar(&o.epochs, "epochs", 20, "passes over the training nodes")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "of every random choice")
	cmd.Flags().StringVar(&o.dir, "dir", "", "directory for the store, which must not exist (default: a temporary one)")
	return cmd
}

func runDemo(ctx context.Context, e *env, o *demoOptions) (err error) {
	work, err := os.MkdirTemp("", "gstore-demo-")
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		dir = filepath.Join(work, "cora.gstore")
	}
	input := filepath.Join(work, "cora")
	defer func() {
		gone := os.RemoveAll(input)
		if err != nil || o.dir != "" {
			gone = errors.Join(gone, os.RemoveAll(work))
		}
		err = errors.Join(err, gone)
	}()
	if err := unpack(testdata.FS, "cora", input); err != nil {
		return err
	}
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		return err
	}
	report, err := ingest.Run(ctx, dir, src, ingest.Options{Partitions: 8, Undirected: true, Seed: o.seed})
	if cerr := src.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if !e.json {
		m := report.Manifest
		fmt.Fprintf(e.stdout, "Cora: %d nodes, %d undirected edges, %d partitions, %s\n", m.Nodes, m.Edges, len(m.Partitions), formatSize(m.Bytes()))
	}
	t := trainOptions{Config: train.Config{Layers: 2, Epochs: o.epochs, WeightDecay: 5e-4, InputDropout: .2, Seed: o.seed, Plan: "hanoi", Buffer: 6, BatchSize: 200}}
	if _, err := runTrain(ctx, e, dir, &t); err != nil {
		return err
	}
	if e.json {
		return nil
	}
	fmt.Fprintf(e.stdout, "store: %s (look at it: gstore inspect %s)\n", dir, dir)
	return nil
}

// unpack copies a folder of an embedded file system to disk.
func unpack(from fs.FS, root, to string) error {
	return fs.WalkDir(from, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o777)
		}
		b, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o666)
	})
}
