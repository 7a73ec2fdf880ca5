package native

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/host/kernels"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// room is the memory of a loader's batches: slabs that live as long as its handle, so that what Python looks at never goes
// away under it. A batch that grows takes a larger one, half as large again, and leaves its own unused.
type room struct {
	mu    sync.Mutex
	bound int64 // bytes; 0: none
	used  int64
	slabs []*blockio.Slab
	freed bool
}

func (r *room) alloc(n int64) ([]byte, error) {
	n = (n + n/2 + blocks.Alignment) / blocks.Alignment * blocks.Alignment
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		return nil, store.ErrClosed
	}
	if r.bound > 0 && r.used+n > r.bound {
		return nil, fmt.Errorf("%w: mini-batches take %s, %s are left beside the partition buffer; give more memory, or smaller batches or fanouts",
			store.ErrBudget, blocks.SizeText(r.used+n), blocks.SizeText(r.bound))
	}
	s, err := blockio.AllocSlab(n, blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	r.used += n
	r.slabs = append(r.slabs, s)
	return s.Bytes(), nil
}

// memory are all slabs there are by now.
func (r *room) memory() (all [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slabs {
		all = append(all, s.Bytes())
	}
	return all
}

func (r *room) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slabs {
		_ = s.Free()
	}
	r.slabs, r.freed = nil, true
}

// packer copies what a batch is of into memory outside the Go heap, on the sampling goroutines: rows of features, labels,
// ids and edges, in the types that PyTorch and PyG take.
type packer struct {
	layers       bool
	relations    bool
	edgeFeatures bool
	numbers      bool             // labels are numbers
	sets         *store.LabelSets // of labels, where a node has several
	room         *room
	columns      []buffer.Column // whose rows come later, by [packed.features]; nil: the macro-batch has them
}

// packed is a batch as it is handed out, and the memory for it. It is a batch's Extra.
type packed struct {
	memory []byte
	infos  []arrayInfo
	data   [][]byte
	size   int   // of the batch: seeds, or edges
	nodes  []int // by hop, the seeds first
	edges  []int // by hop
	chunks []int // of a batch of edges: where chunks end, of tails and then of heads

	local    []uint32 // the nodes that are handed out: positions in the batch's input
	nodeRows []uint32 // their rows in the macro-batch
	typeRows []uint32 // and in a column of one node type
	number   []int32  // by position in the input: its place in local, −1 = not in it
	src, dst []int32  // the union's edges: places in local
	types    []uint16
	places   []int64 // of the union's edges in the macro-batch

	parts []buffer.ResidentPartition // by row
	cells []uint32                   // by stretch of rows: the place in parts of its first row's, or of the next
}

// packedIn begins what is handed out of a batch of so many seeds or edges, in the memory of the batch before that is in extra.
func packedIn(extra *any, size int) *packed {
	p, ok := (*extra).(*packed)
	if !ok {
		p = &packed{}
		*extra = p
	}
	p.size, p.infos, p.nodes, p.edges, p.chunks = size, p.infos[:0], p.nodes[:0], p.edges[:0], p.chunks[:0]
	return p
}

