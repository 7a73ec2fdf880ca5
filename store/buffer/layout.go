package buffer

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// layout says how the partition buffer divides its memory. It is a function of
// the store and the options alone.
//
// Rows are cut into slots. A partition that is resident for the whole run has a
// slot of its own size, the others share pool slots, each with room for the
// largest of them. A slot begins and ends at multiples of granule rows, which
// makes every slot of a feature column a whole number of 4 KiB pages:
// extents are read straight into place, but for wide rows of small partitions ([source.bounce]). Columns of one node type alone are divided apart (see [Runs]).
type layout struct {
	slots     []slotRegion
	fixed     []store.PartitionID // owners of the first slots, ascending
	shift     uint                // log2 of granule
	rows      int
	runs      []runRegions // of [source].runs, in their columns
	planeRows int          // of an embedding table: rows, but of a table of some nodes
	nodesMax  int          // of any one partition
	memory    bool

	ahead  int // steps read ahead
	frames int // adjacencies held at once

	edgesMax   int64 // most edges of one direction of a step
	stagingMax int64 // most bytes of topology read for a step
	seedsMax   int
	total      int64 // bytes of everything
}

// slotRegion is a slot's rows, and the first of those that its partition has of a table: base, but of a table of some nodes.
type slotRegion struct{ base, rows, table uint32 }

// newLayout divides o.MemoryBytes: the smallest buffer that trains the plan holds
// one step's partitions and two adjacencies; more memory buys pool slots and
// then whole steps of read-ahead, up to o.AheadMax, and where a step exchanges o.Swap partitions some of another step's. Too little is ErrBudget.
func newLayout(src *source, o *Options) (*layout, error) {
	l := &layout{memory: o.Capacity == 0, fixed: slices.Clone(o.Pinned)}
	parts := src.m.Partitions
	if l.memory {
		l.fixed = l.fixed[:0]
		for p := range parts {
			l.fixed = append(l.fixed, store.PartitionID(p))
		}
	}
	granule := slotGranule(src)
	l.shift = uint(bits.TrailingZeros(uint(granule)))

	// Whoever has a slot of his own takes no room in the pool; there each slot has the largest other's.
	isFixed := make([]bool, len(parts))
	for _, p := range l.fixed {
		isFixed[p] = true
	}
	d := division{l: l, src: src, o: o}
	for p := range parts {
		l.nodesMax = max(l.nodesMax, int(parts[p].Nodes))
		rows, table := roundRows(parts[p].Nodes, granule), src.tableRoom(store.PartitionID(p), granule)
		if isFixed[p] {
			d.fixedRows, d.fixedTable = d.fixedRows+rows, d.fixedTable+table
		} else {
			d.free++
			d.poolRows, d.poolTable = max(d.poolRows, rows), max(d.poolTable, table)
		}
	}
	for _, r := range src.runs {
		own := runRegions{}
		for p := range r.stored {
			if rows := int(r.stored[p].Rows); isFixed[p] {
				own.fixed += rows
			} else {
				own.pool = max(own.pool, rows)
			}
		}
		l.runs = append(l.runs, own)
	}

	// The bounds on a step's edges come first: adjacency and staging are sized by them whatever the pool's size.
	d.capacity = min(o.Capacity, d.free)
	l.bound(src, o, isFixed, d.capacity)
	pool := d.pool()
	l.frames = l.ahead + 1 // the step in hand has its adjacency, too
	if l.total = d.bytes(pool, l.ahead); o.MemoryBytes > 0 && l.total > o.MemoryBytes {
		return nil, &BudgetError{NeedBytes: l.total, HaveBytes: o.MemoryBytes, Partitions: d.capacity + len(l.fixed)}
	}

	// Slots lie one after the other in rows: the fixed ones in l.fixed's order, then the pool.
	add := func(rows, table int) {
		l.slots = append(l.slots, slotRegion{uint32(l.rows), uint32(rows), uint32(l.planeRows)})
		l.rows, l.planeRows = l.rows+rows, l.planeRows+table
	}
	for _, p := range l.fixed {
		add(roundRows(parts[p].Nodes, granule), src.tableRoom(p, granule))
	}
	for range pool {
		add(d.poolRows, d.poolTable)
	}
	l.runs = sized(l.runs, pool)
	l.placeRuns(src)
	if l.rows > math.MaxUint32 { // a row is a uint32 in the adjacency
		return nil, fmt.Errorf("%w: %d rows in the buffer, most %d", store.ErrInvalid, l.rows, uint32(math.MaxUint32))
	}
	return l, nil
}

