package benchmarks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/host/kernels"
	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

type benchOpsOptions struct {
	threads  string
	repeats  int
	tableMiB int64
	filter   string
	seed     uint64
	openblas string
	device   string
	matmul   string
}

func newBenchOps(e *command.Env) *cobra.Command {
	var o benchOpsOptions
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "Measure operations beside the processor's and its memory's peak, or a GPU's beside a copy in its memory",
		Long: `Run the operations of a training step (dense products, gathers and aggregations
from a table beyond the cache, attention, norms, activations, losses, link scores,
optimisers) and print medians over the rounds, beside the ceiling measured in the
same round (fused multiply-adds in registers, or a copy of memory as in STREAM) and
the portable Go loop on one thread. "of read" is beside a read of memory in
sequence. "per CPU s" counts the process's CPU time, a truer clock on a shared
machine. With --openblas products are measured by turns with OpenBLAS.

With --device cuda:N a GPU's operations are measured by its own clock, in the sizes of large mini-batches, beside
a copy within its memory in the same rounds: the share of the copy's rate, and the share to be reached.`,
		Example: "  gstore-lab bench ops --threads 1,2\n  gstore-lab bench ops --device cuda:0\n  gstore-lab bench ops --filter gather --repeats 15 --json\n" +
			"  gstore-lab bench ops --filter gemm --openblas tools/bench/openblas_gemm.py",
		Args: command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.device != "host" {
				return runBenchDeviceOps(cmd, e, o)
			}
			return runBenchOps(cmd, e, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.threads, "threads", "", `numbers of threads to measure, comma-separated (default "1" and all)`)
	f.StringVar(&o.device, "device", "host", "host, or cuda:N")
	f.StringVar(&o.matmul, "matmul", "exact", matmulHelp)
	f.IntVar(&o.repeats, "repeats", 7, "rounds")
	f.Int64Var(&o.tableMiB, "table-mib", 1024, "size in MiB of the table that rows are gathered from; beyond the cache is best (a GPU's: 4096 by default, and other sizes go by it)")
	f.StringVar(&o.filter, "filter", "", "measure only operations whose name contains this")
	f.StringVar(&o.openblas, "openblas", "", "path of tools/bench/openblas_gemm.py, to measure OpenBLAS on the same products by turns")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the random rows")
	return cmd
}

const matmulHelp = "how matrices are multiplied: exact, tf32 (a GPU) or bf16 (a GPU, or a processor with AMX)"

// checkMatMul refuses products that the host does not make.
func checkMatMul(name string) error {
	dev, err := command.OpenDevice(device.Options{Name: "host", Threads: 1, MatMul: name})
	if err != nil {
		return err
	}
	return dev.Close()
}

func runBenchOps(cmd *cobra.Command, e *command.Env, o benchOpsOptions) error {
	if o.repeats < 1 || o.tableMiB < 16 {
		return command.Usagef("--repeats %d and --table-mib %d: expected at least 1 and 16", o.repeats, o.tableMiB)
	}
	var threads []int
	for _, s := range strings.Split(o.threads, ",") {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return command.Usagef("--threads %q: expected positive numbers, comma-separated", o.threads)
		}
		threads = append(threads, n)
	}
	if err := checkMatMul(o.matmul); err != nil {
		return err
	}
	b := bench.OpsOptions{BF16: o.matmul == "bf16", Threads: threads, Repeats: o.repeats, TableMiB: o.tableMiB, Filter: o.filter, Seed: o.seed}
	if o.openblas != "" {
		b.OpenBLAS = []string{"python3", o.openblas}
	}
	results, err := bench.RunOps(cmd.Context(), b)
	if err != nil {
		return err
	}
	if e.JSON {
		for _, r := range results {
			e.Event("operation", map[string]any{
				"name": r.Name, "unit": r.Unit, "threads": r.Threads, "rate": r.Rate, "ceiling": r.Ceiling,
				"share": r.Share, "share_of_read": r.ReadShare, "rate_per_cpu_second": r.CPURate, "portable_rate": r.Reference,
				"openblas_rate": r.BLAS, "of_openblas": r.OfBLAS,
			})
		}
		e.Event("summary", map[string]any{"operations": len(results), "isa": kernels.Detect().String(), "seed": o.seed})
		return nil
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "operation (%v)\tthreads\trate\tper CPU s\tceiling\tof ceiling\tof read\tof OpenBLAS\tportable Go\n", kernels.Detect())
	percent := func(v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%.1f %s\t%.1f\t%.1f\t%s\t%s\t%s\t%.1f\n", r.Name, r.Threads, r.Rate, r.Unit, r.CPURate, r.Ceiling,
			percent(r.Share), percent(r.ReadShare), percent(r.OfBLAS), r.Reference)
	}
	return w.Flush()
}

// runBenchDeviceOps measures a GPU's operations.
func runBenchDeviceOps(cmd *cobra.Command, e *command.Env, o benchOpsOptions) (err error) {
	changed := cmd.Flags().Changed
	switch {
	case changed("threads") || o.openblas != "":
		return command.Usagef("--threads and --openblas are for --device host")
	case !changed("table-mib"):
		o.tableMiB = 0
	case o.tableMiB < 1:
		return command.Usagef("--table-mib %d: expected at least 1", o.tableMiB)
	}
	dev, err := command.OpenDevice(device.Options{Name: o.device, MatMul: o.matmul})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	if !e.JSON {
		fmt.Fprintf(w, "operation (%v)\tµs\tGB/s\tTFLOP/s\tcopy GB/s\tof copy\ttarget\n", dev.Info())
	}
	n := 0
	err = bench.RunDeviceOps(cmd.Context(), dev, bench.DeviceOpsOptions{TableMiB: o.tableMiB, Repeats: o.repeats, Filter: o.filter, Seed: o.seed}, func(r bench.DeviceOpResult) {
		n++
		e.Event("operation", command.Fields(r))
		if !e.JSON {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f\t%.2f\n", r.Name, 1e6*r.Seconds, r.Rate, r.Flops/r.Seconds/1e12, r.Copy, r.Share, r.Target)
		}
	})
	if err != nil {
		return err
	}
	e.Event("summary", map[string]any{"operations": n, "device": dev.Info().String(), "seed": o.seed})
	if e.JSON {
		return nil
	}
	return w.Flush()
}
