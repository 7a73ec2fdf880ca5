package blocks_test

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
)

// TestDirectWrites checks that a large file is the same bytes whether it is
// written past the page cache, through it because the file system refuses direct writes, or in
// memory.
func TestDirectWrites(t *testing.T) {
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Partitions: 3, Name: "x"}
	write := func(fs vfs.FS, path string) []byte {
		w, err := blocks.Create(fs, path, h)
		if err != nil {
			t.Fatal(err)
		}
		for p, n := range []int{3<<20 + 17, 0, 900_001} {
			if err := w.Append(uint64(p), uint64(n), bytes.Repeat([]byte{1, byte(p), 3}, n/3+1)[:n]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return readAll(t, fs, path)
	}
	want := write(vfs.NewMem(), "f")
	dir := t.TempDir()
	if got := write(vfs.Default, dir+"/direct"); !bytes.Equal(got, want) {
		t.Error("direct: other bytes than in memory")
	}
	// The first write with O_DIRECT is refused.
	refused := false
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && !refused {
			refused = true
			return syscall.EINVAL
		}
		return nil
	}))
	if got := write(fs, dir+"/refused"); !bytes.Equal(got, want) || !refused {
		t.Errorf("refused (%v): other bytes than in memory", refused)
	}
	// Another error than a refusal is no reason to write again.
	writes := 0
	full := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite {
			writes++
			return syscall.ENOSPC
		}
		return nil
	}))
	w, err := blocks.Create(full, dir+"/full", h)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Append(0, 3<<20, make([]byte, 3<<20))
	if _, cerr := w.Close(); !errors.Is(cmp.Or(err, cerr), syscall.ENOSPC) || writes != 1 {
		t.Errorf("a full disk: %v after %d writes", cmp.Or(err, cerr), writes)
	}
}

// TestDirectReads: whole files and their ends, aligned or not, are read as they are.
func TestDirectReads(t *testing.T) {
	want := make([]byte, 3*blocks.Alignment+17)
	for i := range want {
		want[i] = byte(i * i >> 3)
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, want, 0o666); err != nil {
		t.Fatal(err)
	}
	slab, err := blockio.AllocSlab(1<<20, blockio.SlabOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer slab.Free()
	for _, c := range []struct{ from, length, at int }{
		{0, 4 * blocks.Alignment, 0}, {0, 2 * blocks.Alignment, blocks.Alignment}, {0, 4 * blocks.Alignment, 2 * blocks.Alignment},
		{1, 100, 0}, {0, 100, 33}, {0, blocks.Alignment, 3*blocks.Alignment - 1}, {0, blocks.Alignment, len(want)},
	} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b := slab.Bytes()[c.from:][:c.length]
		n, err := blocks.ReadDirect(f, b, int64(c.at))
		if expect := want[c.at:min(len(want), c.at+c.length)]; err != nil || !bytes.Equal(b[:n], expect) {
			t.Errorf("%d bytes at %d into a buffer at %d: %d bytes, %v", c.length, c.at, c.from, n, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
