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
		Long: `Precompute adds a column for each feature: its mean over all neighbours of each node.
That is all that the first layer of GraphSAGE needs of them. gstore train reads these
columns instead of sampling, so it samples one hop less, and out of core no neighbour
is missing in that hop. With --model gcn or gin the columns are the sums that these
models begin with, and they are read in place of the features.

With --each-relation, on a store of several node types, there is one mean for each
feature and each relation, called FEATURE.hop1.RELATION, and one against the direction
of the edges, FEATURE.hop1.RELATION.inverse. gstore train --model rsage reads them.

The new columns are as large as the features. --dtype float16 halves them and rounds
each mean once, to 11 bits. Columns that exist already are kept, unless they have
another type.`,
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
				return hopError(err)
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
	cmd.Flags().StringVar(&o.dtype, "dtype", "", "type in which the mean is stored: float32, float16 or bfloat16 (default: as the feature is, of int8 float16 or where that holds too little float32)")
	cmd.Flags().StringVar(&o.model, "model", "sage", "model that will read the columns: sage, gcn or gin")
	cmd.Flags().BoolVar(&o.weighted, "edge-weights", false, "weigh neighbours by their edges' weights, for train --edge-weights")
	cmd.Flags().BoolVar(&o.relation, "each-relation", false, "a mean over neighbours by each relation, of stores of several node types, for train --model rsage")
	cmd.Flags().Var(&o.mem, "mem", "memory bound, such as 4GiB (default: three quarters of what the machine, or the cgroup, has, unless the graph is small)")
	cmd.Flags().StringVar(&o.device, "device", "host", "host, whose bits are the same on every machine, or cuda:N")
	cmd.Flags().IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	command.ScratchFlag(cmd.Flags(), &o.scratch)
	completeValues(cmd.Flags())
	return cmd
}

// hopError says what holds what is too large for the type that it was to be stored as.
func hopError(err error) error {
	if errors.Is(err, precompute.ErrRange) {
		return fmt.Errorf("%w; --dtype float32 holds it", err)
	}
	return err
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
