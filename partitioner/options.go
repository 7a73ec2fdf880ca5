package partitioner

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/partitioner/graph"
)

// Method names a partitioner as flags do: "random", "range", "fennel",
// "gap", "hdr" or "file:PATH".
type Method string

// The methods.
const (
	MethodRandom Method = "random"
	MethodRange  Method = "range"
	MethodFennel Method = "fennel"
	MethodGAP    Method = "gap"
	MethodHDR    Method = "hdr"
	methodFile          = "file:"
)

// MethodNames lists the methods as flags name them; the last one is followed by a path.
func MethodNames() []string {
	return []string{string(MethodRandom), string(MethodRange), string(MethodFennel), string(MethodGAP), string(MethodHDR), methodFile}
}

// ParseMethod checks a method's name; "" is random.
func ParseMethod(name string) (Method, error) {
	switch m := Method(name); m {
	case "":
		return MethodRandom, nil
	case MethodRandom, MethodRange, MethodFennel, MethodGAP, MethodHDR:
		return m, nil
	default:
		if path, ok := m.File(); ok && path != "" {
			return m, nil
		}
		return "", fmt.Errorf("%w: unknown partitioner %q (known: %sPATH)", ErrOption, name,
			strings.Join(MethodNames(), ", "))
	}
}

// File returns the path of a "file:PATH" method.
func (m Method) File() (path string, ok bool) { return strings.CutPrefix(string(m), methodFile) }

// NeedsGraph reports whether the method reads the graph: [Partition] may be
// given a nil graph otherwise, with Options.Nodes set.
func (m Method) NeedsGraph() bool {
	switch m {
	case MethodFennel, MethodGAP, MethodHDR:
		return true
	}
	return false
}

// Defaults of Options.
const (
	DefaultPasses      = 8
	DefaultLevelPasses = 18
	DefaultSlack       = 0.03
	DefaultHDRFraction = 0.01
)

// Options of [Partition]. The zero value of a field means its default.
type Options struct {
	Method     Method // default random
	Partitions int    // without pinned ones; required
	Seed       uint64
	Nodes      uint64 // needed only when the graph is nil

	// Order of visiting nodes where passes are flat, and of gap's groups; default bfs for a graph of random access, else
	// natural, the only one a stream has.
	Order Order
	// Passes is how often fennel, or gap before it balances labels, may read the graph. Default
	// DefaultLevelPasses, or DefaultPasses where it is flat; it ends sooner when little changes.
	Passes int
	// Flat turns off the levels of fennel and gap: each pass places single nodes, as in the paper.
	// It is implied when the graph is a stream, the memory too small for coarser graphs, or Passes fewer than 3.
	Flat bool
	// Threads read lists at a time; they do not change the result. Default GOMAXPROCS.
	Threads int
	// Slack is how far a partition may exceed nodes/partitions, as a share of
	// it. Default DefaultSlack.
	Slack float64
	// Classes are the training nodes' labels for gap, by node: 0 = not a training
	// node, 1+label otherwise. Those that are none are a class of their own
	// (Algorithm 2, line 5).
	Classes []uint16
	// LabelShare is gap's λ: 1 balances each class alone, as published, and is
	// the default, within [LabelBound]; a smaller one gives 1−λ of the weight to plain node balance, for a smaller cut.
	LabelShare float64
	// Initial is refined by fennel and gap instead of starting from nothing; its
	// partitions must be as many. It is not modified.
	Initial *Assignment
	// HubFraction is the share of nodes that hdr pins, by degree (HyDRA's p_r). Default DefaultHDRFraction.
	HubFraction float64
	// MemoryBytes bounds what a method takes besides the graph and Classes;
	// 0 means no bound. Too small a bound is [ErrBudget].
	MemoryBytes int64
	// Progress is called after each pass; nil for none.
	Progress func(Pass)
	// Reading is told within a pass, often and by one goroutine, of how many more nodes it has gone through; nil for none.
	Reading func(nodes int)
}

// Read tells Reading.
func (o *Options) read(nodes int) {
	if o.Reading != nil {
		o.Reading(nodes)
	}
}

// Pass is what one pass over the graph did.
type Pass struct {
	Method  Method
	Pass    int     // from 1
	Level   int     // 0 = single nodes were placed, higher = groups of them, or nodes joined groups
	Cycle   int     // of coarsening and refining, from 1
	Edges   uint64  // edges of the graph, each of which the pass met
	Moved   uint64  // nodes that changed partition
	CutRate float64 // share of edges between partitions, as nodes saw them when they were placed; −1 = not counted
	Largest float64 // largest partition / average; 0 while groups grow
}

