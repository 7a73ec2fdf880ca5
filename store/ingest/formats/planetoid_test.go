package formats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// pickledArray is an array of numpy as pickles of Python 2 have it, without the instruction that ends them.
func pickledArray(code string, shape []int, b []byte) string {
	dims := ""
	for _, d := range shape {
		dims += "K" + string([]byte{byte(d)})
	}
	return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01(" + dims + "tcnumpy\ndtype\nU\x02" + code +
		"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U" + string([]byte{byte(len(b))}) + string(b) + "tb"
}

// pickledRows is a matrix of scipy likewise.
func pickledRows(rows, cols int, begins, columns []int32, values []float32) []byte {
	return []byte("\x80\x02cscipy.sparse.csr\ncsr_matrix\nq\x01)\x81q\x02}q\x03(U\x06_shapeK" + string([]byte{byte(rows), 'K', byte(cols)}) + "\x86U\x06indptr" +
		pickledArray("i4", []int{len(begins)}, blocks.Bytes(begins)) + "U\x07indices" + pickledArray("i4", []int{len(columns)}, blocks.Bytes(columns)) +
		"U\x04data" + pickledArray("f4", []int{len(values)}, blocks.Bytes(values)) + "ub.")
}

func pickledClasses(of ...[]int32) []byte {
	return []byte("\x80\x02" + pickledArray("i4", []int{len(of), len(of[0])}, blocks.Bytes(slices.Concat(of...))) + ".")
}

// planetoidFiles are a graph of six nodes: one trains, two validate, 3 and 5 test, 4 is of nothing. Files are replaced; nil removes one.
func planetoidFiles(replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"x":          pickledRows(1, 2, []int32{0, 1}, []int32{1}, []float32{1}),
		"y":          pickledClasses([]int32{0, 1}),
		"allx":       pickledRows(3, 2, []int32{0, 1, 1, 3}, []int32{1, 0, 1}, []float32{1, .5, 2}),
		"ally":       pickledClasses([]int32{0, 1}, []int32{1, 0}, []int32{0, 1}),
		"tx":         pickledRows(2, 2, []int32{0, 1, 2}, []int32{0, 1}, []float32{7, 8}),
		"ty":         pickledClasses([]int32{1, 0}, []int32{0, 1}),
		"test.index": []byte("5\n3\n"),
		"graph":      []byte("\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x00](K\x01K\x05K\x01eK\x01]K\x00aK\x05](K\x00K\x05eu."),
	}
	maps.Copy(files, replace)
	out := map[string][]byte{}
	for name, b := range files {
		if b != nil {
			out["d/raw/ind.tiny."+name] = b
		}
	}
	return out
}

func TestPlanetoid(t *testing.T) {
	want := []string{"[{node -1}] [] 5 node [split]", "edge 0 1", "edge 0 5", "edge 1 0", "edge 5 0", "edge 5 5",
		fmt.Sprintf("x feature float32 2 0 6  %x", blocks.Bytes([]float32{0, 1, 0, 0, .5, 2, 0, 8, 0, 0, 7, 0})),
		fmt.Sprintf("label label int64 1 0 6  %x", blocks.Bytes([]int64{1, 0, 1, 1, -1, 0})), "split 1 [0]", "split 2 [1 2]", "split 3 [5 3]"}
	for _, path := range []string{"d", "d/raw", "d/raw/ind.tiny.test.index", "d/raw/ind.tiny.x"} {
		s, err := Open(path, Options{FS: memFS(t, planetoidFiles(nil))})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got := told(t, s); !slices.Equal(got, want) || s.Describe().Format != "planetoid" || s.Describe().Nodes != 6 {
			t.Errorf("%s: %q, expected\n%q", path, got, want)
		}
		if _, err := drain(t, s); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestPlanetoidBadInput(t *testing.T) {
	bad := func(name, file string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: planetoidFiles(map[string][]byte{file: b}), want: append(want, "ind.tiny."+file)}
	}
	graph := func(list string) []byte { return []byte("\x80\x02}(" + list + "u.") }
	cases := []badCase{
		bad("no pickle", "allx", []byte("x"), "instruction 0x78"),
		bad("no matrix", "tx", pickledClasses([]int32{1}), "no matrix of scipy"),
		bad("rows that go back", "allx", pickledRows(3, 2, []int32{0, 2, 1, 3}, []int32{1, 0, 1}, []float32{1, .5, 2}), "no matrix of scipy"),
		bad("a column beyond", "allx", pickledRows(3, 2, []int32{0, 1, 1, 3}, []int32{1, 0, 2}, []float32{1, .5, 2}), "no matrix of scipy"),
		bad("another width", "tx", pickledRows(2, 3, []int32{0, 1, 2}, []int32{0, 1}, []float32{7, 8}), "rows of 3 elements, those of allx have 2"),
		bad("a test node twice", "test.index", []byte("5\n5\n"), "line 2", "another node"),
		bad("a test node of allx", "test.index", []byte("5\n2\n"), "another node from 3 on"),
		bad("too few test nodes", "test.index", []byte("5\n"), "1 lines, expected 2"),
		bad("labels of other rows", "ally", pickledClasses([]int32{1, 0}), "3 rows"),
		bad("more training nodes than rows", "y", pickledClasses([]int32{0, 1}, []int32{0, 1}, []int32{0, 1}, []int32{0, 1}), "at most 3 rows"),
		bad("a neighbour beyond", "graph", graph("K\x00](K\x01K\x06e"), "node 0: neighbour 6, expected a node from 0 to 5"),
		bad("a node beyond", "graph", graph("K\x06](K\x01e"), "key 6, expected a node from 0 to 5"),
		bad("a list", "graph", []byte("\x80\x02]."), "no dictionary"),
	}
	two := planetoidFiles(nil)
	two["d/raw/ind.other.graph"] = two["d/raw/ind.tiny.graph"]
	cases = append(cases, badCase{name: "two graphs", path: "d", files: two, want: []string{"2 graphs, other, tiny", "d/raw/ind.other.graph"}})
	runBad(t, cases)
	missing := planetoidFiles(map[string][]byte{"ty": nil})
	if _, err := Open("d", Options{FS: memFS(t, missing)}); err == nil || !strings.Contains(err.Error(), "ind.tiny.ty") {
		t.Errorf("without a file: %v", err)
	}
}

func FuzzPlanetoid(f *testing.F) {
	files := planetoidFiles(nil)
	f.Add(files["d/raw/ind.tiny.allx"], files["d/raw/ind.tiny.ty"], files["d/raw/ind.tiny.graph"])
	f.Fuzz(func(t *testing.T, allx, ty, graph []byte) {
		_ = openDrain(t, memFS(t, planetoidFiles(map[string][]byte{"allx": allx, "ty": ty, "graph": graph})), "d", Options{})
	})
}
