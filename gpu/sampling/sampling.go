// Package sampling draws mini-batches on a device, ahead of who trains them: the neighbour lists of a macro-batch cross once, and of each
// mini-batch its seeds to the device, and how large it became from it. The blocks are those of the host's [mini.Sampler], entry for entry.
//
// A [Sampler] has a queue beside the one that trains, and room on the device for a few mini-batches of the largest size. How large one is, which
// whoever trains has to know to lay out its tensors, comes back while others are drawn: the host rarely waits for it.
//
//	s.Enter(mb, nil)
//	for each mini-batch {
//		s.Draw(key, seeds) // a few ahead
//		b, err := s.Next(ctx)
//		… issue to q what reads b.Input, b.Degrees, b.Block(i)
//		s.Free(q)
//	}
//	s.Leave(ctx) // mb is not read any more
//
// A Sampler is for one goroutine.
package sampling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// Ahead is how many mini-batches are drawn or waiting to be trained: with those that are on their way to be trained ([gpu.Info.InFlight]) the
// device always has one to go on with.
const Ahead = 4

// Options describe a [Sampler].
type Options struct {
	Config  mini.Config // of the host's sampler that draws the same; [Unfit] says of which there is none
	Rows    int         // that the device has places for
	Entries int64       // of a macro-batch's neighbour lists, at most
	Buffer  int         // rows of the host's partition buffer, at most, where they lie elsewhere than on the device; 0: as there
	Batch   int         // seeds of a mini-batch, at most
}

// Unfit says why no device draws what the host's sampler of c does; "": it can.
func Unfit(c *mini.Config) string {
	switch {
	case c.Sampler != "" && c.Sampler != mini.Uniform:
		return fmt.Sprintf("sampler %s is the host's: a device draws by %s", c.Sampler, mini.Uniform)
	case c.RelationFanouts != nil || c.OutFanouts != nil:
		return "fanouts of relations or directions are the host's"
	case c.Together > 1:
		return "mini-batches that are drawn together are the host's"
	case c.Prune != (mini.Prune{}):
		return "pruned lists are the host's"
	case c.Weights || c.Places:
		return "weights and features of edges are the host's"
	case len(c.Fanouts) == 0:
		return "the model reads no neighbours"
	case slices.Max(c.Fanouts) > gpu.FanoutMax:
		return fmt.Sprintf("a fanout of %d: a device draws up to %d neighbours of a node, or all", slices.Max(c.Fanouts), gpu.FanoutMax)
	}
	return ""
}

// room is the most nodes that hop h draws for, nodes[h], and edges that it has.
func (o *Options) room() (nodes, edges []int, err error) {
	n := min(o.Batch, o.Rows)
	for h, f := range o.Config.Fanouts {
		e := o.Entries
		if f != mini.All {
			e = min(e, int64(n)*int64(f))
		}
		if e > math.MaxInt32 {
			return nil, nil, fmt.Errorf("gpu: sampling: hop %d may have %d edges: %w; use smaller batches or fanouts", h, e, mini.ErrTooLarge)
		}
		nodes, edges = append(nodes, n), append(edges, int(e))
		n = min(o.Rows, n+int(e))
	}
	return append(nodes, n), edges, nil
}

// layout hands out the parts of a sampler's memory, one after the other.
type layout struct {
	mem   gpu.Memory // nil: they are counted
	bytes int64
}

func (l *layout) take(n int64, elem blocks.ElemType) gpu.Tensor {
	t := gpu.VectorOf(l.mem, l.bytes, int(n), elem)
	l.bytes += (n*int64(elem.Size()) + gpu.ArenaAlign - 1) &^ (gpu.ArenaAlign - 1)
	return t
}

