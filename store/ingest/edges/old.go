package edges

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Old reads the stripes that edges are merged into, bucket by bucket.
type Old struct {
	ctx        context.Context
	stripes    *store.StripeReader
	partitions int
	next       func() (*store.BucketPart, error, bool)
	stop       func()
	head       *store.BucketPart // not yet written; nil = the stripe has no more
	limit      int64             // bytes that merging a bucket may take
	equal      Equal
}

// Equal says what becomes of stored edges that equal new ones, in ends and in relation.
type Equal int

// The kinds of [Equal].
const (
	EqualStay    Equal = iota // they stay, and the rule for duplicates says whether the new ones come beside them
	EqualReplace              // they go, and the new ones come
	EqualDelete               // they go, and no new one comes
)

// NewOld reads the store that edges with rules are appended to, or taken from.
func NewOld(ctx context.Context, s *store.Store, rules Rules, equal Equal, memory int64) *Old {
	m := s.Manifest()
	var columns []*store.ColumnInfo
	if rules.Relations > 0 {
		columns = append(columns, m.ColumnsOf(store.RoleRelation)[0])
	}
	for _, spec := range rules.Columns {
		for i := range m.Columns {
			if m.Columns[i].Name == spec.Name {
				columns = append(columns, &m.Columns[i])
			}
		}
	}
	return &Old{ctx: ctx, stripes: s.ReadStripes(columns, min(memory, 64<<20), 2*memory), partitions: len(m.Partitions), limit: 2 * memory, equal: equal}
}

// errStopped ends the reading of a stripe that nobody wants any more.
var errStopped = errors.New("stopped")

// begin starts reading stripe j; a new partition's has nothing.
func (o *Old) begin(j int) error {
	o.end()
	if j >= o.partitions {
		return nil
	}
	o.next, o.stop = iter.Pull2(func(yield func(*store.BucketPart, error) bool) {
		err := o.stripes.Stripe(o.ctx, store.PartitionID(j), 0, o.partitions, func(b *store.BucketPart) error {
			if !yield(b, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
	return o.advance()
}

// advance moves to the stripe's next bucket.
func (o *Old) advance() error {
	b, err, ok := o.next()
	o.head = nil
	if err != nil {
		return err
	}
	if ok {
		o.head = b
	}
	return nil
}

func (o *Old) end() {
	if o.stop != nil {
		o.stop()
	}
	o.next, o.stop, o.head = nil, nil, nil
}

// Close ends the reading.
func (o *Old) Close() error {
	o.end()
	return o.stripes.Close()
}

// bucketMerge is room for a bucket of old and new edges.
type bucketMerge struct {
	old, keys []uint64
	columns   [][]byte
	widths    []int // bytes of a row of each column
}

// begin empties the bucket, whose columns are like those of n new edges.
func (m *bucketMerge) begin(columns [][]byte, n int) {
	m.keys, m.widths = m.keys[:0], m.widths[:0]
	for len(m.columns) < len(columns) {
		m.columns = append(m.columns, nil)
	}
	for c := range columns {
		m.widths = append(m.widths, len(columns[c])/n)
		m.columns[c] = m.columns[c][:0]
	}
}

// take adds an edge, row i of columns from.
func (m *bucketMerge) take(key uint64, from [][]byte, i int) {
	m.keys = append(m.keys, key)
	for c, n := range m.widths {
		m.columns[c] = append(m.columns[c], from[c][i*n:(i+1)*n]...)
	}
}

// oldKeys decodes an old bucket.
func (m *bucketMerge) oldKeys(b *store.BucketPart) []uint64 {
	m.old = slices.Grow(m.old[:0], b.Edges)
	for d, s := range b.All() {
		m.old = append(m.old, blocks.EdgeKey(d, s))
	}
	return m.old
}

// copyOld writes the open stripe's old buckets from partitions below src.
func (w *edgeWriter) copyOld(src int) error {
	o := w.s.Old
	for o.head != nil && int(o.head.Src) < src {
		if err := o.fits(o.head, 0); err != nil {
			return err
		}
		if err := w.bucket(o.head.Src, w.merged.oldKeys(o.head), o.head.Columns); err != nil {
			return err
		}
		if err := o.advance(); err != nil {
			return err
		}
	}
	return nil
}

// fits checks that merging n edges into a bucket fits the memory.
func (o *Old) fits(b *store.BucketPart, n int) error {
	each := int64(16)
	for _, c := range b.Columns {
		each += int64(len(c)) / int64(max(b.Edges, 1))
	}
	if need := each * int64(b.Edges+n); need > o.limit {
		return fmt.Errorf("%w: merging edge bucket (%d,%d) takes %d MiB, %d are there; use more memory, or more partitions", store.ErrBudget, b.Src, b.Dst, need>>20, o.limit>>20)
	}
	return nil
}
