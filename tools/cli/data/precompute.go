package data

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// precomputeOptions are the flags of precompute.
type precomputeOptions struct {
	features []string
	dtype    string
	model    string
	weighted bool
	relation bool
	mem      command.Size
	device   string
	threads  int
	scratch  string
}

// NewPrecompute is the command gstore precompute.
func NewPrecompute(e *command.Env) *cobra.Command {
	var o precomputeOptions
	cmd := &cobra.Command{
		Use:   "precompute STORE",
		Short: "Add the exact neighbourhood mean of features as columns",
		Long: `Precompute adds a version with a column more for each feature: its mean over each
node's neighbours. The first layer of GraphSAGE needs nothing else of them, so that
gstore train --precomputed-hop samples one hop less and loses nothing in that hop out of core.
With --model gcn or gin the columns are the sums that these models begin with, which are read instead of
the features.

With --each-relation, on a store of several node types, there is a mean for each feature and each relation that leads
from nodes that have it, FEATURE.hop1.RELATION, and FEATURE.hop1.RELATION.inverse against the edges' direction: a column of the
nodes at the other end, whose last element says whether there are neighbours. They are read by gstore train --model rsage
--precomputed-hop, which samples in the first layer only neighbours that have learned vectors.

A node takes the columns' bytes more. --dtype float16 halves them and rounds each mean once, to 11 bits; training
reads such columns as they are. Columns that are there already stay, those of another type are replaced.`,
		Example: "  gstore precompute papers.gstore --dtype float16 --mem 8GiB\n  gstore precompute papers.gstore --model gcn\n  gstore train papers.gstore --precomputed-hop --plan hanoi --mem 8GiB\n  gstore precompute shop.gstore --each-relation --dtype float16",
		Args:    command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			elem, err := parseHopDtype("dtype", o.dtype)
			if err != nil {
				return err
			}
			defer command.LimitThreads(o.threads)()
			start := time.Now()
			dev, err := command.OpenDevice(device.Options{Name: o.device, Threads: o.threads})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, dev.Close()) }()
			names, err := precompute.Hop(cmd.Context(), args[0], dev, precompute.Options{Features: o.features, Elem: elem, Model: o.model, EdgeWeights: o.weighted, EachRelation: o.relation, MemoryBytes: int64(o.mem), Scratch: o.scratch})
			if err != nil {
				return err
			}
			if e.JSON {
				e.Event("summary", map[string]any{"columns": names, "seconds": time.Since(start).Seconds(), "cpu_seconds": usage.CPUSeconds(), "peak_rss_bytes": usage.PeakRSSBytes()})
				return nil
			}
			_, err = fmt.Fprintf(e.Told(), "columns %s in %.1f s\n", strings.Join(names, ", "), time.Since(start).Seconds())
			return err
		},
	}
	cmd.Flags().StringSliceVar(&o.features, "feature", nil, "feature columns (default: all)")
	cmd.Flags().StringVar(&o.dtype, "dtype", "", "what the mean is stored as: float32, float16 or bfloat16 (default: as the feature is)")
	cmd.Flags().StringVar(&o.model, "model", "sage", "whose first layer reads the columns: sage, gcn or gin")
	cmd.Flags().BoolVar(&o.weighted, "edge-weights", false, "weigh neighbours by their edges' weights, for train --edge-weights")
	cmd.Flags().BoolVar(&o.relation, "each-relation", false, "a mean over neighbours by each relation, of stores of several node types, for train --model rsage")
	cmd.Flags().Var(&o.mem, "mem", "memory bound, such as 4GiB (default: none)")
	cmd.Flags().StringVar(&o.device, "device", "host", "host, whose bits are the same on every machine, or cuda:N")
	cmd.Flags().IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	command.ScratchFlag(cmd.Flags(), &o.scratch)
	completeValues(cmd.Flags())
	return cmd
}

// parseHopDtype reads the flag that says what means are stored as; "" leaves it to the feature's type.
func parseHopDtype(flag, dtype string) (blocks.ElemType, error) {
	switch elem, err := blocks.ParseElemType(dtype); {
	case dtype == "":
		return blocks.Invalid, nil
	case err != nil || elem != blocks.Float32 && elem != blocks.Float16 && elem != blocks.BFloat16:
		return blocks.Invalid, command.Usagef("--%s %q: expected float32, float16 or bfloat16", flag, dtype)
	default:
		return elem, nil
	}
}
