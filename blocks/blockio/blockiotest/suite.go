// Package blockiotest is the conformance suite of [blockio.Engine]: what every
// engine must do, written once.
package blockiotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
)

// Maker makes the engine under test.
type Maker func(t testing.TB, o blockio.Options) blockio.Engine

// Run runs the suite.
func Run(t *testing.T, newEngine Maker) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, newEngine Maker)
	}{
		{"Reads", testReads},
		{"DirectReads", testDirectReads},
		{"SmallSplit", testSmallSplit},
		{"Slabs", testSlabs},
		{"EndOfFile", testEndOfFile},
		{"CutShort", testCutShort},
		{"Writes", testWrites},
		{"Refusals", testRefusals},
		{"FirstError", testFirstError},
		{"Empty", testEmpty},
		{"InOrder", testInOrder},
		{"Concurrent", testConcurrent},
		{"ManyFiles", testManyFiles},
		{"Cancelled", testCancelled},
		{"CancelledMidway", testCancelledMidway},
		{"Closed", testClosed},
		{"CloseWhileBusy", testCloseWhileBusy},
		{"Descriptors", testDescriptors},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newEngine) })
	}
}

// content is what a test file of n bytes holds.
func content(n int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// file writes a test file and returns its path and content.
func file(t testing.TB, n int, seed uint64) (string, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("f%d", seed))
	b := content(n, seed)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, b
}

func engine(t testing.TB, newEngine Maker, o blockio.Options) blockio.Engine {
	t.Helper()
	e := newEngine(t, o)
	t.Cleanup(func() {
		if err := e.Close(); err != nil && !errors.Is(err, blockio.ErrClosed) {
			t.Errorf("close the engine: %v", err)
		}
	})
	return e
}

func open(t testing.TB, e blockio.Engine, path string, o blockio.OpenOptions) blockio.File {
	t.Helper()
	f, err := e.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, blockio.ErrClosed) {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return f
}

// aligned returns n bytes at an address that direct requests take.
func aligned(t testing.TB, n int) []byte {
	t.Helper()
	s, err := blockio.AllocSlab(int64(n), blockio.SlabOptions{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Free(); err != nil {
			t.Error(err)
		}
	})
	return s.Bytes()
}

// do runs a batch and checks that done is called once for each request.
func do(t testing.TB, e blockio.Engine, batch []blockio.Request) {
	t.Helper()
	calls := make([]int, len(batch))
	if err := e.Do(context.Background(), batch, func(i int) { calls[i]++ }); err != nil {
		t.Fatal(err)
	}
	for i, n := range calls {
		if n != 1 {
			t.Fatalf("done was called %d times for request %d of %d", n, i, len(batch))
		}
	}
}

func same(t testing.TB, got, want []byte, what string) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: other bytes than were written", what)
	}
}

func testReads(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	const size = 3<<20 + 12345
	path, want := file(t, size, 1)
	f := open(t, e, path, blockio.OpenOptions{})
	if f.Size() != size || f.Path() != path || f.Direct() {
		t.Fatalf("size %d, path %s, direct %v", f.Size(), f.Path(), f.Direct())
	}
	r := rand.New(rand.NewPCG(1, 1))
	batch := []blockio.Request{{File: f, Buf: make([]byte, size)}, {File: f, Offset: size - 1, Buf: make([]byte, 1)}}
	total := uint64(size + 1)
	for range 50 {
		lo := r.IntN(size)
		n := min(size-lo, 1+r.IntN(200_000))
		batch = append(batch, blockio.Request{File: f, Offset: int64(lo), Buf: make([]byte, n)})
		total += uint64(n)
	}
	do(t, e, batch)
	for i, q := range batch {
		same(t, q.Buf, want[q.Offset:q.Offset+int64(len(q.Buf))], fmt.Sprintf("request %d", i))
	}
	if err := e.Do(context.Background(), batch, nil); err != nil { // nobody listens
		t.Fatal(err)
	}
	if s := e.Stats(); s.Requests != uint64(2*len(batch)) || s.BytesRead != 2*total || s.InFlightMax == 0 || s.Transfers < s.Requests {
		t.Fatalf("stats %+v after %d requests of %d bytes", s, 2*len(batch), 2*total)
	}
}

