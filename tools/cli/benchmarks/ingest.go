package benchmarks

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

type benchIngestOptions struct {
	dir     string
	formats string
	mem     string
	large   bool
}

func newBenchIngest(e *command.Env) *cobra.Command {
	o := benchIngestOptions{}
	cmd := &cobra.Command{
		Use:   "ingest",
		Short: "Ingest an R-MAT graph: CPU seconds, peak memory, bytes per edge, bytes written",
		Long: `Generate an R-MAT graph of 2 M nodes and 30 M edges (--large: 100 M nodes, 1 G edges and 32
features a node, about 21 GB) and ingest it in a process of its own, once for each format
and budget. From tsv ids are remapped. Written is what spills and stores, by byte stored.`,
		Example: "  gstore-lab bench ingest --dir /data/bench --mem 1GiB,256MiB",
		Args:    command.ExactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchIngest(cmd, e, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory for inputs, which are kept for the next run, and stores, which are not")
	f.StringVar(&o.formats, "formats", "", "formats of the input: tsv, binary, numpy (default tsv,binary; --large: numpy)")
	f.StringVar(&o.mem, "mem", "", "budgets (default 1GiB; --large: 4GiB)")
	f.BoolVar(&o.large, "large", false, "the graph of a billion edges")
	return cmd
}

func runBenchIngest(cmd *cobra.Command, e *command.Env, o benchIngestOptions) error {
	if o.dir == "" {
		return command.Usagef("--dir is missing: a directory on the disk to measure")
	}
	b := bench.IngestOptions{Dir: o.dir, Nodes: 2_000_000, Edges: 30_000_000, Log: func(format string, args ...any) {
		if !e.Quiet && !e.JSON {
			fmt.Fprintf(e.Stderr, format+"\n", args...)
		}
	}}
	formats, mem := "tsv,binary", "1GiB"
	if o.large {
		b.Nodes, b.Edges, b.Features = 100_000_000, 1_000_000_000, 32
		formats, mem = "numpy", "4GiB"
	}
	if o.formats != "" {
		formats = o.formats
	}
	if o.mem != "" {
		mem = o.mem
	}
	b.Formats = strings.Split(formats, ",")
	for _, text := range strings.Split(mem, ",") {
		n, err := command.ParseSize(text)
		if err != nil {
			return command.Usagef("--mem: %v", err)
		}
		b.MemoryBytes = append(b.MemoryBytes, n)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.Command = []string{self}
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return err
	}
	runs, err := bench.RunIngest(cmd.Context(), b)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	if !e.JSON {
		fmt.Fprintln(t, "format\tbudget MiB\tinput MB\tCPU s\twall s\tpeak MiB\tbytes/edge\twritten")
	}
	for _, r := range runs {
		e.Event("result", map[string]any{"format": r.Format, "memory_bytes": r.MemoryBytes, "input_bytes": r.InputBytes, "cpu_seconds": r.CPUSeconds,
			"seconds": r.Seconds, "peak_rss_bytes": r.PeakRSS, "bytes_per_edge": r.BytesPerEdge(), "write_amplification": r.WriteAmplification()})
		if !e.JSON {
			fmt.Fprintf(t, "%s\t%d\t%.0f\t%.1f\t%.1f\t%d\t%.2f\t%.2f ×\n", r.Format, r.MemoryBytes>>20, float64(r.InputBytes)/1e6,
				r.CPUSeconds, r.Seconds, r.PeakRSS>>20, r.BytesPerEdge(), r.WriteAmplification())
		}
	}
	e.Event("summary", map[string]any{"runs": len(runs)})
	return t.Flush()
}
