package cli

import "github.com/spf13/cobra"

// newBench is the parent of the benchmarks whose figures docs/benchmarks.md
// quotes, one file each.
func newBench(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure gstore on this machine, beside the tools it is compared with",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown benchmark %q", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newBenchIO(e), newBenchEpoch(e), newBenchPartition(e), newBenchOps(e), newBenchIngest(e), newBenchTrain(e), newBenchLink(e))
	return cmd
}
