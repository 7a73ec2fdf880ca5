package buffer

import (
	"fmt"

	"github.com/gstore/gstore/store"
)

// Begin and End are around two passes over edges that make an adjacency of Starts, Bases and Indices long enough: the first
// counts each row's edges in Starts; Begin turns them into where the rows begin, and cuts Indices, Relations and Weights to what
// there is; the second gives every edge to Put; End. More edges than Indices has room for are [store.ErrCorrupt].
func (a *Adjacency) Begin() error {
	at := int64(0)
	for v, degree := range a.Starts {
		if v&0xffff == 0 {
			a.Bases[v>>16] = at
		}
		first := at - a.Bases[v>>16]
		if first >= 1<<32 {
			return fmt.Errorf("%w: over 2^32 edges of 65536 nodes", store.ErrInvalid)
		}
		a.Starts[v] = uint32(first)
		if v+1 < len(a.Starts) {
			at += int64(degree)
		}
	}
	if at > int64(len(a.Indices)) {
		return fmt.Errorf("%w: the topology has %d edges, the manifest counts %d", store.ErrCorrupt, at, len(a.Indices))
	}
	a.Indices = a.Indices[:at]
	if a.Relations != nil {
		a.Relations = a.Relations[:at]
	}
	if a.Weights != nil {
		a.Weights = a.Weights[:at]
	}
	return nil
}

// Put adds a neighbour to a row, after those it has; see [Adjacency.Begin].
func (a *Adjacency) Put(row, neighbour uint32, relation uint16, weight float32) {
	at := a.Bases[row>>16] + int64(a.Starts[row])
	a.Indices[at] = neighbour
	if a.Relations != nil {
		a.Relations[at] = relation
	}
	if a.Weights != nil {
		a.Weights[at] = weight
	}
	a.Starts[row]++
}

// End makes Starts say where rows begin again: where the next neighbour of a row would go is where the next row begins.
func (a *Adjacency) End() {
	for v := len(a.Starts) - 1; v >= 0; v-- {
		if v&0xffff == 0 {
			a.Starts[v] = 0
		} else {
			a.Starts[v] = a.Starts[v-1]
		}
	}
}
