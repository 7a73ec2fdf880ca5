package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// stringStream yields the string ids of all nodes by ascending dense id. It may be called
// several times.
type stringStream func(ctx context.Context, fn func(id []byte) error) error

// sortedIDs yields external ids in strictly ascending order of bytes, with their dense ids.
type sortedIDs func(ctx context.Context, fn func(id []byte, dense uint64) error) error

// dictionaryStrings writes the dictionary's strings, whose order is that of dense ids.
func (r *run) dictionaryStrings(ctx context.Context) error {
	err := r.stringColumn(ctx, func(ctx context.Context, fn func([]byte) error) error {
		return r.dict.each(ctx, func(_ uint64, id []byte) error { return fn(id) })
	})
	if err != nil {
		return err
	}
	return r.writeDictionary(ctx, func(ctx context.Context, fn func([]byte, uint64) error) error {
		return r.dict.each(ctx, func(rank uint64, id []byte) error { return fn(id, rank) })
	})
}

// namedIDs writes the names of dense ids, which become the external ids.
func (r *run) namedIDs(ctx context.Context) error {
	where := Position{File: r.desc.Input, Unit: "name"}
	names := func(ctx context.Context, fn func(id []byte) error) error {
		n := uint64(0)
		err := r.src.Names(ctx, r.srcEnv(), func(names *IDs, at Position) error {
			where = at
			for i := range names.Len() {
				if n == r.layout.nodes {
					return Inputf(at.Of(i), "more names than nodes (%d)", n)
				}
				if size := len(names.At(i)); size > idBytesMax {
					return Inputf(at.Of(i), "a name of %d bytes, at most %d are possible", size, idBytesMax)
				}
				n++
				if err := fn(names.At(i)); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err == nil && n != r.layout.nodes {
			err = Inputf(where.File, "%d names, expected %d (the number of nodes)", n, r.layout.nodes)
		}
		return err
	}
	if err := r.stringColumn(ctx, names); err != nil {
		return err
	}
	s, err := newIDSorter(r.budget.edges, r.idFiles("names"))
	if err != nil {
		return err
	}
	defer s.Close()
	dense := uint64(0)
	err = names(ctx, func(id []byte) error {
		dense++
		return s.add(id, dense-1)
	})
	if err != nil {
		return err
	}
	err = r.writeDictionary(ctx, func(ctx context.Context, fn func([]byte, uint64) error) error {
		var last []byte
		before := uint64(0)
		return s.each(ctx, func(id []byte, dense uint64) error {
			if last != nil && bytes.Equal(id, last) {
				return Inputf(where.File, "nodes %d and %d have the same name %q", before, dense, id)
			}
			last, before = append(last[:0], id...), dense
			return fn(id, dense)
		})
	})
	r.state.BytesSpilled += s.files.written
	return err
}

// writeDictionary writes the way back, from external ids to internal ones.
func (r *run) writeDictionary(ctx context.Context, sorted sortedIDs) error {
	d, err := r.w.NewDictionary()
	if err != nil {
		return err
	}
	err = sorted(ctx, func(id []byte, dense uint64) error {
		return d.AddString(id, store.NodeID(r.layout.internal(r.places.of(dense)))) // integers are 8 bytes, as AddInt makes them
	})
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	r.m.IDs.Dictionaries = []uint64{r.w.Version()}
	return d.Close()
}

// stringColumn writes string ids as extents of a partition each. Strings of a
// partition come in the order in which it holds them. So as many partitions as
// fit half of the budget are gathered in one reading of the stream; one that
// alone does not fit is written in two, its offsets and its text.
func (r *run) stringColumn(ctx context.Context, each stringStream) (err error) {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint8, Partitions: uint32(r.layout.partitions())}
	name, w, err := r.w.CreateFile("external", h)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	c := &stringScatter{r: r, w: w, each: each, text: make([]int64, r.layout.partitions())}
	dense := uint64(0)
	err = each(ctx, func(id []byte) error {
		c.text[c.partition(dense)] += int64(len(id))
		dense++
		return nil
	})
	if err != nil {
		return err
	}
	if dense != r.layout.nodes {
		return fmt.Errorf("ids: %d strings for %d nodes", dense, r.layout.nodes)
	}
	memory := r.budget.edges / 2
	for lo := 0; lo < len(c.text); {
		hi, bytes := lo, int64(0)
		for ; hi < len(c.text) && bytes+c.bytes(hi) <= memory; hi++ {
			bytes += c.bytes(hi)
		}
		if hi == lo {
			hi, err = lo+1, c.writeLarge(ctx, lo)
		} else {
			err = c.writeGroup(ctx, lo, hi, bytes)
		}
		if err != nil {
			return err
		}
		r.tick(int64(r.layout.first[hi] - r.layout.first[lo]))
		lo = hi
	}
	info, err := w.Close()
	if err != nil {
		return err
	}
	r.m.Files = append(r.m.Files, store.Ref(name, info))
	r.m.IDs.Kind, r.m.IDs.External = store.IDsStrings, []string{name}
	return nil
}

type stringScatter struct {
	r    *run
	w    *blocks.Writer
	each stringStream
	text []int64 // bytes of the strings of each partition
}

func (c *stringScatter) partition(dense uint64) int {
	return int(c.r.places.of(dense) >> c.r.layout.localBits)
}

// bytes is the memory that gathering partition p takes: offsets, then text, as it is stored.
func (c *stringScatter) bytes(p int) int64 {
	return 8*(int64(c.r.layout.sizes[p])+1) + (c.text[p]+7)&^7
}

// writeGroup writes partitions lo ≤ p < hi, which take so many bytes.
func (c *stringScatter) writeGroup(ctx context.Context, lo, hi int, bytes int64) error {
	mem, err := offHeap(bytes)
	if err != nil {
		return err
	}
	defer freeOffHeap(mem)
	extents, at := make([][]byte, hi-lo), int64(0)
	next := make([]int64, hi-lo) // where each partition's next offset goes
	end := make([]int64, hi-lo)  // bytes of text so far
	for k := range extents {
		extents[k] = mem[at : at+c.bytes(lo+k)]
		at += c.bytes(lo + k)
	}
	dense := uint64(0)
	err = c.each(ctx, func(id []byte) error {
		k := c.partition(dense) - lo
		dense++
		if k < 0 || k >= hi-lo {
			return nil
		}
		next[k] += 8
		copy(extents[k][8*(int64(c.r.layout.sizes[lo+k])+1)+end[k]:], id)
		end[k] += int64(len(id))
		binary.LittleEndian.PutUint64(extents[k][next[k]:], uint64(end[k]))
		return nil
	})
	if err != nil {
		return err
	}
	for k, b := range extents {
		n := c.r.layout.sizes[lo+k]
		if err := c.w.Append(uint64(lo+k), uint64(n), b[:8*(int64(n)+1)+c.text[lo+k]]); err != nil {
			return err
		}
	}
	return nil
}

// writeLarge writes partition p in two readings.
func (c *stringScatter) writeLarge(ctx context.Context, p int) error {
	if err := c.w.Begin(uint64(p)); err != nil {
		return err
	}
	buf := make([]byte, 8, 64<<10)
	write := func(fn func(id []byte)) error {
		dense := uint64(0)
		err := c.each(ctx, func(id []byte) error {
			mine := c.partition(dense) == p
			dense++
			if !mine {
				return nil
			}
			if len(buf)+max(len(id), 8) > cap(buf) {
				if _, err := c.w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
			fn(id)
			return nil
		})
		if err == nil {
			_, err = c.w.Write(buf)
		}
		buf = buf[:0]
		return err
	}
	end := uint64(0)
	err := write(func(id []byte) {
		end += uint64(len(id))
		buf = binary.LittleEndian.AppendUint64(buf, end)
	})
	if err == nil {
		err = write(func(id []byte) { buf = append(buf, id...) })
	}
	if err != nil {
		return err
	}
	return c.w.End(uint64(c.r.layout.sizes[p]))
}

// idSorter puts ids in order, in memory or by runs on disk. Records grow from the
// front of its memory, their offsets from the back.
type idSorter struct {
	files idFiles
	runs  []idRun
	mem   []byte
	end   int      // of the records: u32 dense, u32 length, bytes, padded to 8
	refs  []uint64 // view of all of mem; those of the records are at its end
	count int
}

func newIDSorter(memory int64, files idFiles) (*idSorter, error) {
	mem, err := offHeap(max(memory, 2*idBytesMax) &^ 7)
	if err != nil {
		return nil, err
	}
	refs, err := blocks.View[uint64](mem)
	return &idSorter{files: files, mem: mem, refs: refs}, err
}

// Close frees the memory.
func (s *idSorter) Close() {
	freeOffHeap(s.mem)
	s.mem, s.refs = nil, nil
}

func (s *idSorter) at(ref uint64) (id []byte, dense uint64) {
	n := binary.LittleEndian.Uint32(s.mem[ref+4:])
	return s.mem[ref+8 : ref+8+uint64(n)], uint64(binary.LittleEndian.Uint32(s.mem[ref:]))
}

func (s *idSorter) add(id []byte, dense uint64) error {
	size := (stringRecordBytes + len(id) + 7) &^ 7
	if s.end+size+8*(s.count+1) > len(s.mem) {
		if err := s.spill(); err != nil {
			return err
		}
	}
	binary.LittleEndian.PutUint32(s.mem[s.end:], uint32(dense)) // nodes of strings are fewer than 2³²
	binary.LittleEndian.PutUint32(s.mem[s.end+4:], uint32(len(id)))
	copy(s.mem[s.end+8:], id)
	s.count++
	s.refs[len(s.refs)-s.count] = uint64(s.end)
	s.end += size
	return nil
}

// ordered calls fn with the records in memory, in order.
func (s *idSorter) ordered(fn func(id []byte, dense uint64) error) error {
	refs := s.refs[len(s.refs)-s.count:]
	slices.SortFunc(refs, func(a, b uint64) int {
		x, dx := s.at(a)
		y, dy := s.at(b)
		if c := bytes.Compare(x, y); c != 0 {
			return c
		}
		return int(dx) - int(dy)
	})
	for _, ref := range refs {
		id, dense := s.at(ref)
		if err := fn(id, dense); err != nil {
			return err
		}
	}
	return nil
}

func (s *idSorter) spill() error {
	run, err := s.files.write(s.ordered)
	if err != nil {
		return err
	}
	s.runs, s.end, s.count = append(s.runs, run), 0, 0
	return nil
}

// each calls fn with all records in order; those with equal ids by dense id.
func (s *idSorter) each(ctx context.Context, fn func(id []byte, dense uint64) error) error {
	if len(s.runs) == 0 {
		return s.ordered(fn)
	}
	if err := s.spill(); err != nil {
		return err
	}
	run, err := s.files.mergeAll(ctx, s.runs, false)
	if err != nil {
		return err
	}
	s.runs = []idRun{run}
	return s.files.each(ctx, run, fn)
}
