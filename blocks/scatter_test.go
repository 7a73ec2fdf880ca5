package blocks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A scattered file equals the one a Writer makes of the same extents, whatever
// the order its chunks arrive in: in memory, and past the page cache with buffers that are aligned for it and such
// that the system refuses.
func TestScatterWriterEqualsWriter(t *testing.T) {
	t.Run("memory", func(t *testing.T) { scatterEqualsWriter(t, vfs.NewMem(), "", 70_000, 0) })
	t.Run("direct", func(t *testing.T) { scatterEqualsWriter(t, vfs.Default, t.TempDir(), 4_000_000, 0) })
	t.Run("refused", func(t *testing.T) { scatterEqualsWriter(t, vfs.Default, t.TempDir(), 4_000_000, 8) })
}

// scatterEqualsWriter is of files in dir, of four extents, the largest of so many rows; payloads begin so many bytes past
// a multiple of Alignment.
func scatterEqualsWriter(t *testing.T, fs vfs.FS, dir string, most, past int) {
	first, second := fs.PathJoin(dir, "a"), fs.PathJoin(dir, "b")
	h := Header{Kind: NodeColumn, FileID: 7, Elem: Uint8, Dim: 3, Partitions: 4, Name: "x"}
	rng := rand.New(rand.NewPCG(1, 2))
	var payload [][]byte
	var sizes []ExtentSize
	for id, rows := range []int{most, 0, 1, 65_536} {
		b := alignedBytes(3*rows + past)[past:]
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		payload = append(payload, b)
		sizes = append(sizes, ExtentSize{ID: uint64(id), Bytes: int64(len(b)), Rows: uint64(rows)})
	}
	w, err := Create(fs, first, h)
	if err != nil {
		t.Fatal(err)
	}
	for id, b := range payload {
		if err := w.Append(uint64(id), sizes[id].Rows, b); err != nil {
			t.Fatal(err)
		}
	}
	want, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}

	s, err := CreateScatter(fs, second, h, sizes)
	if err != nil {
		t.Fatal(err)
	}
	type piece struct{ extent, at int }
	var pieces []piece
	for k, b := range payload {
		for at := 0; at < len(b); at += ChunkBytes {
			pieces = append(pieces, piece{k, at})
		}
	}
	rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	for n, p := range pieces {
		if n == len(pieces)-1 {
			if _, err := s.Close(); err == nil {
				t.Fatal("a file that lacks a chunk was closed")
			}
		}
		b := payload[p.extent]
		if err := s.WriteChunks(p.extent, int64(p.at), b[p.at:min(p.at+ChunkBytes, len(b))]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	if got != want || !bytes.Equal(readFile(t, fs, first), readFile(t, fs, second)) {
		t.Fatalf("the files differ: %+v and %+v", got, want)
	}
	f, err := Open(fs, second)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

func TestScatterWriterRefusesHalfChunks(t *testing.T) {
	h := Header{Kind: NodeColumn, Elem: Uint8, Dim: 1, Partitions: 1}
	s, err := CreateScatter(vfs.NewMem(), "a", h, []ExtentSize{{Bytes: 100_000, Rows: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100_001)
	for _, r := range [][2]int{{0, 100}, {1, ChunkBytes + 1}, {ChunkBytes, 100_001}} {
		if err := s.WriteChunks(0, int64(r[0]), b[r[0]:r[1]]); err == nil {
			t.Errorf("bytes %d to %d were accepted", r[0], r[1])
		}
	}
	if err := s.Abort(); err != nil {
		t.Fatal(err)
	}
}

// TestScatterWritersRefusedTogether: of several writers whose direct writes the system refuses at the same time each writes again.
func TestScatterWritersRefusedTogether(t *testing.T) {
	const writers = 8
	fs := &refusing{FS: vfs.Default}
	fs.together.Add(writers)
	var sizes []ExtentSize
	for id := range uint64(writers) {
		sizes = append(sizes, ExtentSize{ID: id, Bytes: scatterDirectMin / writers, Rows: scatterDirectMin / writers})
	}
	path := fs.PathJoin(t.TempDir(), "a")
	w, err := CreateScatter(fs, path, Header{Kind: NodeColumn, Elem: Uint8, Dim: 1, Partitions: writers}, sizes)
	if err != nil {
		t.Fatal(err)
	}
	if !w.direct.Load() {
		t.Skip("the file system has no O_DIRECT")
	}
	fs.begun.Store(true)
	errs := make([]error, writers)
	var running sync.WaitGroup
	for k := range writers {
		b := alignedBytes(scatterDirectMin / writers)
		running.Go(func() { errs[k] = w.WriteChunks(k, 0, b) })
	}
	running.Wait()
	if _, err := w.Close(); errors.Join(append(errs, err)...) != nil {
		t.Fatal(errs, err)
	}
	f, err := Open(vfs.Default, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

// refusing is a file system that refuses each of some first writes when all of them have come, and later ones while O_DIRECT is set.
type refusing struct {
	vfs.FS
	begun    atomic.Bool
	together sync.WaitGroup
	refused  sync.Map // by offset
}

func (fs *refusing) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(path, c, o...)
	return &refusingFile{f, fs}, err
}

type refusingFile struct {
	vfs.File
	fs *refusing
}

func (f *refusingFile) WriteAt(b []byte, at int64) (int, error) {
	if _, again := f.fs.refused.LoadOrStore(at, true); f.fs.begun.Load() && !again && len(b) > Alignment {
		f.fs.together.Done()
		f.fs.together.Wait()
		return 0, syscall.EINVAL
	}
	return f.File.WriteAt(b, at)
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestScatterWriterFaults fails every operation of a scatter writer once: an error that
// says so, and no file that opens.
func TestScatterWriterFaults(t *testing.T) {
	injected := errors.New("injected")
	write := func(fs vfs.FS) error {
		w, err := CreateScatter(fs, "f", Header{Kind: NodeColumn, Elem: Uint8, Dim: 1, Partitions: 2},
			[]ExtentSize{{ID: 0, Bytes: 3 * ChunkBytes, Rows: 3 * ChunkBytes}, {ID: 1, Bytes: 10, Rows: 10}})
		if err != nil {
			return err
		}
		err = w.WriteChunks(1, 0, make([]byte, 10))
		if err == nil {
			err = w.WriteChunks(0, ChunkBytes, make([]byte, 2*ChunkBytes))
		}
		if err == nil {
			err = w.WriteChunks(0, 0, make([]byte, ChunkBytes))
		}
		if err == nil {
			_, err = w.Close()
		}
		return errors.Join(err, w.Abort())
	}
	for k := 0; ; k++ {
		mem, n, what := &OpenCount{FS: vfs.NewMem()}, 0, ""
		err := write(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if n++; n-1 == k {
				what = fmt.Sprint(op.Kind)
				return injected
			}
			return nil
		})))
		if mem.Left != 0 {
			t.Errorf("operation %d, %s: %d files stay open", k, what, mem.Left)
		}
		if n <= k {
			if err != nil || k < 7 {
				t.Fatalf("after %d operations: %v", n, err)
			}
			return
		}
		f, openErr := Open(mem, "f")
		if openErr == nil {
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err == nil { // only of the probe for an older file may an error be nothing
			if openErr != nil || k > 1 {
				t.Fatalf("operation %d, %s: no error (opens: %v)", k, what, openErr)
			}
			continue
		}
		if !errors.Is(err, injected) || openErr == nil {
			t.Fatalf("operation %d, %s: %v (opens: %v)", k, what, err, openErr)
		}
	}
}
