package benchmarks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

func newBenchSample(e *command.Env) *cobra.Command {
	var o bench.SampleOptions
	threads, prune, on := 0, "", ""
	known := strings.Join(slices.Concat(mini.Samplers(), mini.TimedSamplers()), ", ")
	cmd := &cobra.Command{
		Use:   "sample [STORE]",
		Short: "Measure the mini-batch samplers on one core, by turns, or a store's on several",
		Long: `Draw mini-batches from an R-MAT graph in memory by each sampler in turn and print medians
over the rounds: million sampled edges and batches a second of CPU time on one thread, each
with its ratio to uniform sampling's in the same round, and how many edges and different input
nodes a batch has; dense counts an edge once that several layers use. Weights are log-normal (sigma 1), times uniform, seeds random nodes. temporal and
latest count a node once for each edge that leads to it.

Of a store, sample its training nodes' mini-batches as training does, uniformly, ahead of who takes
them and on --threads threads, and print each round; with --rows gather their features too, as
the Python package's loader does.

With --device cuda:N, draw uniform mini-batches of the generated graph on a GPU, where its neighbour lists lie:
compare those of a first round with the host's, entry for entry, and print each round, with what blocks that
the host draws would take across the bus.`,
		Example: "  gstore-lab bench sample\n  gstore-lab bench sample --sampler uniform,weighted --fanouts 15,10 --json\n" +
			"  gstore-lab bench sample papers.gstore --threads 2 --rows\n" +
			"  gstore-lab bench sample --device cuda:0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.StoreArgs("STORE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if prune != "" {
				if o.Prune, err = mini.ParsePrune(prune); err != nil {
					return command.Usage(err)
				}
			}
			if on != "host" {
				return runSampleDevice(cmd, e, on, args, o)
			}
			if len(args) == 1 {
				return runSampleStore(cmd, e, args[0], threads, o)
			}
			if threads > 1 {
				return command.Usagef("--threads %d: without a store samplers are measured on one thread", threads)
			}
			if o.Rows {
				return command.Usagef("--rows: a generated graph has no features: name a store")
			}
			return runBenchSample(cmd, e, o, known)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Samplers, "sampler", nil, "samplers to measure: "+known+" (default all)")
	f.IntSliceVar(&o.Fanouts, "fanouts", []int{15, 10, 5}, "neighbours per node and hop, outward from the seeds, -1 for all")
	f.StringVar(&prune, "prune", "", "measure uniform and dense pruned too, as gstore train --prune: 1,1 draws from lists of at most the mean degree plus the fanout")
	f.IntVar(&o.BatchSize, "batch-size", 1000, "seeds of a batch")
	f.Uint64Var(&o.Nodes, "nodes", 2_000_000, "nodes of the graph")
	f.Uint64Var(&o.Edges, "edges", 30_000_000, "edges of the graph; it takes 20 bytes an edge of memory")
	f.IntVar(&o.Rounds, "rounds", 5, "rounds")
	f.IntVar(&o.Batches, "batches", 20, "batches a sampler and round")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of graph and batches")
	f.StringVar(&on, "device", "host", "host, or cuda:N")
	f.IntVar(&threads, "threads", 1, "of a store: threads that sample")
	f.BoolVar(&o.Rows, "rows", false, "of a store: gather each batch's features too")
	return cmd
}

func runSampleStore(cmd *cobra.Command, e *command.Env, path string, threads int, o bench.SampleOptions) (err error) {
	for _, name := range []string{"sampler", "nodes", "edges"} {
		if cmd.Flags().Changed(name) {
			return command.Usagef("--%s is for the generated graph, not for a store", name)
		}
	}
	if threads < 1 || o.BatchSize < 1 || o.Rounds < 1 || o.Batches < 1 {
		return command.Usagef("threads, batch size, rounds and batches: expected positive numbers")
	}
	st, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rounds := 0
	err = bench.SampleStore(cmd.Context(), st, threads, o, func(r bench.SampleRound) {
		rounds++
		e.Event("round", command.Fields(r))
		if !e.JSON {
			fmt.Fprintf(e.Stdout, "%d batches of %d edges and %d inputs: %.1f batches and %.1f M edges a second, %.1f and %.1f a CPU second\n", r.Batches,
				r.SampledEdges/int64(r.Batches), r.Inputs/int64(r.Batches), float64(r.Batches)/r.Seconds, float64(r.SampledEdges)/r.Seconds/1e6,
				float64(r.Batches)/max(r.CPUSeconds, 1e-9), float64(r.SampledEdges)/max(r.CPUSeconds, 1e-9)/1e6)
		}
	})
	if err == nil {
		e.Event("summary", map[string]any{"rounds": rounds, "threads": threads, "fanouts": o.Fanouts, "seed": o.Seed})
	}
	return err
}