// pageRows is how many rows of stride bytes make a whole number of 4 KiB pages: a power of two.
func pageRows(stride int) int {
	return blocks.Alignment / (1 << min(bits.TrailingZeros(uint(stride)), 12))
}

// SlotShift: each partition begins at a multiple of 1<<SlotShift rows of the partition buffer, whatever its columns.
const SlotShift = 3

const (
	// granuleLeast is the fewest rows by which slots are cut, granuleBounced that of wide rows that begin at no page.
	granuleLeast   = 64
	granuleBounced = 1 << SlotShift
	// paddingShare of all rows is the most that slots of whole pages may be larger than slots of granuleLeast.
	paddingShare = 8
	// bouncedBytes is the shortest row of a column that is read by way of the bounce area: padding of shorter ones is no matter.
	bouncedBytes = 1 << 10
)

// bounce marks the columns of which slots of whole pages would be mostly padding: of 3,703 columns of float32 a page begins every 1,024
// rows, so that each of 103 partitions of 33 nodes would take 15 MB for half a megabyte.
func (s *source) bounce() {
	for i := range s.features {
		c := &s.features[i]
		page, all, padded := pageRows(c.stride), 0, 0
		for p := range s.m.Partitions {
			n := s.m.Partitions[p].Nodes
			all, padded = all+int(n), padded+roundRows(n, max(page, granuleLeast))-roundRows(n, granuleLeast)
		}
		c.bounced = c.runs < 0 && padded > all/paddingShare && c.stride >= bouncedBytes
	}
}

// slotGranule returns how many rows make a whole number of 4 KiB pages in every column that is read in place and in every plane: the
// least common multiple, a power of two as all of them are.
func slotGranule(src *source) int {
	granule := granuleLeast
	for i := range src.features {
		if src.features[i].bounced {
			granule = granuleBounced
		}
	}
	for i := range src.features {
		if c := &src.features[i]; c.runs < 0 && !c.bounced {
			granule = max(granule, pageRows(c.stride))
		}
	}
	if src.tablePlanes > 0 && src.someRows == nil {
		granule = max(granule, pageRows(4*src.tableDim))
	}
	return granule
}

// tableRoom is the room of partition p's rows of a table, in rows: those of its nodes in granules, of a table of some nodes whole pages.
func (s *source) tableRoom(p store.PartitionID, granule int) int {
	if s.someRows != nil {
		granule = pageRows(4 * s.tableDim)
	}
	return roundRows(s.tableRows(p), granule)
}

// division is what newLayout spends memory on: slots of the pool, which partitions without a slot of their own share,
// and steps read ahead.
type division struct {
	l   *layout
	src *source
	o   *Options

	fixedRows int // of all slots that have an owner
	poolRows  int // of one slot of the pool
	// Likewise in the planes of a table.
	fixedTable, poolTable int
	free                  int // partitions that share the pool
	capacity              int // of them in one step
}

// bytes is what the buffer takes with so many pool slots and steps read ahead, directories included.
func (d *division) bytes(pool, ahead int) int64 {
	t := *d.l
	t.ahead, t.frames = ahead, ahead+1
	t.rows, t.planeRows = d.fixedRows+pool*d.poolRows, d.fixedTable+pool*d.poolTable
	t.slots, t.runs = make([]slotRegion, len(d.l.fixed)+pool), sized(d.l.runs, pool)
	return newArena(&t, d.src, d.o).size + int64(len(d.src.dirSlab.Bytes()))
}

// pool sets how many steps are read ahead and returns how many slots the pool has.
func (d *division) pool() int {
	l, o := d.l, d.o
	swap := d.capacity // partitions that a step has and the one before has not
	if o.Swap > 0 {
		swap = min(swap, o.Swap)
	}
	switch {
	case d.capacity == 0: // everything has its own slot: nothing is ever read ahead
		return 0
	case o.MemoryBytes == 0: // double buffering
		l.ahead = 1
		return min(d.capacity+swap, d.free)
	}
	// Most steps ahead first, whose exchanges all fit; the least is one step's partitions, into which the next ones
	// are read as the step before lets go.
	pool := d.capacity
	l.ahead = 1
	for a := min(o.AheadMax, (d.free+d.capacity-1)/d.capacity); a >= 1; a-- {
		if n := min(d.capacity+a*swap, d.free); d.bytes(n, a) <= o.MemoryBytes {
			l.ahead, pool = a, n
			break
		}
	}
	// What is left buys single slots, up to those of the steps ahead and a part of the step after them.
	most := d.capacity + l.ahead*swap
	if o.Swap > 0 {
		most += swap
	}
	for pool < min(most, d.free) && d.bytes(pool+1, l.ahead) <= o.MemoryBytes {
		pool++
	}
	return pool
}