// parts lays a sampler's memory out.
func (o *Options) parts(l *layout) (lists gpu.Lists, slots []slot, err error) {
	nodes, edges, err := o.room()
	if err != nil {
		return lists, nil, err
	}
	rows := int64(o.Rows)
	lists = gpu.Lists{Spans: l.take(2*rows, blocks.Uint64), Indices: l.take(o.Entries, blocks.Uint32), First: l.take(rows, blocks.Uint32), Shift: Shift}
	if o.Buffer > 0 {
		lists.Shifts = l.take(int64(groups(o.Buffer)), blocks.Uint32)
	}
	hops := len(edges)
	for range Ahead {
		s := slot{sizes: make([]int32, 2*hops+1)}
		most := int64(nodes[hops])
		s.Sampled = gpu.Sampled{Input: l.take(most, blocks.Uint32), Degrees: l.take(most, blocks.Int32), Sizes: l.take(int64(2*hops+1), blocks.Int32)}
		for h, e := range edges {
			s.Hops = append(s.Hops, gpu.SampledHop{Fanout: o.Config.Fanouts[h], Graph: gpu.Graph{NumDst: nodes[h], NumSrc: nodes[h+1],
				Indptr: l.take(int64(nodes[h])+1, blocks.Int32), Indices: l.take(int64(e), blocks.Int32)}})
		}
		slots = append(slots, s)
	}
	return lists, slots, nil
}

// Bytes is the device memory that a sampler takes, beside what its queue holds itself.
func (o *Options) Bytes() (int64, error) {
	var l layout
	_, _, err := o.parts(&l)
	return l.bytes, err
}

// SeedBytes is what a mini-batch's seeds take to the device.
func SeedBytes(seeds int) int64 { return 4 * int64(seeds) }

// Shift: partitions begin at multiples of so many rows of the partition buffer, as a power of two.
const Shift = buffer.SlotShift

// groups is how many groups of 1<<Shift rows hold n rows.
func groups(n int) int { return (n + 1<<Shift - 1) >> Shift }

// ListBytes is what the neighbour lists of a macro-batch take to the device, and, if it has its rows elsewhere, where they lie.
func ListBytes(mb *buffer.MacroBatch, elsewhere bool) int64 {
	n := 4 * entries(mb)
	for _, p := range mb.Partitions {
		n += 16 * int64(p.Nodes)
		if elsewhere {
			n += 4 * int64(groups(int(p.Nodes)))
		}
	}
	return n
}

// entries is how many indices the lists of a macro-batch's nodes reach to.
func entries(mb *buffer.MacroBatch) (n int64) {
	for _, p := range mb.Partitions {
		for _, s := range mb.In.Spans[p.Base:][:p.Nodes] {
			if s.End > s.Begin {
				n = max(n, s.End)
			}
		}
	}
	return n
}

// spanBytes is the memory of spans, which is as [gpu.Lists] has them.
func spanBytes(s []buffer.Span) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(buffer.Span{})))
}

// slot is room for a mini-batch.
type slot struct {
	gpu.Sampled
	seeds []uint32 // until they have crossed
	sizes []int32
	mark  gpu.Mark
}

// Sampler draws the mini-batches of macro-batches.
type Sampler struct {
	options Options
	queue   *gpu.Queue
	mem     gpu.Memory
	all     gpu.Lists // room for the largest macro-batch's
	lists   gpu.Lists // of the macro-batch in hand
	where   []buffer.ResidentPartition
	shifts  []uint32
	slots   []slot
	// Mini-batches so far: asked for, handed out, and read by who trains them.
	drawn, next, freed int
	table              mini.Table // of a mini-batch's seeds
	numbers            []int32
	unique             []uint32
	stats              Stats
}

// Stats count what a sampler did.
type Stats struct {
	Bytes int64         // that crossed to the device: neighbour lists and seeds
	Waits int64         // how often the host waited for how large a mini-batch is
	Took  time.Duration // the device's time for drawing
}

// Sub is s less an earlier was.
func (s Stats) Sub(was Stats) Stats {
	return Stats{s.Bytes - was.Bytes, s.Waits - was.Waits, s.Took - was.Took}
}

