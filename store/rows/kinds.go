package rows

import (
	"slices"

	"github.com/gstore/gstore/store"
)

// kinds are the node types of a store whose columns have rows of one type alone: a slot of the cache is for rows of one type, and has
// room for that type's columns. Slots of a type follow each other:
//
//	slot            0 … first[1]−1    first[1] …    …
//	rows of type    0                 1             …
//
// and its columns have a row of zeros, then those of its slots ([buffer.Runs]).
type kinds struct {
	nodes  []int   // by type
	least  []int   // of each, most rows of a mini-batch
	own    []int64 // bytes of a row of the columns that are the type's own
	shared int64   // and of those that all nodes have
	order  []int   // types by own, ascending
}

// kinds returns them; nil where rows are not told apart: nobody asked ([buffer.Options].Runs), the columns are of all nodes, or packed
// batches lie in a file as their slots do.
func (o *Options) kinds(m *store.Manifest) *kinds {
	types := m.Schema.NodeTypes
	if !o.Runs || o.Packed || len(types) < 2 || len(types) > 256 || slices.ContainsFunc(m.Partitions, func(p store.PartitionInfo) bool { return p.Types == nil }) {
		return nil
	}
	k := &kinds{own: make([]int64, len(types))}
	some := false
	for _, name := range o.Features {
		c, err := m.Column(name)
		if err != nil {
			return nil // who reads it says so
		}
		if t := kindOf(m, c); t >= 0 {
			k.own[t] += int64(c.RowBytes())
			some = true
		} else {
			k.shared += int64(c.RowBytes())
		}
	}
	if !some {
		return nil
	}
	for t := range types {
		k.nodes, k.order = append(k.nodes, int(types[t].Count)), append(k.order, t)
		least := min(o.BatchRows, k.nodes[t])
		if o.KindRows != nil {
			least = min(least, o.KindRows[t])
		}
		k.least = append(k.least, least)
	}
	slices.SortStableFunc(k.order, func(a, b int) int { return int(k.own[a] - k.own[b]) })
	return k
}

// kindOf is the number of the type whose rows alone a column has; −1: it has all nodes'.
func kindOf(m *store.Manifest, c *store.ColumnInfo) int {
	if !c.Runs || c.NodeType == "" {
		return -1
	}
	return slices.IndexFunc(m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == c.NodeType })
}

// divide gives each type of so many slots what a mini-batch needs, and of the others the types of the smallest rows first all that
// they have nodes: reading a row costs a request, of whatever size.
func (k *kinds) divide(slots int) []int {
	of := slices.Clone(k.least)
	slots -= sum(of)
	for _, t := range k.order {
		more := min(slots, k.nodes[t]-of[t])
		of[t] += more
		slots -= more
	}
	return of
}

// bytes is what columns of so many slots of each type take.
func (k *kinds) bytes(slots []int) int64 {
	n := k.shared * int64(sum(slots))
	for t, rows := range slots {
		n += k.own[t] * int64(rows+1)
	}
	return n
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// fillKinds writes the type of each node.
func fillKinds(m *store.Manifest, to []uint8) {
	for i := range m.Partitions {
		for t, n := range m.Partitions[i].Types {
			for k := range to[:n] {
				to[k] = uint8(t)
			}
			to = to[n:]
		}
	}
}
