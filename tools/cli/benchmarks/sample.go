package benchmarks

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

func newBenchSample(e *command.Env) *cobra.Command {
	var o bench.SampleOptions
	known := strings.Join(slices.Concat(mini.Samplers(), mini.TimedSamplers()), ", ")
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Measure the mini-batch samplers on one core, by turns",
		Long: `Draw mini-batches from an R-MAT graph in memory by each sampler in turn and print medians
over the rounds: million sampled edges a second of CPU time on one thread, its ratio to
uniform sampling in the same round, and how many edges and different input nodes a batch
has. Weights are log-normal (sigma 1), times uniform, seeds random nodes. temporal and
latest count a node once for each edge that leads to it.`,
		Example: "  gstore bench sample\n  gstore bench sample --sampler uniform,weighted --fanouts 15,10 --json",
		Args:    command.ExactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchSample(cmd, e, o, known) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Samplers, "sampler", nil, "samplers to measure: "+known+" (default all)")
	f.IntSliceVar(&o.Fanouts, "fanouts", []int{15, 10, 5}, "neighbours per node and hop, outward from the seeds, -1 for all")
	f.IntVar(&o.BatchSize, "batch-size", 1000, "seeds of a batch")
	f.Uint64Var(&o.Nodes, "nodes", 2_000_000, "nodes of the graph")
	f.Uint64Var(&o.Edges, "edges", 30_000_000, "edges of the graph; it takes 20 bytes an edge of memory")
	f.IntVar(&o.Rounds, "rounds", 5, "rounds")
	f.IntVar(&o.Batches, "batches", 20, "batches a sampler and round")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of graph and batches")
	return cmd
}

func runBenchSample(cmd *cobra.Command, e *command.Env, o bench.SampleOptions, known string) error {
	for _, name := range o.Samplers {
		if !slices.Contains(strings.Split(known, ", "), name) {
			return command.Usagef("--sampler %q: known are %s", name, known)
		}
	}
	if o.BatchSize < 1 || o.Rounds < 1 || o.Batches < 1 || o.Nodes < 1 || o.Edges < 1 {
		return command.Usagef("batch size, rounds, batches, nodes and edges: expected positive numbers")
	}
	results, err := bench.RunSample(cmd.Context(), o)
	if err != nil {
		return err
	}
	if e.JSON {
		for _, r := range results {
			e.Event("sampler", map[string]any{"name": r.Sampler, "edges_per_second": r.EdgesPerSecond, "of_uniform": r.OfUniform,
				"batch_edges": r.Edges, "batch_inputs": r.Inputs})
		}
		e.Event("summary", map[string]any{"samplers": len(results), "nodes": o.Nodes, "edges": o.Edges, "fanouts": o.Fanouts, "seed": o.Seed})
		return nil
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "sampler\tM edges/s\tof uniform\tedges a batch\tinputs a batch")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.0f\t%.0f\n", r.Sampler, r.EdgesPerSecond/1e6, r.OfUniform, r.Edges, r.Inputs)
	}
	return w.Flush()
}