// New makes a sampler on a device whose [gpu.Info] says that it Samples.
func New(dev gpu.Device, o Options) (_ *Sampler, err error) {
	why := Unfit(&o.Config)
	if !dev.Info().Samples {
		why = "it draws no mini-batches: the host does"
	}
	if why != "" {
		return nil, fmt.Errorf("gpu: sampling on %s: %s", dev.Info().Name, why)
	}
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("gpu: sampling: %w", err)
	}
	s := &Sampler{options: o}
	bytes, err := o.Bytes()
	if err != nil {
		return nil, err
	}
	if s.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	if s.mem, err = dev.Alloc(bytes); err == nil {
		s.all, s.slots, err = o.parts(&layout{mem: s.mem})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gpu: sampling on %s: %w", dev.Info().Name, err), s.Close())
	}
	return s, nil
}

// Enter begins a macro-batch: its neighbour lists cross, unless those of the same partitions are there, in their places. shifts are what to add to a row of the
// partition buffer for its place on the device, by row >> [Shift], nil where [Options].Buffer is 0. Both are in use until Leave.
func (s *Sampler) Enter(mb *buffer.MacroBatch, shifts []uint32) error {
	if s.where != nil && slices.Equal(s.where, mb.Partitions) && slices.Equal(s.shifts, shifts) {
		return nil
	}
	o, n := &s.options, entries(mb)
	if n > o.Entries || groups(mb.Rows) > groups(o.Buffer) && o.Buffer > 0 {
		return fmt.Errorf("gpu: sampling: a macro-batch of %d edges in a buffer of %d rows, expected at most %d and %d", n, mb.Rows, o.Entries, o.Buffer)
	}
	s.lists = s.all
	s.lists.Indices = s.all.Indices.View(0, 0, 1, int(n))
	s.send(s.lists.Indices, blocks.Bytes(mb.In.Indices[:n]))
	for _, p := range mb.Partitions {
		if p.Nodes == 0 {
			continue
		}
		base, first := int(p.Base), p.Base>>Shift
		if o.Buffer > 0 {
			base = int(p.Base + shifts[first])
			k := groups(int(p.Nodes))
			s.send(s.lists.Shifts.View(0, int(first), 1, k), blocks.Bytes(shifts[first:][:k]))
		}
		if base+int(p.Nodes) > o.Rows {
			return fmt.Errorf("gpu: sampling: partition %d is at row %d of %d", p.ID, base, o.Rows)
		}
		s.send(s.lists.Spans.View(0, 2*base, 1, 2*int(p.Nodes)), spanBytes(mb.In.Spans[p.Base:][:p.Nodes]))
	}
	s.where, s.shifts = append(s.where[:0], mb.Partitions...), append(s.shifts[:0], shifts...)
	return s.queue.Err()
}

// send copies to the device.
func (s *Sampler) send(to gpu.Tensor, data []byte) {
	s.queue.Upload(to, data)
	s.stats.Bytes += int64(len(data))
}

// Waiting is how many mini-batches were asked for that were not handed out.
func (s *Sampler) Waiting() int { return s.drawn - s.next }

// Room is how many more mini-batches can be asked for.
func (s *Sampler) Room() int { return Ahead - (s.drawn - s.freed) }

