package formats

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// pygBytes is a file that PyTorch Geometric wrote (testdata/pyg/make.py).
func pygBytes(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "pyg", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pygPickle is the pickle in it.
func pygPickle(t testing.TB, name string) []byte {
	t.Helper()
	b := pygBytes(t, name)
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := z.Open(strings.TrimSuffix(name, ".pt") + "/data.pkl")
	if err != nil {
		t.Fatal(err)
	}
	pickle, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return pickle
}

// TestPyG: a graph is the same in every form in which PyTorch Geometric keeps it, and tensors that are views of others are read as they look.
func TestPyG(t *testing.T) {
	hex := func(x any) string {
		switch x := x.(type) {
		case []float32:
			return fmt.Sprintf("%x", blocks.Bytes(x))
		case []float64:
			return fmt.Sprintf("%x", blocks.Bytes(x))
		}
		return fmt.Sprintf("%x", blocks.Bytes(x.([]int64)))
	}
	data := []string{"[{node 4}] [] 3 node [split]", "edge 0 1 edge_attr 0000003f", "edge 1 2 edge_attr 0000c03f", "edge 3 0 edge_attr 00002040",
		"x feature float32 2 0 4  " + hex([]float32{1, 2, 3, 4, 5, 6, 7, 8}), "label label int64 1 0 4  " + hex([]int64{0, 1, 1, 0}), "year node int64 1 0 4  " + hex([]int64{9, 8, 7, 6}),
		"split 1 [0 1]", "split 2 [2]", "split 3 [3]"}
	typed := []string{"[{paper 2} {author 1} {place 3}] [author:writes:paper author:of:place] 3 node [split]",
		"edge 2 0 0 edge_attr 0000a040", "edge 2 1 0 edge_attr 00008040", "edge 2 5 1 edge_attr 00000000",
		"paper.x feature float32 2 0 2 paper " + hex([]float32{1, 2, 3, 4}), "label label int64 1 0 2 paper " + hex([]int64{1, 0}), "author.x feature float32 1 2 1 author " + hex([]float32{9}),
		"node_type node uint32 1 0 6  010000000100000002000000030000000300000003000000", "place.node node uint32 1 3 3 place 010000000200000003000000",
		"split 1 [1]", "split 2 [0]"}
	for name, want := range map[string][]string{
		"data.pt": data, "dictionary.pt": data, "set.pt": data, "set_2_0.pt": data, "d/processed/data.pt": data, "d/processed/data_undirected.pt": data,
		"typed.pt": typed, "typed_dictionary.pt": typed, "typed_set.pt": typed,
		"relations.pt": {"[{node 6}] [0 1] 3  []", "edge 0 1 1", "edge 1 2 0", "edge 3 0 1"},
		"edges.pt":     {"[{node 4}] [] 3  []", "edge 0 1", "edge 1 2", "edge 3 0"},
		"views.pt": {"[{node 4}] [] 3 node [split split_1]", "edge 0 1 weight 0000803f time 0500000000000000", "edge 1 2 weight 00000040 time 0600000000000000",
			"edge 3 0 weight 00004040 time 0700000000000000",
			"x feature float64 4 0 4  " + hex([]float64{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}), "label label float32 1 0 4  0000003f0000803f000000400000c07f",
			"pos node float32 2 0 4  " + hex([]float32{1, 2, 3, 4, 5, 6, 7, 8}), "split 1 [0 1]", "split 3 [2 3]", "split_1 1 [2 3]", "split_1 3 [0 1]"},
	} {
		path, held := name, map[string][]byte{}
		if strings.HasPrefix(name, "d/") {
			path, held["d/processed/pre_transform.pt"] = "d", []byte("none")
		}
		held[name] = pygBytes(t, strings.Replace(filepath.Base(name), "data_undirected", "data", 1))
		s, err := Open(path, Options{FS: memFS(t, held)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := told(t, s); !slices.Equal(got, want) || s.Describe().Format != "pyg" {
			t.Errorf("%s:\n%q, expected\n%q", name, got, want)
		}
		if _, err := drain(t, s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What edges of a type have and cannot be kept is named.
func TestPyGLeavesOut(t *testing.T) {
	key, size := []byte("X\x09\x00\x00\x00edge_attr"), []byte("K\x02K\x01\x86")
	before, after, found := bytes.Cut(pygPickle(t, "typed.pt"), key)
	if !found || !bytes.Contains(after, size) {
		t.Fatal("the size of edge_attr is not found")
	}
	pickle := slices.Concat(before, key, bytes.Replace(after, size, []byte("K\x01K\x01\x86"), 1)) // one row of two edges
	b := repacked(t, pygBytes(t, "typed.pt"), map[string][]byte{"data.pkl": pickle})
	s, err := Open("x.pt", Options{FS: memFS(t, map[string][]byte{"x.pt": b})})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(s.Describe().Notes, "; "); len(s.Describe().EdgeColumns) != 0 || !strings.Contains(notes, "author:writes:paper.edge_attr left out") {
		t.Errorf("%s; columns %v", notes, s.Describe().EdgeColumns)
	}
}

// repacked is an archive with members replaced, by the ends of their names; nil removes one.
func repacked(t testing.TB, archive []byte, replace map[string][]byte) []byte {
	t.Helper()
	from, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to := zip.NewWriter(&out)
	for _, m := range from.File {
		_, name, _ := strings.Cut(m.Name, "/")
		b, replaced := replace[name]
		if replaced && b == nil {
			continue
		}
		if !replaced {
			r, err := m.Open()
			if err != nil {
				t.Fatal(err)
			}
			if b, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		w, err := to.CreateHeader(&zip.FileHeader{Name: m.Name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPyGBadInput(t *testing.T) {
	file := func(name string, replace map[string][]byte, want ...string) badCase {
		b := pygBytes(t, name)
		if replace != nil {
			b = repacked(t, b, replace)
		}
		return badCase{name: name + fmt.Sprint(slices.Sorted(maps.Keys(replace))), path: "x.pt", files: map[string][]byte{"x.pt": b}, want: append(want, "x.pt")}
	}
	flipped := slices.Clone(pygBytes(t, "data.pt"))
	flipped[bytes.Index(flipped, blocks.Bytes([]float32{5, 6, 7}))] ^= 1
	runBad(t, []badCase{
		file("two.pt", nil, "2 graphs, expected one"),
		file("legacy.pt", nil, "PyTorch 1.6"),
		file("model.pt", nil, "no graph of PyTorch Geometric: a dictionary of w"),
		file("strided.pt", nil, "x: shape [4 1] with strides [2 2]", ".contiguous()"),
		file("data.pt", map[string][]byte{"data/1": nil}, "data/1"),
		file("data.pt", map[string][]byte{"data/0": make([]byte, 28)}, "x: 32 bytes from element 0 of 28 bytes"),
		file("data.pt", map[string][]byte{"data.pkl": nil}, "no data.pkl"),
		file("data.pt", map[string][]byte{"data.pkl": []byte("cos\nsystem\n(X\x04\x00\x00\x00truetR.")}, "no graph of PyTorch Geometric"),
		file("data.pt", map[string][]byte{"data/1": blocks.Bytes([]int64{0, 1, 4, 1, 2, 0})}, "edge 2: source 4, expected 0 ≤ id < 4"),
		{name: "a flipped bit", path: "x.pt", files: map[string][]byte{"x.pt": flipped}, want: []string{"data/0: damaged", "checksum"}},
	})
}

func FuzzPyG(f *testing.F) {
	archives := map[bool][]byte{false: pygBytes(f, "views.pt"), true: pygBytes(f, "typed.pt")}
	for _, name := range []string{"data.pt", "set.pt", "set_2_0.pt", "views.pt", "relations.pt", "typed.pt", "typed_set.pt", "two.pt"} {
		f.Add(strings.HasPrefix(name, "typed"), pygPickle(f, name))
	}
	f.Fuzz(func(t *testing.T, typed bool, pickle []byte) {
		b := repacked(t, archives[typed], map[string][]byte{"data.pkl": pickle})
		_ = openDrain(t, memFS(t, map[string][]byte{"x.pt": b}), "x.pt", Options{})
	})
}
