package benchmarks

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

type benchLinkOptions struct {
	dir        string
	mem        command.Size
	times      int
	dim        int
	edges      int
	partitions int
	logical    int
	threads    int
	fio        string
	trainer    bool
}

func newBenchLink(e *command.Env) *cobra.Command {
	o := benchLinkOptions{mem: 128 << 20}
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Train embeddings many times the memory beside what bounds it",
		Long: `Generate a knowledge graph whose embeddings and optimiser state are many times the
memory, and train an epoch of DistMult on it with plan comet, in a process under a
cgroup memory limit. Beside it: the time that fio takes for the epoch's bytes, read
and written, and the time of the same batches with nothing being moved.`,
		Example: "  gstore-lab bench link --dir /data/bench --mem 128MiB --times 8",
		Args:    command.ExactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchLink(cmd, e, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory for the generated store (twice the embeddings and their state); kept for the next run")
	f.Var(&o.mem, "mem", "memory of the trainer, enforced by a cgroup where one can be made")
	f.IntVar(&o.times, "times", 8, "embeddings and optimiser state are so many times the memory")
	f.IntVar(&o.dim, "dim", 64, "numbers of an embedding")
	f.IntVar(&o.edges, "edges", 4, "training triples a node")
	f.IntVar(&o.partitions, "partitions", 128, "partitions of the store")
	f.IntVar(&o.logical, "logical", 0, "logical partitions of plan comet (0 = so many that four fit)")
	f.IntVar(&o.threads, "threads", 0, "threads of the trainer (0 = all processors)")
	f.StringVar(&o.fio, "fio", "fio", "path of fio")
	f.BoolVar(&o.trainer, "trainer", false, "be the trainer")
	_ = f.MarkHidden("trainer")
	return cmd
}

func runBenchLink(cmd *cobra.Command, e *command.Env, o benchLinkOptions) error {
	switch {
	case o.dir == "":
		return command.Usagef("--dir is missing: a directory on the disk to measure, with room for %d times %s and a little", 2*o.times, o.mem.String())
	case o.mem < 1 || o.times < 1 || o.dim < 1 || o.edges < 1 || o.partitions < 4 || o.logical < 0 || o.threads < 0:
		return command.Usagef("--mem, --times, --dim and --edges must be positive, --partitions at least 4, --logical and --threads not negative")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	lo := bench.LinkOptions{Dir: o.dir, MemoryBytes: int64(o.mem), Times: o.times, Dim: o.dim, NodeEdges: o.edges, Partitions: o.partitions, Logical: o.logical, Threads: o.threads, Fio: o.fio,
		Command: []string{self, "bench", "link"}, Progress: func(what string) {
			if !e.Quiet && !e.JSON {
				fmt.Fprintf(e.Stderr, "%s …\n", what)
			}
		}}
	if o.trainer {
		run, err := bench.RunLinkChild(cmd.Context(), lo)
		if err != nil {
			return err
		}
		return json.NewEncoder(e.Stdout).Encode(run)
	}
	r, err := bench.RunLink(cmd.Context(), lo)
	if err != nil {
		return err
	}
	if e.JSON {
		e.Event("summary", command.Fields(r))
		return nil
	}
	fmt.Fprint(e.Stdout, r)
	return nil
}
