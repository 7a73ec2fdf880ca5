package formats

import (
	"fmt"
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// openKEFiles is a graph of 3 entities, whose names are in no order, with files replaced.
func openKEFiles(replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/entity2id.txt": []byte("3\nb c\t1\na\t0\nd\t2\n"), "d/relation2id.txt": []byte("2\n/likes/too\t1\n/likes\t0\n"),
		"d/train2id.txt": []byte("2\n0 1 1\n2\t0\t0\n"), "d/valid2id.txt": []byte("1\n1 2 0\n"),
	}
	maps.Copy(files, replace)
	return files
}

// mariusLink is the same graph as marius_preprocess writes it.
func mariusLink(replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/dataset.yaml":           []byte("dataset_dir: /x/\nnum_edges: 2\nnum_nodes: 3\nnum_relations: 2\nnum_train: 2\nnum_valid: 1\nnum_test: -1\nnode_feature_dim: -1\nnum_classes: -1\ninitialized: false\n"),
		"d/edges/train_edges.bin":  blocks.Bytes([]int32{0, 1, 1, 2, 0, 0}),
		"d/nodes/node_mapping.txt": []byte("b c,1\na,0\nd,2\n"), "d/edges/relation_mapping.txt": []byte("/likes/too,1\n/likes,0\n"),
		"d/edges/validation_edges.bin": blocks.Bytes([]int32{1, 0, 2}),
	}
	maps.Copy(files, replace)
	return files
}

// mariusNodes is a graph with features, labels and a split.
func mariusNodes(replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/dataset.yaml":          []byte("num_edges: 2\nnum_nodes: 3\nnode_feature_dim: 2\nnum_classes: 2\n"),
		"d/edges/train_edges.bin": blocks.Bytes([]int32{0, 1, 2, 0}), "d/edges/train_edges_weights.bin": blocks.Bytes([]float32{.5, 2}),
		"d/nodes/features.bin": blocks.Bytes([]float32{1, 2, 3, 4, 5, 6}), "d/nodes/labels.bin": blocks.Bytes([]int32{0, 1, 1}),
		"d/nodes/train_nodes.bin": blocks.Bytes([]int32{2}), "d/nodes/validation_nodes.bin": blocks.Bytes([]int32{0}),
	}
	maps.Copy(files, replace)
	return files
}