// Draw has a mini-batch drawn for distinct seeds, of which there is at least one: places of the macro-batch's rows on the device. It fails with [mini.ErrSeeds] as the
// host's sampler does. There is Room.
func (s *Sampler) Draw(key mini.Key, seeds []uint32) error {
	for i, r := range seeds {
		if int(r) >= s.lists.First.Cols {
			return fmt.Errorf("%w: seed %d is row %d, but there are %d", mini.ErrSeeds, i, r, s.lists.First.Cols)
		}
	}
	s.table.Reset()
	s.numbers = slices.Grow(s.numbers[:0], len(seeds))[:len(seeds)]
	if s.unique = s.table.Map(s.unique[:0], seeds, s.numbers); len(s.unique) < len(seeds) {
		return fmt.Errorf("%w: of %d seeds %d are different rows", mini.ErrSeeds, len(seeds), len(s.unique))
	}
	b := &s.slots[s.drawn%Ahead]
	if s.Room() == 0 || len(seeds) == 0 || len(seeds) > b.Hops[0].NumDst {
		return fmt.Errorf("gpu: sampling: a mini-batch of %d seeds with room for %d of at most %d", len(seeds), s.Room(), b.Hops[0].NumDst)
	}
	b.seeds, b.Seeds = append(b.seeds[:0], seeds...), len(seeds)
	for h := range b.Hops {
		b.Hops[h].Key = uint64(s.options.Config.Place(key, h))
	}
	s.send(b.Input.View(0, 0, 1, len(seeds)), blocks.Bytes(b.seeds))
	s.queue.SampleBlocks(s.lists, b.Sampled)
	s.queue.Download(blocks.Bytes(b.sizes), b.Sizes)
	b.mark = s.queue.Mark()
	s.drawn++
	return s.queue.Err()
}

// Batch is a mini-batch on the device, valid until Free.
type Batch struct {
	Nodes, Edges []int // as [mini.Batch] has its blocks, input first: Nodes[i] sources and Nodes[i+1] destinations of block i, its Edges[i]
	from         *gpu.Sampled
}

// SampledEdges is how many edges were drawn.
func (b *Batch) SampledEdges() (n int) {
	for _, e := range b.Edges {
		n += e
	}
	return n
}

// Input is where the rows lie that feed the first block, Uint32.
func (b *Batch) Input() gpu.Tensor { return b.from.Input.View(0, 0, 1, b.Nodes[0]) }

// Degrees are the numbers of neighbours of the nodes of level i, Int32: 0 is the input, i+1 the destinations of block i.
func (b *Batch) Degrees(i int) gpu.Tensor { return b.from.Degrees.View(0, 0, 1, b.Nodes[i]) }

// Block is block i, input first.
func (b *Batch) Block(i int) gpu.Graph {
	g := b.from.Hops[len(b.Edges)-1-i].Graph
	g.NumDst, g.NumSrc = b.Nodes[i+1], b.Nodes[i]
	g.Indptr, g.Indices = g.Indptr.View(0, 0, 1, g.NumDst+1), g.Indices.View(0, 0, 1, b.Edges[i])
	return g
}

// Next waits until the mini-batch that comes next is drawn; one has been asked for.
func (s *Sampler) Next(ctx context.Context) (*Batch, error) {
	f := &s.slots[s.next%Ahead]
	if !f.mark.Passed() {
		s.stats.Waits++
	}
	if err := f.mark.Wait(ctx); err != nil {
		return nil, err
	}
	s.stats.Took += f.mark.Took()
	s.next++
	b := &Batch{from: &f.Sampled}
	for h := len(f.Hops) - 1; h >= 0; h-- {
		b.Nodes, b.Edges = append(b.Nodes, int(f.sizes[2*h+2])), append(b.Edges, int(f.sizes[2*h+1]))
	}
	b.Nodes = append(b.Nodes, int(f.sizes[0]))
	return b, nil
}

// Free gives the last mini-batch's room to others, once all is done that was issued to q so far.
func (s *Sampler) Free(q *gpu.Queue) {
	s.queue.Follow(q)
	s.freed++
}

// Leave ends a macro-batch: mini-batches that were asked for and not handed out are forgotten.
func (s *Sampler) Leave(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.next, s.freed = s.drawn, s.drawn
	return s.queue.Sync(context.WithoutCancel(ctx))
}

// Stats counts all so far.
func (s *Sampler) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	return s.stats
}

// Close waits for what is drawn and frees the device's memory.
func (s *Sampler) Close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.queue != nil {
		err = s.queue.Close()
	}
	if s.mem != nil {
		err = errors.Join(err, s.mem.Free())
	}
	s.queue, s.mem = nil, nil
	return err
}