// finish is [train.LoaderOptions].Finish.
func (k *packer) finish(mb *buffer.MacroBatch, b *mini.Batch) error {
	p := packedIn(&b.Extra, len(b.Seeds))
	if k.layers {
		p.everything(b)
	} else {
		p.union(b, k)
	}
	n := len(p.local)
	p.locate(b.Input)
	p.want("n_id", "int64", n)
	columns := mb.Features
	if k.columns != nil {
		columns = k.columns
	}
	for i := range columns {
		f := &columns[i]
		p.want("feature:"+f.Name, dtype(f.Type), n, f.Dim)
	}
	switch {
	case mb.Labels == nil:
	case k.numbers:
		p.want("y", "float32", n)
	case k.sets != nil:
		p.want("y", "float32", n, k.sets.Labels())
	default:
		p.want("y", "int64", n)
	}
	if !k.layers {
		p.want("edge_index", "int64", 2, len(p.src))
		if k.relations {
			p.want("edge_type", "int64", len(p.src))
		}
		if k.edgeFeatures {
			p.want("edge_attr", "float32", len(p.src), mb.In.FeatureDim)
		}
	} else {
		for l := range b.Blocks {
			p.want(fmt.Sprintf("indptr:%d", l), "int64", b.Blocks[l].NumDst+1)
			p.want(fmt.Sprintf("edge_index:%d", l), "int64", 2, len(b.Blocks[l].Indices))
			if k.relations {
				p.want(fmt.Sprintf("edge_type:%d", l), "int64", len(b.Blocks[l].Indices))
			}
			if k.edgeFeatures {
				p.want(fmt.Sprintf("edge_attr:%d", l), "float32", len(b.Blocks[l].Indices), mb.In.FeatureDim)
			}
		}
	}
	if err := p.place(k.room); err != nil {
		return err
	}
	p.ids(mb, ints(p.data[0]))
	if k.columns == nil {
		if err := p.features(columns, b.Input); err != nil {
			return err
		}
	}
	at := 1 + len(columns)
	next := func() []byte { at++; return p.data[at-1] }
	switch {
	case mb.Labels == nil:
	case k.numbers:
		to, err := blocks.View[float32](next())
		if err != nil {
			return err
		}
		for i := range n {
			to[i] = blocks.CodedNumber(mb.Labels[b.Input[p.local[i]]])
		}
	case k.sets != nil:
		to, err := blocks.View[float32](next())
		if err != nil {
			return err
		}
		setRows(k.sets, to, func(i int) int32 { return mb.Labels[b.Input[p.local[i]]] })
	default:
		for i, to := 0, ints(next()); i < n; i++ {
			to[i] = int64(mb.Labels[b.Input[p.local[i]]])
		}
	}
	if !k.layers {
		to := ints(next())
		e := len(p.src)
		for i := range p.src {
			to[i], to[e+i] = int64(p.src[i]), int64(p.dst[i])
		}
		if k.relations {
			for i, to := 0, ints(next()); i < e; i++ {
				to[i] = int64(p.types[i])
			}
		}
		if k.edgeFeatures {
			edgeRows(mb.In, p.places, next())
		}
		return nil
	}
	for l := range b.Blocks {
		p.layer(&b.Blocks[l], ints(next()), ints(next()))
		if k.relations {
			for i, to := 0, ints(next()); i < len(to); i++ {
				to[i] = int64(b.Blocks[l].Relations[i])
			}
		}
		if k.edgeFeatures {
			edgeRows(mb.In, b.Blocks[l].Places, next())
		}
	}
	return nil
}

// locate finds the rows of the nodes that are handed out, given those of the batch's input.
func (p *packed) locate(input []uint32) {
	p.nodeRows = slices.Grow(p.nodeRows[:0], len(p.local))[:len(p.local)]
	for i, l := range p.local {
		p.nodeRows[i] = input[l]
	}
}

// features writes rows of all columns, given where those of the batch's input are.
func (p *packed) features(columns []buffer.Column, input []uint32) error {
	p.locate(input)
	for i := range columns {
		if err := p.rows(&columns[i], p.data[1+i]); err != nil {
			return err
		}
	}
	return nil
}

// ints views an array of int64, which begins at a multiple of 64.
func ints(b []byte) []int64 {
	v, _ := blocks.View[int64](b)
	return v
}

// want plans an array.
func (p *packed) want(name, dtype string, shape ...int) {
	p.infos = append(p.infos, arrayInfo{name, dtype, shape})
}

// elementBytes of the types that arrays have.
func elementBytes(dtype string) int64 {
	e, err := blocks.ParseElemType(dtype)
	if err != nil {
		return 0
	}
	return int64(e.Size())
}

// place gives every array its memory.
func (p *packed) place(r *room) (err error) {
	total := int64(0)
	size := func(i *arrayInfo) int64 {
		n := elementBytes(i.Dtype)
		for _, d := range i.Shape {
			n *= int64(d)
		}
		return n
	}
	for i := range p.infos {
		total += pad(size(&p.infos[i]))
	}
	if total > int64(len(p.memory)) {
		if p.memory, err = r.alloc(total); err != nil {
			return err
		}
	}
	rest := p.memory
	p.data = p.data[:0]
	for i := range p.infos {
		n := size(&p.infos[i])
		p.data = append(p.data, rest[:n:n])
		rest = rest[pad(n):]
	}
	return nil
}

// everything hands out the whole input, in its order.
func (p *packed) everything(b *mini.Batch) {
	p.local = p.local[:0]
	for i := range b.Input {
		p.local = append(p.local, uint32(i))
	}
	before := 0
	for h := range b.Blocks {
		blk := &b.Blocks[len(b.Blocks)-1-h]
		p.nodes, before = append(p.nodes, blk.NumDst-before), blk.NumDst
		p.edges = append(p.edges, len(blk.Indices))
	}
	p.nodes = append(p.nodes, len(b.Input)-before)
}

