package formats

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zip"

	"github.com/gstore/gstore/blocks"
)

// The arrays of an archive: masks may be lists of nodes, weights any numbers, edges have times and features, and what is not read is named.
func TestNPZ(t *testing.T) {
	arrays := map[string][]byte{
		"edge_index":     npyBytes("<i8", "3, 2", blocks.Bytes([]int64{0, 1, 1, 2, 2, 0})),
		"edge_timestamp": npyList(5, 7, 6),
		"edge_weight":    npyBytes("<f8", "3,", blocks.Bytes([]float64{.5, 2, 1})),
		"edge_attr":      npyBytes("<f4", "3, 1", blocks.Bytes([]float32{9, 8, 7})),
		"x":              npyBytes("<f4", "3, 1", blocks.Bytes([]float32{1, 2, 3})),
		"y":              npyList(0, 1, 0),
		"train_mask":     npyList(2),
		"valid_mask":     npyList(0),
		"test_mask":      npyBytes("|b1", "3,", []byte{0, 1, 0}),
		"names":          npyList(4),
	}
	edge := func(src, dst uint64, time int64, weight, attr float32) string {
		return fmt.Sprintf("edge %d %d weight %x edge_attr %x timestamp %x", src, dst, blocks.Bytes([]float32{weight}), blocks.Bytes([]float32{attr}), blocks.Bytes([]int64{time}))
	}
	want := []string{edge(0, 1, 5, .5, 9), edge(1, 2, 7, 2, 8), edge(2, 0, 6, 1, 7)}
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		s, err := Open("g.npz", Options{FS: memFS(t, map[string][]byte{"g.npz": npzBytes(t, method, arrays)})})
		if err != nil {
			t.Fatal(err)
		}
		got := told(t, s)
		if !slices.Equal(got[1:4], want) || !slices.Equal(got[len(got)-3:], []string{"split 1 [2]", "split 2 [0]", "split 3 [1]"}) {
			t.Errorf("%q, expected the edges %q", got, want)
		}
		if notes := s.Describe().Notes; !slices.Equal(notes, []string{`not read: ["names"]`}) {
			t.Errorf("notes %q", notes)
		}
	}
	arrays["train_mask"] = npyList(0, 0, 1) // of the nodes, or a list of them?
	if _, err := Open("g.npz", Options{FS: memFS(t, map[string][]byte{"g.npz": npzBytes(t, zip.Store, arrays)})}); err == nil || !strings.Contains(err.Error(), "expected bool of shape [3]") {
		t.Errorf("a mask of integers: %v", err)
	}
	for name, b := range map[string][]byte{"float16": npyBytes("<f2", "3,", make([]byte, 6)), "two a row": npyBytes("<f4", "3, 2", make([]byte, 24))} {
		bad := map[string][]byte{"edge_index": arrays["edge_index"], "edge_weight": b}
		if _, err := Open("g.npz", Options{FS: memFS(t, map[string][]byte{"g.npz": npzBytes(t, zip.Store, bad)})}); err == nil || !strings.Contains(err.Error(), "edge_weight: weights of type") {
			t.Errorf("weights of %s: %v", name, err)
		}
	}
}

// One array of edges is a graph. Where arrays lie beside it that a folder's format takes, that is said.
func TestEdgesOfOneArray(t *testing.T) {
	edges := npyBytes("<i8", "2, 3", blocks.Bytes([]int64{0, 1, 2, 1, 2, 0}))
	want := []string{"[{node -1}] [] 3  []", "edge 0 1", "edge 1 2", "edge 2 0"}
	for _, c := range []struct {
		path   string
		beside bool
	}{{"d/g.npy", false}, {"d/edge_index.npy", false}, {"d/edge_index.npy", true}} {
		files := map[string][]byte{c.path: edges}
		if c.beside {
			files["d/x.npy"] = npyBytes("<f4", "3, 1", blocks.Bytes([]float32{1, 2, 3}))
		}
		s, err := Open(c.path, Options{FS: memFS(t, files)})
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		if got := told(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected %q", c.path, got, want)
		}
		if notes := s.Describe().Notes; len(notes) > 0 != c.beside || c.beside && !strings.Contains(notes[0], "gstore ingest d takes") {
			t.Errorf("%s, arrays beside it %v: notes %q", c.path, c.beside, notes)
		}
	}
	runBad(t, []badCase{{name: "features", path: "x.npy", files: map[string][]byte{"x.npy": npyBytes("<f4", "3, 1", make([]byte, 12))}, want: []string{"x.npy", "[2, E]"}}})
	folder := map[string][]byte{"d/edge_index.npy": edges, "d/edge_weight.npy": npyBytes("<f8", "3,", blocks.Bytes([]float64{.5, 2, 1}))}
	s, err := Open("d", Options{FS: memFS(t, folder)})
	if err != nil {
		t.Fatal(err)
	}
	if got := told(t, s); got[2] != fmt.Sprintf("edge 1 2 weight %x", blocks.Bytes([]float32{2})) {
		t.Errorf("weights of 64 bits: %q", got)
	}
}
