package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/train"
)

// precomputeOptions are the flags of precompute.
type precomputeOptions struct {
	feature string
	mem     sizeFlag
	threads int
}

func newPrecompute(e *env) *cobra.Command {
	var o precomputeOptions
	cmd := &cobra.Command{
		Use:   "precompute STORE",
		Short: "Add the exact neighbourhood mean of a feature as a column",
		Long: `Precompute adds a version with one more column: the mean of a feature over each
node's neighbours. The first layer of GraphSAGE needs nothing else of them, so that
gstore train --precomputed-hop samples one hop less and loses nothing in that hop out of core.`,
		Example: "  gstore precompute papers.gstore --mem 8GiB\n  gstore train papers.gstore --precomputed-hop --plan hanoi --mem 8GiB",
		Args:    exactArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer limitThreads(o.threads)()
			start := time.Now()
			name, err := train.PrecomputeHop(cmd.Context(), args[0], o.feature, o.threads, int64(o.mem))
			if err != nil {
				return err
			}
			if e.json {
				e.event("summary", map[string]any{"column": name, "seconds": time.Since(start).Seconds()})
				return nil
			}
			_, err = fmt.Fprintf(e.stdout, "column %s in %.1f s\n", name, time.Since(start).Seconds())
			return err
		},
	}
	cmd.Flags().StringVar(&o.feature, "feature", "x", "feature column")
	cmd.Flags().Var(&o.mem, "mem", "memory bound, such as 4GiB (default: none)")
	cmd.Flags().IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	return cmd
}