// Partition assigns every node of g by the method of o. The graph is read as
// often as there are passes; it may be nil for methods that need none.
func Partition(ctx context.Context, g graph.Graph, o Options) (Assigner, error) {
	method, err := ParseMethod(string(o.Method))
	if err != nil {
		return nil, err
	}
	nodes := o.Nodes
	if g != nil {
		nodes = g.Nodes()
	} else if method.NeedsGraph() {
		return nil, fmt.Errorf("%w: partitioner %s reads the graph, and there is none", ErrOption, method)
	}
	if path, ok := method.File(); ok {
		return ReadFile(path, nodes, o.Partitions)
	}
	switch method {
	case MethodRandom:
		return NewRandom(nodes, o.Partitions, o.Seed)
	case MethodRange:
		return NewRange(nodes, o.Partitions)
	}
	if o, err = o.resolve(g); err != nil {
		return nil, err
	}
	if method == MethodHDR {
		return hdr(ctx, g, o)
	}
	return restream(ctx, g, o)
}

// resolve checks o for a method that reads the graph, and puts the defaults in.
func (o Options) resolve(g graph.Graph) (Options, error) {
	nodes := g.Nodes()
	if _, err := newEven(nodes, o.Partitions); err != nil {
		return o, err
	}
	_, random := g.(graph.RandomAccess)
	order, err := ParseOrder(string(o.Order))
	if err != nil {
		return o, err
	}
	if order == "" {
		order = OrderNatural
		if random {
			order = OrderBFS
		}
	}
	if order != OrderNatural && !random {
		return o, fmt.Errorf("%w: order %s needs the graph in memory; a stream has order natural", ErrOption, order)
	}
	o.Order = order
	for _, f := range []struct {
		name    string
		v       *float64
		value   float64
		lo, top float64
	}{
		{"slack", &o.Slack, DefaultSlack, 0, 1},
		{"label share", &o.LabelShare, 1, 0, 1},
		{"hub fraction", &o.HubFraction, DefaultHDRFraction, 0, 0.5},
	} {
		if *f.v == 0 {
			*f.v = f.value
		}
		if !(*f.v > f.lo && *f.v <= f.top) {
			return o, fmt.Errorf("%w: %s %g, expected more than %g and at most %g", ErrOption, f.name, *f.v, f.lo, f.top)
		}
	}
	if o.Passes < 0 || o.Threads < 0 {
		return o, fmt.Errorf("%w: %d passes, %d threads", ErrOption, o.Passes, o.Threads)
	}
	if o.Method == MethodGAP && uint64(len(o.Classes)) != nodes {
		return o, fmt.Errorf("%w: gap needs the class of each of %d nodes, got %d", ErrOption, nodes, len(o.Classes))
	}
	if a := o.Initial; a != nil && (a.Nodes() != nodes || a.Partitions() != o.Partitions) {
		return o, fmt.Errorf("%w: the initial assignment has %d nodes and %d partitions, expected %d and %d",
			ErrOption, a.Nodes(), a.Partitions(), nodes, o.Partitions)
	}
	return o, nil
}

// Need is what a method takes in memory besides the graph and Options.Classes, in bytes.
type Need struct {
	// Array goes with a graph of random access, beside what coarser graphs take, 8 bytes an edge as a rule; Stream with one that is not: fennel and gap
	// then place single nodes in natural order.
	Array, Stream int64
}

// Of is what n says of a graph.
func (n Need) Of(g graph.Graph) int64 {
	if _, random := g.(graph.RandomAccess); random {
		return n.Array
	}
	return n.Stream
}

// Need returns the memory that o's method takes for a graph of so many nodes. o.Classes counts for gap.
func (o Options) Need(nodes uint64) Need {
	n := int64(nodes)
	var need Need
	switch o.Method {
	case MethodFennel, MethodGAP:
		labels := 1
		if o.Method == MethodGAP {
			labels = len(classCounts(o.Classes))
		}
		need.Stream = 4*n + streamerBytes(o.Partitions, labels)
		need.Array = need.Stream + multilevelNodeBytes*n + multilevelBytes
		if o.Method == MethodGAP {
			need.Array = need.Stream + hierarchyNodeBytes*n + hierarchyBytes
		}
	case MethodHDR:
		need.Stream = 8*n + selectBytes + 16*int64(o.Partitions)
		need.Array = need.Stream
	default:
		if _, ok := o.Method.File(); ok {
			need = Need{Array: 4 * n, Stream: 4 * n}
		}
	}
	return need
}

// Limit is the most nodes a partition may have.
func (o *Options) limit(nodes uint64) uint32 {
	return uint32(min(math.Ceil((1+o.Slack)*float64(nodes)/float64(o.Partitions)), math.MaxUint32))
}

func newPart(nodes uint64, o *Options) []blocks.PartitionID {
	part := make([]blocks.PartitionID, nodes)
	blockio.AdviseHuge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(part))), 4*len(part))) // it is read at random
	if o.Initial != nil {
		copy(part, o.Initial.part)
		return part
	}
	for v := range part {
		part[v] = blocks.PartitionID(o.Partitions)
	}
	return part
}
