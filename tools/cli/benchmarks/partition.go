package benchmarks

import (
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

type benchPartitionOptions struct {
	bench   bench.PartitionOptions
	methods []string
	order   string
}

func newBenchPartition(e *command.Env) *cobra.Command {
	var o benchPartitionOptions
	cmd := &cobra.Command{
		Use:   "partition GRAPH",
		Short: "Compare partitioners on one graph: cut, time, memory; beside METIS",
		Long: `Partition one graph by several methods and numbers of partitions. GRAPH is
rmat:NODES:EDGES, sbm:NODES:EDGES:CLASSES:HOMOPHILY, or a directory with
edge_index.npy (node_label.npy and split/train.npy are used if there). Reading the graph is
not part of the times. With --metis, gpmetis partitions the same graph, by turns with the methods; its time includes reading its file.
Times are medians of --repeat runs. Peaks are the process's resident memory, the graph and the program included, and what gpmetis says of itself.`,
		Example: "  gstore-lab bench partition sbm:1e6:1e7:64:0.8 --partitions 8,64,512 --methods fennel --metis gpmetis --repeat 3\n" +
			"  gstore-lab bench partition rmat:2e6:3e7 --partitions 16,1024 --methods fennel --flat --visit-order natural",
		Args: command.ExactArgs("GRAPH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, m := range o.methods {
				method, err := partitioner.ParseMethod(m)
				if err != nil {
					return command.Usage(err)
				}
				o.bench.Methods = append(o.bench.Methods, method)
			}
			order, err := partitioner.ParseOrder(o.order)
			if err != nil {
				return command.Usage(err)
			}
			o.bench.Order = order
			if o.bench.Metis != "" {
				if _, err := exec.LookPath(o.bench.Metis); err != nil {
					return command.Usagef("--metis: %v (Debian's package metis has gpmetis)", err)
				}
			}
			return runBenchPartition(cmd, e, args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.methods, "methods", []string{"fennel"}, "partitioners")
	f.IntSliceVar(&o.bench.Partitions, "partitions", []int{8, 64, 512}, "numbers of partitions")
	f.StringVar(&o.bench.Metis, "metis", "", "path of gpmetis")
	f.BoolVar(&o.bench.Flat, "flat", false, "place single nodes only, as in the papers: one pass reads the graph once")
	f.IntVar(&o.bench.Passes, "passes", 0, "times that the graph is read at most (default 18; 8 with --flat)")
	f.IntVar(&o.bench.Threads, "threads", 0, "threads of gstore (default: one a core)")
	f.IntVar(&o.bench.Repeat, "repeat", 1, "runs of each")
	f.StringVar(&o.order, "visit-order", "", "order of visiting nodes")
	command.Alias(f, "order", "visit-order")
	f.Uint64Var(&o.bench.Seed, "seed", 1, "seed of the graph and of everything random")
	f.StringVar(&o.bench.Temp, "temp", "", "directory for gpmetis's files")
	return cmd
}

func runBenchPartition(cmd *cobra.Command, e *command.Env, graph string, o *benchPartitionOptions) error {
	g, classes, err := bench.PartitionGraph(graph, o.bench.Seed)
	if err != nil {
		return err
	}
	defer g.Close() //nolint:errcheck // memory only
	if !e.JSON {
		fmt.Fprintf(e.Stdout, "%s: %d nodes, %d edges\n%12s %6s %10s %7s %8s %8s %8s %6s %9s  %s\n", graph, g.Nodes(), g.Entries()/2,
			"method", "k", "cut", "rate", "max/mean", "s", "CPU s", "passes", "peak", "of METIS: cut, CPU s, peak")
	}
	err = bench.Partition(cmd.Context(), g, classes, o.bench, func(r bench.PartitionRow) {
		e.Event("row", map[string]any{"graph": graph, "row": r})
		if !e.JSON {
			of := ""
			if r.CutOfMetis > 0 {
				of = fmt.Sprintf("%.3f %.2f %.2f", r.CutOfMetis, r.CPUOfMetis, r.PeakOfMetis)
			}
			fmt.Fprintf(e.Stdout, "%12s %6d %10d %7.4f %8.3f %8.2f %8.2f %6d %9s  %s\n",
				r.Method, r.Partitions, r.Cut, r.CutRate, r.Largest, r.Seconds, r.CPUSeconds, r.Passes, command.FormatSize(r.PeakBytes), of)
		}
	})
	if err != nil {
		return err
	}
	e.Event("summary", map[string]any{"graph": graph, "nodes": g.Nodes(), "edges": g.Entries() / 2})
	return nil
}
