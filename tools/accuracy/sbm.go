package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"

	"github.com/gstore/gstore/tools/generate"
)

// sbmOptions is the block model of -table sbm: a node's own features say so little of its class
// that accuracy comes from neighbours.
type sbmOptions struct {
	nodes, edges, communities uint64
	classes, dim              int
	homophily, signal, train  float64
	seed                      uint64
}

// flags declares the options.
func (o *sbmOptions) flags() {
	flag.Uint64Var(&o.nodes, "sbm-nodes", 1_000_000, "sbm: nodes")
	flag.Uint64Var(&o.edges, "sbm-edges", 10_000_000, "sbm: edges, used in both directions")
	flag.IntVar(&o.classes, "sbm-classes", 16, "sbm: classes")
	flag.Uint64Var(&o.communities, "sbm-communities", 0, "sbm: communities, a multiple of the classes; 0: of 1000 nodes each")
	flag.IntVar(&o.dim, "sbm-features", 32, "sbm: float32 features a node")
	flag.Float64Var(&o.homophily, "sbm-homophily", .7, "sbm: share of edges that stay in their community")
	flag.Float64Var(&o.signal, "sbm-signal", .5, "sbm: how much a node's own features say of its class, in standard deviations")
	flag.Float64Var(&o.train, "sbm-train", .05, "sbm: share of training nodes; a tenth of the nodes is for validation, the rest for the test")
	flag.Uint64Var(&o.seed, "sbm-seed", 1, "sbm: seed of the graph, whatever the runs' seeds")
}

// write makes the graph as a folder that is ingested like any other data set.
func (o *sbmOptions) write(ctx context.Context, dir string, threads int) error {
	g, err := generate.NewSBM(generate.SBMOptions{Nodes: o.nodes, Edges: o.edges, Classes: o.classes, Communities: o.communities,
		Homophily: o.homophily, Dim: o.dim, Signal: o.signal, Seed: o.seed})
	if err != nil {
		return err
	}
	_, err = generate.Write(ctx, dir, g, generate.WriteOptions{Threads: threads, Train: o.train, Valid: .1, Test: .9 - o.train})
	return err
}

// runSBM runs the out-of-core table on the block model; memory+mlp shows how far a node's own features go.
func runSBM(ctx context.Context, s sbmOptions, o outOfCore, asJSON bool) (err error) {
	work, err := os.MkdirTemp("", "gstore-sbm-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	o.data, o.splits = filepath.Join(work, "sbm"), []string{"split"}
	if err := s.write(ctx, o.data, o.threads); err != nil {
		return err
	}
	o.methods = append([]method{{model: "mlp"}}, methods()...)
	return o.run(ctx, asJSON)
}
