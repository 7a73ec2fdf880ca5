package storetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
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

// Quarters rounds the weights of the graph of [Typed] to quarters, of which there are seven.
func Quarters(tb testing.TB, graph string) {
	tb.Helper()
	path := filepath.Join(graph, "edges", "paper__cites__paper", "edge_weight.npy")
	b, err := os.ReadFile(path)
	if err == nil {
		weights := b[10+binary.LittleEndian.Uint16(b[8:]):] // behind the header
		for ; len(weights) >= 4; weights = weights[4:] {
			binary.LittleEndian.PutUint32(weights, math.Float32bits(Quarter(math.Float32frombits(binary.LittleEndian.Uint32(weights)))))
		}
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Quarter rounds a weight as [Quarters] does.
func Quarter(w float32) float32 { return float32(math.Round(4*float64(w)) / 4) }
