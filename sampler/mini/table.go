package mini

import (
	"fmt"
	"math/bits"
	"slices"
)

// Table numbers distinct rows in the order of first appearance: an
// open-addressing hash table (linear probing, at most half full) whose memory
// is reused. It maps ids in the pass that meets them (FastGL's Fused-Map).
// The zero Table is empty and ready. Not safe for concurrent use.
type Table struct {
	slots []uint64 // row<<32 | number+1; 0 = empty; a power of two long
	shift uint     // 32 − log2(len(slots))
	n     int      // rows in the table
	last  int      // rows it held before the last Reset
	homes [relabelChunk]uint32
	// loaded is of all slots that were loaded ahead: it has the compiler load them.
	loaded uint64
}

const (
	tableMin     = 1 << 12 // slots
	relabelChunk = 256     // rows whose slots are loaded ahead of their use
)

// Reset empties the table and sizes it for about as many rows as it last held, an eighth more included: a table that grows moves
// all that it holds.
func (t *Table) Reset() {
	t.last, t.n = t.n, 0
	size := int(TableSlots(t.last))
	if cap(t.slots) < size {
		t.slots = make([]uint64, size)
	} else {
		t.slots = t.slots[:size]
		clear(t.slots)
	}
	t.shift = 32 - uint(bits.TrailingZeros(uint(size)))
}

// TableSlots is how many slots of 8 bytes a table has that held so many rows.
func TableSlots(rows int) int64 { return max(tableMin, int64(1)<<bits.Len(uint(2*rows+rows/4))) }

// Len returns how many distinct rows the table holds.
func (t *Table) Len() int { return t.n }

// home is the slot where the search for a row begins.
func (t *Table) home(row uint32) uint32 { return row * 0x9E3779B1 >> t.shift }

// reserve makes room for more rows beyond those held.
func (t *Table) reserve(more int) {
	if 2*(t.n+more) <= len(t.slots) {
		return
	}
	size := 1 << bits.Len(uint(2*(t.n+more)-1))
	old := t.slots
	t.slots = make([]uint64, size)
	t.shift = 32 - uint(bits.TrailingZeros(uint(size)))
	mask := uint32(size - 1)
	for _, e := range old {
		if e == 0 {
			continue
		}
		h := t.home(uint32(e >> 32))
		for t.slots[h] != 0 {
			h = (h + 1) & mask
		}
		t.slots[h] = e
	}
}

// Map writes to local[i] the number of rows[i], appends rows not met before to
// unique and returns it. local and rows may share memory. unique must hold exactly
// the rows met since Reset, in order. len(local) ≥ len(rows).
func (t *Table) Map(unique, rows []uint32, local []int32) []uint32 {
	if len(t.slots) == 0 {
		t.Reset()
	}
	for len(rows) > 0 {
		k := min(len(rows), relabelChunk)
		unique = t.mapChunk(unique, rows[:k], local[:k])
		rows, local = rows[k:], local[k:]
	}
	return unique
}

// mapChunk maps up to relabelChunk rows in two passes: the first only loads
// every row's home slot, which lets the misses overlap. The second takes no branch on whether a row is new, which is as
// good as random: only a home that another row has is one.
func (t *Table) mapChunk(unique, rows []uint32, local []int32) []uint32 {
	t.reserve(len(rows))
	unique = slices.Grow(unique, len(rows)+1)
	room := unique[:cap(unique)]
	slots, shift := t.slots, t.shift
	mask := uint32(len(slots) - 1)
	homes, loaded := t.homes[:len(rows)], uint64(0)
	for i, row := range rows {
		h := row * 0x9E3779B1 >> shift & mask
		homes[i] = h
		loaded |= slots[h]
	}
	t.loaded = loaded
	n := uint64(t.n)
	local = local[:len(rows)]
	for i, row := range rows {
		h := homes[i]
		e := slots[h]
		room[n] = row           // which counts if it is new
		fresh := (e|-e)>>63 ^ 1 // 1 where the slot is empty
		n += fresh
		e |= (uint64(row)<<32 | n) & -fresh
		if uint32(e>>32) == row {
			slots[h] = e
			local[i] = int32(uint32(e)) - 1
			continue
		}
		for uint32(e>>32) != row {
			h = (h + 1) & mask
			if e = slots[h]; e == 0 {
				n++
				e = uint64(row)<<32 | n
				slots[h] = e
			}
		}
		local[i] = int32(uint32(e)) - 1
	}
	t.n = int(n)
	return room[:n]
}

// mapSeeds enters the seeds, which must be distinct.
func (t *Table) mapSeeds(unique, seeds []uint32, scratch []int32) ([]uint32, error) {
	unique = t.Map(unique, seeds, scratch)
	if len(unique) == len(seeds) {
		return unique, nil
	}
	for i, l := range scratch[:len(seeds)] {
		if int(l) != i {
			return unique, fmt.Errorf("%w: seeds %d and %d are both row %d; map them through a Table first", ErrSeeds, l, i, seeds[i])
		}
	}
	return unique, nil
}
