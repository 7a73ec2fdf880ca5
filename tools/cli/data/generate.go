package data

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/generate"
)

type generateOptions struct {
	nodes, edges       command.Count
	dim, classes       int
	seed               uint64
	format             string
	threads            int
	train, valid, test float64
	partitions         int // --format store
	undirected         bool
	mem                command.Size

	a, b, c           float64 // rmat
	communities       command.Count
	homophily, skew   float64 // sbm
	signal            float64
	relations         int // kg
	ring, window      command.Count
	validTri, testTri command.Count
}

// NewGenerate is the command gstore generate.
func NewGenerate(e *command.Env) *cobra.Command {
	o := generateOptions{nodes: 100_000}
	cmd := &cobra.Command{
		Use:   "generate KIND OUT",
		Short: "Make a synthetic graph: rmat, sbm or kg, of any size, streamed to files or straight into a store",
		Long: `Generate makes a synthetic graph of any size in the new folder OUT. One seed gives the
same bytes everywhere.

  rmat  a graph of skewed degrees (R-MAT); with --classes or --features also labels
  sbm   communities of nodes with noisy features, whose labels only a GNN finds
  kg    a knowledge graph in which facts follow from others: train, valid, test

OUT is a folder of NumPy arrays that "gstore ingest" reads. --format tsv or binary
changes the file of the edges; --format store writes a store at once, the same that
ingesting the folder gives.`,
		Example: `  gstore generate sbm /tmp/sbm --nodes 1M --edges 20M --classes 32
  gstore generate rmat /tmp/rmat --nodes 100M --edges 1G --features 32
  gstore generate kg /tmp/kg --nodes 1M --edges 20M --relations 200
  gstore generate sbm /tmp/sbm.gstore --nodes 10M --format store --partitions 64 --mem 2GiB`,
		Args: command.ExactArgs("KIND", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, e, args[0], args[1]) },
	}
	f := cmd.Flags()
	f.Var(&o.nodes, "nodes", "nodes (kg: entities)")
	f.Var(&o.edges, "edges", "directed edges (kg: training triples); 0 = 15 a node")
	f.IntVar(&o.dim, "features", -1, "float32 features a node; -1 = 64 for sbm, none for rmat")
	f.IntVar(&o.classes, "classes", -1, "classes; -1 = 16 for sbm, none for rmat without features")
	f.Uint64Var(&o.seed, "seed", 0, "seed: the same seed gives the same bytes")
	f.StringVar(&o.format, "format", "numpy", "file of the edges: numpy, tsv or binary; or a store")
	f.IntVar(&o.partitions, "partitions", 0, "store: number of partitions; 0 = chosen by size")
	f.BoolVar(&o.undirected, "undirected", false, "store: each edge once, for both directions, no duplicates")
	f.Var(&o.mem, "mem", "store: bound on resident memory, such as 4GiB; 0 = half of what there is")
	f.IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	f.Float64Var(&o.train, "train", .5, "share of the nodes in split train")
	f.Float64Var(&o.valid, "valid", .2, "share of the nodes in split valid")
	f.Float64Var(&o.test, "test", .3, "share of the nodes in split test")
	f.Float64Var(&o.a, "a", .57, "rmat: probability of the quadrant (low, low)")
	f.Float64Var(&o.b, "b", .19, "rmat: of (low, high)")
	f.Float64Var(&o.c, "c", .19, "rmat: of (high, low)")
	f.Var(&o.communities, "communities", "sbm: communities, a multiple of the classes; 0 = of 1000 nodes each")
	f.Float64Var(&o.homophily, "homophily", .7, "sbm: share of edges that stay in their community")
	f.Float64Var(&o.skew, "skew", 2, "sbm: inequality of in-degrees; 1 = none")
	f.Float64Var(&o.signal, "signal", 1.5, "sbm, rmat: how much a node's own features say of its class")
	f.IntVar(&o.relations, "relations", 64, "kg: relations")
	f.Var(&o.ring, "ring", "kg: entities a cluster; 0 = 64")
	f.Var(&o.window, "window", "kg: equally good answers to a question; 0 = 4")
	f.Var(&o.validTri, "valid-triples", "kg: validation triples; 0 = a twentieth of --edges, at most 100k")
	f.Var(&o.testTri, "test-triples", "kg: test triples; 0 = likewise")
	return cmd
}

