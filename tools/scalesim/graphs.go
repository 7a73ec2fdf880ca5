package main

import (
	"math"
	"strconv"
)

// graph is one that people know, as its publishers count it, and how it is trained.
type graph struct {
	name         string
	nodes, edges float64
	undirected   bool    // neighbours are those of both directions
	columns      int     // of features; of links numbers of an embedding
	width        float64 // bytes of one
	training     float64 // nodes, or of links edges
	links        bool
	sample       []string // of gstore generate: a graph of its density and columns that fits here
	sampled      float64  // nodes of that
	ingested     []string // flags of ingest of the sample
	train        []string // flags of gstore train
	measured     measured
}

// measured is what "scalesim -measure" says of a graph's sample on two cores.
type measured struct {
	batch float64 // seconds of a mini-batch of 1,000 seeds whose neighbours are all in memory
	rows  float64 // different nodes whose features it reads, in the sample
	cores float64 // that it was measured on
}

var graphs = []graph{
	{
		name: "ogbn-papers100M", nodes: 111_059_956, edges: 1_615_685_872, undirected: true, columns: 128, width: 4, training: 1_207_179,
		sample: []string{"sbm", "--nodes", "1100000", "--edges", "16000000", "--features", "128", "--classes", "172", "--train", ".05", "--skew", "3"}, sampled: 1.1e6,
		train:    []string{"--fanouts", "15,10,5"},
		measured: measured{batch: .0649, rows: 313_015, cores: 2},
	},
	{
		name: "MAG240M, papers and citations", nodes: 121_751_666, edges: 1_297_748_926, undirected: true, columns: 768, width: 2, training: 1_112_392,
		sample: []string{"sbm", "--nodes", "600000", "--edges", "6400000", "--features", "768", "--classes", "153", "--train", ".05", "--skew", "3"}, sampled: 6e5,
		ingested: []string{"--feature-dtype", "float16"},
		train:    []string{"--fanouts", "15,10"},
		measured: measured{batch: .0309, rows: 50_164, cores: 2},
	},
	{
		name: "IGB-full", nodes: 269_346_174, edges: 3_995_777_033, columns: 1024, width: 4, training: 136_278_515, undirected: true,
		sample: []string{"sbm", "--nodes", "300000", "--edges", "4450000", "--features", "1024", "--classes", "19", "--train", ".2", "--skew", "3"}, sampled: 3e5,
		train:    []string{"--fanouts", "15,10"},
		measured: measured{batch: .0490, rows: 67_730, cores: 2},
	},
	{
		name: "Hyperlink 2012", nodes: 3_563_602_789, edges: 128_736_914_167, columns: 50, width: 4, training: 128_736_914_167, links: true,
		sample: []string{"kg", "--nodes", "500000", "--edges", "2000000", "--relations", "8"}, sampled: 5e5,
		measured: measured{batch: .0036, cores: 2},
		train:    []string{"--model", "distmult", "--dim", "50", "--negatives", "500", "--eval-every", "-1"},
	},
}

// batchRows are the different rows of a mini-batch: as many as as many draws from all nodes find as from those of the sample.
func (g *graph) batchRows() float64 {
	draws := -g.sampled * math.Log1p(-g.measured.rows/g.sampled)
	return -g.nodes * math.Expm1(-draws/g.nodes)
}

// rowBytes are those of a node's features, or of its embedding and its optimiser's state.
func (g *graph) rowBytes() float64 {
	if g.links {
		return 2 * float64(g.columns) * g.width
	}
	return float64(g.columns) * g.width
}

// edgeBytes are those of an edge on disk, as compressed here (docs/benchmarks.md, "A billion edges").
const edgeBytes = 3.64

// stored are the bytes of the store.
func (g *graph) stored() float64 { return g.nodes*g.rowBytes() + g.edges*edgeBytes }

// topology is what all lists of neighbours take in memory: four bytes an entry, eight a node.
func (g *graph) topology() float64 {
	entries := g.edges
	if g.undirected {
		entries *= 2
	}
	return 4*entries + 8*g.nodes
}

// batches of an epoch.
func (g *graph) batches() float64 { return g.training / perBatch }

// perBatch are the seeds of a mini-batch.
const perBatch = 1000

// gradientBytes are those of a model's parameters, which ranks sum at every mini-batch: three products of 128 columns at most.
func (g *graph) gradientBytes() float64 {
	if g.links { // of relations alone; rows of nodes are handed over with partitions
		return float64(g.columns) * g.width
	}
	return 4 * (2*float64(g.columns)*128 + 2*128*128 + 2*128*172)
}

// flags are those of gstore train.
func (g *graph) flags() []string {
	return append([]string{"--epochs", "1", "--batch-size", strconv.Itoa(perBatch), "--json"}, g.train...)
}
