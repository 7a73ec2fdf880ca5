package dictionary

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/partitioner"

	"github.com/gstore/gstore/store"
)

// spillAfter spills, unless somebody has since spill number n.
func (d *Dictionary) spillAfter(n int) error {
	d.gate.Lock()
	defer d.gate.Unlock()
	if d.spills != n {
		return nil
	}
	if d.tablesEmpty() {
		return fmt.Errorf("%w: the dictionary's %d MiB do not hold one id and its table", store.ErrBudget, d.limit>>20)
	}
	return d.spill()
}

func (d *Dictionary) tablesEmpty() bool {
	for k := range d.shards {
		if d.shards[k].used > 0 {
			return false
		}
	}
	return true
}

// spill writes the tables' ids as a run and empties them. It sorts in the
// slots, so that it needs no memory but the file's buffer.
func (d *Dictionary) spill() error {
	var wg panics.Group
	next := make(chan *dictShard, dictShards)
	for k := range d.shards {
		next <- &d.shards[k]
	}
	close(next)
	for range d.threads {
		wg.Go(func() {
			for s := range next {
				s.sort(d.Strings)
			}
		})
	}
	wg.Wait()
	run, err := d.Files.write(func(put func([]byte, uint64) error) error {
		return d.mergeShards(func(id []byte) error { return put(id, 0) })
	})
	if err != nil {
		return err
	}
	d.spills++
	d.runs = append(d.runs, run)
	d.freeTables()
	return nil
}

// sort moves the ids, or the offsets of strings, to the front of the slots and puts them in order.
// The table is none afterwards.
func (s *dictShard) sort(strings bool) {
	n := 0
	for _, slot := range s.slots {
		if slot == 0 {
			continue
		}
		if slot--; strings {
			slot &= offsetMask
		}
		s.slots[n] = slot
		n++
	}
	s.slots = s.slots[:n]
	if strings {
		slices.SortFunc(s.slots, func(a, b uint64) int { return bytes.Compare(s.at(int(a)), s.at(int(b))) })
	} else {
		slices.Sort(s.slots)
	}
}

// shardHead is the next id of a sorted shard.
type shardHead struct {
	s    *dictShard
	at   int
	id   []byte
	room [8]byte
}

func (h *shardHead) load(strings bool) {
	slot := h.s.slots[h.at]
	if strings {
		h.id = h.s.at(int(slot))
		return
	}
	binary.BigEndian.PutUint64(h.room[:], slot)
	h.id = h.room[:]
}

type shardHeap []*shardHead

func (h shardHeap) Len() int           { return len(h) }
func (h shardHeap) Less(a, b int) bool { return bytes.Compare(h[a].id, h[b].id) < 0 }
func (h shardHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *shardHeap) Push(x any)        { *h = append(*h, x.(*shardHead)) }
func (h *shardHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// mergeShards calls fn with the ids of sorted shards, in order.
func (d *Dictionary) mergeShards(fn func(id []byte) error) error {
	var h shardHeap
	for k := range d.shards {
		if s := &d.shards[k]; len(s.slots) > 0 {
			head := &shardHead{s: s}
			head.load(d.Strings)
			h = append(h, head)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		head := h[0]
		if err := fn(head.id); err != nil {
			return err
		}
		if head.at++; head.at < len(head.s.slots) {
			head.load(d.Strings)
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}

// ToDisk makes a dictionary, frozen in memory or not frozen yet, one sorted file.
func (d *Dictionary) ToDisk(ctx context.Context) (err error) {
	if !d.tablesEmpty() {
		if err := d.spill(); err != nil {
			return err
		}
	}
	if d.sorted, err = d.Files.mergeAll(ctx, d.runs, true); err != nil {
		return err
	}
	d.runs = nil
	n := d.sorted.count
	if d.count = int(n); n > partitioner.MaxNodes-1 {
		return tooManyIDs(n)
	}
	return nil
}

// OnDisk reports whether the ids are in a sorted file.
func (d *Dictionary) OnDisk() bool { return d.sorted.path != "" }

// BuildIndex makes a dictionary on disk ready for rank.
func (d *Dictionary) BuildIndex(ctx context.Context) (err error) {
	n := d.sorted.count
	d.Index, err = newIDIndex(n, func(fn func(rank, hash uint64, id []byte)) error {
		return d.Each(ctx, func(rank uint64, id []byte) error {
			if d.Strings {
				fn(rank, maphash.Bytes(d.seed, id), id)
			} else {
				fn(rank, hashInt(binary.BigEndian.Uint64(id)), id)
			}
			return nil
		})
	})
	if err == nil {
		d.Bytes.Add(IndexBytes(n))
	}
	return err
}

// Each calls fn with the ids in ascending order, integers as 8 bytes, big-endian. The
// dictionary is frozen.
func (d *Dictionary) Each(ctx context.Context, fn func(rank uint64, id []byte) error) error {
	if d.OnDisk() {
		rank := uint64(0)
		return d.Files.each(ctx, d.sorted, func(id []byte, _ uint64) error {
			rank++
			return fn(rank-1, id)
		})
	}
	var room [8]byte
	for rank, ref := range d.order {
		if rank&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id := room[:]
		if d.Strings {
			id = d.text(ref)
		} else {
			binary.BigEndian.PutUint64(id, ref)
		}
		if err := fn(uint64(rank), id); err != nil {
			return err
		}
	}
	return nil
}
