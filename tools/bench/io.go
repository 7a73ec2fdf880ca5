// Package bench measures gstore beside the tools it is compared with, in one
// run on one machine: what the pages under docs/ quote is printed by it.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/usage"
)

// IOOptions say what RunIO measures. The zero value of each field means its
// default.
type IOOptions struct {
	Dir       string   // where the temporary file goes; default os.TempDir()
	FileBytes int64    // its size; default 4 GiB
	Repeats   int      // rounds; every round runs every test once; default 5
	Engines   []string // default io_uring, pread
	// Depth and SplitBytes are the engines' (blockio.Options); default theirs.
	Depth, SplitBytes int
	Fio               string // fio's path; "" looks in PATH and does without if there is none
	// Log is told what is going on; may be nil.
	Log func(format string, args ...any)
}

// IOResult is one test of one reader over all rounds.
type IOResult struct {
	Test            string    // "sequential", "random64K", "write" or "new file"
	Reader          string    // "gstore io_uring", "fio io_uring", …
	BytesPerSecond  []float64 // a round each
	CPUSecondsPerGB []float64 // user and system, per 10⁹ bytes
}

// Median returns the medians over the rounds.
func (r *IOResult) Median() (bytesPerSecond, cpuSecondsPerGB float64) {
	return median(r.BytesPerSecond), median(r.CPUSecondsPerGB)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

const (
	// partitionBytes is one partition load of the sequential test.
	partitionBytes = 64 << 20
	// writeBytesMax bounds the test of writing.
	writeBytesMax = 2 << 30
	// smallBytes is one extent of the random test.
	smallBytes = 64 << 10
	// newFile is the test of writing a file that was not there.
	newFile = "new file"
)

func (o IOOptions) withDefaults() (IOOptions, error) {
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.FileBytes == 0 {
		o.FileBytes = 4 << 30
	}
	if o.FileBytes < 2*partitionBytes {
		return o, fmt.Errorf("a file of %d bytes (expected at least %d, two partition loads)", o.FileBytes, 2*partitionBytes)
	}
	o.FileBytes -= o.FileBytes % partitionBytes
	if o.Repeats == 0 {
		o.Repeats = 5
	}
	if len(o.Engines) == 0 {
		o.Engines = []string{"io_uring", "pread"}
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return o, nil
}

// reader is one column of the comparison.
type reader struct {
	name string
	only string // the only test that it takes part in; "" = all
	// run reads, or in tests "write" and "new file" writes, bytes of the file and returns seconds and CPU seconds.
	run func(ctx context.Context, test, path string, bytes int64) (seconds, cpu float64, err error)
}

// RunIO reads one file with gstore's engines and with fio, direct, by turns: whole partitions of
// 64 MiB, two at a time as the partition buffer loads them, and extents of 64 KiB
// in random order. Then all write over a file that is there, durably, as partitions of an
// embedding table are, and a new one, which costs the file system more: as package blocks does, with
// checksums. Files are made for the run, written back and dropped from the page cache before, and
// removed after.
func RunIO(ctx context.Context, o IOOptions) (results []IOResult, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "gstore-bench-io-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "data")
	o.Log("writing %d MiB to %s", o.FileBytes>>20, path)
	if err := fillFile(ctx, path, o.FileBytes); err != nil {
		return nil, err
	}
	slab, err := blockio.AllocSlab(2*partitionBytes, blockio.SlabOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	var readers []reader
	for _, name := range o.Engines {
		e, why, err := blockio.New(name, blockio.Options{Depth: o.Depth, SplitBytes: o.SplitBytes})
		if errors.Is(err, blockio.ErrUnsupported) {
			o.Log("%s is left out: %v", name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := e.Register(slab.Bytes()); err != nil {
			return nil, err
		}
		o.Log("gstore %s: %s; %d MiB of buffers registered", name, why, e.Stats().RegisteredBytes>>20)
		readers = append(readers, engineReader(e, slab.Bytes()))
	}
	fio, err := fioReaders(o.Fio)
	if err != nil {
		o.Log("fio is left out: %v", err)
	}
	readers = append(append(readers, blocksWriter(slab.Bytes())), fio...)
	return measure(ctx, o, path, readers)
}

func measure(ctx context.Context, o IOOptions, path string, readers []reader) ([]IOResult, error) {
	var results []IOResult
	all := readers
	for _, test := range []string{"sequential", "random64K", "write", newFile} {
		first, n := len(results), o.FileBytes
		if test == "write" || test == newFile {
			n = min(n, writeBytesMax)
		}
		readers := slices.DeleteFunc(slices.Clone(all), func(r reader) bool { return r.only != "" && r.only != test })
		for _, r := range readers {
			results = append(results, IOResult{Test: test, Reader: r.name})
		}
		for round := range o.Repeats {
			for i := range readers {
				k := (i + round) % len(readers) // nobody always runs after the same
				seconds, cpu, err := readers[k].once(ctx, test, path, n)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", readers[k].name, test, err)
				}
				res := &results[first+k]
				res.BytesPerSecond = append(res.BytesPerSecond, float64(n)/seconds)
				res.CPUSecondsPerGB = append(res.CPUSecondsPerGB, cpu/(float64(n)/1e9))
				o.Log("%s %d/%d %s: %.2f GB/s, %.3f CPU s/GB", test, round+1, o.Repeats, res.Reader,
					float64(n)/seconds/1e9, cpu/(float64(n)/1e9))
			}
		}
	}
	return results, nil
}

// once runs a test of the file at path, which is on the disk and nowhere else, or of an empty one beside it.
func (r *reader) once(ctx context.Context, test, path string, n int64) (seconds, cpu float64, err error) {
	if test != newFile {
		if err := dropCache(path); err != nil {
			return 0, 0, err
		}
		return r.run(ctx, test, path, n)
	}
	path += ".new"
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	return r.run(ctx, test, path, n)
}

// engineReader reads through an engine into slab, two partitions long.
func engineReader(e blockio.Engine, slab []byte) reader {
	return reader{name: "gstore " + e.Name(), run: func(ctx context.Context, test, path string, n int64) (float64, float64, error) {
		f, err := e.Open(path, blockio.OpenOptions{Direct: true, Write: test == "write" || test == newFile})
		if err != nil {
			return 0, 0, err
		}
		defer f.Close()
		if !f.Direct() && e.Name() != "mmap" {
			return 0, 0, fmt.Errorf("O_DIRECT of %s: %w", path, blockio.ErrUnsupported)
		}
		begin, cpu := time.Now(), usage.CPUSeconds()
		switch test {
		case "sequential":
			err = partitions(ctx, e, f, slab, n, blockio.Read)
		case "write", newFile:
			if err = partitions(ctx, e, f, slab, n, blockio.Write); err == nil {
				err = e.Do(ctx, []blockio.Request{{Op: blockio.Sync, File: f}}, nil)
			}
		default:
			err = loadSmall(ctx, e, f, slab, n)
		}
		return time.Since(begin).Seconds(), usage.CPUSeconds() - cpu, err
	}}
}

// partitions reads or writes the file a partition a batch, one batch ahead.
func partitions(ctx context.Context, e blockio.Engine, f blockio.File, slab []byte, n int64, op blockio.Op) error {
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for half := range int64(2) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			buf := slab[half*partitionBytes:][:partitionBytes]
			for at := half * partitionBytes; at < n && errs[half] == nil; at += 2 * partitionBytes {
				errs[half] = e.Do(ctx, []blockio.Request{{Op: op, File: f, Offset: at, Buf: buf}}, nil)
			}
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// blocksWriter writes a new block file of extents of 64 MiB, checksums and all, as ingest does.
func blocksWriter(slab []byte) reader {
	return reader{name: "gstore blocks.Writer", only: newFile, run: func(ctx context.Context, _, path string, n int64) (seconds, cpu float64, err error) {
		begin, start := time.Now(), usage.CPUSeconds()
		w, err := blocks.Create(vfs.Default, path, blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Partitions: uint32(n / partitionBytes)})
		if err != nil {
			return 0, 0, err
		}
		for id := range uint64(n / partitionBytes) {
			if err = errors.Join(ctx.Err(), w.Append(id, partitionBytes, slab[:partitionBytes])); err != nil {
				return 0, 0, errors.Join(err, w.Abort())
			}
		}
		_, err = w.Close()
		return time.Since(begin).Seconds(), usage.CPUSeconds() - start, err
	}}
}

// loadSmall reads the file's 64 KiB extents in random order as one batch. Destinations are
// used again after 128 MiB, long after the transfer into them has ended.
func loadSmall(ctx context.Context, e blockio.Engine, f blockio.File, slab []byte, n int64) error {
	batch := make([]blockio.Request, n/smallBytes)
	for i, k := range rand.New(rand.NewPCG(1, uint64(n))).Perm(len(batch)) {
		at := i * smallBytes % len(slab)
		batch[i] = blockio.Request{File: f, Offset: int64(k) * smallBytes, Buf: slab[at : at+smallBytes]}
	}
	return e.Do(ctx, batch, nil)
}

// fillFile writes n bytes that do not compress, durably.
func fillFile(ctx context.Context, path string, n int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	e, _, err := blockio.New("auto", blockio.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	out, err := e.Open(path, blockio.OpenOptions{Direct: true, Write: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	slab, err := blockio.AllocSlab(partitionBytes, blockio.SlabOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	b := slab.Bytes()
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	for at := int64(0); at < n; at += partitionBytes {
		for i := 0; i < len(b); i += 4096 {
			b[i], b[i+1], b[i+2] = byte(at>>26), byte(at>>34), byte(i) // no two blocks alike
		}
		if err := e.Do(ctx, []blockio.Request{{Op: blockio.Write, File: out, Offset: at, Buf: b}}, nil); err != nil {
			return err
		}
	}
	return e.Do(ctx, []blockio.Request{{Op: blockio.Sync, File: out}}, nil)
}

// dropCache drops a file's pages from the page cache.
func dropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return dropPages(f)
}
