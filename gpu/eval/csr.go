package eval

import (
	"runtime"
	"slices"
	"sort"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/gpu/spill"
)

// csr is the edges from a source tile to a destination tile, by destination,
// in memory off the Go heap.
type csr struct {
	slab            *blockio.Slab
	indptr, indices []int32
	carried
	unlisted  []int32   // by destination: edges that [between].wants leaves out; nil if it leaves out none
	relations []uint16  // parallel to indices, where they are carried
	weights   []float32 // likewise
	features  []float32 // likewise, columns of them an edge
}

// carried is what every edge of a graph has in memory, as the model reads it. It is the graph's, and so the same for a tile without
// edges, whose slices are empty or nil.
type carried struct {
	hasRelations, hasWeights bool
	columns                  int // floats of features
}

// words is how many words of 4 bytes an edge takes, beside its relation.
func (c carried) words() int {
	n := 1 + c.columns
	if c.hasWeights {
		n++
	}
	return n
}

func (c *csr) free() {
	if c.slab != nil {
		_ = c.slab.Free() // anonymous memory; a failure only leaks it
	}
	*c = csr{}
}

// within returns the edges of c from n sources from position first on, which become position 0: in *slab, until it is used again.
// begins says where those of each destination begin, and is moved behind them.
func (c *csr) within(slab **blockio.Slab, begins []int32, first, n int) (p csr, err error) {
	nodes, stop := len(begins), int32(first+n)
	end := func(d int) int32 {
		own := c.indices[begins[d]:c.indptr[d+1]] // ascending
		k := 0
		for k < len(own) && own[k] < stop { // of most destinations none or one
			if k++; k == withinFew {
				more, _ := slices.BinarySearch(own[k:], stop)
				k += more
				break
			}
		}
		return begins[d] + int32(k)
	}
	// Destinations are shared out in runs: each counts its edges, then writes them behind those of the runs before.
	shares := min(runtime.GOMAXPROCS(0), nodes/withinShare+1)
	share := func(k int) (lo, hi int) { return nodes * k / shares, nodes * (k + 1) / shares }
	counts := make([]int, shares+1)
	each(shares, func(k int) {
		lo, hi := share(k)
		for d := lo; d < hi; d++ {
			counts[k+1] += int(end(d) - begins[d])
		}
	})
	for k := range shares {
		counts[k+1] += counts[k]
	}
	edges := counts[shares]
	// As in build: positions, sources, weights, features, relations.
	words := nodes + 1 + edges*c.words()
	if err := spill.Grow(slab, int64(4*words+2*edges)); err != nil {
		return csr{}, err
	}
	all := asInt32((*slab).Bytes())
	p = csr{indptr: all[:nodes+1], indices: all[nodes+1 : nodes+1+edges], carried: c.carried, unlisted: c.unlisted}
	rest := asFloat32((*slab).Bytes())[nodes+1+edges:]
	if c.hasWeights {
		p.weights, rest = rest[:edges], rest[edges:]
	}
	p.features = rest[:edges*c.columns]
	if c.hasRelations {
		if p.relations, err = blocks.View[uint16]((*slab).Bytes()[4*words : 4*words+2*edges]); err != nil {
			return csr{}, err
		}
	}
	p.indptr[0] = 0
	each(shares, func(k int) {
		at := counts[k]
		dlo, dhi := share(k)
		for d := dlo; d < dhi; d++ {
			lo, hi := begins[d], end(d)
			for i, s := range c.indices[lo:hi] {
				p.indices[at+i] = s - int32(first)
			}
			if c.hasWeights {
				copy(p.weights[at:], c.weights[lo:hi])
			}
			if c.columns > 0 {
				copy(p.features[at*c.columns:], c.features[int(lo)*c.columns:int(hi)*c.columns])
			}
			if c.hasRelations {
				copy(p.relations[at:], c.relations[lo:hi])
			}
			at += int(hi - lo)
			p.indptr[d+1], begins[d] = int32(at), hi
		}
	})
	return p, nil
}

// withinFew is how many sources of a destination are looked at one after another before the rest is searched.
const withinFew = 8

// withinShare is how many destinations are too few for a goroutine of their own.
const withinShare = 1 << 14

// each calls f for 0 ≤ k < n at the same time.
func each(n int, f func(k int)) {
	var wg panics.Group
	for k := range n {
		wg.Go(func() { f(k) })
	}
	wg.Wait()
}

// sortSources puts each destination's edges into the order of their sources, which those that are read along their
// direction have already. Edges of one source and relation carry the same message.
func (c *csr) sortSources() {
	for d := range len(c.indptr) - 1 {
		own := edgesOf{indices: c.indices[c.indptr[d]:c.indptr[d+1]]}
		switch {
		case slices.IsSorted(own.indices):
		case c.carried == carried{}:
			slices.Sort(own.indices)
		default:
			if own.carried = c.carried; c.hasRelations {
				own.relations = c.relations[c.indptr[d]:c.indptr[d+1]]
			}
			if c.hasWeights {
				own.weights = c.weights[c.indptr[d]:c.indptr[d+1]]
			}
			if c.columns > 0 {
				own.features = c.features[int(c.indptr[d])*c.columns : int(c.indptr[d+1])*c.columns]
			}
			sort.Stable(own)
		}
	}
}

// edgesOf are one destination's edges with relations, weights and features, or some of these, to be sorted without memory.
type edgesOf struct {
	carried
	indices           []int32
	relations         []uint16
	weights, features []float32
}

func (e edgesOf) Len() int           { return len(e.indices) }
func (e edgesOf) Less(i, j int) bool { return e.indices[i] < e.indices[j] }
func (e edgesOf) Swap(i, j int) {
	e.indices[i], e.indices[j] = e.indices[j], e.indices[i]
	if e.hasRelations {
		e.relations[i], e.relations[j] = e.relations[j], e.relations[i]
	}
	if e.hasWeights {
		e.weights[i], e.weights[j] = e.weights[j], e.weights[i]
	}
	for k := range e.columns {
		p, q := i*e.columns+k, j*e.columns+k
		e.features[p], e.features[q] = e.features[q], e.features[p]
	}
}

func asInt32(b []byte) []int32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}
