package blocks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
)

// check opens and verifies raw bytes as a block file, and describes it if it
// opens.
func check(raw []byte) error {
	fs := vfs.NewMem()
	w, err := fs.Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := w.Write(append([]byte(nil), raw...)); err != nil { // Write may modify its argument
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	f, err := blocks.Open(fs, "f")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Describe(io.Discard, blocks.DescribeOptions{Elements: 10}); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	return f.Verify(context.Background(), nil)
}

// TestEveryByte damages every byte of a small file of each kind in turn: each
// must be noticed by Open or Verify, as damage of this file. The zeros of
// paddings are sampled, to keep the test short; GSTORE_FULL_TESTS=1 damages all.
func TestEveryByte(t *testing.T) {
	for _, s := range smallFiles() {
		t.Run(s.name, func(t *testing.T) {
			raw := s.create(t, vfs.NewMem(), "f")
			if err := check(raw); err != nil {
				t.Fatal(err)
			}
			for i := range raw {
				if i%race.Sample(61, 61) != 0 && raw[i] == 0 && raw[i-1] == 0 {
					continue
				}
				raw[i] ^= 1 << (i % 8)
				err := check(raw)
				raw[i] ^= 1 << (i % 8)
				var c *blocks.CorruptError
				if !errors.As(err, &c) {
					t.Fatalf("bit %d of byte %d flipped: %v", i%8, i, err)
				}
				if c.Path != "f" || c.Extent == "" || c.Reason == "" || c.Offset > int64(i) {
					t.Fatalf("byte %d flipped: %+v", i, c)
				}
			}
		})
	}
}

func TestCutShortAndLonger(t *testing.T) {
	for _, s := range smallFiles() {
		raw := s.create(t, vfs.NewMem(), "f")
		for n := 0; n < len(raw); n += 1 + n/7 {
			if err := check(raw[:n]); !errors.Is(err, blocks.ErrCorrupt) {
				t.Errorf("%s cut to %d of %d bytes: %v", s.name, n, len(raw), err)
			}
		}
		if err := check(append(raw[:len(raw):len(raw)], 0)); !errors.Is(err, blocks.ErrCorrupt) {
			t.Errorf("%s with a byte more: %v", s.name, err)
		}
	}
}

// TestMixedFiles puts one file's footer behind another's extents.
func TestMixedFiles(t *testing.T) {
	files := smallFiles()
	a := files[2] // node_column
	b := a
	b.header.FileID = 99
	rawA, rawB := a.create(t, vfs.NewMem(), "f"), b.create(t, vfs.NewMem(), "f")
	mixed := append(append([]byte(nil), rawA[:8192]...), rawB[8192:]...)
	if err := check(mixed); !errors.Is(err, blocks.ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestAnotherVersion(t *testing.T) {
	raw := smallFiles()[0].create(t, vfs.NewMem(), "f")
	raw[8] = 2
	sum := blocks.Checksum(raw[:blocks.HeaderBytes-4])
	copy(raw[blocks.HeaderBytes-4:], le(sum))
	if err := check(raw); !errors.Is(err, blocks.ErrFormatVersion) {
		t.Fatal(err)
	}
}

// TestExtentNamed checks that damage of a payload names its extent and chunk.
func TestExtentNamed(t *testing.T) {
	fs := vfs.NewMem()
	w, err := blocks.Create(fs, "f", blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Partitions: 2, Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	const n = 3*blocks.ChunkBytes + 5
	for p := range uint64(2) {
		if err := w.Append(p, n, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := blocks.Open(fs, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, _ := f.Extent(1)
	b, err := f.ReadExtent(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	b[2*blocks.ChunkBytes+7] = 1
	var c *blocks.CorruptError
	for _, from := range []int64{0, blocks.ChunkBytes, 2 * blocks.ChunkBytes} {
		if err := f.CheckChunks(e, from, b[from:]); !errors.As(err, &c) || c.Extent != "node column x 1" || c.Offset != e.Offset+2*blocks.ChunkBytes {
			t.Fatalf("from %d: %v", from, err)
		}
	}
	// Neither the chunk before nor the one after is blamed, nor is a chunk that b does not hold whole.
	if err := f.CheckChunks(e, blocks.ChunkBytes, b[blocks.ChunkBytes:3*blocks.ChunkBytes-1]); err != nil {
		t.Fatal(err)
	}
	if err := f.CheckChunks(e, 3*blocks.ChunkBytes, b[3*blocks.ChunkBytes:]); err != nil {
		t.Fatal(err)
	}
	if err := f.CheckChunks(e, 5, b[5:]); err == nil || errors.Is(err, blocks.ErrCorrupt) {
		t.Fatalf("an offset within a chunk: %v", err)
	}
}

// TestWriterErrors fails every operation of the file system in turn, and checks
// that the writer says so and leaves nothing that opens.
func TestWriterErrors(t *testing.T) {
	for _, s := range smallFiles()[:6] {
		t.Run(s.name, func(t *testing.T) {
			for k := int32(0); ; k++ {
				mem := &blocks.OpenCount{FS: vfs.NewCrashableMem()}
				index := errorfs.OnIndex(k)
				fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if index.MaybeError(op) != nil {
						return errorfs.ErrInjected
					}
					return nil
				}))
				err := func() error {
					w, err := blocks.Create(fs, "f", s.header)
					if err != nil {
						return err
					}
					if err := s.write(w); err != nil {
						_ = w.Abort()
						return err
					}
					if _, err := w.Close(); err != nil {
						_ = w.Abort()
						return err
					}
					return nil
				}()
				if mem.Left != 0 {
					t.Errorf("operation %d fails: %d files stay open", k, mem.Left)
				}
				if err == nil {
					if k < 3 {
						t.Fatalf("only %d operations seen", k)
					}
					return
				}
				if !errors.Is(err, errorfs.ErrInjected) {
					t.Fatalf("operation %d: %v", k, err)
				}
				if _, statErr := mem.Stat("f"); statErr == nil {
					t.Fatalf("operation %d failed and the file is still there", k)
				}
			}
		})
	}
}

// TestReaderErrors fails every operation of ReadHeader, OpenEmbedding, Open and
// Verify in turn: an error that is not damage must not be called damage.
func TestReaderErrors(t *testing.T) {
	mem := vfs.NewMem()
	smallFiles()[0].create(t, mem, "f")
	l, err := blocks.NewEmbeddingLayout(blocks.Header{Elem: blocks.Float32, Dim: 2, Name: "e"}, 1, 2, []uint64{3})
	if err == nil {
		_, err = blocks.CreateEmbedding(mem, "e", l, func(blocks.PartitionID, int, uint64, []byte) error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	for k := int32(0); ; k++ {
		index := errorfs.OnIndex(k)
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileClose && index.MaybeError(op) != nil {
				return errorfs.ErrInjected
			}
			return nil
		}))
		_, err := blocks.ReadHeader(fs, "f")
		if err == nil {
			_, err = blocks.OpenEmbedding(fs, "e")
		}
		if err == nil {
			var f *blocks.File
			if f, err = blocks.Open(fs, "f"); err == nil {
				err = f.Verify(context.Background(), nil)
				if cerr := f.Close(); cerr != nil {
					t.Fatal(cerr)
				}
			}
		}
		if err == nil {
			if k < 12 {
				t.Fatalf("only %d operations seen", k)
			}
			return
		}
		if !errors.Is(err, errorfs.ErrInjected) || errors.Is(err, blocks.ErrCorrupt) {
			t.Fatalf("operation %d: %v", k, err)
		}
	}
}

// TestCrash drops what was not synced: a file whose Close returned is whole, one
// whose Close did not is not mistaken for a file.
func TestCrash(t *testing.T) {
	s := smallFiles()[0]
	mem := vfs.NewCrashableMem()
	dir, err := mem.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w, err := blocks.Create(mem, "f", s.header)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), s.write(w)); err != nil {
		t.Fatal(err)
	}
	if f, err := blocks.Open(mem.CrashClone(vfs.CrashCloneCfg{}), "f"); !errors.Is(err, blocks.ErrCorrupt) {
		t.Fatalf("an unfinished file opened: %v %v", f, err)
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	f, err := blocks.Open(mem.CrashClone(vfs.CrashCloneCfg{}), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(context.Background(), nil); err != nil || f.Info() != info {
		t.Fatalf("after a crash: %+v, %v", f.Info(), err)
	}
}
