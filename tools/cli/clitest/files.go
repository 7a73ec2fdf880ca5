package clitest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/testdata"
)

// CoraNodes and CoraDim are the rows and columns of Cora's features.
const CoraNodes, CoraDim = 2708, 1433

// Cora are the Cora graph's arrays.
type Cora struct {
	Src, Dst []int64
	X        []float32 // [2708][1433]
	Labels   []int64
	Split    map[string][]int64 // train, valid, test
}

// npyBody returns the elements of a .npy file.
func npyBody(t *testing.T, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(testdata.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return b[10+int(binary.LittleEndian.Uint16(b[8:])):]
}

func int64s(b []byte) []int64 {
	out := make([]int64, len(b)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

// ReadCora reads the embedded arrays.
func ReadCora(t *testing.T) *Cora {
	t.Helper()
	c := &Cora{Split: map[string][]int64{}}
	ends := int64s(npyBody(t, "cora/edge_index.npy"))
	c.Src, c.Dst = ends[:len(ends)/2], ends[len(ends)/2:]
	x := npyBody(t, "cora/node_feat.npy.gz")
	c.X = make([]float32, len(x)/4)
	for i := range c.X {
		c.X[i] = math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:]))
	}
	c.Labels = int64s(npyBody(t, "cora/node_label.npy"))
	for _, part := range []string{"train", "valid", "test"} {
		c.Split[part] = int64s(npyBody(t, "cora/split/"+part+".npy"))
	}
	return c
}

// NpyFile encodes an array as numpy does; shape as in "2, 5".
func NpyFile(descr, shape string, data []byte) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	return append(append(b, head...), data...)
}

// NpyInts encodes a column of int64.
func NpyInts(x []int64) []byte { return NpyFile("<i8", fmt.Sprintf("%d,", len(x)), blocks.Bytes(x)) }

// Put writes files, by slash-separated names, into dir.
func Put(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	for name, b := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			b = Gzipped(b)
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Gzipped packs b.
func Gzipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(b) // a buffer does not fail
	_ = w.Close()
	return z.Bytes()
}

// Ends is the shape [2, E] form of the edges.
func (c *Cora) Ends() []byte {
	return NpyFile("<i8", fmt.Sprintf("2, %d", len(c.Src)), blocks.Bytes(slices.Concat(c.Src, c.Dst)))
}

// Features is the file of the features.
func (c *Cora) Features() []byte {
	return NpyFile("<f4", fmt.Sprintf("%d, %d", CoraNodes, CoraDim), blocks.Bytes(c.X))
}

// Numpy is the reference: the folder whose store the other formats' must equal.
func (c *Cora) Numpy() map[string][]byte {
	return map[string][]byte{
		"edge_index.npy": c.Ends(), "node_feat.npy": c.Features(), "node_label.npy": NpyInts(c.Labels),
		"split/train.npy": NpyInts(c.Split["train"]), "split/valid.npy": NpyInts(c.Split["valid"]), "split/test.npy": NpyInts(c.Split["test"]),
	}
}