func testDirectReads(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	const size = 5 << 20
	path, want := file(t, size, 2)
	f := open(t, e, path, blockio.OpenOptions{Direct: true})
	buf := aligned(t, size)
	var batch []blockio.Request
	for lo := 0; lo < size; {
		n := min(size-lo, blockio.Alignment*(1+lo/blockio.Alignment%700))
		batch = append(batch, blockio.Request{File: f, Offset: int64(lo), Buf: buf[lo : lo+n]})
		lo += n
	}
	do(t, e, batch)
	same(t, buf, want, "the file")
	if !f.Direct() {
		return
	}
	for _, q := range []blockio.Request{
		{File: f, Offset: 1, Buf: buf[:4096]},
		{File: f, Offset: 0, Buf: buf[:100]},
		{File: f, Offset: 0, Buf: buf[8 : 8+4096]},
	} {
		if err := e.Do(context.Background(), []blockio.Request{q}, nil); !errors.Is(err, blockio.ErrUnaligned) {
			t.Fatalf("offset %d, %d bytes: %v, expected ErrUnaligned", q.Offset, len(q.Buf), err)
		}
	}
}

func testSmallSplit(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{Depth: 3, SplitBytes: 4096})
	const size = 1 << 20
	path, want := file(t, size, 3)
	f := open(t, e, path, blockio.OpenOptions{Direct: true})
	buf := aligned(t, size)
	do(t, e, []blockio.Request{{File: f, Buf: buf[:size/2]}, {File: f, Offset: size / 2, Buf: buf[size/2:]}})
	same(t, buf, want, "the file")
	if s := e.Stats(); s.InFlightMax > 3 || s.Requests != 2 {
		t.Fatalf("stats %+v with depth 3", s)
	}
}

func testSlabs(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	const size = 4 << 20
	path, want := file(t, size, 4)
	f := open(t, e, path, blockio.OpenOptions{Direct: true})
	one, two, loose := aligned(t, size), aligned(t, size), aligned(t, size)
	if err := e.Register(one, two); err != nil {
		t.Fatal(err)
	}
	if n := e.Stats().RegisteredBytes; n > 2*size {
		t.Fatalf("%d bytes registered of %d", n, 2*size)
	}
	for round := range 2 {
		for _, b := range [][]byte{one, two, loose} {
			clear(b)
			do(t, e, []blockio.Request{{File: f, Buf: b}})
			same(t, b, want, fmt.Sprintf("round %d", round))
		}
	}
}

func testEndOfFile(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, _ := file(t, 10_000, 5)
	for _, direct := range []bool{false, true} {
		f := open(t, e, path, blockio.OpenOptions{Direct: direct})
		for _, offset := range []int64{0, 8192, 12288, 1 << 40} {
			err := e.Do(context.Background(), []blockio.Request{{File: f, Offset: offset, Buf: aligned(t, 16384)}}, nil)
			var ioErr *blockio.Error
			if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &ioErr) || ioErr.Path != path || ioErr.Offset < offset {
				t.Fatalf("read at %d (direct %v) beyond 10000 bytes: %v", offset, direct, err)
			}
		}
	}
}

func testCutShort(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, want := file(t, 1<<20, 6)
	f := open(t, e, path, blockio.OpenOptions{})
	if err := os.Truncate(path, 100_000); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	err := e.Do(context.Background(), []blockio.Request{{File: f, Buf: buf}}, func(int) { t.Error("a failed request is reported complete") })
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("reading a file cut short: %v", err)
	}
	do(t, e, []blockio.Request{{File: f, Buf: buf[:100_000]}})
	same(t, buf[:100_000], want[:100_000], "what is left")
}

func testWrites(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{SplitBytes: 64 << 10})
	const size = 1 << 20
	for _, direct := range []bool{false, true} {
		path, _ := file(t, size, 7)
		f := open(t, e, path, blockio.OpenOptions{Direct: direct, Write: true})
		want := aligned(t, size)
		copy(want, content(size, 8))
		do(t, e, []blockio.Request{
			{Op: blockio.Write, File: f, Offset: size / 2, Buf: want[size/2:]},
			{Op: blockio.Write, File: f, Buf: want[:size/2]},
			{Op: blockio.Write, File: f, Offset: size, Buf: want[:4096]}, // and grows
		})
		do(t, e, []blockio.Request{{Op: blockio.Sync, File: f}})
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, append(slices.Clone(want), want[:4096]...), "the file")
		back := aligned(t, size)
		do(t, e, []blockio.Request{{File: f, Buf: back}})
		same(t, back, want, "what the engine reads back")
	}
	if s := e.Stats(); s.BytesWritten != 2*(size+4096) {
		t.Fatalf("stats %+v", s)
	}
}

