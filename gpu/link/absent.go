package link

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// Names of [Config].Absent.
const (
	AbsentAuto   = "auto"
	AbsentShadow = "shadow"
	AbsentIgnore = "ignore"
)

// holdsAbsent is who holds the graph and the shadow in a run's account.
const holdsAbsent = "absent neighbours"

// complete fills in c.Absent: nothing is absent in memory, and nothing looks at neighbours without an encoder.
func (c *Config) complete() {
	if c.Absent == AbsentAuto || c.Encoder == "none" || c.Plan == macro.Memory || c.Plan == "auto" && c.Buffer == 0 && c.MemoryBytes == 0 {
		c.Absent = AbsentIgnore
	}
}

// AbsentWhy says what a run of c does for absent neighbours, "" if nothing.
func (c *Config) AbsentWhy(m *store.Manifest) string {
	if c.Absent != AbsentShadow {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf("absent neighbours are read from a shadow of all rows, 4 bits a number, %.1f MiB beside the graph's %.1f", float64(shadowBytes(m.Nodes, c.Dim))/mib, float64(topologyBytes(m))/mib)
}

// absentBytes is what absent takes. What reading graph and table takes beside it is the partition buffer's, which is made later.
func (c *Config) absentBytes(m *store.Manifest) int64 {
	n := int64(m.Nodes)
	return topologyBytes(m) + shadowBytes(m.Nodes, c.Dim) + 2*blocks.AlignUp(4*n) + blocks.AlignUp(4*int64(c.Dim)*c.inputsMost(n, 2*int64(m.Edges)))
}

// inputsMost bounds the input rows of a mini-batch, of a graph of so many rows and neighbours.
func (c *Config) inputsMost(rows, neighbours int64) int64 {
	seeds := min(rows, int64(2*c.BatchSize+2*c.Chunks*c.Negatives))
	for _, fanout := range c.Fanouts {
		seeds = min(rows, seeds+sampledMost(seeds, fanout, neighbours))
	}
	return seeds
}

// sampledMost bounds the neighbours sampled for so many nodes: over incoming edges, and as many over outgoing ones.
func sampledMost(nodes int64, fanout int, neighbours int64) int64 {
	if fanout < 0 {
		return neighbours
	}
	return min(neighbours, 2*nodes*int64(fanout))
}

// absent lets an encoder see whole neighbourhoods out of core: mini-batches are sampled from the graph, all of it in memory, and
// neighbours that are not resident have the values that they had when they last were, from a shadow. They get no gradients.
//
// The shadow of a step's rows is written when the step is done. What is absent is as it is in the table, so that a shadow is made
// again from a checkpoint's table to the bit.
type absent struct {
	topology *topology
	shadow   *shadow
	rows     []uint32 // by node: its row in the macro-batch, or noRow
	nodes    []uint32 // by row of the macro-batch
	values   []float32
	slab     *blockio.Slab // all three's
	resident []buffer.ResidentPartition
}

const noRow = ^uint32(0)

// openAbsent reads the graph. fill makes the shadow.
func openAbsent(ctx context.Context, st *store.Store, c *Config) (_ *absent, err error) {
	m := st.Manifest()
	n := int64(m.Nodes)
	x := &absent{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("train: absent neighbours: %w", err), x.close())
		}
	}()
	if x.topology, err = openTopology(ctx, st); err != nil {
		return nil, err
	}
	if x.shadow, err = newShadow(m.Nodes, c.Dim); err != nil {
		return nil, err
	}
	numbers, values := blocks.AlignUp(4*n), int64(c.Dim)*c.inputsMost(n, 2*int64(m.Edges))
	if x.slab, err = blockio.AllocSlab(numbers+4*values, blockio.SlabOptions{Lazy: true}); err != nil {
		return nil, err
	}
	if x.rows, err = blocks.View[uint32](x.slab.Bytes()[:4*n]); err != nil {
		return nil, err
	}
	if x.values, err = blocks.View[float32](x.slab.Bytes()[numbers:][:4*values]); err != nil {
		return nil, err
	}
	for v := range x.rows {
		x.rows[v] = noRow
	}
	return x, nil
}

// fill sets the shadow to the rows of t, with whose checkpoint the run goes on, or begins, or to new ones where t is nil. It returns the bytes read.
func (x *absent) fill(ctx context.Context, m *store.Manifest, c *Config, t *table.Table) (read int64, err error) {
	if t == nil {
		const piece = 256
		room, init := make([]float32, piece*c.Dim), InitRows(c.Seed, c.Dim, embeddingScale)
		for v := uint64(0); v < m.Nodes; v += piece {
			rows := room[:int(min(piece, m.Nodes-v))*c.Dim]
			init(store.NodeID(v), rows)
			x.shadow.set(store.NodeID(v), rows)
		}
		return 0, nil
	}
	from := table.NewReader(t)
	defer func() { err = errors.Join(err, from.Close()) }()
	for p := range m.Partitions {
		id := store.PartitionID(p)
		b, err := from.Read(ctx, id)
		if err != nil {
			return read, err
		}
		rows, err := blocks.View[float32](b)
		if err != nil {
			return read, err
		}
		x.shadow.set(m.Partitions[p].First, rows)
		read += t.PlaneBytes(id)
	}
	return read, nil
}

