package eval

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
)

// Permuted is a source whose nodes have each other's values of a feature, and of what was precomputed of it: what a model loses by that is
// what the feature tells it (permutation importance; Breiman, 2001, "Random Forests", section 10).
//
// A partition's nodes get values of another one's, which is drawn, so that one more column of one partition is in memory, and a feature
// that is the same within a partition is exchanged too. Where a type's nodes lie in one partition alone, they exchange them there.
type Permuted struct {
	Source
	Column  string
	Element int // of the column's rows; −1: all
	Seed    uint64

	mu    sync.Mutex // a piece is read ahead while another is computed with
	other []byte
}

// Bytes is what of memory a permuted column takes beside its source.
func (s *Permuted) Bytes(m *store.Manifest) int64 {
	c, err := m.Column(s.Column)
	if err != nil {
		return 0
	}
	most := uint64(0)
	for _, p := range m.Partitions {
		most = max(most, p.Nodes)
	}
	return int64(most) * int64(c.RowBytes()+4) // of each relation's mean an element more
}

// ReadColumn implements [Source].
func (s *Permuted) ReadColumn(ctx context.Context, name string, p store.PartitionID, dst []byte) ([]byte, error) {
	b, err := s.Source.ReadColumn(ctx, name, p, dst)
	if err != nil || name != s.Column && !strings.HasPrefix(name, s.Column+".") {
		return b, err
	}
	m := s.Manifest()
	c, err := m.Column(name)
	if err != nil || c.Role != store.RoleFeature || name != s.Column && c.Derived == "" {
		return b, err
	}
	own := m.NodeRows(c, p)
	if own.Rows == 0 {
		return b, nil
	}
	key := keyed.New(s.Seed).With(uint64(p)) // the same rows for a feature and what was made of it
	from := s.partner(m, c, p, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.other, err = s.Source.ReadColumn(ctx, name, from, s.other); err != nil {
		return nil, err
	}
	rows := m.NodeRows(c, from)
	lo, hi := 0, c.RowBytes()
	if s.Element >= 0 {
		lo = s.Element * c.Elem.Size()
		hi = lo + c.Elem.Size()
	}
	if hi > c.RowBytes() {
		return nil, fmt.Errorf("%w: element %d of column %s, which has %d", store.ErrInvalid, s.Element, name, c.Dim)
	}
	r := key.Rand(1)
	for k := range own.Rows {
		to, of := int(own.First+k)*c.RowBytes(), int(rows.First+r.Below(rows.Rows))*c.RowBytes()
		copy(b[to+lo:to+hi], s.other[of+lo:of+hi])
	}
	return b, nil
}

// partner is the partition whose rows p's nodes get: another one with some, if there is one.
func (s *Permuted) partner(m *store.Manifest, c *store.ColumnInfo, p store.PartitionID, key keyed.Key) store.PartitionID {
	n := uint64(len(m.Partitions))
	r := key.Rand(0)
	first := r.Below(n)
	for i := range n {
		if q := store.PartitionID((first + i) % n); q != p {
			if rows := m.NodeRows(c, q); rows.Rows > 0 {
				return q
			}
		}
	}
	return p
}