func testRefusals(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, _ := file(t, 8192, 9)
	f := open(t, e, path, blockio.OpenOptions{})
	other := open(t, engine(t, newEngine, blockio.Options{}), path, blockio.OpenOptions{})
	for name, q := range map[string]blockio.Request{
		"write to a read-only file": {Op: blockio.Write, File: f, Buf: make([]byte, 10)},
		"sync of a read-only file":  {Op: blockio.Sync, File: f},
		"negative offset":           {File: f, Offset: -1, Buf: make([]byte, 10)},
		"another engine's file":     {File: other, Buf: make([]byte, 10)},
		"no file":                   {Buf: make([]byte, 10)},
		"unknown operation":         {Op: 77, File: f, Buf: make([]byte, 10)},
	} {
		good := blockio.Request{File: f, Buf: make([]byte, 10)}
		if err := e.Do(context.Background(), []blockio.Request{good, q}, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := e.Open(filepath.Join(t.TempDir(), "none"), blockio.OpenOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening a file that is not there: %v", err)
	}
}

func testFirstError(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, want := file(t, 1<<20, 10)
	f := open(t, e, path, blockio.OpenOptions{})
	batch := make([]blockio.Request, 100)
	for i := range batch {
		batch[i] = blockio.Request{File: f, Offset: int64(i) * 1000, Buf: make([]byte, 1000)}
	}
	batch[60].Offset = 2 << 20
	complete := map[int]bool{}
	err := e.Do(context.Background(), batch, func(i int) { complete[i] = true })
	var ioErr *blockio.Error
	if !errors.As(err, &ioErr) || ioErr.Offset != 2<<20 || complete[60] {
		t.Fatalf("%v; request 60 reported complete: %v", err, complete[60])
	}
	for i := range complete {
		same(t, batch[i].Buf, want[i*1000:i*1000+1000], fmt.Sprintf("request %d", i))
	}
}

func testEmpty(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	do(t, e, nil)
	path, _ := file(t, 100, 11)
	f := open(t, e, path, blockio.OpenOptions{})
	do(t, e, []blockio.Request{{File: f}, {File: f, Offset: 5, Buf: []byte{}}, {File: f, Buf: make([]byte, 1)}})
	none, _ := file(t, 0, 12)
	z := open(t, e, none, blockio.OpenOptions{Direct: true})
	if z.Size() != 0 {
		t.Fatalf("an empty file of %d bytes", z.Size())
	}
	if err := e.Do(context.Background(), []blockio.Request{{File: z, Buf: aligned(t, 4096)}}, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("reading an empty file: %v", err)
	}
}

func testInOrder(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{Depth: 8, SplitBytes: 4096})
	path, _ := file(t, 1<<20, 13)
	f := open(t, e, path, blockio.OpenOptions{})
	batch := make([]blockio.Request, 64)
	for i := range batch {
		batch[i] = blockio.Request{File: f, Buf: make([]byte, 1+(64-i)*1000)}
	}
	next := 0
	err := e.Do(context.Background(), batch, blockio.InOrder(len(batch), func(i int) {
		if i != next {
			t.Errorf("request %d reported when %d was next", i, next)
		}
		next++
	}))
	if err != nil || next != len(batch) {
		t.Fatalf("%d of %d reported, %v", next, len(batch), err)
	}
}

func testConcurrent(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{Depth: 8, SplitBytes: 16 << 10})
	const size = 1 << 20
	path, want := file(t, size, 14)
	f := open(t, e, path, blockio.OpenOptions{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(g), 0))
			for range 40 {
				batch := make([]blockio.Request, 1+r.IntN(5))
				for i := range batch {
					lo := r.IntN(size)
					batch[i] = blockio.Request{File: f, Offset: int64(lo), Buf: make([]byte, min(size-lo, 1+r.IntN(60_000)))}
				}
				n := 0
				if err := e.Do(context.Background(), batch, func(int) { n++ }); err != nil || n != len(batch) {
					t.Errorf("%d of %d complete: %v", n, len(batch), err)
					return
				}
				for _, q := range batch {
					if !bytes.Equal(q.Buf, want[q.Offset:q.Offset+int64(len(q.Buf))]) {
						t.Errorf("bytes at %d differ", q.Offset)
					}
				}
			}
		}()
	}
	wg.Wait()
}

func testManyFiles(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, want := file(t, 5000, 15)
	batch := make([]blockio.Request, 600) // more than an engine's table of files has room for
	for i := range batch {
		batch[i] = blockio.Request{File: open(t, e, path, blockio.OpenOptions{}), Offset: int64(i), Buf: make([]byte, 100)}
	}
	do(t, e, batch)
	for i, q := range batch {
		same(t, q.Buf, want[i:i+100], fmt.Sprintf("file %d", i))
		if err := q.File.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, e, path, blockio.OpenOptions{}) // room again
	do(t, e, []blockio.Request{{File: f, Buf: make([]byte, 100)}})
}
