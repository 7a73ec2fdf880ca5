package buffer

import (
	"cmp"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// byteSpan is a range of an extent's bytes and, once placed, where it lies in
// the staging area.
type byteSpan struct{ from, to, at int64 }

// mergeSpans rounds the ranges needed of an extent of length bytes (ascending,
// disjoint) outward to granule bytes and joins those whose gap is at most gap:
// reading the gap is cheaper than another request. The result is appended to dst.
func mergeSpans(dst, need []byteSpan, granule, gap, length int64) []byteSpan {
	start := len(dst)
	limit := blocks.AlignUp(length)
	for _, n := range need {
		if n.from == n.to {
			continue
		}
		from := n.from / granule * granule
		to := min(limit, (n.to+granule-1)/granule*granule)
		if k := len(dst); k > start && from-dst[k-1].to <= gap {
			dst[k-1].to = max(dst[k-1].to, to)
			continue
		}
		dst = append(dst, byteSpan{from: from, to: to})
	}
	return dst
}

// stagedExtent is what a step reads of one extent of topology or of a column that edges carry.
type stagedExtent struct {
	x     *extentRef
	spans []byteSpan
}

// find returns the staged bytes [from, to) of the extent.
func (s *stagedExtent) find(staging []byte, from, to int64) []byte {
	i, _ := slices.BinarySearchFunc(s.spans, from, func(b byteSpan, at int64) int {
		if b.to <= at {
			return -1
		}
		return 0
	})
	at := s.spans[i].at + from - s.spans[i].from
	return staging[at : at+to-from : at+to-from]
}

// topologyPlan is what a step reads beside partitions' columns: of each
// resident stripe j the buckets from resident partitions that the last step's
// adjacency does not have.
type topologyPlan struct {
	stripes []stagedExtent   // by index of the resident partition
	columns [][]stagedExtent // likewise, of each column of source.carried
	bytes   int64            // staging and reading: the same
	wanted  int64            // of these, buckets' own
}

// staged lists all that is read.
func (t *topologyPlan) staged() [][]stagedExtent {
	return append([][]stagedExtent{t.stripes}, t.columns...)
}

// planTopology computes what step s reads of topology. The staging area is
// measured for the default gap, so that a budget holds the same partitions on
// every device: where a wider one does not fit, the step does with a narrower.
func planTopology(src *source, l *layout, o *Options, s *scheduled) *topologyPlan {
	gap := o.GapBytes
	t := planTopologyGap(src, o, s, gap)
	for t.bytes > l.stagingMax && gap > defaultGapBytes {
		gap = max(gap/2, defaultGapBytes)
		t = planTopologyGap(src, o, s, gap)
	}
	return t
}

func planTopologyGap(src *source, o *Options, s *scheduled, gap int64) *topologyPlan {
	t := &topologyPlan{}
	if s.same {
		return t
	}
	t.stripes = make([]stagedExtent, len(s.resident))
	for range src.carried {
		t.columns = append(t.columns, make([]stagedExtent, len(s.resident)))
	}
	var need, edges []byteSpan // edges: their places in the stripe
	for b := range s.resident {
		j := s.resident[b].ID
		d := &src.dirs[j]
		need, edges = need[:0], edges[:0]
		for a := range s.resident {
			if s.kept[a] && s.kept[b] {
				continue
			}
			i := int(s.resident[a].ID)
			from, to := d.Range(i, i+1)
			need = append(need, byteSpan{from: from, to: to})
			edges = append(edges, byteSpan{from: int64(d.FirstEdge(i)), to: int64(d.FirstEdge(i + 1))})
		}
		stage := func(x *extentRef, need []byteSpan) stagedExtent {
			for _, n := range need {
				t.wanted += n.to - n.from
			}
			e := stagedExtent{x: x, spans: mergeSpans(nil, need, o.granule(), gap, x.e.Length)}
			for k := range e.spans {
				e.spans[k].at = t.bytes
				t.bytes += e.spans[k].to - e.spans[k].from
			}
			return e
		}
		t.stripes[b] = stage(&src.topology[j], need)
		for k, c := range src.carried {
			need = need[:0]
			for _, e := range edges {
				need = append(need, byteSpan{from: e.from * c.rowBytes(int(j)), to: e.to * c.rowBytes(int(j))})
			}
			t.columns[k][b] = stage(&c.extents[j], need)
		}
	}
	return t
}

// columnBytes returns what loading partition p's columns reads.
func columnBytes(src *source, p store.PartitionID) int64 {
	var n int64
	for _, x := range src.columnExtents(p) {
		n += blocks.AlignUp(x.e.Length)
	}
	return n + int64(src.tablePlanes)*src.planeBytes(p)
}

// planeBytes is the size of one plane of partition p's rows in a table, on disk.
func (s *source) planeBytes(p store.PartitionID) int64 {
	return blocks.AlignUp(int64(s.tableRows(p)) * 4 * int64(s.tableDim))
}

// tableRows is how many rows of a table partition p has.
func (s *source) tableRows(p store.PartitionID) uint64 {
	if s.someRows != nil {
		return s.someRows[p]
	}
	return s.m.Partitions[p].Nodes
}

// columnExtents lists the extents that make a partition resident.
func (s *source) columnExtents(p store.PartitionID) []*extentRef {
	var xs []*extentRef
	for i := range s.features {
		xs = append(xs, &s.features[i].extents[p])
	}
	for _, c := range []*sourceColumn{s.labels, s.split} {
		if c != nil {
			xs = append(xs, &c.extents[p])
		}
	}
	return xs
}

// transfer is a request: bytes of an extent from offset from, and where they go.
type transfer struct {
	x    *extentRef
	from int64
	buf  []byte
}

// appendTransfers splits [from, to) of an extent into transfers of at most
// request bytes into buf.
func appendTransfers(ts []transfer, x *extentRef, from, to int64, buf []byte, request int64) []transfer {
	for from < to {
		n := min(request, to-from)
		ts = append(ts, transfer{x, from, buf[:n:n]})
		from, buf = from+n, buf[n:]
	}
	return ts
}

// transfers lists a topology plan's requests, of at most request bytes, into staging.
func (t *topologyPlan) transfers(staging []byte, request int64) []transfer {
	var ts []transfer
	for _, es := range t.staged() {
		for i := range es {
			for _, sp := range es[i].spans {
				ts = appendTransfers(ts, es[i].x, sp.from, sp.to, staging[sp.at:], request)
			}
		}
	}
	sortTransfers(ts)
	return ts
}

// sortTransfers orders requests by file and offset.
func sortTransfers(ts []transfer) {
	slices.SortFunc(ts, func(a, b transfer) int {
		if a.x.f != b.x.f {
			return cmp.Compare(a.x.f.file.Path(), b.x.f.file.Path())
		}
		return cmp.Compare(a.x.e.Offset+a.from, b.x.e.Offset+b.from)
	})
}
