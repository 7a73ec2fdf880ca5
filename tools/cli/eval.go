package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
)

// evalOptions are the flags of eval.
type evalOptions struct {
	checkpoint string
	splits     []string
	mem        sizeFlag
	threads    int
	config     string
}

func newEval(e *env) *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval STORE",
		Short: "Compute a trained model's exact accuracy on a store",
		Long: `Compute a trained model's accuracy with all neighbours of every node, layer by
layer over the whole graph, streamed from the store inside --mem.`,
		Example: "  gstore eval cora.gstore                      # the model trained last\n  gstore eval cora.gstore --checkpoint best.gsm --splits valid,test",
		Args:    exactArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := applyConfig(cmd, o.config); err != nil {
				return err
			}
			return runEval(cmd.Context(), e, args[0], &o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.checkpoint, "checkpoint", "", "model file, or the number of a run of this store (default: the last one)")
	fs.StringSliceVar(&o.splits, "splits", []string{"train", "valid", "test"}, "which nodes to score")
	fs.Var(&o.mem, "mem", "memory bound, such as 4GiB (default: none)")
	fs.IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	configFlag(fs, &o.config)
	return cmd
}

func runEval(ctx context.Context, e *env, dir string, o *evalOptions) (err error) {
	for _, s := range o.splits {
		if s != "train" && s != "valid" && s != "test" {
			return usagef("--splits: %q is none of train, valid, test", s)
		}
	}
	defer limitThreads(o.threads)()
	path, err := findModel(dir, o.checkpoint)
	if err != nil {
		return err
	}
	cp, err := train.LoadFile(path)
	if err != nil {
		return err
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := st.Close(); err == nil {
			err = cerr
		}
	}()
	start := time.Now()
	metrics, err := cp.Evaluate(ctx, st, train.Config{Threads: o.threads, MemoryBytes: int64(o.mem)}, o.splits...)
	if err != nil {
		return err
	}
	if e.json {
		f := map[string]any{"model_file": path, "seconds": time.Since(start).Seconds()}
		for i, s := range o.splits {
			f[s+"_accuracy"], f[s+"_loss"], f[s+"_nodes"] = metrics[i].Accuracy, metrics[i].Loss, metrics[i].Nodes
		}
		e.event("summary", f)
		return nil
	}
	fmt.Fprintf(e.stdout, "%-6s  %10s  %8s  %10s\n", "split", "nodes", "loss", "accuracy %")
	for i, s := range o.splits {
		fmt.Fprintf(e.stdout, "%-6s  %10d  %8.4f  %10.2f\n", s, metrics[i].Nodes, metrics[i].Loss, 100*metrics[i].Accuracy)
	}
	fmt.Fprintf(e.stdout, "%.2f s; model %s\n", time.Since(start).Seconds(), path)
	return nil
}

// findModel returns the path of a model: a file, a run's number, or the last run's.
func findModel(dir, checkpoint string) (string, error) {
	if _, err := strconv.ParseUint(checkpoint, 10, 64); err == nil {
		return filepath.Join(dir, runsDir, checkpoint+".gsm"), nil
	}
	if checkpoint != "" {
		return checkpoint, nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, runsDir))
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	last, found := uint64(0), false
	for _, d := range entries {
		name, ok := strings.CutSuffix(d.Name(), ".gsm")
		if n, err := strconv.ParseUint(name, 10, 64); ok && err == nil && n >= last {
			last, found = n, true
		}
	}
	if !found {
		return "", fmt.Errorf("%s has no trained model: run gstore train %s, or give --checkpoint FILE", dir, dir)
	}
	return filepath.Join(dir, runsDir, fmt.Sprintf("%d.gsm", last)), nil
}
