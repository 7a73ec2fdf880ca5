package link

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/meter"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// batchMeter finds what the largest mini-batch that a run can meet takes of the device, by running the model on a
// [meter.Device] with that batch's sizes.
type batchMeter struct {
	cfg     *Config
	m       *store.Manifest
	dev     *meter.Device
	queue   *gpu.Queue
	arena   *gpu.Arena
	model   *nn.LinkModel
	columns []*store.ColumnInfo // of its features
	inputs  int64               // rows that feed the batch in hand
	indexed int64               // bytes of host numbers that the batch in hand gives to the device
	known   map[int]need        // by capacity
}

// need is what a mini-batch takes, in bytes.
type need struct {
	tensors int64 // in its arena
	staged  int64 // of them what comes from the host
	inputs  int64 // rows that feed it
}

// newBatchMeter measures for a device that info describes.
func newBatchMeter(ctx context.Context, info gpu.Info, m *store.Manifest, cfg *Config) (_ *batchMeter, err error) {
	b := &batchMeter{cfg: cfg, m: m, dev: meter.New(info), known: map[int]need{}}
	b.arena = gpu.NewArena(b.dev)
	b.arena.Bound(math.MaxInt64 / 2) // one chunk: tensors are counted, not chunks
	if b.queue, err = gpu.NewQueue(b.dev); err != nil {
		return nil, err
	}
	model, err := cfg.LinkModel(m)
	if err != nil {
		return nil, err
	}
	b.columns, err = cfg.columns(m)
	if err != nil {
		return nil, err
	}
	b.model, err = nn.NewLink(ctx, b.queue, model)
	return b, err
}

func (b *batchMeter) close() error {
	return errors.Join(b.model.Close(), b.arena.Close(), b.queue.Close())
}

// worst returns what a mini-batch takes with capacity partitions resident (0 = all): no batch of such a run takes more.
func (b *batchMeter) worst(ctx context.Context, capacity int) (need, error) {
	if n, ok := b.known[capacity]; ok {
		return n, nil
	}
	b.indexed = 0
	rows, edges := largestStep(b.m, capacity)
	inputs, neighbours := rows, edges
	if b.cfg.Absent == AbsentShadow {
		inputs, neighbours = largestStep(b.m, 0)
	}
	tensors, err := b.bytes(ctx, rows, inputs, neighbours)
	if err != nil {
		return need{}, fmt.Errorf("train: what a mini-batch takes: %w", err)
	}
	n := need{tensors, b.indexed, b.inputs}
	b.known[capacity] = n
	return n, nil
}

// largestStep is the most nodes and neighbours that capacity partitions (0 = all) have.
func largestStep(m *store.Manifest, capacity int) (rows, neighbours int64) {
	var nodes, into []int64
	for _, p := range m.Partitions {
		nodes, into = append(nodes, int64(p.Nodes)), append(into, int64(p.Edges))
	}
	return largest(nodes, capacity), 2 * largest(into, capacity) // edges are read from both ends
}

// largest is the sum of the n largest counts (0 = all). It sorts counts.
func largest(counts []int64, n int) (sum int64) {
	slices.Sort(counts)
	if n > 0 {
		counts = counts[max(0, len(counts)-n):]
	}
	for _, c := range counts {
		sum += c
	}
	return sum
}

// bytes runs a batch whose ends and negatives are all different, and have all the neighbours that may be drawn, all different, as
// long as there are so many rows in memory, and rows and edges to sample from.
func (b *batchMeter) bytes(ctx context.Context, rows, sampled, edges int64) (int64, error) {
	q, a, c := b.queue, b.arena, b.cfg
	n := c.BatchSize
	negatives := 2 * c.Chunks * c.Negatives
	seeds := min(rows, int64(2*n+negatives))
	inputs := seeds
	graphs := make([]gpu.Graph, len(c.Fanouts))
	for hop, fanout := range c.Fanouts { // outward from the seeds, whose block is the last
		dst, e := inputs, sampledMost(inputs, fanout, edges)
		inputs = min(sampled, dst+e)
		g := gpu.Graph{NumDst: int(dst), NumSrc: int(inputs), Indptr: b.index(int(dst)+1, blocks.Int32), Indices: b.index(int(e), blocks.Int32)}
		if b.model.ReadsDegrees() {
			g.SrcDegrees, g.DstDegrees = b.index(int(inputs), blocks.Int32), b.index(int(dst), blocks.Int32)
		}
		graphs[len(graphs)-1-hop] = g
	}
	b.inputs = inputs
	batch := nn.LinkBatch{Rows: b.index(4*n+negatives, blocks.Uint32), Relations: b.index(2*n, blocks.Uint32), Negatives: c.Negatives}
	for side := range 2 {
		for k := range c.Chunks {
			batch.Chunks = append(batch.Chunks, side*n+(k+1)*n/c.Chunks)
		}
	}
	table := gpu.MatrixOf(meter.Elsewhere(4*rows*int64(c.Dim)), 0, int(rows), c.Dim)
	p := &nn.Pass{Queue: q, Arena: a, Train: true}
	in := nn.Input{Tables: []gpu.Tensor{table}, Index: b.index(int(inputs), blocks.Uint32)}
	if c.NoEmbeddings {
		in.Tables = nil
	}
	for _, x := range b.columns {
		in.Tables = append(in.Tables, b.feature(x, rows))
	}
	if c.Absent == AbsentShadow { // see absent.input
		in = nn.Input{Tables: []gpu.Tensor{a.Matrix(q, int(inputs), c.Dim)}}
		b.index(int(inputs-seeds)*c.Dim, blocks.Float32)
	}
	gradients(p, b.model, graphs, in, batch)
	b.model.Constrain(p)
	if err := q.Sync(ctx); err != nil {
		return 0, err
	}
	used := a.Used()
	return used, a.Reset()
}

// feature is a column of rows that are resident.
func (b *batchMeter) feature(x *store.ColumnInfo, rows int64) gpu.Tensor {
	t := gpu.Tensor{Mem: meter.Elsewhere(rows * int64(x.RowBytes())), Rows: int(rows), Cols: x.Dim, Stride: x.RowBytes() / x.Elem.Size(), Elem: x.Elem}
	if x.Scale != nil {
		t.Scale = meter.Elsewhere(4 * int64(x.Dim))
	}
	return t
}

// index is n host numbers as [gpu.Arena.Int32s] gives them to the device.
func (b *batchMeter) index(n int, elem blocks.ElemType) gpu.Tensor {
	if n == 0 {
		return gpu.Tensor{}
	}
	b.indexed += 4 * int64(n)
	if !b.dev.Info().InPlace {
		return b.arena.Vector(b.queue, n, elem)
	}
	return gpu.VectorOf(meter.Elsewhere(4*int64(n)), 0, n, elem)
}
