// Package stats describes a store in numbers: how degrees, partitions and
// extents are distributed. Everything is streamed in bounded memory.
package stats

import (
	"context"
	"errors"
	"math/bits"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// Histogram counts values in bins of powers of two. The zero value is empty.
type Histogram struct {
	Count uint64 `json:"count"`
	Sum   uint64 `json:"sum"`
	Min   uint64 `json:"min"`
	Max   uint64 `json:"max"`
	// Bins[0] counts zeros, Bins[k] values 2^(k−1) ≤ x < 2^k; the last one is not 0.
	Bins []uint64 `json:"bins"`
}

// Add counts x.
func (h *Histogram) Add(x uint64) {
	if h.Count == 0 || x < h.Min {
		h.Min = x
	}
	h.Count++
	h.Sum += x
	h.Max = max(h.Max, x)
	k := bits.Len64(x)
	for len(h.Bins) <= k {
		h.Bins = append(h.Bins, 0)
	}
	h.Bins[k]++
}

// Mean is the mean of the values, 0 of none.
func (h *Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Count)
}

// Bin returns the values lo ≤ x ≤ hi of bin k.
func Bin(k int) (lo, hi uint64) {
	if k == 0 {
		return 0, 0
	}
	return 1 << (k - 1), 1<<k - 1
}

// Sizes are the distributions that a version's manifest and footers tell.
type Sizes struct {
	Nodes Histogram `json:"partition_nodes"`
	Edges Histogram `json:"partition_edges"`
	// Topology are the bytes of each partition's stripe, Columns those of all extents of columns.
	Topology Histogram `json:"topology_extent_bytes"`
	Columns  Histogram `json:"column_extent_bytes"`
}

// SizesOf reads no payload.
func SizesOf(s *store.Store) (*Sizes, error) {
	z := &Sizes{}
	m := s.Manifest()
	for p, info := range m.Partitions {
		id := store.PartitionID(p)
		z.Nodes.Add(info.Nodes)
		z.Edges.Add(info.Edges)
		_, e, err := s.Files().Topology(id)
		if err != nil {
			return nil, err
		}
		z.Topology.Add(uint64(e.Length))
		for _, c := range m.Columns {
			if len(c.Files) == 0 {
				continue
			}
			_, e, err := s.Files().Column(c.Name, id)
			if err != nil {
				return nil, err
			}
			z.Columns.Add(uint64(e.Length))
		}
	}
	return z, nil
}

// Buckets are the edges of a version's buckets, added up in a grid of at most so many rows and columns.
type Buckets struct {
	Partitions int        `json:"partitions"`
	Per        int        `json:"partitions_per_cell"` // of a row or a column
	Edges      [][]uint64 `json:"edges"`               // [of the source's cell][of the destination's]
}

// BucketsOf reads the directories of stripes, no edges.
func BucketsOf(ctx context.Context, s *store.Store, most int) (*Buckets, error) {
	n := len(s.Manifest().Partitions)
	b := &Buckets{Partitions: n, Per: max(1, (n+most-1)/most)}
	for range (n + b.Per - 1) / b.Per {
		b.Edges = append(b.Edges, make([]uint64, (n+b.Per-1)/b.Per))
	}
	for p := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, err := s.BucketEdges(store.PartitionID(p))
		if err != nil {
			return nil, err
		}
		for src, edges := range from {
			b.Edges[src/b.Per][p/b.Per] += edges
		}
	}
	return b, nil
}

// Degrees are the distributions of the nodes' degrees. In an undirected graph
// both are its degrees; a self loop counts once there.
type Degrees struct {
	In  Histogram `json:"in"`
	Out Histogram `json:"out"`
}

// countBytes is what a node takes while degrees are counted.
const countBytes = 16

// DegreesOf counts the edges of every node. It reads the topology once if 16 bytes a node fit
// memoryBytes (0 = 1 GiB), and at most twice otherwise: nodes are then counted in groups of
// partitions, for each of which their own stripes are read and, of others, the buckets from them.
func DegreesOf(ctx context.Context, s *store.Store, memoryBytes int64) (_ *Degrees, err error) {
	if memoryBytes <= 0 {
		memoryBytes = 1 << 30
	}
	m := s.Manifest()
	d := &Degrees{}
	stripes := s.ReadStripes(nil, min(64<<20, memoryBytes/4), 0)
	defer func() { err = errors.Join(err, stripes.Close()) }()
	for lo := 0; lo < len(m.Partitions); {
		hi, nodes := lo+1, m.Partitions[lo].Nodes
		for hi < len(m.Partitions) && int64(nodes+m.Partitions[hi].Nodes)*countBytes <= memoryBytes*3/4 {
			nodes += m.Partitions[hi].Nodes
			hi++
		}
		if err := d.group(ctx, s, stripes, lo, hi, nodes); err != nil {
			return nil, err
		}
		lo = hi
	}
	return d, nil
}

// group counts the nodes of partitions lo ≤ p < hi.
func (d *Degrees) group(ctx context.Context, s *store.Store, stripes *store.StripeReader, lo, hi int, nodes uint64) (err error) {
	if nodes == 0 {
		return nil
	}
	m := s.Manifest()
	slab, err := blockio.AllocSlab(int64(nodes)*countBytes, blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	counts, err := blocks.View[uint64](slab.Bytes())
	if err != nil {
		return err
	}
	in, out := counts[:nodes], counts[nodes:]
	base := uint64(m.Partitions[lo].First)
	inside := func(p store.PartitionID) bool { return int(p) >= lo && int(p) < hi }
	for j := range m.Partitions {
		from, to := lo, hi
		if inside(store.PartitionID(j)) {
			from, to = 0, len(m.Partitions)
		}
		err := stripes.Stripe(ctx, store.PartitionID(j), from, to, func(b *store.BucketPart) error {
			src, dst := uint64(m.Partitions[b.Src].First)-base, uint64(m.Partitions[b.Dst].First)-base // of no use outside
			countsDst, countsSrc := inside(b.Dst), inside(b.Src)
			for t, f := range b.All() {
				if countsDst {
					in[dst+uint64(t)]++
				}
				if countsSrc && !(m.Schema.Undirected && b.Src == b.Dst && t == f) {
					out[src+uint64(f)]++
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for v := range nodes {
		if m.Schema.Undirected {
			d.In.Add(in[v] + out[v])
			d.Out.Add(in[v] + out[v])
			continue
		}
		d.In.Add(in[v])
		d.Out.Add(out[v])
	}
	return nil
}
