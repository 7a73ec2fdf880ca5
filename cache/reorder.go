package cache

import "fmt"

// ReorderMax is the largest window that can be ordered.
const ReorderMax = 16

// Reorder orders windows of sampled batches so that each shares as many rows as possible with the one before it: FastGL's
// Greedy Reorder Strategy (section 4.1, Algorithm 1). It reuses its memory, 2 bytes a row.
//
// The matrix of match degrees takes one pass over the window's rows, whatever its size: a row has a bit for each batch
// before that had it. The bits of a batch's rows are added up, eight counters to a word, and the batch's own is set. Then
// the bits are cleared.
type Reorder struct {
	arrays
	marks []uint16 // by row: a bit for each batch that has it; all 0 between windows
	match [ReorderMax][ReorderMax]uint32
	order [ReorderMax]int
}

// NewReorder makes one for rows below rows.
func NewReorder(rows int) (*Reorder, error) {
	o := &Reorder{}
	if err := o.reserve(2*int64(rows) + arrayAlign); err != nil {
		return nil, fmt.Errorf("cache: reorder: %w", err)
	}
	o.marks = array[uint16](&o.arrays, rows)
	return o, nil
}

// spread[x] has byte i = bit i of x.
var spread = func() (s [256]uint64) {
	for x := range s {
		for i := range 8 {
			s[x] |= uint64(x>>i&1) << (8 * i)
		}
	}
	return s
}()

// Order returns a permutation of 0 … len(batches)−1 that starts with 0; ties go to the earlier batch. batches[i] lists
// the distinct input rows of batch i, at most [ReorderMax] of them. The result is valid until the next call.
func (o *Reorder) Order(batches [][]uint32) ([]int, error) {
	n := len(batches)
	if n > ReorderMax {
		return nil, fmt.Errorf("cache: a window of %d batches to reorder, expected at most %d", n, ReorderMax)
	}
	total := 0
	for i, b := range batches {
		if err := o.add(i, b); err != nil {
			clear(o.marks)
			return nil, err
		}
		total += len(b)
	}
	if len(o.marks) < clearShare*total {
		clear(o.marks)
	} else {
		for _, b := range batches {
			for _, r := range b {
				o.marks[r] = 0
			}
		}
	}
	return o.greedy(n), nil
}

// clearShare is how many marks are cleared in a row in the time of one at random.
const clearShare = 16

// add counts how many rows batch i has in common with each of those before, and adds its bits.
func (o *Reorder) add(i int, rows []uint32) error {
	marks, bit := o.marks, uint16(1)<<i
	o.match[i] = [ReorderMax]uint32{}
	for len(rows) > 0 {
		k := min(len(rows), 255) // a counter of 8 bits holds so many
		var low, high uint64
		for _, r := range rows[:k] {
			if int(r) >= len(marks) {
				return fmt.Errorf("cache: reorder: row %d of %d: %w", r, len(marks), ErrRow)
			}
			m := marks[r]
			marks[r] = m | bit
			low += spread[m&255]
			high += spread[m>>8]
		}
		for j := range 8 {
			o.match[i][j] += uint32(low >> (8 * j) & 255)
			o.match[i][8+j] += uint32(high >> (8 * j) & 255)
		}
		rows = rows[k:]
	}
	for j := range i {
		o.match[j][i] = o.match[i][j]
	}
	return nil
}

// greedy follows from each batch to the one left that matches it most.
func (o *Reorder) greedy(n int) []int {
	order := o.order[:0]
	left := uint32(1)<<n - 1
	for last := 0; left != 0; {
		order = append(order, last)
		left &^= 1 << last
		best, most := 0, int64(-1)
		for j := range n {
			if left>>j&1 != 0 && int64(o.match[last][j]) > most {
				best, most = j, int64(o.match[last][j])
			}
		}
		last = best
	}
	return order
}
