package benchmarks

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

type benchEpochOptions struct {
	dir      string
	features command.Size
	dim      int
	mem      command.Size
	threads  int
	batches  int
	metrics  string
	fio      string
	trainer  string
	losses   bool
	device   string
}

func newBenchEpoch(e *command.Env) *cobra.Command {
	o := benchEpochOptions{features: 8 << 30, mem: 1 << 30}
	cmd := &cobra.Command{
		Use:   "epoch",
		Short: "Train an epoch out of core beside what bounds it, and beside a naive mmap trainer",
		Long: `Generate a graph whose features are many times the memory, and train an epoch of
2-layer GraphSAGE on it with plan hanoi, in a process under a cgroup memory
limit, so that the page cache cannot help. Beside it: the time that fio takes for
the epoch's bytes, the time of the same batches with nothing being read, and a
naive trainer that maps features and topology and samples the whole graph.

With --compare-losses nothing is timed: an epoch is trained within the memory limit and again without
one, and the losses after every macro-batch must be the same to the bit.`,
		Example: "  gstore-lab bench epoch --dir /data/bench --features 8GiB --mem 1GiB --metrics run.jsonl\n  gstore report run.jsonl -o report.html",
		Args:    command.ExactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchEpoch(cmd, e, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory for the generated store (features and 6 % more); kept for the next run")
	f.Var(&o.features, "features", "bytes of features")
	f.IntVar(&o.dim, "dim", 256, "float32 columns of the features")
	f.Var(&o.mem, "mem", "memory of each trainer, enforced by a cgroup where one can be made")
	f.IntVar(&o.threads, "threads", 0, "threads of each trainer (0 = all processors)")
	f.StringVar(&o.device, "device", "host", "what trains: host, or cuda:N, whose driver gets 1 GiB beside --mem")
	f.IntVar(&o.batches, "batches", 2, "mini-batches of the mmap trainer to time; its epoch is extrapolated; 0 = leave it out")
	f.BoolVar(&o.losses, "compare-losses", false, "compare the losses of an epoch within --mem with those of the same batches without a limit")
	f.StringVar(&o.metrics, "metrics", "", "write the hanoi epoch's metrics to this file")
	f.StringVar(&o.fio, "fio", "fio", "path of fio")
	f.StringVar(&o.trainer, "trainer", "", "be one of the trainers")
	_ = f.MarkHidden("trainer")
	return cmd
}

func runBenchEpoch(cmd *cobra.Command, e *command.Env, o benchEpochOptions) error {
	switch {
	case o.dir == "":
		return command.Usagef("--dir is missing: a directory on the disk to measure, with room for %s and a little", o.features.String())
	case o.features < 1 || o.dim < 1 || o.mem < 1 || o.batches < 0 || o.threads < 0:
		return command.Usagef("--features, --dim and --mem must be positive, --batches and --threads not negative")
	}
	if o.trainer != "" {
		return runBenchTrainer(cmd, e, o)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if o.batches == 0 {
		o.batches = -1
	}
	options := bench.EpochOptions{
		Dir: o.dir, FeatureBytes: int64(o.features), Dim: o.dim, MemoryBytes: int64(o.mem), Threads: o.threads, Device: o.device,
		Metrics: o.metrics, Batches: o.batches, Fio: o.fio, Command: []string{self, "bench", "epoch"},
		Progress: func(what string) {
			if !e.Quiet && !e.JSON {
				fmt.Fprintf(e.Stderr, "%s …\n", what)
			}
		},
	}
	var r fmt.Stringer
	if o.losses {
		r, err = bench.RunLosses(cmd.Context(), options)
	} else {
		r, err = bench.RunEpoch(cmd.Context(), options)
	}
	if err != nil {
		return err
	}
	if !e.JSON {
		fmt.Fprint(e.Stdout, r)
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	e.Event("summary", fields)
	return nil
}

// runBenchTrainer is a trainer's own process: its result goes to stdout.
func runBenchTrainer(cmd *cobra.Command, e *command.Env, o benchEpochOptions) error {
	c := bench.ChildOptions{Dir: o.dir, MemoryBytes: int64(o.mem), Threads: o.threads, Device: o.device, Metrics: o.metrics, Batches: o.batches, CacheDir: command.CacheDir()}
	var run bench.EpochRun
	var err error
	switch o.trainer {
	case "hanoi":
		run, err = bench.RunHanoiChild(cmd.Context(), c)
	case "losses", "losses-free":
		run, err = bench.RunLossesChild(cmd.Context(), c, o.trainer == "losses-free")
	case "mmap":
		run, err = bench.RunMmapChild(cmd.Context(), c)
	default:
		return command.Usagef("--trainer %q: expected hanoi or mmap", o.trainer)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(e.Stdout).Encode(run)
}
