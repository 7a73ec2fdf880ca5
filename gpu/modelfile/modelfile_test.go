package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
)

// TestReadHead: what a file says is read as Decode reads it, whatever becomes of the file, and its numbers are not held; nor are they
// copied to be written or read.
func TestReadHead(t *testing.T) {
	fs := vfs.NewMem()
	save := func(b []byte) {
		f, err := fs.Create("file", vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(bytes.Clone(b)) // it may change what it is given
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type head struct{ Text string }
	whole, err := Encode(NodeRun, head{"what it says"}, bytes.Repeat([]byte{1, 2, 3, 4}, 300))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Encode(Node, head{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cases := [][]byte{whole, other, append(bytes.Clone(whole), 0), {}}
	for n := 1; n < len(whole); n += 1 + n/60 {
		cases = append(cases, whole[:n])
	}
	for at := 0; at < len(whole); at += 1 + at/60 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		cases = append(cases, b)
	}
	for _, b := range cases {
		save(b)
		var got, want head
		err := ReadHead(fs, "file", NodeRun, &got)
		params, wantErr := Decode("file", NodeRun, bytes.Clone(b), &want)
		if (err == nil) != (wantErr == nil) || err == nil && (got != want || len(params) != 1200) {
			t.Fatalf("%d bytes: %+v, %v; expected %+v, %v", len(b), got, err, want, wantErr)
		}
		if err != nil && !errors.Is(err, blocks.ErrCorrupt) && !errors.Is(err, ErrKind) {
			t.Errorf("%d bytes: %v, expected a CorruptError or ErrKind", len(b), err)
		}
	}
	if _, err := Read(fs, "none"); err == nil {
		t.Error("a file that there is not is read")
	}

	const large = 64 << 20
	disk, params := vfs.Default, make([]byte, large)
	file := filepath.Join(t.TempDir(), "file")
	allocated := func(fn func() error) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := fn()
		if runtime.ReadMemStats(&after); err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if n := allocated(func() error { return Save(disk, file, NodeRun, head{"large"}, params) }); n > 1<<20 {
		t.Errorf("%d bytes are allocated to write %d", n, large)
	}
	var h head
	if n := allocated(func() error { return ReadHead(disk, file, NodeRun, &h) }); n > 1<<20 || h.Text != "large" {
		t.Errorf("%d bytes are allocated to read %+v", n, h)
	}
	if n := allocated(func() error {
		b, err := Read(disk, file)
		if err != nil {
			return err
		}
		params, err := Decode(file, NodeRun, b, &h)
		if err == nil && len(params) != large {
			err = fmt.Errorf("%d bytes of parameters", len(params))
		}
		return err
	}); n > large+1<<20 {
		t.Errorf("%d bytes are allocated to read %d", n, large)
	}
}
