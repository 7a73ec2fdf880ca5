// Package generate makes synthetic graphs of any size: R-MAT, stochastic block
// models with features and labels that depend on neighbours, and knowledge graphs with
// structure to learn.
//
// A generator is a function: edge e, node v's features and its label can be
// asked for in any order, by any thread, and depend on the options alone. So a
// graph is streamed in bounded memory, in parallel, and is byte-identical for a
// seed whatever the threads. Nothing is kept per node or edge; ids are scrambled by a keyed
// permutation.
//
//	g, err := generate.NewSBM(generate.SBMOptions{Nodes: 1 << 20, Classes: 16})
//	…
//	err = generate.Write(ctx, "out", g, generate.WriteOptions{})
package generate

import (
	"errors"
	"fmt"
)

// ErrOptions marks options for which no graph exists; the message names the option.
var ErrOptions = errors.New("cannot generate")

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
}

// Info is what is known of a graph before it is generated.
type Info struct {
	Kind      string `json:"kind"` // "rmat", "sbm", "kg"
	Nodes     uint64 `json:"nodes"`
	Edges     uint64 `json:"edges"`     // kg: training triples
	Relations int    `json:"relations"` // 1 unless kg
	Dim       int    `json:"features"`  // per node; 0 = no features
	Classes   int    `json:"classes"`   // 0 = no labels
	Seed      uint64 `json:"seed"`
}

// Graph is a node-labelled graph. Its methods may be called concurrently.
type Graph interface {
	Info() Info
	// Edges fills in edges first … first+len(src)−1; len(dst) = len(src).
	Edges(first uint64, src, dst []uint64)
	// Features fills in whole rows, Dim values a node, from node first on.
	Features(first uint64, rows []float32)
	// Labels fills in the classes of nodes from first on.
	Labels(first uint64, labels []int64)
	// Split returns entry i of the order in which nodes are dealt to train,
	// valid and test: a permutation of the nodes.
	Split(i uint64) uint64
}

// Triple is one fact of a knowledge graph.
type Triple struct{ Head, Relation, Tail uint64 }

// Keys of what is drawn; part of what a seed means.
const (
	keyIDs = iota
	keyEdges
	keyFeatures
	keyMeans
	keySplit
	keySlots
	keyRelations
)
