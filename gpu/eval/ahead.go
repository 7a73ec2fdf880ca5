package eval

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// ahead is the reading of a piece's rows while those of another are computed with: features of each column or, above the first
// layer, states that lie in a file.
//
// Its slabs belong to the goroutine that reads from start to the end of wait.
type ahead struct {
	of    Tile
	slabs []*blockio.Slab
	done  chan error // nil: nothing is being read
	read  int64      // bytes from the store
}

// expect says that number k of the pieces, if there are as many, is asked for after the one that is asked for now.
func (r *evaluation) expect(pieces []Tile, k int) {
	if r.next = (Tile{}); k < len(pieces) {
		r.next = pieces[k]
	}
}

// readAhead starts to read the rows of a piece that [evaluation.input] will ask for next.
func (r *evaluation) readAhead(ctx context.Context, of Tile) {
	a := &r.ahead
	if !r.work.aheads || a.done != nil || r.in == nil && r.loaded == of && r.loadedOf == r.work.of || r.in != nil && r.in.InPlace(of.Base, of.Nodes) != nil {
		return
	}
	tables := 1
	if r.in == nil {
		tables = len(r.columns)
	}
	for len(a.slabs) < tables {
		a.slabs = append(a.slabs, nil)
	}
	done := make(chan error, 1)
	a.of, a.done, a.read = of, done, 0
	in := r.in
	read := func() (err error) {
		if in == nil {
			a.read, err = r.readFeatures(ctx, of, a.slabs)
		} else {
			err = readStates(in, of, &a.slabs[0])
		}
		return err
	}
	go func() { done <- panics.Call(read) }()
}

// wait ends the reading ahead and reports whether it was of a piece's rows.
func (r *evaluation) wait(of Tile) (there bool, err error) {
	a := &r.ahead
	if a.done == nil {
		return false, nil
	}
	err = <-a.done
	a.done = nil
	r.Evaluator.read += a.read
	return err == nil && a.of == of, err
}

// readFeatures reads a tile's rows of each feature column, and returns the bytes that it read.
func (r *evaluation) readFeatures(ctx context.Context, t Tile, slabs []*blockio.Slab) (read int64, err error) {
	parts, of := r.src.Manifest().Partitions, r.work.of
	for k, c := range r.columns {
		row := int64(c.RowBytes())
		room := int64(1) // where a partition's column is read as a whole, its other rows lie behind those before
		for p := t.Lo; p < t.Hi; p++ {
			if of.in(p) > 0 {
				room = max(room, (int64(of.first[p]-t.Base)+int64(parts[p].Nodes))*row)
			}
		}
		if err := spill.Grow(&slabs[k], room); err != nil {
			return read, err
		}
		for p := t.Lo; p < t.Hi; p++ {
			at, size := int64(of.first[p]-t.Base)*row, int64(parts[p].Nodes)*row
			if of.in(p) == 0 {
				continue
			}
			dst := slabs[k].Bytes()[at : at+size : at+size]
			b, err := r.src.ReadColumn(ctx, c.Name, store.PartitionID(p), dst)
			if err != nil {
				return read, err
			}
			if int64(len(b)) != size {
				return read, fmt.Errorf("evaluation: column %s of partition %d has %d bytes, expected %d", c.Name, p, len(b), size)
			}
			r.forget(k, of.pick(dst, b, p, int(row)))
			stored, err := r.src.ColumnBytes(c.Name, store.PartitionID(p))
			if err != nil {
				return read, err
			}
			read += stored
		}
	}
	return read, nil
}

// forget makes numbers of categories that the model has no vector for stand for none: nodes that were appended after it was trained.
func (e *Evaluator) forget(column int, rows []byte) {
	k := column - (len(e.columns) - len(e.o.Model.Categories))
	if k < 0 {
		return
	}
	of, ok := e.src.Manifest().Category(e.columns[column].Name)
	if most := e.o.Model.Categories[k]; ok && of.Nodes+1 > uint64(most) {
		for ; len(rows) > 0; rows = rows[4:] {
			if binary.LittleEndian.Uint32(rows) >= uint32(most) {
				clear(rows[:4])
			}
		}
	}
}

// readStates reads a tile's states from a table in a file.
func readStates(in *spill.Table, t Tile, slab **blockio.Slab) error {
	size := int64(t.Nodes) * in.RowBytes
	if err := spill.Grow(slab, max(size, 1)); err != nil {
		return err
	}
	return in.Read((*slab).Bytes()[:size], t.Base)
}

// dropAhead gives up what the last layer's reading ahead took.
func (r *evaluation) dropAhead() (err error) {
	for k := range r.ahead.slabs {
		err = errors.Join(err, r.ahead.slabs[k].Free())
	}
	r.ahead.slabs = nil
	return err
}

// nextPiece is the first of the pieces of a tile of sources, from number k on, that c has an edge from, len(pieces) if there is
// none; begins says where the edges begin that are left of each destination.
func (c *csr) nextPiece(pieces []Tile, k int, base uint64, begins []int32) int {
	for ; k < len(pieces); k++ {
		stop := int32(pieces[k].Base-base) + int32(pieces[k].Nodes)
		for d, at := range begins {
			if at < c.indptr[d+1] && c.indices[at] < stop {
				return k
			}
		}
	}
	return k
}
