package blockio_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
)

// far is a file in memory.
type far struct {
	*bytes.Reader
	closed *int
}

func (f far) Close() error { *f.closed++; return nil }
func (f far) Size() int64  { return f.Reader.Size() }

func (f far) Fetch(int64, int64) error { return nil }
func (f far) AheadBytes() int64        { return 0 }

// A batch may read files that are on disk and files that are not, and each is told once, by its own index.
func TestElsewhere(t *testing.T) {
	dir, closed := t.TempDir(), 0
	content := []byte(strings.Repeat("0123456789abcdef", 64<<10))
	here := filepath.Join(dir, "here")
	if err := os.WriteFile(here, content, 0o666); err != nil {
		t.Fatal(err)
	}
	blockio.SetElsewhere(func(path string) (blockio.Elsewhere, error) {
		switch filepath.Base(path) {
		case "far":
			return far{bytes.NewReader(content), &closed}, nil
		case "broken":
			return nil, errors.New("no network")
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	})
	defer blockio.SetElsewhere(nil)
	for _, name := range blockio.Names() {
		t.Run(name, func(t *testing.T) {
			e, _, err := blockio.New(name, blockio.Options{Depth: 4, SplitBytes: 64 << 10})
			if errors.Is(err, blockio.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			var files []blockio.File
			for _, path := range []string{here, filepath.Join(dir, "far")} {
				f, err := e.Open(path, blockio.OpenOptions{Direct: true})
				if err != nil || f.Size() != int64(len(content)) || f.Path() != path {
					t.Fatal(f, err)
				}
				files = append(files, f)
			}
			if files[1].Direct() {
				t.Error("a file that is not on disk is read direct")
			}
			for _, which := range [][]int{{0, 0}, {1, 1}, {0, 1, 1, 0, 1, 0}} {
				var batch []blockio.Request
				slab, err := blockio.AllocSlab(int64(len(which))<<18, blockio.SlabOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for i, w := range which {
					batch = append(batch, blockio.Request{File: files[w], Offset: int64(i) << 12, Buf: slab.Bytes()[i<<18 : (i+1)<<18]})
				}
				var told []int
				if err := e.Do(t.Context(), batch, func(i int) { told = append(told, i) }); err != nil {
					t.Fatal(err)
				}
				slices.Sort(told)
				for i := range batch {
					if told[i] != i || len(told) != len(batch) || !bytes.Equal(batch[i].Buf, content[i<<12:i<<12+1<<18]) {
						t.Errorf("%v: told %v, request %d", which, told, i)
					}
				}
				if err := slab.Free(); err != nil {
					t.Error(err)
				}
			}
			end := blockio.Request{File: files[1], Offset: int64(len(content)) - 4096, Buf: make([]byte, 8192)}
			var failed *blockio.Error
			if err := e.Do(t.Context(), []blockio.Request{end}, nil); !errors.As(err, &failed) || failed.Path != files[1].Path() {
				t.Errorf("beyond the end: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := e.Do(ctx, []blockio.Request{{File: files[1], Buf: make([]byte, 4096)}}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			if got := e.Stats(); got.BytesRead < 10<<18 {
				t.Errorf("%+v", got)
			}
			if _, err := e.Open(filepath.Join(dir, "nowhere"), blockio.OpenOptions{}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is nowhere: %v", err)
			}
			if _, err := e.Open(filepath.Join(dir, "broken"), blockio.OpenOptions{}); err == nil || !strings.Contains(err.Error(), "network") {
				t.Errorf("one that cannot be reached: %v", err)
			}
			before := closed
			if err := errors.Join(files[0].Close(), files[1].Close(), e.Close()); err != nil || closed != before+1 {
				t.Errorf("%v, closed %d times", err, closed-before)
			}
			if err := e.Close(); !errors.Is(err, blockio.ErrClosed) {
				t.Errorf("closed twice: %v", err)
			}
		})
	}
}
