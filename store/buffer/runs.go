package buffer

import (
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Columns of one node type alone ([Options.Runs]) have rows for nodes of that type and no others:
//
//	place 0          a row of zeros, which every node of another type has
//	place 1 …        slots one after the other, each with room for the run of the partition that has most rows of the type
//
// A slot begins at no page, so that it takes what the rows take: extents are read into a bounce area and copied from there.

// Runs says where the columns of one node type have the rows of a macro-batch's nodes. It is valid as long as the macro-batch.
type Runs struct {
	shift  uint
	blocks []run // by row >> shift, of the step's partitions
	of     func(p ResidentPartition) run
}

// NewRuns says that so many rows from first on are of the type, and lie behind the row of zeros: of columns in no partition's slots, such
// as a cache's. It is not for Of.
func NewRuns(first, rows uint32) *Runs {
	return &Runs{shift: 32, blocks: []run{{first, rows, 1}}}
}

// run is a run of rows: those from first on lie from place on.
type run struct{ first, rows, place uint32 }

// Place returns the row of the columns that belongs to a row of the buffer; nodes of other types all have row 0, of zeros.
func (r *Runs) Place(row uint32) uint32 {
	x := &r.blocks[row>>r.shift]
	if k := row - x.first; k < x.rows {
		return x.place + k
	}
	return 0
}

// Places appends to emptied places the row of the columns that belongs to each of some rows of the buffer.
func (r *Runs) Places(places, rows []uint32) []uint32 {
	places = slices.Grow(places[:0], len(rows))
	for _, row := range rows {
		places = append(places, r.Place(row))
	}
	return places
}

// Of says which rows of a partition of this step, or of [Buffer.Upcoming], are of the type: so many from row first of the
// buffer on, which the columns have from row place on.
func (r *Runs) Of(p ResidentPartition) (first, rows, place uint32) {
	x := r.of(p)
	return x.first, x.rows, x.place
}

// typeRuns are the rows of a node type: those that its columns have.
type typeRuns struct {
	nodeType string
	stored   []store.NodeRows // by partition
}

// runsOf returns the number of the runs that a column lies as, added if no column before did; −1 for a column that has
// rows of all nodes, or says of each of them what type it is.
func (s *source) runsOf(c *sourceColumn) int {
	if !c.info.Runs || c.info.NodeType == "" || !slices.ContainsFunc(c.rows, func(r store.NodeRows) bool { return !r.Whole() }) {
		return -1
	}
	k := slices.IndexFunc(s.runs, func(r typeRuns) bool { return r.nodeType == c.info.NodeType })
	if k < 0 {
		k = len(s.runs)
		s.runs = append(s.runs, typeRuns{c.info.NodeType, c.rows})
	}
	return k
}

// runRegions says how the columns of a type's runs are divided.
type runRegions struct {
	fixed, pool int      // rows of all slots that have an owner, and of one of the pool
	rows        int      // of all slots, with the one of zeros
	bases       []uint32 // by slot: its first row
}

// sized returns the regions with so many slots of the pool.
func sized(regions []runRegions, pool int) []runRegions {
	regions = slices.Clone(regions)
	for k := range regions {
		r := &regions[k]
		r.rows = 1 + r.fixed + pool*r.pool
	}
	return regions
}

// placeRuns places the slots' rows, those of l.fixed first.
func (l *layout) placeRuns(src *source) {
	for k := range l.runs {
		r, at := &l.runs[k], 1
		for slot := range l.slots {
			r.bases = append(r.bases, uint32(at))
			if slot < len(l.fixed) {
				at += int(src.runs[k].stored[l.fixed[slot]].Rows)
			} else {
				at += r.pool
			}
		}
	}
}

// columnRows is how many rows the buffer has of a feature column.
func (l *layout) columnRows(c *sourceColumn) int64 {
	if c.runs >= 0 {
		return int64(l.runs[c.runs].rows)
	}
	return int64(l.rows)
}

// bounceMax is what the bounce area takes where requests are no larger: enough of them to keep a disk busy.
const bounceMax = 4 << 20

// bounceBytes is the size of the area that columns whose slots begin at no page are read by way of: a whole request at least, no more
// than all.
func bounceBytes(src *source, o *Options) (n int64) {
	most := o.RequestBytes
	for i := range src.features {
		if c := &src.features[i]; c.runs >= 0 || c.bounced {
			for p := range c.extents {
				n += blocks.AlignUp(c.extents[p].e.Length)
			}
		}
		if src.features[i].runs >= 0 {
			most = max(bounceMax, o.RequestBytes)
		}
	}
	return min(n, most)
}

// piece is a part of an extent on its way to rows that begin at no page.
type piece struct {
	transfer
	bytes int64  // to be read
	to    []byte // where they go, less what is read beyond the extent's end
}

// pieces lists what some loads read of columns whose slots begin at no page, a request each.
func (it *Buffer) pieces(loads []slotLoad) (ps []piece) {
	for _, l := range loads {
		for i := range it.src.features {
			c := &it.src.features[i]
			x, first := &c.extents[l.part], int64(0)
			switch {
			case c.runs >= 0:
				first = int64(it.layout.runs[c.runs].bases[l.slot])
			case c.bounced:
				first = int64(it.layout.slots[l.slot].base) + int64(c.rows[l.part].First)
			default:
				continue
			}
			at := first * int64(c.stride)
			rows := it.buf.bytes(it.buf.features[i])[at : at+x.e.Length]
			for from := int64(0); from < x.e.Length; from += it.o.RequestBytes {
				to := min(from+it.o.RequestBytes, blocks.AlignUp(x.e.Length))
				ps = append(ps, piece{transfer: transfer{x: x, from: from}, bytes: to - from, to: rows[from:min(to, x.e.Length)]})
			}
		}
	}
	return ps
}

// bounced gives the first of some pieces room in the bounce area, as many as it holds, and returns how many, with their transfers
// behind ts.
func (it *Buffer) bounced(ps []piece, ts []transfer) (int, []transfer) {
	free, n := it.buf.bytes(it.buf.bounce), 0
	for ; n < len(ps) && ps[n].bytes <= int64(len(free)); n++ {
		ps[n].buf, free = free[:ps[n].bytes:ps[n].bytes], free[ps[n].bytes:]
		ts = append(ts, ps[n].transfer)
	}
	return n, ts
}

// runs says where the columns of each type have the rows of a step.
func (it *Buffer) runs(s *scheduled) []*Runs {
	l, all := it.layout, make([]*Runs, len(it.src.runs))
	for k := range all {
		stored, bases := it.src.runs[k].stored, l.runs[k].bases
		r := &Runs{shift: l.shift, blocks: make([]run, l.rows>>l.shift)}
		r.of = func(p ResidentPartition) run {
			x := &stored[p.ID]
			return run{p.Base + uint32(x.First), uint32(x.Rows), bases[l.owner(p.Base)]}
		}
		for _, p := range s.resident {
			own := r.of(p)
			for b := p.Base >> l.shift; b<<l.shift < p.Base+p.Nodes; b++ {
				r.blocks[b] = own
			}
		}
		all[k] = r
	}
	return all
}
