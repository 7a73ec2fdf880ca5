package storetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/testdata/typed"
)

// Typed unpacks a graph of several types of nodes, and the store that format 1 made of it: of every column a row for every node.
func Typed(tb testing.TB) (graph, version1 string) {
	tb.Helper()
	dir := tb.TempDir()
	z, err := gzip.NewReader(bytes.NewReader(typed.Version1))
	if err != nil {
		tb.Fatal(err)
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "graph"), filepath.Join(dir, "store")
		}
		var b []byte
		path := ""
		if err == nil {
			path = filepath.Join(dir, filepath.Clean("/"+h.Name))
		}
		if err == nil && h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o777)
		} else if err == nil {
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o666)
			}
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}
