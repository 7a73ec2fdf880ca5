package eval

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/store"
)

// Vectors are learned vectors of nodes that are no parameters of the model: rows of a table of some nodes ([nn.Config].Vectors).
type Vectors struct {
	Of *vectors.Of // whose they are
	// Read returns those of a partition, in the order of the nodes that have one, [nn.Config].Hidden little-endian float32s each, valid
	// until the next call; in memory of ReadBytes, counted by Options.MemoryBytes.
	Read      Embeddings
	ReadBytes int64
}

// checkVectors says whether the model's vectors can be read.
func (o *Options) checkVectors(m *store.Manifest) error {
	switch {
	case o.Model.Vectors != (o.Vectors != nil):
		return fmt.Errorf("evaluation: %w: the model reads learned vectors beside its parameters: %v, there are some: %v", store.ErrInvalid, o.Model.Vectors, o.Vectors != nil)
	case o.Vectors == nil:
		return nil
	case len(o.Vectors.Of.Rows) != len(m.Partitions) || !slices.Contains(o.Features, store.TypeColumn):
		return fmt.Errorf("evaluation: %w: learned vectors in %d partitions, features %q: expected %d, and column %s, which says whose they are", store.ErrInvalid, len(o.Vectors.Of.Rows), o.Features, len(m.Partitions), store.TypeColumn)
	}
	return nil
}

// vectorBytes is what vectors take of tile t whose nodes are in memory by so many at a time (0: all): with their places.
func (o *Options) vectorBytes(t Tile, piece uint64) int64 {
	if o.Vectors == nil {
		return 0
	}
	of := o.Vectors.Of
	n := of.Nodes(t.Lo, t.Hi)
	if piece > 0 {
		n = min(n, max(piece, slices.Max(of.Rows[t.Lo:t.Hi])))
	}
	return int64(n)*(4*int64(o.Model.Hidden)+8) + o.Vectors.ReadBytes
}

// loadVectors reads the learned vectors of a tile whose features are loaded. The table's memory is left to the caller, r.vectors.
func (r *evaluation) loadVectors(ctx context.Context, t Tile) (v nn.Vectors, err error) {
	x := r.o.Vectors
	if x == nil {
		return v, nil
	}
	dim := r.o.Model.Hidden
	if r.vectorsOf != t {
		r.vectorsOf = Tile{}
		r.rows, r.at = r.rows[:0], r.at[:0]
		types := r.features[slices.IndexFunc(r.columns, func(c *store.ColumnInfo) bool { return c.Name == store.TypeColumn })].Bytes()
		n := x.Of.Nodes(t.Lo, t.Hi)
		r.rows, r.at = slices.Grow(r.rows, int(n)), x.Of.Places(slices.Grow(r.at, int(n)), types[:4*t.Nodes])
		for i := range r.at {
			r.rows = append(r.rows, uint32(i))
		}
		if uint64(len(r.at)) != n {
			return v, fmt.Errorf("evaluation: %w: %d nodes of partitions %d to %d have learned vectors, their table has %d", store.ErrCorrupt, len(r.at), t.Lo, t.Hi-1, n)
		}
		if err := spill.Grow(&r.vectors, max(int64(n)*4*int64(dim), 1)); err != nil {
			return v, err
		}
		to := r.vectors.Bytes()
		for p := t.Lo; p < t.Hi; p++ {
			if x.Of.Rows[p] == 0 {
				continue
			}
			b, err := x.Read(ctx, store.PartitionID(p))
			if err != nil {
				return v, err
			}
			to = to[copy(to, b):]
			r.Evaluator.read += blocks.AlignUp(int64(len(b)))
		}
		r.vectorsOf = t
	}
	v = nn.Vectors{Table: gpu.Tensor{Rows: len(r.at), Cols: dim, Stride: dim, Elem: blocks.Float32}, Rows: r.rows, At: r.at}
	return v, nil
}

// dropVectors gives a tile's vectors up.
func (e *Evaluator) dropVectors() error {
	s := e.vectors
	e.vectors, e.vectorsOf = nil, Tile{}
	return s.Free()
}