func (o *generateOptions) run(cmd *cobra.Command, e *command.Env, kind, out string) error {
	if o.dim < -1 || o.classes < -1 {
		return command.Usagef("--features %d, --classes %d: expected 0 or more, or -1 for the kind's own", o.dim, o.classes)
	}
	if o.edges == 0 {
		o.edges = 15 * o.nodes
	}
	g, kg, options, err := o.graph(kind)
	if err != nil {
		return err
	}
	bar := e.Progress(-1, "bytes")
	w := generate.WriteOptions{Format: generate.Format(o.format), Threads: o.threads, Train: o.train, Valid: o.valid, Test: o.test,
		Progress: func(n int64) { _ = bar.Add64(n) }}
	start := time.Now()
	var bytes int64
	var info generate.Info
	if kg != nil {
		info = kg.Info()
	} else {
		info = g.Info()
	}
	switch {
	case o.format == "store":
		bytes, err = o.intoStore(cmd.Context(), e, out, g, kg, options, w)
	case kg != nil:
		bytes, err = generate.WriteKG(cmd.Context(), out, kg, w)
	default:
		bytes, err = generate.Write(cmd.Context(), out, g, w)
	}
	_ = bar.Finish()
	if errors.Is(err, generate.ErrOptions) {
		return command.Usage(err)
	}
	if err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	e.Event("summary", map[string]any{"kind": info.Kind, "out": out, "nodes": info.Nodes, "edges": info.Edges, "relations": info.Relations,
		"features": info.Dim, "classes": info.Classes, "seed": info.Seed, "bytes_written": bytes, "seconds": seconds})
	if !e.JSON {
		fmt.Fprintf(e.Told(), "%s: %s, %d nodes, %d edges, %d features, %d classes: %.1f MB in %.1f s\n",
			out, info.Kind, info.Nodes, info.Edges, info.Dim, info.Classes, float64(bytes)/1e6, seconds)
	}
	return nil
}

// graph makes the generator of a kind, one of the two, and returns the options it was made with.
func (o *generateOptions) graph(kind string) (g generate.Graph, kg *generate.KG, options any, err error) {
	switch kind {
	case "rmat":
		dim, classes := max(0, o.dim), o.classes
		if classes < 0 {
			classes = 0
			if dim > 0 {
				classes = int(min(16, o.nodes))
			}
		}
		r := generate.RMATOptions{Nodes: uint64(o.nodes), Edges: uint64(o.edges), A: o.a, B: o.b, C: o.c,
			Dim: dim, Classes: classes, Signal: o.signal, Seed: o.seed}
		g, err = generate.NewRMAT(r)
		options = r
	case "sbm":
		s := generate.SBMOptions{Nodes: uint64(o.nodes), Edges: uint64(o.edges), Classes: max(0, o.classes),
			Communities: uint64(o.communities), Homophily: o.homophily, Skew: o.skew, Dim: max(0, o.dim), Signal: o.signal, Seed: o.seed}
		g, err = generate.NewSBM(s)
		options = s
	case "kg":
		k := generate.KGOptions{Entities: uint64(o.nodes), Relations: o.relations, Triples: uint64(o.edges),
			Valid: uint64(o.validTri), Test: uint64(o.testTri), Ring: uint64(o.ring), Window: uint64(o.window), Seed: o.seed}
		kg, err = generate.NewKG(k)
		options = k
	default:
		return nil, nil, nil, command.Usagef("unknown kind %q: want rmat, sbm or kg", kind)
	}
	if err != nil {
		return nil, nil, nil, command.Usage(err)
	}
	return g, kg, options, nil
}

// intoStore ingests the graph without files in between and returns the store's size.
func (o *generateOptions) intoStore(ctx context.Context, e *command.Env, out string, g generate.Graph, kg *generate.KG, options any, w generate.WriteOptions) (int64, error) {
	w.Format = ""
	var src ingest.Source
	var err error
	if kg != nil {
		src, err = generate.SourceKG(kg, options)
	} else {
		src, err = generate.Source(g, options, w)
	}
	if err != nil {
		return 0, err
	}
	bar := ingestProgress{e: e}
	rep, err := ingest.Run(ctx, out, src, ingest.Options{Partitions: o.partitions, Undirected: o.undirected, MemoryBytes: int64(o.mem),
		Seed: o.seed, Threads: o.threads, Progress: bar.tell})
	bar.close()
	if err != nil {
		return 0, err
	}
	return rep.BytesStored, nil
}
