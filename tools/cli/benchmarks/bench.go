// Package benchmarks holds gstore-lab bench: a file for each benchmark whose figures docs/benchmarks.md quotes, with its
// flags and tables. What is measured lies in tools/bench.
package benchmarks

import (
	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/cli/command"
)

// NewBench is the parent of the benchmarks whose figures docs/benchmarks.md
// quotes, one file each.
func NewBench(e *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure gstore on this machine, beside the tools it is compared with",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Usagef("unknown benchmark %q", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newBenchIO(e), newBenchEpoch(e), newBenchPartition(e), newBenchOps(e), newBenchSample(e), newBenchIngest(e), newBenchTrain(e), newBenchLink(e), newBenchDevice(e))
	return cmd
}
