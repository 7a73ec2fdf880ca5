package coarse

import (
	"runtime"
	"sync/atomic"

	"github.com/gstore/gstore/blocks/panics"
)

// Crew is some workers that share a loop's blocks. What a block computes must depend on nothing that another
// block of the same loop writes: then results are the same for any number of workers.
type Crew struct {
	Workers []*Worker
	Read    func(nodes int) // is told of the input's nodes that a loop has gone through; nil for none
}

// Worker is one goroutine's scratch.
type Worker struct {
	list    []uint32 // a neighbour list
	edges   []edge   // lists of a coarser graph in the making
	tally   tally
	near    []uint32 // by partition, or by group while a graph is contracted; all zero between nodes
	touched []uint32 // where near is not
	Arena   Arena
}

// NewCrew has threads workers; 0 means GOMAXPROCS.
func NewCrew(threads int) *Crew {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	c := &Crew{}
	for range threads {
		c.Workers = append(c.Workers, &Worker{})
	}
	return c
}

// went tells of n more nodes of level l.
func (c *Crew) went(l *Level, n int) {
	if c.Read != nil && l.Fine != nil {
		c.Read(n)
	}
}

// each calls do for blocks 0 … n−1, each once, on any worker.
func (c *Crew) each(n int, do func(w *Worker, block int)) {
	if n == 1 || len(c.Workers) == 1 {
		for i := range n {
			do(c.Workers[0], i)
		}
		return
	}
	var next atomic.Int64
	var wg panics.Group
	loop := func(w *Worker) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(w, i)
		}
	}
	for _, w := range c.Workers[1:min(len(c.Workers), n)] {
		wg.Go(func() { loop(w) })
	}
	wg.Run(func() { loop(c.Workers[0]) })
	wg.Wait()
}

// tally sums weights by key: an open-addressed table that is as large as its use, so that it stays in the
// processor's first cache for most lists.
type tally struct {
	slots []tallySlot
	used  []uint32 // slots in the order of their keys' first occurrence
	shift uint
}

type tallySlot struct{ key, sum uint32 } // key+1; 0 = empty

// reset makes room for n keys.
func (t *tally) reset(n int) {
	for _, i := range t.used {
		t.slots[i] = tallySlot{}
	}
	t.used = t.used[:0]
	size := 16
	for size < 2*n {
		size *= 2
	}
	if cap(t.slots) < size {
		t.slots = make([]tallySlot, size)
	}
	t.slots = t.slots[:size]
	t.shift = 32
	for ; size > 1; size /= 2 {
		t.shift--
	}
}

func (t *tally) add(key, weight uint32) {
	mask := uint32(len(t.slots) - 1)
	for i := key * 0x9e3779b1 >> t.shift; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; s.key {
		case key + 1:
			s.sum += weight
			return
		case 0:
			*s = tallySlot{key + 1, weight}
			t.used = append(t.used, i)
			return
		}
	}
}
