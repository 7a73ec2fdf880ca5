package vectors

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Resident are the vectors of a macro-batch's partitions, in the partition buffer's memory, on a device that reads it in place. Which
// row of the table is which row of the macro-batch's costs 3 bits of memory a row: a bit each, and a number for each 64 of them.
type Resident struct {
	of    *Of
	dim   int
	mems  []gpu.Memory
	value gpu.Tensor
	m, v  gpu.Tensor // Adam's moments
	known []uint64   // whether a row has a vector
	first []uint32   // the first row in the table of each 64 rows' vectors

	places   []uint32 // of a partition
	rows, at []uint32 // of a mini-batch
}

// NewResident makes room for vectors of dim columns of the nodes that of says.
func NewResident(of *Of, dim int) *Resident { return &Resident{of: of, dim: dim} }

// Enter makes mb's vectors those that [Resident.Of] finds. Its planes are the same memory for every macro-batch of a run, and
// column [store.TypeColumn] is among its features.
func (r *Resident) Enter(dev gpu.Device, mb *buffer.MacroBatch) error {
	if len(mb.Planes) != Planes {
		return fmt.Errorf("learned vectors: %w: %d planes, expected %d", store.ErrInvalid, len(mb.Planes), Planes)
	}
	for i := range mb.Planes {
		if len(r.mems) > i {
			continue // mapped
		}
		mem, err := dev.Map(blocks.Bytes(mb.Planes[i]))
		if err != nil {
			return fmt.Errorf("learned vectors: %w", err)
		}
		r.mems = append(r.mems, mem)
	}
	of := func(i int) gpu.Tensor { return gpu.MatrixOf(r.mems[i], 0, len(mb.Planes[i])/r.dim, r.dim) }
	r.value, r.m, r.v = of(0), of(1), of(2)
	words := (mb.Rows + 63) / 64
	r.known, r.first = slices.Grow(r.known[:0], words)[:words], slices.Grow(r.first[:0], words)[:words]
	clear(r.known)
	k := slices.IndexFunc(mb.Features, func(c buffer.Column) bool { return c.Name == store.TypeColumn })
	if k < 0 || mb.Features[k].Stride != 4 || mb.Features[k].Runs != nil {
		return fmt.Errorf("learned vectors: %w: column %s, a uint32 a node, among the features in memory", store.ErrNotFound, store.TypeColumn)
	}
	for _, p := range mb.Partitions { // which begin at multiples of 64 rows
		r.places = r.of.Places(r.places[:0], mb.Features[k].Data[4*int(p.Base):][:4*int(p.Nodes)])
		if uint64(len(r.places)) != r.of.Rows[p.ID] || p.Base%64 != 0 {
			return fmt.Errorf("learned vectors: %w: partition %d, from row %d, has %d nodes with one, its table %d", store.ErrCorrupt, p.ID, p.Base, len(r.places), r.of.Rows[p.ID])
		}
		row := p.Table
		for i, at := range r.places {
			word := (p.Base + at) / 64
			if r.known[word] == 0 {
				r.first[word] = row + uint32(i)
			}
			r.known[word] |= 1 << (at % 64)
		}
	}
	return nil
}

// Of returns the vectors of a mini-batch's input, by rows of the macro-batch, none twice: valid until the next call.
func (r *Resident) Of(input []uint32) nn.Vectors {
	r.rows, r.at = r.rows[:0], r.at[:0]
	for i, row := range input {
		if word := r.known[row/64]; word>>(row%64)&1 == 1 {
			r.at = append(r.at, uint32(i))
			r.rows = append(r.rows, r.first[row/64]+uint32(bits.OnesCount64(word&(1<<(row%64)-1))))
		}
	}
	return nn.Vectors{Table: r.value, Rows: r.rows, At: r.at}
}

// Step takes an optimiser's step on the rows of v, whose gradient is grad, which it overwrites, and sets sums [1×dim] to the sums of
// the columns of what they are then: one that is no number makes a sum none. The rows may leave memory, unseen by any later loss.
func (r *Resident) Step(q *gpu.Queue, a *gpu.Arena, o gpu.AdamOptions, v nn.Vectors, grad, sums gpu.Tensor) {
	if grad.IsZero() {
		q.Fill(sums, 0)
		return
	}
	index := a.Uint32s(q, v.Rows)
	q.AdamRows(o, r.value, index, grad, r.m, r.v)
	q.Gather(grad, r.value, index)
	q.ColumnSum(grad, sums)
}

// Close frees the device's view of the buffer's memory.
func (r *Resident) Close() (err error) {
	for _, m := range r.mems {
		err = errors.Join(err, m.Free())
	}
	r.mems = nil
	return err
}
