package mini

import (
	"fmt"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// labor gives every node one random number a batch and hop, by the node's key, and a node takes the neighbours with the
// smallest ones: of its own list a uniform sample without replacement, since the numbers are independent and equal in
// law, while lists that overlap choose the same nodes. Edges from one node to another share its number; of equals
// the first come first.
type labor struct{ heap smallest }

// check implements drawer.
func (d *labor) check(g *Graph) error {
	if len(g.Keys) < len(g.In.Spans) {
		return fmt.Errorf("sampler %s: the macro-batch has no keys of nodes", Labor)
	}
	return nil
}

// draw implements drawer.
func (d *labor) draw(place keyed.Key, g *Graph, a *buffer.Adjacency, lists []list) {
	h := &d.heap
	for i := range lists {
		l := &lists[i]
		h.begin(l.out)
		for k, row := range a.Indices[l.span.Begin:l.span.End] {
			lot := float64(place.At(uint64(g.Keys[row]))>>11) * 0x1p-53
			if !h.full() || lot < h.worst() {
				h.offer(lot, l.span.Begin+int64(k))
			}
		}
	}
}