// nameList collects a source's names.
func nameList(t *testing.T, s ingest.Source) (names []string) {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("scratch", 0o777); err != nil {
		t.Fatal(err)
	}
	err := s.Names(t.Context(), ingest.Env{Threads: 1, ScratchDir: "scratch", FS: fs}, func(ids *ingest.IDs, _ ingest.Position) error {
		for i := range ids.Len() {
			names = append(names, string(ids.At(i)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := fs.List("scratch"); err != nil || len(left) != 0 {
		t.Errorf("%v is left in the scratch directory (%v)", left, err)
	}
	return names
}

// A knowledge graph reads the same from OpenKE's files and MariusGNN's.
func TestOpenKEAndMarius(t *testing.T) {
	for format, files := range map[string]map[string][]byte{"openke": openKEFiles(nil), "marius": mariusLink(nil)} {
		t.Run(format, func(t *testing.T) {
			s, err := Open("d", Options{FS: memFS(t, files)})
			if err != nil {
				t.Fatal(err)
			}
			d := s.Describe()
			if d.Format != format || d.Nodes != 3 || d.Edges != 2 || !d.Named || d.Task != store.TaskLink || fmt.Sprint(d.Relations) != "[/likes /likes/too]" || fmt.Sprint(d.EdgeLists) != "[valid]" {
				t.Errorf("%+v", d)
			}
			if edges, err := show(t, s); err != nil || fmt.Sprint(edges) != "[0 1 1 2 0 0]" {
				t.Errorf("edges %v (%v)", edges, err)
			}
			var valid []uint64
			err = s.EdgeList(t.Context(), ingest.Env{Threads: 1}, 0, func(b *ingest.EdgeBatch) error {
				valid = append(valid, b.Src.Ints[0], uint64(b.Relations[0]), b.Dst.Ints[0])
				return nil
			})
			if err != nil || fmt.Sprint(valid) != "[1 0 2]" {
				t.Errorf("valid %v (%v), expected 1 0 2", valid, err)
			}
			if names := nameList(t, s); fmt.Sprintf("%q", names) != `["a" "b c" "d"]` {
				t.Errorf("names %q", names)
			}
		})
	}
}

func TestMariusNodes(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, mariusNodes(nil))})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Describe()
	if d.Task != store.TaskNode || d.HasRelation || len(d.NodeColumns) != 2 || d.NodeColumns[0].Dim != 2 || fmt.Sprint(d.Splits) != "[split]" || d.Named {
		t.Errorf("%+v", d)
	}
	if edges, err := show(t, s); err != nil || fmt.Sprint(edges) != "[0 1 [0.5] 2 0 [2]]" {
		t.Errorf("edges %v (%v)", edges, err)
	}
	if _, err := drain(t, s); err != nil {
		t.Error(err)
	}
}

func TestOpenKEAndMariusBadInput(t *testing.T) {
	ke := func(name, file, text string, want ...string) badCase {
		return badCase{name: name, path: "d", files: openKEFiles(map[string][]byte{"d/" + file: []byte(text)}), want: append(want, file)}
	}
	marius := func(name, file string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: mariusLink(map[string][]byte{"d/" + file: b}), want: append(want, file)}
	}
	nodes := func(name, file string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: mariusNodes(map[string][]byte{"d/" + file: b}), want: append(want, file)}
	}
	runBad(t, []badCase{
		ke("no count", "entity2id.txt", "a\t0\nb\t1\n", "line 1", "number of lines"),
		ke("fewer names", "entity2id.txt", "3\na\t0\nb\t1\n", "2 names, expected 3"),
		ke("an id twice", "entity2id.txt", "3\na\t0\nb\t1\nc\t1\n", "line 4"),
		ke("an id out of range", "entity2id.txt", "3\na\t0\nb\t1\nc\t3\n", "line 4: id 3, expected 0 ≤ id < 3"),
		ke("a name without id", "relation2id.txt", "2\na\t0\nb\n", "line 3: column 1"),
		ke("a relation out of range", "train2id.txt", "1\n0 1 2\n", "line 2: relation \"2\", expected 0 ≤ id < 2"),
		ke("fewer triples", "train2id.txt", "2\n0 1 0\n", "1 triples, expected 2"),
		ke("a triple of names", "train2id.txt", "1\n0 b 0\n", "line 2: column 3"),
		ke("more in a list", "valid2id.txt", "0\n0 1 0\n", "1 triples, expected 0"),
		marius("edges truncated", "edges/train_edges.bin", make([]byte, 23), "23 bytes, expected 2 rows of 3"),
		marius("edges missing", "edges/validation_edges.bin", make([]byte, 7), "7 bytes"),
		marius("no number of nodes", "dataset.yaml", []byte("num_edges: 2\n"), "num_nodes is -1"),
		marius("no yaml", "dataset.yaml", []byte("\t:"), "yaml"),
		marius("names of fewer nodes", "nodes/node_mapping.txt", []byte("a,0\n"), "1 names, expected 3"),
		nodes("features of another size", "nodes/features.bin", make([]byte, 20), "20 bytes, expected 3 rows of 2 float32"),
		nodes("labels of another size", "nodes/labels.bin", make([]byte, 10), "10 bytes, expected 3 rows"),
	})
}

// Whatever the bytes of a file, the folder is refused or read as described.
func FuzzOpenKE(f *testing.F) {
	for name, b := range openKEFiles(nil) {
		f.Add(name, b)
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		files := openKEFiles(nil)
		if _, ok := files[name]; !ok {
			return
		}
		files[name] = b
		_ = openDrain(t, memFS(t, files), "d", Options{Format: "openke"})
	})
}

func FuzzMarius(f *testing.F) {
	for name, b := range mariusLink(nil) {
		f.Add(name, b, true)
	}
	for name, b := range mariusNodes(nil) {
		f.Add(name, b, false)
	}
	f.Fuzz(func(t *testing.T, name string, b []byte, link bool) {
		files := mariusNodes(nil)
		if link {
			files = mariusLink(nil)
		}
		if _, ok := files[name]; !ok {
			return
		}
		files[name] = b
		_ = openDrain(t, memFS(t, files), "d", Options{Format: "marius"})
	})
}