// enter numbers the rows of a step's macro-batch.
func (x *absent) enter(mb *buffer.MacroBatch) {
	for _, p := range x.resident {
		for k := range p.Nodes {
			x.rows[uint32(p.First)+k] = noRow
		}
	}
	if len(x.nodes) < mb.Rows { // the same for all of a buffer's
		x.nodes = make([]uint32, mb.Rows)
	}
	x.resident = append(x.resident[:0], mb.Partitions...)
	for _, p := range x.resident {
		for k := range p.Nodes {
			v := uint32(p.First) + k
			x.rows[v], x.nodes[p.Base+k] = p.Base+k, v
		}
	}
}

// leave keeps the rows of a step that is done, the table's or its embeddings of planes.
func (x *absent) leave(mb *buffer.MacroBatch) {
	dim := x.shadow.dim
	for _, p := range mb.Partitions {
		x.shadow.set(p.First, mb.Planes[0][int(p.Base)*dim:][:int(p.Nodes)*dim])
	}
}

// divide puts a batch's resident inputs first, and sets e.resident to their rows. Its seeds, all resident, stay where they are. It is
// called on the loader's goroutines.
func (x *absent) divide(b *mini.Batch, e *batchExtra) {
	n := len(b.Input)
	e.position, e.resident, e.absent = resize(e.position, n), resize(e.resident, n)[:0], resize(e.absent, n)[:0]
	for i, v := range b.Input {
		if row := x.rows[v]; row != noRow {
			e.position[i] = int32(len(e.resident))
			b.Input[len(e.resident)] = v
			e.resident = append(e.resident, row)
		} else {
			e.position[i] = ^int32(len(e.absent))
			e.absent = append(e.absent, v)
		}
	}
	copy(b.Input[len(e.resident):], e.absent)
	indices := b.Blocks[0].Indices
	for k, i := range indices {
		if indices[k] = e.position[i]; indices[k] < 0 {
			indices[k] = int32(len(e.resident)) + ^indices[k]
		}
	}
}

// input is a batch's input rows: those that are resident from table, the others from the shadow.
func (x *absent) input(q *gpu.Queue, a *gpu.Arena, table, resident gpu.Tensor, absent []uint32) nn.Input {
	dim := x.shadow.dim
	in := a.Matrix(q, resident.Cols+len(absent), dim)
	if q.Err() != nil {
		return nn.Input{Tables: []gpu.Tensor{in}}
	}
	q.Gather(in.Head(resident.Cols), table, resident)
	if len(absent) > 0 {
		values := x.values[:len(absent)*dim]
		for i, v := range absent {
			x.shadow.row(v, values[i*dim:][:dim])
		}
		v := a.Float32s(q, values)
		v.Rows, v.Cols, v.Stride = len(absent), dim, dim
		q.Copy(in.View(resident.Cols, 0, len(absent), dim), v)
	}
	return nn.Input{Tables: []gpu.Tensor{in}}
}

func (x *absent) close() error {
	var errs []error
	if x.topology != nil {
		errs = append(errs, x.topology.close())
	}
	if x.shadow != nil {
		errs = append(errs, x.shadow.close())
	}
	if x.slab != nil {
		errs = append(errs, x.slab.Free())
	}
	return errors.Join(errs...)
}

// shadow is a copy of all rows of a table in 4 bits a number: a row's numbers are whole multiples, −7 to 7, of its scale, a
// seventh of its largest magnitude. With normal numbers an error's variance is a hundredth of theirs.
type shadow struct {
	dim    int
	scales []float32 // [nodes]
	codes  []byte    // [nodes × ⌈dim/2⌉]: two numbers a byte, the first in the low half, each with 8 added
	slab   *blockio.Slab
}

// shadowBytes is what a shadow takes.
func shadowBytes(nodes uint64, dim int) int64 {
	return blocks.AlignUp(int64(nodes) * int64(4+(dim+1)/2))
}

func newShadow(nodes uint64, dim int) (*shadow, error) {
	slab, err := blockio.AllocSlab(shadowBytes(nodes, dim), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	s := &shadow{dim: dim, slab: slab}
	if s.scales, err = blocks.View[float32](slab.Bytes()[:4*nodes]); err != nil {
		return nil, err
	}
	s.codes = slab.Bytes()[4*nodes:][:int(nodes)*((dim+1)/2)]
	return s, nil
}

// set copies rows [n×dim] of the nodes from first on.
func (s *shadow) set(first store.NodeID, rows []float32) {
	width := (s.dim + 1) / 2
	for v := int(first); len(rows) > 0; v, rows = v+1, rows[s.dim:] {
		row, codes := rows[:s.dim], s.codes[v*width:][:width]
		most := float32(0)
		for _, x := range row {
			most = max(most, x, -x)
		}
		s.scales[v] = most / 7
		if most == 0 {
			clear(codes)
			continue
		}
		by := 7 / float64(most)
		for i := range codes {
			code := 8 + int(math.RoundToEven(float64(row[2*i])*by))
			if 2*i+1 < s.dim {
				code |= (8 + int(math.RoundToEven(float64(row[2*i+1])*by))) << 4
			}
			codes[i] = byte(code)
		}
	}
}

// row writes node v's numbers to x [dim].
func (s *shadow) row(v uint32, x []float32) {
	width, scale := (s.dim+1)/2, s.scales[v]
	codes := s.codes[int(v)*width:][:width]
	for i, c := range codes[:s.dim/2] {
		x[2*i] = float32(int(c&15)-8) * scale
		x[2*i+1] = float32(int(c>>4)-8) * scale
	}
	if s.dim%2 == 1 {
		x[s.dim-1] = float32(int(codes[width-1]&15)-8) * scale
	}
}

func (s *shadow) close() error { return s.slab.Free() }
