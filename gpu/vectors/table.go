package vectors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// Planes is how many vectors a table has of a node: its own, and Adam's two moments.
const Planes = 3

// checkpoints that a table keeps: the last one, the best one as of that, and the best one since.
const checkpoints = 3

// Of says whose vectors a table has: the nodes of types without features.
type Of struct {
	Types []string // names of the types
	Kinds []bool   // by the value of column [store.TypeColumn]
	Rows  []uint64 // how many nodes of them each partition has
}

// Nodes is how many nodes of partitions lo … hi−1 have a vector.
func (o *Of) Nodes(lo, hi int) (n uint64) {
	for _, rows := range o.Rows[lo:hi] {
		n += rows
	}
	return n
}

// Columns are those that number the nodes of the types.
func (o *Of) Columns() (names []string) {
	for _, t := range o.Types {
		names = append(names, t+store.NodeSuffix)
	}
	return names
}

// Count counts the nodes of types in a store's partitions, by its column of types.
func Count(ctx context.Context, st *store.Store, types []string) (*Of, error) {
	m := st.Manifest()
	o := &Of{Types: types, Kinds: make([]bool, len(m.Schema.NodeTypes)+1)}
	for _, name := range types {
		k := slices.IndexFunc(m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == name })
		if _, ok := m.Category(name + store.NodeSuffix); k < 0 || !ok {
			return nil, fmt.Errorf("learned vectors of node type %q: %w: column %s, which numbers them", name, store.ErrNotFound, name+store.NodeSuffix)
		}
		o.Kinds[k+1] = true
	}
	var b []byte
	for p := range m.Partitions {
		var err error
		if b, err = st.ReadColumn(ctx, store.TypeColumn, store.PartitionID(p), b); err != nil {
			return nil, fmt.Errorf("learned vectors: %w", err)
		}
		n := uint64(0)
		for i := 0; i < len(b); i += 4 {
			if o.has(b, i/4) {
				n++
			}
		}
		o.Rows = append(o.Rows, n)
	}
	return o, nil
}

// has reports whether a node of a column of types has a vector.
func (o *Of) has(types []byte, i int) bool {
	k := binary.LittleEndian.Uint32(types[4*i:])
	return int(k) < len(o.Kinds) && o.Kinds[k]
}

// Places returns the nodes that have a vector among those whose types are given, uint32s, ascending: what they are appended to.
func (o *Of) Places(places []uint32, types []byte) []uint32 {
	for i := range len(types) / 4 {
		if o.has(types, i) {
			places = append(places, uint32(i))
		}
	}
	return places
}

// node is one that has a vector: which one it is of a type.
type node struct{ kind, number uint32 } // number from 0

// reader tells which nodes the rows of a partition are of.
type reader struct {
	of             *Of
	st             *store.Store
	types, numbers []byte
	nodes          []node
	places         []uint32
}

// read returns the nodes of a partition's rows, valid until the next call.
func (r *reader) read(ctx context.Context, p store.PartitionID) (_ []node, err error) {
	if r.types, err = r.st.ReadColumn(ctx, store.TypeColumn, p, r.types); err != nil {
		return nil, err
	}
	r.places = r.of.Places(r.places[:0], r.types)
	r.nodes = slices.Grow(r.nodes[:0], len(r.places))[:len(r.places)]
	for k, t := range r.st.Manifest().Schema.NodeTypes {
		if !r.of.Kinds[k+1] {
			continue
		}
		if r.numbers, err = r.st.ReadColumn(ctx, t.Name+store.NodeSuffix, p, r.numbers); err != nil {
			return nil, err
		}
		for i, at := range r.places {
			if binary.LittleEndian.Uint32(r.types[4*at:]) != uint32(k+1) {
				continue
			}
			n := binary.LittleEndian.Uint32(r.numbers[4*at:])
			if n == 0 || uint64(n) > t.Count {
				return nil, fmt.Errorf("%w: node %d of partition %d is number %d of %d nodes of type %s", store.ErrCorrupt, at, p, n, t.Count, t.Name)
			}
			r.nodes[i] = node{kind: uint32(k), number: n - 1}
		}
	}
	return r.nodes, nil
}

// Options are those of a new table.
type Options struct {
	Name  string // of the table
	Dim   int    // columns of a vector
	Seed  uint64
	Scale float32 // first values are uniform in ±Scale
	// Replace takes the place of a table of that name; else it is [store.ErrExists].
	Replace bool
}

// placeVectors is the place of the random draws of first values (see keyed).
const placeVectors = 0x76656374 // "vect"

// Create makes a table of new vectors.
func Create(ctx context.Context, st *store.Store, of *Of, o Options) (*table.Table, error) {
	var keys []keyed.Key // by type
	for _, t := range st.Manifest().Schema.NodeTypes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.Name))
		keys = append(keys, keyed.New(o.Seed).With(placeVectors).With(h.Sum64()))
	}
	r := &reader{of: of, st: st}
	at, nodes := -1, []node(nil) // the partition that r read last
	init := func(p store.PartitionID, first uint64, rows []float32) (err error) {
		if at != int(p) {
			if nodes, err = r.read(ctx, p); err != nil {
				return err
			}
			at = int(p)
		}
		for _, n := range nodes[first:] {
			if len(rows) == 0 {
				break
			}
			draw := keys[n.kind].Rand(uint64(n.number))
			for j := range o.Dim {
				rows[j] = o.Scale * float32(2*draw.Float64()-1)
			}
			rows = rows[o.Dim:]
		}
		return nil
	}
	return table.Create(ctx, st, table.Options{Name: o.Name, Dim: o.Dim, States: Planes - 1, Keep: checkpoints, Replace: o.Replace,
		Some: &table.Some{Rows: of.Rows, Init: init}})
}

// Parameters returns the vectors of each type as the parameters that models in memory have: a row of 0, then one a node in the order
// of their numbers, little-endian float32s. They are read from t as it is open.
func Parameters(ctx context.Context, st *store.Store, of *Of, t *table.Table) (_ [][]byte, err error) {
	m, row := st.Manifest(), 4*t.Dim()
	byKind := make([][]byte, len(m.Schema.NodeTypes))
	var all [][]byte
	for _, name := range of.Types {
		k := slices.IndexFunc(m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == name })
		byKind[k] = make([]byte, (m.Schema.NodeTypes[k].Count+1)*uint64(row))
		all = append(all, byKind[k])
	}
	r, rows := &reader{of: of, st: st}, table.NewReader(t)
	defer func() { err = errors.Join(err, rows.Close()) }()
	for p := range m.Partitions {
		nodes, err := r.read(ctx, store.PartitionID(p))
		if err != nil {
			return nil, err
		}
		if len(nodes) == 0 {
			continue
		}
		b, err := rows.Read(ctx, store.PartitionID(p))
		if err != nil {
			return nil, err
		}
		if len(b) != len(nodes)*row {
			return nil, &blocks.CorruptError{Path: t.Path(), Extent: fmt.Sprintf("partition %d", p), Offset: -1, Reason: fmt.Sprintf("%d bytes of vectors, expected %d rows of %d", len(b), len(nodes), row)}
		}
		for i, n := range nodes {
			copy(byKind[n.kind][(int(n.number)+1)*row:][:row], b[i*row:])
		}
	}
	return all, nil
}
