package data

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/sampler/walk"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// NewWalks is the command gstore walks.
func NewWalks(e *command.Env) *cobra.Command {
	var o walk.Options
	var mem command.Size
	cmd := &cobra.Command{
		Use:   "walks STORE OUT",
		Short: "Write node2vec's random walks as one NumPy array",
		Long: `Walks writes random walks along the edges of STORE to the file OUT, an array int64
[walks, length] of NumPy: --per-node walks from each node. A walk's first number is the
node that it begins at. If a walk reaches a node that no edge leads away from, the rest
of its row is -1.

--p and --q are those of node2vec: a walk that came from t to v takes an edge to x with
weight 1/p if x is t, 1 if an edge leads from t to x, and 1/q otherwise. With p and q 1
the walks are those of DeepWalk. Weights of edges and types are not regarded.

All edges are held in memory, and nothing else of the graph. Walks depend on the seed
alone, not on threads or partitions.`,
		Example: "  gstore walks cora.gstore walks.npy --length 20 --per-node 10 --q 0.5",
		Args:    command.StoreArgs("STORE", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"length", "per-node", "p", "q"} { // of which the zero value is the default
				if text := cmd.Flag(name).Value.String(); cmd.Flags().Changed(name) && text == "0" {
					return command.Usagef("--%s 0: expected a positive number", name)
				}
			}
			if err := o.Validate(); err != nil {
				return command.Usagef("%v", err)
			}
			o.MemoryBytes = int64(mem)
			return runWalks(cmd.Context(), e, args[0], args[1], o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Length, "length", 80, "number of nodes in a walk, the first one included")
	f.IntVar(&o.PerNode, "per-node", 10, "walks from each node")
	f.Float64Var(&o.P, "p", 1, "return parameter: a small one leads back")
	f.Float64Var(&o.Q, "q", 1, "in-out parameter: a small one leads away")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of all draws")
	f.BoolVar(&o.Internal, "internal", false, "name nodes by gstore's own numbers (gstore export --what ids) instead of by their ids, which must be integers")
	f.Var(&mem, "mem", "bound on memory, such as 4GiB (default: three quarters of what the machine, or the cgroup, has, unless the graph is small)")
	f.IntVar(&o.Threads, "threads", 0, "processors to use (default all)")
	return cmd
}

func runWalks(ctx context.Context, e *command.Env, path, out string, o walk.Options) error {
	start, cpu := time.Now(), usage.CPUSeconds()
	f, err := command.NewFile(out)
	if err != nil {
		return err
	}
	walks, err := writeWalks(ctx, e, path, f, o)
	if err = f.Finish(err); err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	if !e.JSON {
		fmt.Fprintf(e.Told(), "%d walks of %d nodes in %s: %.1f s (%.1f CPU s)\n", walks, o.Length, out, seconds, usage.CPUSeconds()-cpu)
	}
	e.Event("summary", map[string]any{"walks": walks, "length": o.Length, "seed": o.Seed, "out": out, "seconds": seconds, "cpu_seconds": usage.CPUSeconds() - cpu,
		"peak_rss_bytes": usage.PeakRSSBytes()})
	return nil
}

// writeWalks writes the walks of a store and returns how many.
func writeWalks(ctx context.Context, e *command.Env, path string, f io.Writer, o walk.Options) (walks uint64, err error) {
	st, err := store.Open(path, store.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	e.Unasked(st.Manifest(), 0, &o.MemoryBytes)
	w, err := walk.Open(ctx, st, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	bar := e.Progress(int64(w.Len()), "walks")
	to := bufio.NewWriterSize(f, 1<<20)
	err = w.WriteNPY(ctx, to, func(walks uint64) { _ = bar.Set64(int64(walks)) })
	if err = errors.Join(err, bar.Finish()); err != nil {
		return 0, err
	}
	return w.Len(), to.Flush()
}
