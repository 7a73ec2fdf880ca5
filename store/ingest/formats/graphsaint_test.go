package formats

import (
	"archive/zip"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// scipyFile is what scipy.sparse.save_npz makes of a matrix of 4 nodes and edges 0→1, 1→2, 3→0, with the named arrays replaced.
func scipyFile(t testing.TB, replace map[string][]byte) []byte {
	a := map[string][]byte{"indptr": npyList(0, 1, 2, 2, 3), "indices": npyList(1, 2, 0), "data": npyBytes("|b1", "3,", []byte{1, 1, 1}),
		"shape": npyList(4, 4), "format": npyBytes("|S3", "", []byte("csr"))}
	maps.Copy(a, replace)
	return npzBytes(t, zip.Deflate, a)
}

// saintFiles is a data set of GraphSAINT in folder d, with the named files replaced.
func saintFiles(t testing.TB, replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/adj_full.npz": scipyFile(t, nil), "d/adj_train.npz": scipyFile(t, nil),
		"d/feats.npy":      npyBytes("<f4", "4, 1", blocks.Bytes([]float32{1, 2, 3, 4})),
		"d/class_map.json": []byte(`{"2": 1, "0": 0, "1": 2, "3": 1}`),
		"d/role.json":      []byte(`{"tr": [3, 0], "va": [1], "te": [2]}`),
	}
	maps.Copy(files, replace)
	return files
}

