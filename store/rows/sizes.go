package rows

import (
	"fmt"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

const (
	// held is how many batches may be in use while another one's rows are read: the one that trains and the one after it.
	held = 2
	// windowSlots is how many rows are known ahead for each row of the cache: it is filled that often before what is farthest.
	windowSlots = 4
	spanBytes   = 1 << 20 // most bytes of one request
	stageBytes  = 8 << 20 // most of requests under way, if none is larger; an eighth of small features
	stripeBytes = 8 << 20 // most of topology read at a time, if no bucket is larger
)

// Sizes says what a [Reader] holds.
type Sizes struct {
	GraphBytes   int64 // adjacency, labels and seeds, for the whole run
	LoadingBytes int64 // beside them while they are read
	CacheBytes   int64 // beside them from then on
	Slots        int   // rows of features in the cache
	WindowRows   int   // rows of batches known ahead
	PackBatches  int   // most batches of a window, with Options.Packed
	PackWindows  int   // windows, likewise: with two, one is read while the other is trained
	RowBytes     int   // of all features, those of all types of nodes together
	AllBytes     int64 // of the features of all nodes
	KindSlots    []int // of Slots those for rows of each node type; nil: any row lies in any slot, and takes RowBytes
	LeastBytes   int64 // smallest Options.MemoryBytes that would do

	slotBytes int64
}

// MemoryBytes is all that is held at a time.
func (z Sizes) MemoryBytes() int64 { return z.GraphBytes + max(z.LoadingBytes, z.CacheBytes) }

// SlotBytes is what the rows in the cache take.
func (z Sizes) SlotBytes() int64 { return z.slotBytes }

// Measure computes the sizes for a store; a budget that is too small is a [*buffer.BudgetError], and Sizes.LeastBytes is set even then.
func Measure(s *store.Store, o Options) (z Sizes, err error) {
	m := s.Manifest()
	if err := o.validate(m); err != nil {
		return z, err
	}
	nodes := int64(m.Nodes)
	for _, name := range o.Features {
		c, err := m.Column(name)
		if err != nil {
			return z, err
		}
		z.RowBytes += c.RowBytes()
	}
	k := o.kinds(m)
	if z.AllBytes = nodes * int64(z.RowBytes); k != nil {
		z.AllBytes = k.bytes(k.nodes)
	}
	if z.GraphBytes, err = graphBytes(m, &o); err != nil {
		return z, err
	}
	if z.LoadingBytes, err = loadingBytes(s, &o); err != nil {
		return z, err
	}
	batch := min(max(1, o.BatchRows), int(nodes))
	if o.Packed {
		err = o.packed(m, &z, batch)
	} else {
		err = o.cached(m, &z, batch, k)
	}
	return z, err
}

// cached sets the sizes of a cache that keeps rows, of kinds if k is not nil.
func (o *Options) cached(m *store.Manifest, z *Sizes, batch int, k *kinds) error {
	nodes := int(m.Nodes)
	least := batch
	if k != nil {
		least = max(batch, sum(k.least))
	}
	set := func(slots int) int64 {
		if z.slotBytes = int64(slots) * int64(z.RowBytes); k != nil {
			z.KindSlots = k.divide(slots)
			z.slotBytes = k.bytes(z.KindSlots)
		}
		z.Slots, z.WindowRows = slots, max(batch, windowSlots*slots)
		if slots == nodes { // nothing is ever evicted
			z.WindowRows = 2 * batch
		}
		w := z.window(m, batch)
		z.CacheBytes = o.besideSlots(m, z, batch) + blocks.AlignUp(w.Bytes()) + z.SlotBytes()
		return z.MemoryBytes()
	}
	z.LeastBytes = min(set(least), set(nodes))
	switch {
	case o.MemoryBytes == 0 || set(nodes) <= o.MemoryBytes:
		set(nodes)
	case set(least) > o.MemoryBytes:
		return o.tooSmall(m, z)
	default:
		set(least + sort.Search(nodes-1-least, func(i int) bool { return set(least+1+i) > o.MemoryBytes }))
	}
	return nil
}

// packed sets the sizes of slots that batches come to from a file: as much of an epoch is swept at a time as memory allows.
func (o *Options) packed(m *store.Manifest, z *Sizes, batch int) error {
	granule := slotGranule(m, o.Features)
	z.Slots = (batch + granule - 1) / granule * granule
	all := max(1, o.EpochBatches)
	each := max(1, o.EpochRows/all)
	z.PackWindows = 1
	set := func(batches int) int64 {
		z.PackBatches, z.WindowRows = batches, max(batch, each*batches)
		z.slotBytes = int64(z.Slots) * int64(z.RowBytes)
		z.CacheBytes = o.besideSlots(m, z, batch) + o.stage(m, z) + int64(z.PackWindows)*2*blocks.AlignUp(4*int64(z.WindowRows)) + 2*halfBytes*int64(batches) + z.SlotBytes()
		return z.MemoryBytes()
	}
	if z.LeastBytes = set(1); o.MemoryBytes > 0 && z.LeastBytes > o.MemoryBytes {
		return o.tooSmall(m, z)
	}
	if o.MemoryBytes > 0 {
		all = 1 + sort.Search(all-1, func(i int) bool { return set(2+i) > o.MemoryBytes })
	}
	// A second window costs no sweep: it is there where it makes none smaller.
	if z.PackWindows = 2; o.MemoryBytes > 0 && set(all) > o.MemoryBytes {
		z.PackWindows = 1
	}
	// What is left holds batches while others are read.
	more := 7 * z.Slots
	if need := set(all); o.MemoryBytes > 0 {
		more = int(min(int64(more), (o.MemoryBytes-need)/int64(max(1, z.RowBytes)))) / granule * granule
	}
	z.Slots += more
	z.slotBytes += int64(more) * int64(z.RowBytes)
	z.CacheBytes += int64(more) * int64(z.RowBytes)
	return nil
}

// fileBytes is the most that a window takes of the temporary file, of so many columns.
func (z *Sizes) fileBytes(columns int) int64 {
	return blocks.AlignUp(int64(z.WindowRows)*int64(z.RowBytes)) + int64(z.PackBatches)*int64(columns)*blocks.Alignment
}

func (o *Options) tooSmall(m *store.Manifest, z *Sizes) error {
	return &buffer.BudgetError{NeedBytes: z.LeastBytes, HaveBytes: o.MemoryBytes, Partitions: len(m.Partitions)}
}

// validate refuses what a Reader does not read.
func (o *Options) validate(m *store.Manifest) error {
	if err := o.Options.Validate(m); err != nil {
		return err
	}
	switch {
	case o.Table != nil || o.TablePlanes > 0:
		return fmt.Errorf("%w: rows are read for graphs without learned embeddings", store.ErrInvalid)
	case o.Both && m.Schema.Undirected:
		return fmt.Errorf("%w: both directions of an undirected graph", store.ErrInvalid)
	case o.Weights && len(m.ColumnsOf(store.RoleWeight)) == 0:
		return fmt.Errorf("%w: a column of role %s: the store's edges have no weights", store.ErrNotFound, store.RoleWeight)
	case o.BatchRows < 1:
		return fmt.Errorf("%w: batches of %d rows", store.ErrInvalid, o.BatchRows)
	case m.Nodes >= 1<<32-1:
		return fmt.Errorf("%w: %d nodes in memory, most %d", store.ErrInvalid, m.Nodes, uint32(1<<32-2))
	}
	return nil
}

// graphBytes is what the graph takes in memory.
func graphBytes(m *store.Manifest, o *Options) (int64, error) {
	n, edges := int64(m.Nodes), storedEdges(m)
	bytes := 4*edges + 4*(n+1)
	if o.Relations {
		bytes += 4 * ((edges + 1) / 2)
	}
	if o.Weights {
		bytes += 4*edges + 8*sumsOf(edges)
	}
	if o.Both {
		bytes *= 2
	}
	if m.Labels() != nil && o.Labels {
		bytes += 4 * n
	}
	seeds, err := seedsMost(m, o)
	return bytes + 4*seeds, err
}

// seedsMost is at least the number of nodes to train.
func seedsMost(m *store.Manifest, o *Options) (n int64, err error) {
	if o.Seeds != nil {
		return int64(o.Seeds.Len()), nil
	}
	split, err := m.SplitColumn(o.SplitColumn)
	if err != nil {
		return 0, err
	}
	if first, err := m.SplitColumn(""); err == nil && first.Name == split.Name && o.Split != "valid" && o.Split != "test" {
		for i := range m.Partitions {
			n += int64(m.Partitions[i].Train)
		}
		return n, nil
	}
	return int64(m.Nodes), nil
}

// loadingBytes is the most that loading takes at once: the order of external ids, and beside it the ids, or the split, or
// a part of a stripe, or the ranks by which neighbours are sorted.
func loadingBytes(s *store.Store, o *Options) (int64, error) {
	m := s.Manifest()
	n := int64(m.Nodes)
	ids := int64(0)
	switch m.IDs.Kind {
	case store.IDsStrings:
		for p := range m.Partitions {
			_, e, err := s.Files().External(store.PartitionID(p))
			if err != nil {
				return 0, err
			}
			ids += blocks.AlignUp(blocks.RangeBytes(e.Length))
		}
	case store.IDsDense:
	default:
		ids = 8 * n
	}
	stripes, err := s.ReadStripes(o.edgeColumns(m), stripeLimit(m), 0).Need()
	return 4*n + max(ids, n, stripes, 4*n) + scratchBytes(m), err
}

// stripeLimit is how much topology is read at a time: small graphs need no more than they have.
func stripeLimit(m *store.Manifest) int64 {
	return min(stripeBytes, blocks.AlignUp(blocks.RangeBytes(5*int64(m.Edges))))
}

// scratchBytes is room for a partition's part of any column that loading reads.
func scratchBytes(m *store.Manifest) int64 {
	most := uint64(0)
	for i := range m.Partitions {
		most = max(most, m.Partitions[i].Nodes)
	}
	return blocks.AlignUp(blocks.RangeBytes(8 * int64(most)))
}

// window are the sizes of what decides.
func (z *Sizes) window(m *store.Manifest, batch int) windowOptions {
	return windowOptions{Rows: max(1, int(m.Nodes)), Slots: max(1, z.Slots), BatchRows: batch, Entries: max(batch, z.WindowRows), Held: held, Kinds: z.KindSlots}
}

// besideSlots is the area that reads go to, what sorts a batch's rows, and what rounding to pages takes.
func (o *Options) besideSlots(m *store.Manifest, z *Sizes, batch int) int64 {
	return blocks.AlignUp(8*int64(batch)) + o.stage(m, z) + int64(len(o.Features))*blocks.Alignment
}

// stage is the size of the area that requests are read to.
func (o *Options) stage(m *store.Manifest, z *Sizes) int64 {
	return max(o.spanMost(z.RowBytes), min(stageBytes, blocks.AlignUp(z.AllBytes/8)))
}

// spanMost is the largest request for rows of so many bytes.
func (o *Options) spanMost(rowBytes int) int64 {
	n := int64(spanBytes)
	if o.RequestBytes > 0 {
		n = min(n, o.RequestBytes)
	}
	return max(n, blocks.AlignUp(int64(rowBytes))+2*blocks.ChunkBytes)
}

// bases returns the first node of each partition, and the number of nodes behind the last.
func bases(m *store.Manifest) []uint32 {
	b := make([]uint32, 0, len(m.Partitions)+1)
	for i := range m.Partitions {
		b = append(b, uint32(m.Partitions[i].First))
	}
	return append(b, uint32(m.Nodes))
}

// partition is that of a node.
func partition(bases []uint32, node uint32) int {
	p, ok := slices.BinarySearch(bases, node)
	if !ok {
		p--
	}
	for p+1 < len(bases) && bases[p+1] == node { // empty partitions begin there too
		p++
	}
	return p
}
