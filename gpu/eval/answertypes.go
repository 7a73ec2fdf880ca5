package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// AnswerTypes says of which types of nodes answers are, by value of a node column of one uint32: those of tails and those of heads.
type AnswerTypes struct {
	Column       string
	Tails, Heads []bool // by value
}

// Nodes is how many nodes of a store may be tails.
func (a *AnswerTypes) Nodes(m *store.Manifest) uint64 {
	tails, _ := a.Sizes(m)
	return tails
}

// Sizes is how many nodes of a store may be tails, and how many heads: value k is type k−1.
func (a *AnswerTypes) Sizes(m *store.Manifest) (tails, heads uint64) {
	for k, t := range m.Schema.NodeTypes {
		if k+1 < len(a.Tails) && a.Tails[k+1] {
			tails += t.Count
		}
		if k+1 < len(a.Heads) && a.Heads[k+1] {
			heads += t.Count
		}
	}
	return tails, heads
}

// has reports whether a value is a type of answers.
func (a *AnswerTypes) has(heads bool, value uint32) bool {
	of := a.Tails
	if heads {
		of = a.Heads
	}
	return int(value) < len(of) && of[value]
}

// What scores of nodes of other types become: no rank counts the one, no answer is the other.
var (
	notRanked   = float32(math.Inf(-1))
	notAnswered = float32(math.NaN())
)

// kinds returns the types of a tile's candidates, valid until the next call; nil where answers are of any.
func (v *Ranker) kinds(ctx context.Context, among candidates) ([]uint32, error) {
	if v.o.Types == nil || among.t.Nodes == 0 {
		return nil, nil
	}
	if err := spill.Grow(&v.types, 4*int64(among.t.Nodes)); err != nil {
		return nil, err
	}
	at, parts := int64(0), v.st.Manifest().Partitions
	for p := among.t.Lo; p < among.t.Hi; p++ {
		size := 4 * int64(parts[p].Nodes)
		dst := v.types.Bytes()[at : at+size : at+size]
		b, err := v.st.ReadColumn(ctx, v.o.Types.Column, store.PartitionID(p), dst)
		if err != nil {
			return nil, err
		}
		if int64(len(b)) != size {
			return nil, fmt.Errorf("evaluation: column %s of partition %d has %d bytes, expected %d", v.o.Types.Column, p, len(b), size)
		}
		copy(dst, b)
		stored, err := v.st.ColumnBytes(v.o.Types.Column, store.PartitionID(p))
		if err != nil {
			return nil, err
		}
		v.read += stored
		at += size
	}
	kinds, err := blocks.View[uint32](v.types.Bytes()[:at])
	if err != nil {
		return nil, err
	}
	for i, node := range among.some { // ascending: none is overwritten before it is read
		kinds[i] = kinds[uint64(node)-among.t.Base]
	}
	return kinds[:among.len()], nil
}

// leaveOut sets the scores of question q with nodes of other types than its answers', of kinds each, to what counts for nothing.
func (v *Ranker) leaveOut(q question, scores []float32, kinds []uint32, as float32) {
	heads := q.relation >= v.relations
	for k := range scores {
		if !v.o.Types.has(heads, kinds[k]) {
			scores[k] = as
		}
	}
}
