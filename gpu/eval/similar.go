package eval

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// Similar finds the nodes whose rows of values are most similar to a node's. It is for one goroutine.
type Similar struct {
	*Finder
	model  *nn.LinkModel
	ranker *Ranker
	buf    *blockio.Slab
}

// OpenSimilar opens a finder by the rows of values, float32, of which kind is Dot or Cosine; o's Model is set here. Values, store and
// device stay the caller's.
func OpenSimilar(ctx context.Context, st *store.Store, dev gpu.Device, values *NodeValues, kind string, o RankerOptions) (_ *Similar, err error) {
	s := &Similar{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if o.MemoryBytes > 0 && values.table.Memory() == 0 {
		o.MemoryBytes = max(1, o.MemoryBytes-largestRows(st, values.Dim))
	}
	o.Model = nn.LinkConfig{Decoder: nn.Dot, Encoder: "none", Dim: values.Dim, Relations: 1}
	if s.ranker, err = NewRanker(st, dev, o); err != nil {
		return nil, err
	}
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return nil, err
	}
	if s.model, err = nn.NewLink(ctx, q, o.Model); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	s.Finder, err = s.ranker.Find(ctx, q, s.model, func(_ context.Context, p store.PartitionID) ([]byte, error) {
		info := values.parts[p]
		return values.table.Rows(&s.buf, uint64(info.First), int(info.Nodes))
	}, FinderOptions{Kind: kind})
	if err != nil {
		err = errors.Join(err, q.Close())
	}
	return s, err
}

// SimilarBytes is the least [RankerOptions].MemoryBytes for rows of dim numbers and top answers.
func SimilarBytes(st *store.Store, dim, top int) (int64, error) {
	v, err := NewRanker(st, nil, RankerOptions{Model: nn.LinkConfig{Decoder: nn.Dot, Encoder: "none", Dim: dim, Relations: 1}, Top: top})
	if err != nil {
		return 0, err
	}
	return v.LeastBytes() + largestRows(st, dim), v.Close()
}

// largestRows is the size of the largest partition's rows.
func largestRows(st *store.Store, dim int) (most int64) {
	for _, p := range st.Manifest().Partitions {
		most = max(most, 4*int64(dim)*int64(p.Nodes))
	}
	return most
}

// Close frees the finder's memory.
func (s *Similar) Close() (err error) {
	if s.Finder != nil {
		s.Finder.Close()
		err = s.q.Close()
	}
	if s.ranker != nil {
		err = errors.Join(err, s.ranker.Close())
	}
	if s.model != nil {
		err = errors.Join(err, s.model.Close())
	}
	err = errors.Join(err, s.buf.Free())
	*s = Similar{}
	return err
}