func roundRows(nodes uint64, granule int) int {
	return max(granule, (int(nodes)+granule-1)/granule*granule)
}

// bound sets the most edges, seeds and staged bytes that any step can have: of
// every partition the fixed ones and the capacity largest others. A step of
// random partitions comes close to it where partitions are balanced.
func (l *layout) bound(src *source, o *Options, isFixed []bool, capacity int) {
	p := len(src.m.Partitions)
	undirected := src.m.Schema.Undirected
	in, out, stage, seeds := newTopSum(p), newTopSum(p), newTopSum(p), newTopSum(p)
	overhead := 2*o.granule() + defaultGapBytes // see planTopology
	for j := range p {
		intoJ, fromJ, bytesJ := newTopSum(p), newTopSum(p), newTopSum(p)
		for i := range p {
			d := &src.dirs[j]
			to := int64(d.BucketEdges(i))
			from := int64(src.dirs[i].BucketEdges(j))
			if undirected {
				to += from // mirrored; the diagonal counts twice, which it is
			} else {
				fromJ.add(from, isFixed[i])
			}
			intoJ.add(to, isFixed[i])
			if lo, hi := d.Range(i, i+1); hi > lo {
				bytesJ.add(hi-lo+overhead, isFixed[i])
			}
		}
		in.add(intoJ.sum(capacity), isFixed[j])
		out.add(fromJ.sum(capacity), isFixed[j])
		x := &src.topology[j].e
		bytes := min(bytesJ.sum(capacity), blocks.AlignUp(x.Length))
		for _, c := range src.carried {
			whole := blocks.AlignUp(c.extents[j].e.Length)
			bytes += min(whole, intoJ.sum(capacity)*c.rowBytes(j)+int64(capacity+len(l.fixed))*overhead)
		}
		stage.add(bytes, isFixed[j])
		seeds.add(int64(src.m.Partitions[j].Nodes), isFixed[j])
	}
	l.edgesMax = max(in.sum(capacity), out.sum(capacity))
	l.stagingMax = stage.sum(capacity)
	if o.Seeds != nil {
		given := newTopSum(p)
		for j := range src.m.Partitions {
			given.add(int64(src.given[j]), isFixed[j])
		}
		l.seedsMax = int(given.sum(capacity))
		return
	}
	if src.split == nil {
		return // findSeeds finds none
	}
	l.seedsMax = int(seeds.sum(capacity))
	if first, err := src.m.SplitColumn(""); err == nil && src.split.info.Name == first.Name { // whose nodes the manifest counts
		train := newTopSum(p)
		for j, part := range src.m.Partitions {
			train.add(int64(inSplit(&part, store.SplitValue(o.Split))), isFixed[j])
		}
		l.seedsMax = int(train.sum(capacity))
	}
}

// inSplit returns how many nodes of the partition have a split value.
func inSplit(p *store.PartitionInfo, v uint8) uint64 {
	switch v {
	case store.SplitTrain:
		return p.Train
	case store.SplitValid:
		return p.Valid
	case store.SplitTest:
		return p.Test
	}
	return 0
}

// topSum adds up the always counted values and the largest others.
type topSum struct {
	always int64
	others []int64
}

func newTopSum(n int) *topSum { return &topSum{others: make([]int64, 0, n)} }

func (t *topSum) add(v int64, always bool) {
	if always {
		t.always += v
	} else {
		t.others = append(t.others, v)
	}
}

// sum finds the largest by quickselect: a bound is asked for at every capacity that a plan is tried with, and sorting
// as many lists as there are partitions took most of a run's start.
func (t *topSum) sum(largest int) int64 {
	selectLargest(t.others, largest)
	n := t.always
	for _, v := range t.others[:min(largest, len(t.others))] {
		n += v
	}
	return n
}

