package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/dictionary"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// stringStream yields the string ids of all nodes by ascending dense id. It may be called
// several times.
type stringStream func(ctx context.Context, fn func(id []byte) error) error

// dictionaryStrings writes the dictionary's strings, whose order is that of dense ids.
func (r *Job) dictionaryStrings(ctx context.Context) error {
	err := r.stringColumn(ctx, func(ctx context.Context, fn func([]byte) error) error {
		return r.Dictionary.Each(ctx, func(_ uint64, id []byte) error { return fn(id) })
	})
	if err != nil {
		return err
	}
	return r.writeDictionary(ctx, func(ctx context.Context, fn func([]byte, uint64) error) error {
		return r.Dictionary.Each(ctx, func(rank uint64, id []byte) error { return fn(id, rank) })
	})
}

// namedIDs writes the names of dense ids, which become the external ids.
func (r *Job) namedIDs(ctx context.Context) error {
	where := source.Position{File: r.Desc.Input, Unit: "name"}
	names := func(ctx context.Context, fn func(id []byte) error) error {
		n := uint64(0)
		err := r.Source.Names(ctx, r.Env(), func(names *source.IDs, at source.Position) error {
			where = at
			for i := range names.Len() {
				if n == r.Layout.Nodes {
					return source.Inputf(at.Of(i), "more names than nodes (%d)", n)
				}
				if size := len(names.At(i)); size > dictionary.IdBytesMax {
					return source.Inputf(at.Of(i), "a name of %d bytes, at most %d are possible", size, dictionary.IdBytesMax)
				}
				n++
				if err := fn(names.At(i)); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err == nil && n != r.Layout.Nodes {
			err = source.Inputf(where.File, "%d names, expected %d (the number of nodes)", n, r.Layout.Nodes)
		}
		return err
	}
	if err := r.stringColumn(ctx, names); err != nil {
		return err
	}
	s, err := dictionary.NewSorter(r.Budget.Edges, r.idFiles("names"))
	if err != nil {
		return err
	}
	defer s.Close()
	dense := uint64(0)
	err = names(ctx, func(id []byte) error {
		dense++
		return s.Add(id, dense-1)
	})
	if err != nil {
		return err
	}
	err = r.writeDictionary(ctx, func(ctx context.Context, fn func([]byte, uint64) error) error {
		var last []byte
		before := uint64(0)
		return s.Each(ctx, func(id []byte, dense uint64) error {
			if last != nil && bytes.Equal(id, last) {
				return source.Inputf(where.File, "nodes %d and %d have the same name %q", before, dense, id)
			}
			last, before = append(last[:0], id...), dense
			return fn(id, dense)
		})
	})
	r.State.BytesSpilled += s.Files.Written
	return err
}

// writeDictionary writes the way back, from external ids to internal ones.
func (r *Job) writeDictionary(ctx context.Context, sorted dictionary.Sorted) error {
	d, err := r.Writer.NewDictionary()
	if err != nil {
		return err
	}
	text := r.Desc.IDs == store.IDsStrings || r.Desc.Named
	r.State.NotText = 0
	err = sorted(ctx, func(id []byte, dense uint64) error {
		if text && !utf8.Valid(id) {
			if r.State.NotText++; r.State.NotText == 1 {
				r.State.NotTextSuch = bytes.Clone(id)
			}
		}
		return d.AddString(id, store.NodeID(r.Layout.Internal(r.Places.Of(dense)))) // integers are 8 bytes, as AddInt makes them
	})
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	r.Manifest.IDs.Dictionaries = []uint64{r.Writer.Version()}
	return d.Close()
}

// stringColumn writes string ids as extents of a partition each. Strings of a
// partition come in the order in which it holds them. So as many partitions as
// fit half of the budget are gathered in one reading of the stream; one that
// alone does not fit is written in two, its offsets and its text.
func (r *Job) stringColumn(ctx context.Context, each stringStream) (err error) {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint8, Partitions: uint32(r.Layout.Partitions())}
	name, w, err := r.Writer.CreateFile("external", h)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	c := &stringScatter{r: r, w: w, each: each, text: make([]int64, r.Layout.Partitions())}
	dense := uint64(0)
	err = each(ctx, func(id []byte) error {
		c.text[c.partition(dense)] += int64(len(id))
		dense++
		return nil
	})
	if err != nil {
		return err
	}
	if dense != r.Layout.Nodes {
		return fmt.Errorf("ids: %d strings for %d nodes", dense, r.Layout.Nodes)
	}
	memory := r.Budget.Edges / 2
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
		r.Tick(int64(r.Layout.First[hi] - r.Layout.First[lo]))
		lo = hi
	}
	info, err := w.Close()
	if err != nil {
		return err
	}
	r.Manifest.Files = append(r.Manifest.Files, store.Ref(name, info))
	r.Manifest.IDs.Kind, r.Manifest.IDs.External = store.IDsStrings, []string{name}
	return nil
}

type stringScatter struct {
	r    *Job
	w    *blocks.Writer
	each stringStream
	text []int64 // bytes of the strings of each partition
}

func (c *stringScatter) partition(dense uint64) int {
	return int(c.r.Places.Of(dense) >> c.r.Layout.LocalBits)
}

// Bytes is the memory that gathering partition p takes: offsets, then text, as it is stored.
func (c *stringScatter) bytes(p int) int64 {
	return 8*(int64(c.r.Layout.Sizes[p])+1) + (c.text[p]+7)&^7
}

// writeGroup writes partitions lo ≤ p < hi, which take so many bytes.
func (c *stringScatter) writeGroup(ctx context.Context, lo, hi int, bytes int64) error {
	mem, err := scratch.Alloc(bytes)
	if err != nil {
		return err
	}
	defer scratch.Free(mem)
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
		copy(extents[k][8*(int64(c.r.Layout.Sizes[lo+k])+1)+end[k]:], id)
		end[k] += int64(len(id))
		binary.LittleEndian.PutUint64(extents[k][next[k]:], uint64(end[k]))
		return nil
	})
	if err != nil {
		return err
	}
	for k, b := range extents {
		n := c.r.Layout.Sizes[lo+k]
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
	return c.w.End(uint64(c.r.Layout.Sizes[p]))
}
