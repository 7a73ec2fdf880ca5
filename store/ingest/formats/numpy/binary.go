package numpy

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
)

// RawNames are what a file of raw pairs may be called in a numpy folder.
var RawNames = []string{"edges.bin", "edges.i32", "edges.i64"}

// OpenBinary opens a file of raw pairs.
func OpenBinary(fs vfs.FS, path string, wide bool) (ingest.Source, error) {
	a, err := openRaw(fs, path, wide)
	if err != nil {
		return nil, err
	}
	s := &folder{fs: fs, dir: path, edges: a, pairs: true}
	s.desc = ingest.Description{Format: "binary", Input: path, Files: []string{path}, IDs: store.IDsDense, Nodes: -1, Edges: a.Rows(),
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	return s, nil
}

// openRaw opens pairs of little-endian integers, src and dst, with no header:
// 64 bits wide if wide or if the name ends in .i64 or says "64", else 32. They
// are read like a numpy array of shape [E, 2].
func openRaw(fs vfs.FS, path string, wide bool) (*Array, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	a := &Array{FS: fs, Path: path, Elem: blocks.Uint32}
	if wide || strings.Contains(files.PlainName(fs.PathBase(path)), "64") {
		a.Elem = blocks.Uint64
	}
	if files.Packed(path) {
		return nil, ingest.Inputf(path, "packed binary pairs are not supported; unpack the file first")
	}
	pair := int64(2 * a.Elem.Size())
	if info.Size()%pair != 0 {
		return nil, ingest.Inputf(path, "%d bytes are no whole number of pairs of %v", info.Size(), a.Elem)
	}
	a.Shape = []int64{info.Size() / pair, 2}
	return a, nil
}
