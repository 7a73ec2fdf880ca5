package benchmarks

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

type benchIOOptions struct {
	dir     string
	sizeMiB int64
	repeats int
	engines string
	depth   int
	split   int
	fio     string
}

func newBenchIO(e *command.Env) *cobra.Command {
	var o benchIOOptions
	cmd := &cobra.Command{
		Use:   "io",
		Short: "Read and write a file with every I/O engine and with fio, by turns",
		Long: `Read one temporary file with gstore's engines and with fio (left out if it is not
installed), all with O_DIRECT and by turns: whole partitions of 64 MiB, two at a
time, and extents of 64 KiB in random order; then write over it, durably, and
into a new file, package blocks too, with checksums. fio's buffers lie in huge
pages in one of its rows, as gstore's always do. Prints medians over the rounds
of bandwidth and of CPU time (user and system) per GB, and the ratio to the best
of fio.`,
		Example: "  gstore-lab bench io --dir /data --size-mib 8192 --repeats 5",
		Args:    command.ExactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchIO(cmd, e, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", os.TempDir(), "directory on the disk to measure; a temporary file is made there and removed")
	f.Int64Var(&o.sizeMiB, "size-mib", 4096, "size of that file in MiB; larger than any cache under the disk is best")
	f.IntVar(&o.repeats, "repeats", 5, "rounds")
	f.StringVar(&o.engines, "engines", "io_uring,pread", "gstore's engines to measure, comma-separated")
	f.IntVar(&o.depth, "depth", 0, "transfers in flight (0 = the engine's default)")
	f.IntVar(&o.split, "split", 0, "bytes of the largest transfer (0 = the engine's default)")
	f.StringVar(&o.fio, "fio", "fio", "path of fio")
	return cmd
}

func runBenchIO(cmd *cobra.Command, e *command.Env, o benchIOOptions) error {
	if o.sizeMiB < 128 || o.repeats < 1 {
		return command.Usagef("--size-mib %d and --repeats %d: expected at least 128 and 1", o.sizeMiB, o.repeats)
	}
	if err := (blockio.Options{Depth: o.depth, SplitBytes: o.split}).Validate(); err != nil {
		return command.Usage(err)
	}
	results, err := bench.RunIO(cmd.Context(), bench.IOOptions{
		Dir: o.dir, FileBytes: o.sizeMiB << 20, Repeats: o.repeats, Engines: strings.Split(o.engines, ","),
		Depth: o.depth, SplitBytes: o.split, Fio: o.fio,
		Log: func(format string, args ...any) {
			if !e.Quiet && !e.JSON {
				fmt.Fprintf(e.Stderr, format+"\n", args...)
			}
		},
	})
	if err != nil {
		return err
	}
	best := map[string]float64{} // fio's, by test
	for _, r := range results {
		if b, _ := r.Median(); strings.HasPrefix(r.Reader, "fio") {
			best[r.Test] = max(best[r.Test], b)
		}
	}
	summary := map[string]any{}
	t := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	if !e.JSON {
		fmt.Fprintln(t, "test\treader\tGB/s\tCPU s/GB\tof fio's best")
	}
	for _, r := range results {
		b, cpu := r.Median()
		fields := map[string]any{"test": r.Test, "reader": r.Reader, "bytes_per_second": b, "cpu_seconds_per_gb": cpu,
			"rounds_bytes_per_second": r.BytesPerSecond, "rounds_cpu_seconds_per_gb": r.CPUSecondsPerGB}
		ratio := "-"
		if f := best[r.Test]; f > 0 {
			fields["of_fio"] = b / f
			ratio = fmt.Sprintf("%.0f %%", 100*b/f)
		}
		e.Event("result", fields)
		summary[r.Test+" "+r.Reader] = b
		if !e.JSON {
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%.3f\t%s\n", r.Test, r.Reader, b/1e9, cpu, ratio)
		}
	}
	e.Event("summary", summary)
	return t.Flush()
}
