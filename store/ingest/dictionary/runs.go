package dictionary

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gstore/gstore/store/ingest/scratch"
)

// Files makes the scratch files of an external sort of ids. A run is a file of
// ids in ascending order of bytes, each with a number:
//
//	record  uvarint length of the id, its bytes, uvarint number
//
// Integer ids are 8 bytes, big-endian, so that they order by bytes too.
type Files struct {
	Fs      vfs.FS
	Dir     string
	Prefix  string
	made    int
	Written int64 // bytes of all runs
	runsMax int   // merged at once; 0 = mergeRunsMax
}

// idRun is one file.
type idRun struct {
	path  string
	count uint64
}

const (
	runBufferBytes = 256 << 10
	mergeRunsMax   = 64 // read at once: 16 MiB of buffers
	// IdBytesMax bounds a string id: what Pebble and the format's readers take in their stride.
	IdBytesMax = 1<<16 - 1
)

// Write makes a run of what each yields, which must be in order.
func (f *Files) write(each func(put func(id []byte, number uint64) error) error) (run idRun, err error) {
	f.made++
	run.path = f.Fs.PathJoin(f.Dir, fmt.Sprintf("%s-%d.ids", f.Prefix, f.made))
	file, err := f.Fs.Create(run.path, scratch.Category)
	if err != nil {
		return run, fmt.Errorf("create a scratch file of ids: %w", err)
	}
	w := bufio.NewWriterSize(file, runBufferBytes)
	var head [2 * binary.MaxVarintLen64]byte
	err = each(func(id []byte, number uint64) error {
		run.count++
		n := binary.PutUvarint(head[:], uint64(len(id)))
		m := binary.PutUvarint(head[n:], number)
		f.Written += int64(n + m + len(id))
		if _, err := w.Write(head[:n]); err != nil {
			return err
		}
		if _, err := w.Write(id); err != nil {
			return err
		}
		_, err := w.Write(head[n : n+m])
		return err
	})
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return run, fmt.Errorf("write %s: %w", run.path, err)
	}
	return run, nil
}

// remove deletes runs.
func (f *Files) remove(runs []idRun) error {
	var errs []error
	for _, r := range runs {
		if err := f.Fs.Remove(r.path); err != nil {
			errs = append(errs, fmt.Errorf("remove a scratch file of ids: %w", err))
		}
	}
	return errors.Join(errs...)
}

// runReader reads a run front to back.
type runReader struct {
	path   string
	file   vfs.File
	r      *bufio.Reader
	left   uint64
	id     []byte
	number uint64
}

func (f *Files) open(run idRun) (*runReader, error) {
	file, err := f.Fs.Open(run.path)
	if err != nil {
		return nil, fmt.Errorf("open a scratch file of ids: %w", err)
	}
	return &runReader{path: run.path, file: file, r: bufio.NewReaderSize(file, runBufferBytes), left: run.count}, nil
}

// next reads a record; false at the end.
func (r *runReader) next() (bool, error) {
	if r.left == 0 {
		return false, nil
	}
	r.left--
	n, err := binary.ReadUvarint(r.r)
	if err == nil && n > IdBytesMax {
		err = fmt.Errorf("an id of %d bytes", n)
	}
	if err == nil {
		r.id = slices.Grow(r.id[:0], int(n))[:n]
		_, err = io.ReadFull(r.r, r.id)
	}
	if err == nil {
		r.number, err = binary.ReadUvarint(r.r)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", r.path, err)
	}
	return true, nil
}

// Each calls fn with a run's records, in order.
func (f *Files) each(ctx context.Context, run idRun, fn func(id []byte, number uint64) error) (err error) {
	r, err := f.open(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.file.Close()) }()
	for k := 0; ; k++ {
		if k&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		more, err := r.next()
		if err != nil || !more {
			return err
		}
		if err := fn(r.id, r.number); err != nil {
			return err
		}
	}
}

// runHeap has the reader with the smallest id first; ties go to the smaller number.
type runHeap []*runReader

func (h runHeap) Len() int      { return len(h) }
func (h runHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h runHeap) Less(a, b int) bool {
	if c := bytes.Compare(h[a].id, h[b].id); c != 0 {
		return c < 0
	}
	return h[a].number < h[b].number
}
func (h *runHeap) Push(x any) { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// merge calls fn with the records of at most mergeRunsMax runs, in order.
func (f *Files) merge(ctx context.Context, runs []idRun, fn func(id []byte, number uint64) error) (err error) {
	var h runHeap
	var open []*runReader
	defer func() {
		for _, r := range open {
			err = errors.Join(err, r.file.Close())
		}
	}()
	for _, run := range runs {
		r, err := f.open(run)
		if err != nil {
			return err
		}
		open = append(open, r)
		more, err := r.next()
		if err != nil {
			return err
		}
		if more {
			h = append(h, r)
		}
	}
	heap.Init(&h)
	for k := 0; len(h) > 0; k++ {
		if k&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fn(h[0].id, h[0].number); err != nil {
			return err
		}
		more, err := h[0].next()
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}

// mergeAll merges any number of runs into one, which replaces them; distinct
// says that of equal ids the first is kept.
func (f *Files) mergeAll(ctx context.Context, runs []idRun, distinct bool) (idRun, error) {
	most := f.runsMax
	if most == 0 {
		most = mergeRunsMax
	}
	for len(runs) != 1 {
		some := runs[:min(len(runs), most)]
		var last []byte
		first := true
		one, err := f.write(func(put func([]byte, uint64) error) error {
			return f.merge(ctx, some, func(id []byte, number uint64) error {
				if distinct && !first && bytes.Equal(id, last) {
					return nil
				}
				first, last = false, append(last[:0], id...)
				return put(id, number)
			})
		})
		if err == nil {
			err = f.remove(some)
		}
		if err != nil {
			return one, err
		}
		runs = append(slices.Clone(runs[len(some):]), one)
	}
	return runs[0], nil
}