func TestGraphSAINT(t *testing.T) {
	hex := func(x ...float64) string { return fmt.Sprintf("%x", blocks.Bytes(x)) }
	head := []string{"[{node -1}] [] 3 node [split]", "edge 0 1", "edge 1 2", "edge 3 0",
		fmt.Sprintf("x feature float32 1 0 4  %x", blocks.Bytes([]float32{1, 2, 3, 4}))}
	split := []string{"split 1 [3 0]", "split 2 [1]", "split 3 [2]"}
	moved := map[string][]byte{}
	for path, b := range saintFiles(t, nil) {
		moved["d/raw"+path[1:]] = b
	}
	for name, c := range map[string]struct {
		files map[string][]byte
		label string
	}{
		"classes":         {saintFiles(t, nil), "label label float64 1 0 -1  [2 0 1 3] " + hex(1, 0, 2, 1)},
		"PyG's folder":    {moved, "label label float64 1 0 -1  [2 0 1 3] " + hex(1, 0, 2, 1)},
		"several a node":  {saintFiles(t, map[string][]byte{"d/class_map.json": []byte(`{"3": [0, 1], "0": [1, 1]}`)}), "label label float64 2 0 -1  [3 0] " + hex(0, 1, 1, 1)},
		"floats of lists": {saintFiles(t, map[string][]byte{"d/class_map.json": []byte(`{"3": [0.0, 1.0]}`)}), "label label float64 2 0 -1  [3] " + hex(0, 1)},
	} {
		s, err := Open("d", Options{FS: memFS(t, c.files)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := told(t, s), slices.Concat(head, []string{c.label}, split); !slices.Equal(got, want) || s.Describe().Format != "graphsaint" {
			t.Errorf("%s:\n%q, expected\n%q", name, got, want)
		}
		if _, err := drain(t, s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGraphSAINTBadInput(t *testing.T) {
	bad := func(name, file, text string, want ...string) badCase {
		return badCase{name: name, path: "d", files: saintFiles(t, map[string][]byte{"d/" + file: []byte(text)}), want: append(want, file)}
	}
	runBad(t, []badCase{
		bad("no JSON", "class_map.json", `{"0": 1, `, "byte 8"),
		bad("a list of classes", "class_map.json", `[1, 2]`, "expected an object"),
		bad("a key that is no id", "class_map.json", `{"0": 1, "x": 2}`, `"x", expected a node id`),
		bad("a node beyond", "class_map.json", `{"0": 1, "4": 2}`, "node 4, expected less than 4"),
		bad("a class that is text", "class_map.json", `{"0": "a"}`, "expected a number, or a list"),
		bad("lists of two lengths", "class_map.json", `{"0": [0, 1], "1": [1]}`, "node 1: 1 labels, expected 2"),
		bad("a list of lists", "class_map.json", `{"0": [[1]]}`, "expected a number"),
		bad("no labels", "class_map.json", `{}`, "no labels"),
		bad("no node id", "role.json", `{"tr": [1.5]}`, "1.5 is no node id"),
		bad("truncated", "role.json", `{"tr": [1, 2`, "byte 12"),
		{name: "features of other nodes", path: "d", want: []string{"expected 4 rows", "feats.npy"},
			files: saintFiles(t, map[string][]byte{"d/feats.npy": npyBytes("<f4", "3, 1", make([]byte, 12))})},
	})
}

func FuzzGraphSAINT(f *testing.F) {
	f.Add([]byte(`{"2": 1, "0": 0}`), []byte(`{"tr": [3, 0], "va": [1]}`))
	f.Add([]byte(`{"2": [1, 0], "0": [0, 0]}`), []byte(`{"te": []}`))
	f.Fuzz(func(t *testing.T, classes, roles []byte) {
		_ = openDrain(t, memFS(t, saintFiles(t, map[string][]byte{"d/class_map.json": classes, "d/role.json": roles})), "d", Options{})
	})
}

func TestReddit(t *testing.T) {
	coo := map[string][]byte{"row": npyList(3, 0, 1), "col": npyList(0, 1, 2), "data": npyList(1, 1, 1), "shape": npyList(4, 4), "format": npyBytes("|S3", "", []byte("coo"))}
	data := map[string][]byte{"feature": npyBytes("<f4", "4, 1", blocks.Bytes([]float32{1, 2, 3, 4})), "label": npyList(2, 0, 1, 1), "node_types": npyList(1, 3, 2, 1), "node_ids": npyList(0, 1, 2, 3)}
	files := map[string][]byte{"d/reddit_graph.npz": npzBytes(t, zip.Store, coo), "d/reddit_data.npz": npzBytes(t, zip.Deflate, data)}
	s, err := Open("d", Options{FS: memFS(t, files)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"[{node -1}] [] 3 node [split]", "edge 0 1", "edge 1 2", "edge 3 0",
		fmt.Sprintf("x feature float32 1 0 4  %x", blocks.Bytes([]float32{1, 2, 3, 4})), fmt.Sprintf("label label int64 1 0 4  %x", blocks.Bytes([]int64{2, 0, 1, 1})),
		"split 1 [0 3]", "split 2 [2]", "split 3 [1]"}
	if got := told(t, s); !slices.Equal(got, want) || s.Describe().Format != "reddit" {
		t.Errorf("%q, expected\n%q", got, want)
	}
	bad := func(name, key string, array []byte, want ...string) badCase {
		replaced := maps.Clone(coo)
		replaced[key] = array
		return badCase{name: name, path: "g.npz", files: map[string][]byte{"g.npz": npzBytes(t, zip.Store, replaced)}, want: want}
	}
	runBad(t, []badCase{
		bad("a node beyond", "col", npyList(0, 4, 1), "col: element 1: 4, expected 0 ≤ x < 4"),
		bad("another length", "col", npyList(0, 1), "shape [2], expected [3]"),
		bad("values of another length", "data", npyList(0, 1), "shape [2], expected [3]"),
		bad("not square", "shape", npyList(4, 5), "expected a square matrix"),
		bad("no integers", "row", npyBytes("<f4", "3,", make([]byte, 12)), "expected a list of integers"),
	})
}

// Values of a matrix of coordinates that are not 1 become weights.
func TestCoordinateWeights(t *testing.T) {
	coo := map[string][]byte{"row": npyList(1, 0), "col": npyList(0, 1), "data": npyBytes("<f4", "2,", blocks.Bytes([]float32{2, 1})), "shape": npyList(2, 2)}
	s, err := Open("g.npz", Options{FS: memFS(t, map[string][]byte{"g.npz": npzBytes(t, zip.Store, coo)})})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"[{node -1}] [] 2  []", "edge 0 1 weight 0000803f", "edge 1 0 weight 00000040"}
	if got := told(t, s); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

// An array of the masks of several splits holds a row for each, or a column; one mask beside them is that of all.
func TestMasksOfSplits(t *testing.T) {
	train := []byte{1, 0, 0, 0, 1, 1} // of splits 0 and 1
	byNode := []byte{1, 0, 0, 1, 0, 1}
	graph := func(masks []byte) map[string][]byte {
		return map[string][]byte{"edges": npyBytes("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 1, 2})), "node_features": npyBytes("<f4", "3, 1", make([]byte, 12)),
			"node_labels": npyList(0, 1, 0), "train_masks": masks, "test_mask": npyBytes("|b1", "3,", []byte{0, 0, 1})}
	}
	want := []string{"split 1 [0]", "split 3 [2]", "split_1 1 [1 2]", "split_1 3 [2]"}
	for name, masks := range map[string][]byte{"[S, N]": npyBytes("|b1", "2, 3", train), "[N, S]": npyBytes("|b1", "3, 2", byNode),
		"[S, N] by columns": fortranBytes("|b1", "2, 3", byNode), "[N, S] by columns": fortranBytes("|b1", "3, 2", train)} {
		s, err := Open("g.npz", Options{FS: memFS(t, map[string][]byte{"g.npz": npzBytes(t, zip.Deflate, graph(masks))})})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := told(t, s)
		if got = got[len(got)-len(want):]; !slices.Equal(got, want) || !slices.Equal(s.Describe().Splits, []string{"split", "split_1"}) || !s.Describe().Undirected {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}
