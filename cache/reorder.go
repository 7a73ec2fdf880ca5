package cache

import "fmt"

// ReorderMax is the largest window that can be ordered.
const ReorderMax = 16

// Reorder orders windows of sampled batches so that each shares as many rows as possible with the one before it: FastGL's
// Greedy Reorder Strategy (section 4.1, Algorithm 1). It reuses its memory, 4 bytes a row.
//
// The matrix of match degrees takes two passes over the window's rows, whatever its size: the first collects for each row
// a bit for each batch that has it, the second adds the bits of a batch's rows up, eight counters to a word.
type Reorder struct {
	arrays
	marks  []uint32 // by row: the window's number << 16 | a bit a batch
	window uint32
	match  [ReorderMax][ReorderMax]uint32
	order  [ReorderMax]int
}

// NewReorder makes one for rows below rows.
func NewReorder(rows int) (*Reorder, error) {
	o := &Reorder{}
	var err error
	o.marks, err = array[uint32](&o.arrays, rows)
	return o, err
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
	if o.window++; o.window == 1<<16 { // marks of old windows must not look new
		clear(o.marks)
		o.window = 1
	}
	marks, base := o.marks, o.window<<16
	for i, b := range batches {
		bit := uint32(1) << i
		for _, r := range b {
			if int(r) >= len(marks) {
				return nil, fmt.Errorf("cache: reorder: row %d of %d: %w", r, len(marks), ErrRow)
			}
			m := marks[r]
			if m < base { // of an older window
				m = base
			}
			marks[r] = m | bit
		}
	}
	for i, b := range batches {
		o.count(i, b)
	}
	return o.greedy(n), nil
}

// count sets row i of the matrix: how many rows of batch i each batch has.
func (o *Reorder) count(i int, rows []uint32) {
	o.match[i] = [ReorderMax]uint32{}
	for len(rows) > 0 {
		k := min(len(rows), 255) // a counter of 8 bits holds so many
		var low, high uint64
		for _, r := range rows[:k] {
			m := o.marks[r]
			low += spread[m&255]
			high += spread[m>>8&255]
		}
		for j := range 8 {
			o.match[i][j] += uint32(low >> (8 * j) & 255)
			o.match[i][8+j] += uint32(high >> (8 * j) & 255)
		}
		rows = rows[k:]
	}
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
