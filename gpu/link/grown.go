package link

import (
	"context"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// rows says what rows the table of a run of c on st begins with: nodes that the model has keep theirs. One that came since begins with
// what its edges to these ask for: of a decoder the vector that scores well with their queries, of an encoder their mean; without such
// edges, or where the store was partitioned anew, as in a new run.
func (b *Begin) rows(st *store.Store, c *Config) (*table.From, error) {
	g := &grown{was: b.was, st: st, from: b.table, dim: c.Dim, of: -1, scale: 1, random: InitRows(c.Seed, c.Dim, embeddingScale)}
	old := b.was.Manifest()
	g.kept = sameNodes(old, st.Manifest())
	var err error
	if g.only, err = c.predicted(st.Manifest()); err != nil {
		return nil, err
	}
	if c.Encoder == noEncoder {
		g.scale = beginScale
		if g.decoder, err = nn.NewDecoder(c.Model, c.Dim); err != nil {
			return nil, err
		}
		model, err := b.Config.LinkModel(old)
		if err != nil {
			return nil, err
		}
		if g.relations, err = model.RelationVectors(b.state); err != nil {
			return nil, err
		}
	}
	return &table.From{Table: b.table, Scale: g.scale, State: b.keepsState(c), Rows: g.rows, Init: g.init}, nil
}

// grown finds the rows that a larger table begins with.
type grown struct {
	was, st   *store.Store
	from      *table.Table // of was
	dim       int
	scale     float32           // of rows that were has
	kept      bool              // nodes that was has are numbered in st as they were
	only      *store.RelationID // whose edges ask; nil: of all
	decoder   *nn.Decoder       // nil with an encoder
	relations []float32         // [2·relations of was × dim]; nil without
	random    func(first store.NodeID, rows []float32)
	ids       []byte // external ones, of a partition

	of      int       // the partition that the following are of
	sums    []float32 // [nodes × dim] of what edges ask for
	count   []int     // of these edges
	squares []float64 // of the numbers of their known ends' rows
}

// sameNodes reports whether the nodes of an older version have the numbers that they had: appending keeps them, partitioning anew does not.
func sameNodes(was, is *store.Manifest) bool {
	n, files := len(was.Partitions), len(was.IDs.External)
	return n <= len(is.Partitions) && files <= len(is.IDs.External) && slices.Equal(was.IDs.External, is.IDs.External[:files]) &&
		slices.EqualFunc(was.Partitions, is.Partitions[:n], func(a, b store.PartitionInfo) bool { return a.First == b.First && a.Nodes == b.Nodes })
}

// rows is the Rows of [table.From].
func (g *grown) rows(ctx context.Context, p store.PartitionID, old []store.NodeID) error {
	if g.kept {
		first, nodes := g.st.Manifest().Partitions[p].First, g.was.Manifest().Nodes
		for i := range old {
			if old[i] = first + store.NodeID(i); uint64(old[i]) >= nodes {
				old[i] = store.NoNode
			}
		}
		return nil
	}
	x, ids, err := g.st.ReadExternal(ctx, p, g.ids)
	if err != nil {
		return err
	}
	g.ids = ids
	if x.Ints != nil {
		return g.was.LookupInts(ctx, x.Ints, old)
	}
	names := make([]string, x.Len())
	for i := range names {
		names[i] = string(x.Strings.At(i))
	}
	return g.was.LookupStrings(ctx, names, old)
}

// init is the Init of [table.From].
func (g *grown) init(ctx context.Context, p store.PartitionID, row uint64, rows []float32) error {
	g.random(g.st.Manifest().Partitions[p].First+store.NodeID(row), rows)
	if !g.kept {
		return nil
	}
	if g.of != int(p) {
		if err := g.ask(ctx, p); err != nil {
			return err
		}
	}
	for i := range len(rows) / g.dim {
		k := int(row) + i
		if n := g.count[k]; n > 0 {
			x := rows[i*g.dim:][:g.dim]
			copy(x, g.sums[k*g.dim:])
			if g.decoder != nil {
				g.decoder.Answer(x, n, g.squares[k]/float64(n))
				continue
			}
			for j := range x {
				x[j] /= float32(n)
			}
		}
	}
	return nil
}

// ask adds up what the edges of partition p's nodes to nodes of was ask for.
func (g *grown) ask(ctx context.Context, p store.PartitionID) error {
	m, old := g.st.Manifest(), g.was.Manifest()
	info := m.Partitions[p]
	n := int(info.Nodes)
	g.of, g.sums, g.count, g.squares = int(p), make([]float32, n*g.dim), make([]int, n), make([]float64, n)
	room := blocks.Bytes(make([]float32, g.dim))
	known, err := blocks.View[float32](room)
	if err != nil {
		return err
	}
	// edge counts one of a node whose other end is known; relation is a row of the relations' vectors.
	edge := func(node, end uint32, relation int) error {
		k := int(node) - int(info.First)
		if k < 0 || k >= n || uint64(end) >= old.Nodes {
			return nil
		}
		q, err := old.Partition(store.NodeID(end))
		if err != nil {
			return err
		}
		if err := g.from.ReadRows(ctx, q, uint64(end)-uint64(old.Partitions[q].First), room); err != nil {
			return err
		}
		sum, r := g.sums[k*g.dim:][:g.dim], []float32(nil)
		if g.relations != nil {
			r = g.relations[relation*g.dim:][:g.dim]
		}
		g.count[k]++
		for j := range known {
			known[j] *= g.scale
			x := known[j]
			g.squares[k] += float64(x) * float64(x)
			if g.decoder == nil {
				sum[j] += x
			}
		}
		if g.decoder != nil {
			g.decoder.Ask(sum, known, r)
		}
		return nil
	}
	relations := len(old.Schema.Relations)
	return eachEdge(ctx, g.st, int(p), int(p)+1, func(dst, src uint32, relation uint16) error {
		if r := int(relation); g.decoder != nil && (r >= relations || g.only != nil && store.RelationID(r) != *g.only) {
			return nil // of which it has learned nothing
		}
		if err := edge(dst, src, int(relation)); err != nil {
			return err
		}
		return edge(src, dst, relations+int(relation))
	})
}