// runSampleDevice measures a GPU's sampler.
func runSampleDevice(cmd *cobra.Command, e *command.Env, name string, args []string, o bench.SampleOptions) (err error) {
	for _, flag := range []string{"sampler", "prune", "threads", "rows"} {
		if cmd.Flags().Changed(flag) {
			return command.Usagef("--%s is for --device host", flag)
		}
	}
	if len(args) > 0 {
		return command.Usagef("a store with --device %s: a GPU is measured on the generated graph; gstore train samples stores on it", name)
	}
	if err := checkSample(o); err != nil {
		return err
	}
	dev, err := command.OpenDevice(device.Options{Name: name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	g, err := bench.RunSampleDevice(cmd.Context(), dev, o, func(r bench.SampleDeviceRound) {
		e.Event("round", command.Fields(r))
		if !e.JSON {
			fmt.Fprintf(e.Stdout, "%d batches of %d edges and %d inputs: %.1f M edges a second, %.1f of the device's time; %s sent, %s of blocks not\n", r.Batches,
				r.SampledEdges/int64(r.Batches), r.Inputs/int64(r.Batches), float64(r.SampledEdges)/r.Seconds/1e6, float64(r.SampledEdges)/max(r.DeviceSeconds, 1e-9)/1e6,
				command.FormatSize(r.SentBytes), command.FormatSize(r.BlockBytes))
		}
	})
	if err != nil {
		return err
	}
	summary := command.Fields(g)
	summary["fanouts"], summary["seed"] = o.Fanouts, o.Seed
	e.Event("summary", summary)
	if !e.JSON {
		fmt.Fprintf(e.Stdout, "%s: %d batches are the host's, entry for entry; %s of neighbour lists crossed once, %s are held\n", g.Device, g.Checked, command.FormatSize(g.ListBytes), command.FormatSize(g.HeldBytes))
	}
	return nil
}

// checkSample refuses numbers that make no measurement.
func checkSample(o bench.SampleOptions) error {
	if o.BatchSize < 1 || o.Rounds < 1 || o.Batches < 1 || o.Nodes < 1 || o.Edges < 1 {
		return command.Usagef("batch size, rounds, batches, nodes and edges: expected positive numbers")
	}
	return nil
}

func runBenchSample(cmd *cobra.Command, e *command.Env, o bench.SampleOptions, known string) error {
	for _, name := range o.Samplers {
		if !slices.Contains(strings.Split(known, ", "), name) {
			return command.Usagef("--sampler %q: known are %s", name, known)
		}
	}
	if err := checkSample(o); err != nil {
		return err
	}
	results, err := bench.RunSample(cmd.Context(), o)
	if err != nil {
		return err
	}
	if e.JSON {
		for _, r := range results {
			e.Event("sampler", map[string]any{"name": r.Sampler, "edges_per_second": r.EdgesPerSecond, "of_uniform": r.OfUniform,
				"batches_per_second": r.BatchesPerSecond, "batches_of_uniform": r.BatchesOfUniform,
				"batch_edges": r.Edges, "batch_inputs": r.Inputs})
		}
		e.Event("summary", map[string]any{"samplers": len(results), "nodes": o.Nodes, "edges": o.Edges, "fanouts": o.Fanouts, "seed": o.Seed})
		return nil
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "sampler\tM edges/s\tof uniform\tbatches/s\tof uniform\tedges a batch\tinputs a batch")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.0f\t%.2f\t%.0f\t%.0f\n", r.Sampler, r.EdgesPerSecond/1e6, r.OfUniform, r.BatchesPerSecond, r.BatchesOfUniform, r.Edges, r.Inputs)
	}
	return w.Flush()
}
