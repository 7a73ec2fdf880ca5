package partitioner

import (
	"fmt"
	"math/bits"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// Training is a set of training nodes: a bit a node, and every 64 nodes how many came before. It is immutable.
type Training struct {
	nodes, count uint64
	member       []uint64
	before       []uint32 // of each word of member
}

// NewTraining wraps member, whose bit v%64 of word v/64 says whether node v trains; it keeps the slice. That it
// is none of the nodes, or more than half of them, is [ErrOption]: there would be nothing to pin, or little else.
func NewTraining(nodes uint64, member []uint64) (*Training, error) {
	if nodes > MaxNodes || uint64(len(member)) != (nodes+63)/64 {
		return nil, fmt.Errorf("%w: %d words for training nodes among %d nodes, at most %d", ErrOption, len(member), nodes, uint64(MaxNodes))
	}
	t := &Training{nodes: nodes, member: member, before: make([]uint32, len(member))}
	for i, word := range member {
		t.before[i] = uint32(t.count)
		t.count += uint64(bits.OnesCount64(word))
	}
	switch {
	case t.count == 0:
		return nil, fmt.Errorf("%w: there are no training nodes to pin", ErrOption)
	case t.count > nodes/2:
		return nil, fmt.Errorf("%w: %d of %d nodes are training nodes, at most half can be pinned; hubs by influence are fewer", ErrOption, t.count, nodes)
	}
	return t, nil
}

// Count is how many training nodes there are, and Rest how many others.
func (t *Training) Count() uint64 { return t.count }

// Rest is the number of nodes that do not train.
func (t *Training) Rest() uint64 { return t.nodes - t.count }

func (t *Training) has(v uint64) bool { return t.member[v/64]>>(v%64)&1 != 0 }

// rank is the number of training nodes before v ≤ nodes.
func (t *Training) rank(v uint64) uint64 {
	if v == t.nodes {
		return t.count
	}
	return uint64(t.before[v/64]) + uint64(bits.OnesCount64(t.member[v/64]&(1<<(v%64)-1)))
}

// RestEdges are those of edges that join two nodes which do not train, whose ids are counted among such nodes only.
func (t *Training) RestEdges(edges graph.Edges) graph.Edges {
	return func(yield func(src, dst []uint32) error) error {
		var s, d []uint32
		return edges(func(src, dst []uint32) error {
			s, d = s[:0], d[:0]
			for i, u := range src {
				v := dst[i]
				if uint64(u) >= t.nodes || uint64(v) >= t.nodes {
					return fmt.Errorf("%w: edge %d → %d in a graph of %d nodes", ErrOption, u, v, t.nodes)
				}
				if !t.has(uint64(u)) && !t.has(uint64(v)) {
					s, d = append(s, u-uint32(t.rank(uint64(u)))), append(d, v-uint32(t.rank(uint64(v))))
				}
			}
			return yield(s, d)
		})
	}
}

// PlacesRest says, by an [ErrOption], why a method cannot place the nodes that do not train when training nodes are pinned.
func (m Method) PlacesRest() error {
	switch m {
	case MethodGAP:
		return fmt.Errorf("%w: gap balances labels of training nodes, and these are all pinned; fennel places the others", ErrOption)
	case MethodHDR:
		return fmt.Errorf("%w: hdr pins the nodes of highest degree, not training nodes; fennel places the others", ErrOption)
	}
	return nil
}

// PinTraining puts the training nodes, and only these, into pinned partitions, the last ones: by ascending
// id, into as many of one size as it takes for them to be no larger than the others are on average (MariusGNN,
// section 5.2, where they are the first ones). The others lie where loose says, which is of all nodes or, by their ids
// as in [Training.RestEdges], of those that do not train.
func PinTraining(loose Assigner, t *Training) (Assigner, error) {
	if n := loose.Nodes(); n != t.nodes && n != t.Rest() || len(loose.Pinned()) > 0 {
		return nil, fmt.Errorf("%w: %d nodes are assigned to %d partitions, %d pinned, beside %d training nodes of %d", ErrOption, n, loose.Partitions(), len(loose.Pinned()), t.count, t.nodes)
	}
	k := uint64(loose.Partitions())
	pinned := (t.count*k + t.Rest() - 1) / t.Rest()
	if k+pinned > MaxPartitions {
		return nil, fmt.Errorf("%w: %d partitions and %d of training nodes, at most %d are possible", ErrOption, k, pinned, MaxPartitions)
	}
	e, err := newEven(t.count, int(pinned))
	if err != nil {
		return nil, err
	}
	a := &trainingPinned{loose: loose, t: t, even: e}
	for i := range pinned {
		a.pinned = append(a.pinned, blocks.PartitionID(k+i))
	}
	return a, nil
}

// trainingPinned is PinTraining's assignment.
type trainingPinned struct {
	loose  Assigner
	t      *Training
	even   even // of the training nodes over the pinned partitions
	pinned []blocks.PartitionID
}

func (a *trainingPinned) Nodes() uint64                { return a.t.nodes }
func (a *trainingPinned) Partitions() int              { return a.loose.Partitions() + len(a.pinned) }
func (a *trainingPinned) Pinned() []blocks.PartitionID { return a.pinned }

func (a *trainingPinned) Assign(first uint64, dst []blocks.PartitionID) {
	next, end := a.t.rank(first), a.t.rank(first+uint64(len(dst)))
	if a.loose.Nodes() == a.t.nodes {
		a.loose.Assign(first, dst)
		for i := range dst {
			if a.t.has(first + uint64(i)) {
				dst[i] = a.pinned[a.even.of(next)]
				next++
			}
		}
		return
	}
	rest := dst[:uint64(len(dst))-(end-next)] // those that do not train, at the front, go to their places from the back
	a.loose.Assign(first-next, rest)
	for i := len(dst) - 1; i >= 0; i-- {
		if a.t.has(first + uint64(i)) {
			end--
			dst[i] = a.pinned[a.even.of(end)]
		} else {
			dst[i] = rest[len(rest)-1]
			rest = rest[:len(rest)-1]
		}
	}
}