// selectLargest brings the k largest values of s to its front.
func selectLargest(s []int64, k int) {
	for 0 < k && k < len(s) {
		// Larger than the pivot, the median of three, come before it and smaller ones behind: s[:above], s[above:below], s[below:].
		a, b, c := s[0], s[len(s)/2], s[len(s)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		above, below := 0, len(s)
		for i := 0; i < below; {
			switch v := s[i]; {
			case v > pivot:
				s[i], s[above] = s[above], v
				above++
				i++
			case v < pivot:
				below--
				s[i], s[below] = s[below], v
			default:
				i++
			}
		}
		switch {
		case k < above:
			s = s[:above]
		case k > below:
			s, k = s[below:], k-below
		default:
			return
		}
	}
}

// arena places the buffer's arrays in one slab, in the order of the fields.
type arena struct {
	size     int64
	features []part
	bounce   part             // of columns of one node type: what is read of them, until it is copied
	planes   []part           // of an embedding table
	aux      part             // labels and splits as they lie on disk, a piece a slot
	auxSlot  int64            // bytes of one piece
	labels   part             // int32 a row
	split    part             // uint8 a row
	keys     part             // uint32 a row
	frames   []adjacencyParts // a frame and direction
	seeds    []part           // one more than steps ahead, two more than that for those in hand
	staging  part
	scratch  part // scratchArrays of one uint32 a node of the largest partition, for each thread
	order    part // rows by external id (plan memory), of which keys are the inverse
}

// adjacencyParts are where an adjacency's arrays lie; those that are not carried are empty.
type adjacencyParts struct{ spans, indices, rel, weights, sums, times, features part }

// part is a range of the arena's bytes.
type part struct{ at, n int64 }

// newArena computes where everything lies.
func newArena(l *layout, src *source, o *Options) *arena {
	a := &arena{}
	take := func(n int64) part {
		p := part{a.size, n}
		a.size += blocks.AlignUp(n)
		return p
	}
	rows := int64(l.rows)
	for i := range src.features {
		c := &src.features[i]
		a.features = append(a.features, take(l.columnRows(c)*int64(c.stride)))
	}
	a.bounce = take(bounceBytes(src, o))
	for range src.tablePlanes {
		a.planes = append(a.planes, take(int64(l.planeRows)*4*int64(src.tableDim)))
	}
	if src.labels != nil {
		a.auxSlot += blocks.AlignUp(4 * int64(l.nodesMax))
		a.labels = take(4 * rows)
	}
	if src.split != nil {
		a.auxSlot += blocks.AlignUp(int64(l.nodesMax))
		a.split = take(rows)
	}
	a.aux = take(a.auxSlot * int64(len(l.slots)))
	directions := 1
	if o.Both && !src.m.Schema.Undirected {
		directions = 2
	}
	if o.Keys || l.memory {
		a.keys = take(4 * rows)
	}
	adjacency := func() (p adjacencyParts) {
		p.spans, p.indices = take(rows*int64(unsafe.Sizeof(Span{}))), take(4*l.edgesMax)
		if o.Relations {
			p.rel = take(2 * l.edgesMax)
		}
		if src.weight != nil {
			p.weights, p.sums = take(4*l.edgesMax), take(8*((l.edgesMax+SumEdges-1)/SumEdges))
		}
		if src.time != nil {
			p.times = take(8 * l.edgesMax)
		}
		if src.edgeDim > 0 {
			p.features = take(4 * int64(src.edgeDim) * l.edgesMax)
		}
		return p
	}
	for range l.frames * directions {
		a.frames = append(a.frames, adjacency())
	}
	for range l.ahead + 2 {
		a.seeds = append(a.seeds, take(4*int64(l.seedsMax)))
	}
	a.staging = take(l.stagingMax)
	a.scratch = take(4 * scratchArrays * int64(l.nodesMax+1) * int64(o.Threads))
	if l.memory {
		a.order = take(4 * int64(src.m.Nodes))
	}
	return a
}

// buffer is the memory of a run: one slab outside the Go heap.
type memory struct {
	slab *blockio.Slab
	b    []byte
	*arena
	directions int
	edgeDim    int
}

func newMemory(l *layout, src *source, o *Options) (*memory, error) {
	a := newArena(l, src, o)
	slab, err := blockio.AllocSlab(max(a.size, 1), blockio.SlabOptions{Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	return &memory{slab: slab, b: slab.Bytes(), arena: a, directions: len(a.frames) / l.frames, edgeDim: src.edgeDim}, nil
}

func (b *memory) bytes(p part) []byte { return b.b[p.at : p.at+p.n : p.at+p.n] }

// elements views a part of the buffer; parts begin at multiples of 4096.
func elements[T any](b *memory, p part) []T {
	if p.n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b.b[p.at])), p.n/int64(unsafe.Sizeof(*new(T))))
}

// adjacency returns direction dir (0 in, 1 out) of a frame.
func (b *memory) adjacency(frame, dir int) *Adjacency {
	return b.view(b.frames[frame*b.directions+dir])
}

func (b *memory) view(p adjacencyParts) *Adjacency {
	return &Adjacency{Spans: elements[Span](b, p.spans), Indices: elements[uint32](b, p.indices), Relations: elements[uint16](b, p.rel),
		Weights: elements[float32](b, p.weights), Sums: elements[float64](b, p.sums), Times: elements[int64](b, p.times),
		Features: elements[float32](b, p.features), FeatureDim: b.edgeDim}
}
