package generate

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// file is one output file: items of a fixed size that any thread writes at their
// place, or text that is written in order.
type file struct {
	name      string
	header    []byte
	items     uint64
	itemBytes int
	planes    int // the file holds so many arrays of items one after another; 0 means 1
	// fill writes items first … first+n−1 to s.bytes[:planes·n·itemBytes], plane by plane.
	fill func(first uint64, n int, s *scratch)
	// text returns the lines of items first … first+n−1, in s.bytes or in memory of its own.
	text func(first uint64, n int, s *scratch) []byte
}

// scratch is a thread's memory.
type scratch struct {
	bytes    []byte
	floats   []float32
	ints     []int64
	src, dst []uint64
	triples  []Triple
}

const (
	chunkBytes = 1 << 20 // of a binary file, written at a time
	chunkLines = 1 << 16
)

// write makes the file below dir and returns its size.
func (f *file) write(ctx context.Context, dir string, o WriteOptions) (size int64, err error) {
	path := filepath.Join(dir, f.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return 0, err
	}
	w, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := w.Write(f.header); err != nil {
		return 0, err
	}
	if f.text != nil {
		return f.writeText(ctx, w, o)
	}
	return f.writeItems(ctx, w, o)
}

// writeItems has every thread take chunks and write them at their place.
func (f *file) writeItems(ctx context.Context, w *os.File, o WriteOptions) (int64, error) {
	planes := max(1, f.planes)
	chunk := uint64(max(1, chunkBytes/(planes*f.itemBytes)))
	var next atomic.Uint64
	group, ctx := errgroup.WithContext(ctx)
	for range o.Threads {
		group.Go(func() error {
			var s scratch
			for {
				first := (next.Add(1) - 1) * chunk
				if first >= f.items {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				n := int(min(chunk, f.items-first))
				plane := n * f.itemBytes
				s.bytes = grow(s.bytes, planes*plane)
				f.fill(first, n, &s)
				for p := range planes {
					at := int64(len(f.header)) + (int64(p)*int64(f.items)+int64(first))*int64(f.itemBytes)
					if _, err := w.WriteAt(s.bytes[p*plane:(p+1)*plane], at); err != nil {
						return err
					}
				}
				o.Progress(int64(planes * plane))
			}
		})
	}
	return int64(len(f.header)) + int64(planes)*int64(f.items)*int64(f.itemBytes), group.Wait()
}

// writeText has every thread make one piece, writes them in order, and goes on.
func (f *file) writeText(ctx context.Context, w *os.File, o WriteOptions) (int64, error) {
	size := int64(len(f.header))
	threads := make([]scratch, o.Threads)
	pieces := make([][]byte, o.Threads)
	for first := uint64(0); first < f.items; first += uint64(o.Threads) * chunkLines {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var group errgroup.Group
		for t := range threads {
			group.Go(func() error {
				from := first + uint64(t)*chunkLines
				pieces[t] = nil
				if from < f.items {
					pieces[t] = f.text(from, int(min(chunkLines, f.items-from)), &threads[t])
					threads[t].bytes = pieces[t]
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		for _, b := range pieces {
			if _, err := w.Write(b); err != nil {
				return 0, err
			}
			size += int64(len(b))
			o.Progress(int64(len(b)))
		}
	}
	return size, nil
}