// union takes of the blocks what PyG's NeighborLoader samples: the edges of every node once, by the fanout of the hop that it
// is met at. A block has new draws for the nodes of the hops before, which a model of one edge list has no use for; they and
// the nodes that only they lead to are left out. Nodes are numbered hop by hop, as they are met.
func (p *packed) union(b *mini.Batch, k *packer) {
	p.number = slices.Grow(p.number[:0], len(b.Input))[:len(b.Input)]
	for i := range p.number {
		p.number[i] = -1
	}
	p.local, p.src, p.dst, p.types, p.places = p.local[:0], p.src[:0], p.dst[:0], p.types[:0], p.places[:0]
	for i := range b.Seeds {
		p.number[i] = int32(i)
		p.local = append(p.local, uint32(i))
	}
	begin := 0 // of the nodes met at the hop before
	p.nodes = append(p.nodes, len(b.Seeds))
	for h := range b.Blocks {
		blk := &b.Blocks[len(b.Blocks)-1-h]
		end, edges := len(p.local), len(p.src)
		for v := begin; v < end; v++ {
			u := p.local[v]
			for e := blk.Indptr[u]; e < blk.Indptr[u+1]; e++ {
				s := blk.Indices[e]
				if p.number[s] < 0 {
					p.number[s] = int32(len(p.local))
					p.local = append(p.local, uint32(s))
				}
				p.src, p.dst = append(p.src, p.number[s]), append(p.dst, int32(v))
				if k.relations {
					p.types = append(p.types, blk.Relations[e])
				}
				if k.edgeFeatures {
					p.places = append(p.places, blk.Places[e])
				}
			}
		}
		p.nodes, p.edges, begin = append(p.nodes, len(p.local)-end), append(p.edges, len(p.src)-edges), end
	}
}

// edgeRows writes the features of edges, given their places in the macro-batch: float32 [edges, columns].
func edgeRows(in *buffer.Adjacency, places []int64, to []byte) {
	out, _ := blocks.View[float32](to)
	for i, at := range places {
		copy(out[i*in.FeatureDim:(i+1)*in.FeatureDim], in.Features[int(at)*in.FeatureDim:])
	}
}

// layer writes a block as indptr and as pairs source, destination.
func (p *packed) layer(blk *mini.Block, indptr, pairs []int64) {
	for d, at := range blk.Indptr[:blk.NumDst+1] {
		indptr[d] = int64(at)
	}
	pairsOf(blk, pairs)
}

// pairsOf writes a block's edges: their sources, then their destinations.
func pairsOf(blk *mini.Block, to []int64) {
	e := len(blk.Indices)
	for d := range blk.NumDst {
		for i := blk.Indptr[d]; i < blk.Indptr[d+1]; i++ {
			to[i], to[e+int(i)] = int64(blk.Indices[i]), int64(d)
		}
	}
}

// cellsMost is how many equal stretches of a macro-batch's rows [packed.ids] tells apart at a step.
const cellsMost = 4096

// ids writes the internal ids of the nodes.
func (p *packed) ids(mb *buffer.MacroBatch, to []int64) {
	p.parts = append(p.parts[:0], mb.Partitions...)
	p.parts = slices.DeleteFunc(p.parts, func(x buffer.ResidentPartition) bool { return x.Nodes == 0 })
	slices.SortFunc(p.parts, func(x, y buffer.ResidentPartition) int { return cmp.Compare(x.Base, y.Base) })
	if len(p.parts) == 0 {
		return
	}
	// A node's partition is that of its cell's first row, or one soon after: no search, whose branches go either way.
	last := p.parts[len(p.parts)-1]
	shift := 0
	for (last.Base+last.Nodes-1)>>shift >= cellsMost {
		shift++
	}
	p.cells = p.cells[:0]
	for k := range p.parts {
		for end := p.parts[k].Base + p.parts[k].Nodes; uint32(len(p.cells))<<shift < end; {
			p.cells = append(p.cells, uint32(k))
		}
	}
	for i, row := range p.nodeRows {
		k := p.cells[row>>shift]
		for p.parts[k].Base+p.parts[k].Nodes <= row {
			k++
		}
		to[i] = int64(p.parts[k].First) + int64(row-p.parts[k].Base)
	}
}

// rows gathers rows of a feature column: converted as the column says, or as they are.
func (p *packed) rows(f *buffer.Column, to []byte) error {
	rows := p.nodeRows
	if f.Runs != nil {
		p.typeRows = f.Runs.Places(p.typeRows, rows)
		rows = p.typeRows
	}
	if f.Type == blocks.Float32 || converted(f.Type) {
		out, err := blocks.View[float32](to)
		if err != nil {
			return err
		}
		// It reads rows ahead of their use, which a loop of copies does not: each would wait for memory.
		table := kernels.Rows{Data: f.Data, Count: f.Rows(), Dim: f.Dim, Stride: f.Stride, Type: f.Type, Scales: f.Scale}
		kernels.GatherRows(nil, kernels.Dense(out, len(rows), f.Dim), table, rows)
		return nil
	}
	width := f.Dim * f.Type.Size()
	for i, row := range rows {
		copy(to[i*width:][:width], f.Data[int(row)*f.Stride:])
	}
	return nil
}
