// Package inspect holds the commands that only look: inspect, verify and report.
package inspect

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli/command"
)

type inspectOptions struct {
	elements int
	version  uint64
	degrees  string
	stats    string
	mem      command.Size
}

// NewInspect is the command gstore inspect.
func NewInspect(e *command.Env) *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect STORE | FILE" + blocks.Extension,
		Short: "Show what a store holds, or a block file's bytes with their meaning",
		Long: `Inspect shows what a store contains: its columns, partitions, files, versions and runs,
and how degrees and sizes are distributed, in bins of powers of two.

Some of it takes a pass over the data, which is made if that is small. --degrees yes
counts degrees in any case, and --stats yes the nodes of each class and the values of
features.

Given a block file (STORE/data/*.gsb), inspect shows each of its structures with offset
and bytes. It checks header and footer, and shows the payload as it is.`,
		Example: "  gstore inspect cora.gstore\n  gstore inspect cora.gstore/data/topology-000001.gsb --elements 4",
		Args:    command.ExactArgs("STORE or FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.elements < 0 {
				return command.Usagef("--elements %d: expected 0 (all) or more", o.elements)
			}
			if !slices.Contains([]string{"auto", "yes", "no"}, o.degrees) {
				return command.Usagef("--degrees %q: expected auto, yes or no", o.degrees)
			}
			if !slices.Contains([]string{"auto", "yes", "no"}, o.stats) {
				return command.Usagef("--stats %q: expected auto, yes or no", o.stats)
			}
			if !strings.HasSuffix(args[0], blocks.Extension) {
				return inspectStore(cmd.Context(), e, args[0], o)
			}
			return inspectFile(e, args[0], o.elements)
		},
	}
	cmd.Flags().IntVar(&o.elements, "elements", 8, "how many elements of each array and list to show (0 = all)")
	cmd.Flags().StringVar(&o.degrees, "degrees", "auto", "whether to count degrees: yes, no, or auto (if the edges have at most 256 MiB)")
	cmd.Flags().StringVar(&o.stats, "stats", "auto", "whether to count classes and read features: yes, no, or auto (if labels and features have at most 256 MiB)")
	cmd.Flags().Var(&o.mem, "mem", "bound on the memory for counting degrees (default: 1 GiB)")
	cmd.Flags().Uint64Var(&o.version, "version", 0, "which version of a store (0 = the newest)")
	return cmd
}
