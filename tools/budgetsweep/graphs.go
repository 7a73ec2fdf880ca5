package main

import "path/filepath"

// graph is an input to sweep over.
type graph struct {
	name     string
	generate []string // of gstore generate, without its folder; nil: the data set of this name
	ingest   []string // what the input does not say of itself
	train    []string // what bounds the time of a run
	tests    float64  // nodes or edges that are tested, about
}

// graphs are the real ones, and generated ones of the shapes that broke budgets before: rows of 3,703 columns, many nodes with few edges, skewed
// degrees, an odd number of nodes, a knowledge graph that its entities make large.
var graphs = []graph{
	{name: "cora", tests: 758, ingest: []string{"--undirected"}},
	{name: "facebook-pages", tests: 5_618, ingest: []string{"--undirected"}},
	{name: "debdeps", tests: 17_700, ingest: []string{"--undirected"}, train: []string{"--epochs", "15"}},
	{name: "debhet", tests: 12_439, train: []string{"--epochs", "8"}},
	{name: "wn18rr", tests: 3_134, train: []string{"--epochs", "8"}},
	{name: "fb15k-237", tests: 20_466, train: []string{"--epochs", "4"}},
	{name: "widest", tests: 660, generate: []string{"sbm", "--nodes", "3327", "--edges", "9104", "--features", "3703", "--classes", "6"}},
	{name: "sparse", tests: 20_000, generate: []string{"sbm", "--nodes", "200001", "--edges", "400000", "--features", "32", "--classes", "8"}, train: []string{"--epochs", "3"}},
	{name: "skewed", tests: 4_000, generate: []string{"sbm", "--nodes", "40001", "--edges", "1200000", "--features", "64", "--classes", "16", "--skew", "3"}, train: []string{"--epochs", "5"}},
	{name: "entities", tests: 20_000, generate: []string{"kg", "--nodes", "60001", "--edges", "400000", "--relations", "11"}, train: []string{"--epochs", "4"}},
}

// input is the folder that the graph is ingested from.
func (g graph) input(datasets, dir string) string {
	if g.generate == nil {
		return filepath.Join(datasets, g.name)
	}
	return filepath.Join(dir, "input")
}
