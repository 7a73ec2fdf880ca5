package benchmarks

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

type benchTrainOptions struct {
	bench        bench.TrainOptions
	nodes, edges command.Count
	ops          int
	device       string
	matmul       string
}

func newBenchTrain(e *command.Env) *cobra.Command {
	o := benchTrainOptions{nodes: 2_000_000, edges: 30_000_000}
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Time training steps by stage: sample, gather, forward, backward, optimiser",
		Long: `Generate an R-MAT graph with features, hold it in memory, and time the steps of
each model on the same mini-batches, on each number of threads by turns. Stages run
one after the other, so that the step is their sum; a figure is the median over
the rounds of a round's mean. Gather is the reading of feature rows, with the
aggregation that is fused with it. Losses must be the same bits on every
number of threads, or the command fails.

With --device cuda:N a GPU trains, in flight as in training: its own time a step is "device", and stages are the times of
issuing them. Feature rows are read across the bus.

Up to 256 features are stored as float32, more as float16: 768 of them would be 6 GB.
--dump-batches writes the batches as numpy arrays, which
tools/bench/pyg_train.py trains with PyTorch Geometric.`,
		Example: "  gstore-lab bench train --dir /data/bench\n" +
			"  gstore-lab bench train --dir /data/bench --models gat --dims 128 --hidden 256 --ops 10\n" +
			"  gstore-lab bench train --dir /data/bench --dump-batches /data/batches --json",
		Args: command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runBenchTrain(cmd, e, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.bench.Dir, "dir", "", "directory for the generated stores, kept for the next run (1 GB at 128 features, 3 GB at 768)")
	f.Var(&o.nodes, "nodes", "nodes of the graph")
	f.Var(&o.edges, "edges", "directed edges of the graph")
	f.IntSliceVar(&o.bench.Dims, "dims", []int{128, 768}, "feature columns")
	f.StringSliceVar(&o.bench.Models, "models", []string{"sage", "gcn", "gat"}, "models")
	f.IntSliceVar(&o.bench.Hidden, "hidden", []int{128, 256}, "columns between layers")
	f.IntSliceVar(&o.bench.Fanouts, "fanouts", []int{15, 10, 5}, "neighbours sampled per node and hop, outward from the targets; one a layer")
	f.IntVar(&o.bench.BatchSize, "batch-size", 1000, "target nodes of a mini-batch")
	f.IntVar(&o.bench.Batches, "batches", 8, "mini-batches a round")
	f.IntVar(&o.bench.Repeats, "repeats", 5, "rounds")
	f.IntSliceVar(&o.bench.Threads, "threads", nil, "numbers of threads to measure (default 1 and all)")
	f.Uint64Var(&o.bench.Seed, "seed", 1, "seed of the graph, the batches and the models")
	f.StringVar(&o.device, "device", "host", "host, or cuda:N")
	f.StringVar(&o.matmul, "matmul", "exact", matmulHelp)
	f.StringVar(&o.bench.DumpDir, "dump-batches", "", "write the batches to this directory as numpy arrays")
	f.IntVar(&o.ops, "ops", 0, "also print this many of a step's longest operations")
	return cmd
}

func runBenchTrain(cmd *cobra.Command, e *command.Env, o benchTrainOptions) (err error) {
	b := &o.bench
	if b.Dir == "" {
		return command.Usagef("--dir is missing: a directory for the generated stores")
	}
	for _, n := range append(append(append([]int{b.BatchSize, b.Batches, b.Repeats}, b.Dims...), b.Hidden...), b.Threads...) {
		if n < 1 {
			return command.Usagef("--dims, --hidden, --threads, --batch-size, --batches and --repeats: expected positive numbers, got %d", n)
		}
	}
	if o.device != "host" {
		if len(b.Threads) > 0 {
			return command.Usagef("--threads is for --device host")
		}
		if b.Device, err = command.OpenDevice(device.Options{Name: o.device, MatMul: o.matmul}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.Device.Close()) }()
	} else if err := checkMatMul(o.matmul); err != nil {
		return err
	}
	b.BF16 = o.matmul == "bf16"
	b.Nodes, b.Edges = uint64(o.nodes), uint64(o.edges)
	b.Log = func(s string) {
		if !e.Quiet && !e.JSON {
			fmt.Fprintln(e.Stderr, s)
		}
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	if !e.JSON {
		fmt.Fprintln(w, "model\tdim\thidden\tthreads\tsample\tgather\tforward\tbackward\toptimiser\tdevice\tstep ms\tCPU ms\tspeed-up\twithout sampling\t")
	}
	runs := 0
	var operations strings.Builder
	err = bench.RunTrain(cmd.Context(), *b, func(r bench.TrainResult) {
		runs++
		e.Event("result", command.Fields(r))
		if e.JSON {
			return
		}
		fmt.Fprintf(w, "%s\t%d %s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", r.Model, r.Dim, r.Elem, r.Hidden, r.Threads,
			1e3*r.Sample, 1e3*r.Gather, 1e3*r.Forward, 1e3*r.Backward, 1e3*r.Optimize, 1e3*r.Busy, 1e3*r.Step, 1e3*r.CPU, r.Speedup, r.TrainSpeedup)
		if o.ops > 0 {
			fmt.Fprintf(&operations, "\n%s, %d features, hidden %d, %d threads: %.0f edges, %.0f input rows, loss %.6f\n", r.Model, r.Dim, r.Hidden, r.Threads, r.Edges, r.Inputs, r.Loss)
			for _, op := range r.Operations[:min(o.ops, len(r.Operations))] {
				fmt.Fprintf(&operations, "%10.2f ms  %s\n", 1e3*op.Seconds, op.Name)
			}
		}
	})
	if err != nil {
		return err
	}
	e.Event("summary", map[string]any{"runs": runs, "nodes": b.Nodes, "edges": b.Edges, "batch_size": b.BatchSize, "fanouts": b.Fanouts, "seed": b.Seed})
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprint(e.Stdout, operations.String())
	return err
}
