package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/testdata"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/generate"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	task   string
	epochs int
	seed   uint64
	dir    string
}

// NewDemo is the command gstore demo.
func NewDemo(e *command.Env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Make a small graph's store and train on it: the embedded Cora, a knowledge graph, or a shop's database",
		Long: `Demo ingests Cora (2,708 papers, 5,429 citations, 7 subjects; embedded in the
program) into a store and trains a 2-layer GraphSAGE out of core on it: 8
partitions, 6 in memory at a time, accuracy by exact evaluation. With --task link
it generates a knowledge graph (2,048 entities, 60,000 facts of 16 relations) and
learns embeddings for ComplEx out of core: 8 partitions, 4 in memory at a time, written
back when they leave (plan comet), ranks against all entities. With --task relational
it makes the database of a shop (SQLite; customers, products, orders, their lines,
returns) and learns which customers will order again within 45 days, from what was
known at the time; the database and the training table's queries are left beside the
store. The store is left for you to inspect.`,
		Example: "  gstore demo\n  gstore demo --task link\n  gstore demo --task relational --dir shop.gstore",
		Args:    command.ExactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, &o) },
	}
	cmd.Flags().StringVar(&o.task, "task", "node", "node: the subjects of Cora's papers; link: missing facts of a knowledge graph; relational: what customers of a shop's database will do")
	cmd.Flags().IntVar(&o.epochs, "epochs", 0, "passes over the training nodes, facts or rows (default: 20, with --task link 15, with relational until validation stops improving)")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "of every random choice")
	cmd.Flags().StringVar(&o.dir, "dir", "", "directory for the store, which must not exist (default: a temporary one)")
	return cmd
}

func runDemo(ctx context.Context, e *command.Env, o *demoOptions) (err error) {
	if o.epochs < 0 {
		return command.Usagef("--epochs %d: expected 1 or more", o.epochs)
	}
	prepare, name := demoCora, "cora.gstore"
	switch o.task {
	case "node":
	case "link":
		prepare, name = demoKG, "kg.gstore"
	case "relational":
		prepare, name = demoShop, "shop.gstore"
	default:
		return command.Usagef("--task %q: expected node, link or relational", o.task)
	}
	work, err := os.MkdirTemp("", "gstore-demo-")
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		dir = filepath.Join(work, name)
	}
	input := filepath.Join(work, "input")
	defer func() {
		gone := os.RemoveAll(input)
		if err != nil || o.dir != "" {
			gone = errors.Join(gone, os.RemoveAll(work))
		}
		err = errors.Join(err, gone)
	}()
	t, err := prepare(ctx, e, o, dir, input)
	if err != nil {
		return err
	}
	if _, err := runTrain(ctx, e, dir, t); err != nil {
		return err
	}
	if e.JSON {
		return nil
	}
	if o.task == "relational" {
		fmt.Fprintf(e.Told(), "customers 1 to 3 as of a day: gstore predict %s 1 2 3 --at 2025-12-31\n", dir)
	}
	fmt.Fprintf(e.Told(), "store: %s (look at it: gstore inspect %s)\n", dir, dir)
	return nil
}

// demoCora makes the store of Cora in dir, from files in input, and says how to train on it.
func demoCora(ctx context.Context, e *command.Env, o *demoOptions, dir, input string) (*trainOptions, error) {
	if err := unpack(testdata.FS, "cora", input); err != nil {
		return nil, err
	}
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		return nil, err
	}
	report, err := ingested(ctx, dir, src, ingest.Options{Partitions: 8, Undirected: true, Seed: o.seed})
	if err != nil {
		return nil, err
	}
	if m := report.Manifest; !e.JSON {
		fmt.Fprintf(e.Told(), "Cora: %d nodes, %d undirected edges, %d partitions, %s\n", m.Nodes, m.Edges, len(m.Partitions), command.FormatSize(m.Bytes()))
	}
	epochs, dropped, decay := cmp.Or(o.epochs, 20), .2, 5e-4
	return &trainOptions{node: config.Config{Layers: 2, Epochs: epochs, WeightDecay: &decay, InputDropout: &dropped, Seed: o.seed, Plan: "hanoi", Buffer: 6, BatchSize: 200}}, nil
}

// demoKG makes the store of a knowledge graph in dir and says how to train on it.
func demoKG(ctx context.Context, e *command.Env, o *demoOptions, dir, _ string) (*trainOptions, error) {
	options := generate.KGOptions{Entities: 2048, Relations: 16, Triples: 60_000, Seed: o.seed}
	kg, err := generate.NewKG(options)
	if err != nil {
		return nil, err
	}
	src, err := generate.SourceKG(kg, options)
	if err != nil {
		return nil, err
	}
	report, err := ingested(ctx, dir, src, ingest.Options{Partitions: 8, Seed: o.seed})
	if err != nil {
		return nil, err
	}
	if m := report.Manifest; !e.JSON {
		fmt.Fprintf(e.Told(), "knowledge graph: %d nodes, %d edges of %d relations, %d partitions, %s\n", m.Nodes, m.Edges, len(m.Schema.Relations), len(m.Partitions), command.FormatSize(m.Bytes()))
	}
	return &trainOptions{link: link.Config{Model: nn.ComplEx, Epochs: cmp.Or(o.epochs, 15), LR: .3, Seed: o.seed, Plan: "comet", Buffer: 4,
		Dim: 64, Negatives: 200, Chunks: 5}}, nil
}

// demoShop makes the database of a shop, a training table's queries and the store beside each other, and says how to train on it.
func demoShop(ctx context.Context, e *command.Env, o *demoOptions, dir, _ string) (*trainOptions, error) {
	base := strings.TrimSuffix(filepath.Clean(dir), ".gstore")
	path, task := base+".sqlite", base+"-task"
	if err := generate.Shop(ctx, path, task, generate.ShopOptions{Customers: 800, Seed: o.seed}); err != nil {
		return nil, err
	}
	src, err := formats.Open(path, formats.Options{})
	if err != nil {
		return nil, err
	}
	report, err := ingested(ctx, dir, src, ingest.Options{Missing: ingest.MissingMean, Seed: o.seed})
	if err != nil {
		return nil, err
	}
	if m := report.Manifest; !e.JSON {
		fmt.Fprintf(e.Told(), "%s: a shop of %d tables, whose %d rows are nodes and %d references edges: gstore ingest %s %s\n", path, len(m.Schema.NodeTypes), m.Nodes, m.Edges, path, dir)
		fmt.Fprintf(e.Told(), "%s: who orders again within 45 days? gstore train %s --targets %s\n", filepath.Join(task, "manifest.yaml"), dir, task)
	}
	return &trainOptions{task: "targets", targets: targets.Config{Targets: task, Epochs: o.epochs, Seed: o.seed}}, nil
}

// ingested makes a store of a source, which it closes.
func ingested(ctx context.Context, dir string, src ingest.Source, o ingest.Options) (*ingest.Report, error) {
	report, err := ingest.Run(ctx, dir, src, o)
	return report, errors.Join(err, src.Close())
}

// unpack copies a folder of an embedded file system to disk.
func unpack(from fs.FS, root, to string) error {
	return fs.WalkDir(from, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o777)
		}
		b, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o666)
	})
}
