package formats

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

const boltTypes = `
graph:
  nodes:
    - {type: paper, num: 3}
    - {type: author, num: 2}
  edges:
    - {type: "author:writes:paper", format: csv, path: edges/writes.csv}
    - {type: "paper:cites:paper", format: numpy, path: edges/cites.npy}
feature_data:
  - {domain: node, type: author, name: x, format: numpy, path: data/x.npy}
tasks:
  - num_classes: 2
    train_set:
      - type: author
        data:
          - {name: seeds, format: numpy, path: set/ids.npy}
          - {name: labels, format: numpy, path: set/labels.npy}
`

// boltFiles is a data set of two types of nodes and of edges, with files replaced.
func boltFiles(yaml string, replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{"d/metadata.yaml": []byte(yaml), "d/edges/writes.csv": []byte("0,2\n1,0\n"),
		"d/edges/cites.npy": npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 2})),
		"d/data/x.npy":      npyBytes("<f4", "2, 1", blocks.Bytes([]float32{5, 6})),
		"d/set/ids.npy":     npyList(1), "d/set/labels.npy": npyList(1)}
	maps.Copy(files, replace)
	return files
}

// Ids within types become source ids: papers 0 to 2, authors 3 and 4.
func TestGraphBoltTypes(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, boltFiles(boltTypes, nil))})
	if err != nil {
		t.Fatal(err)
	}
	type edge struct{ src, dst, relation uint64 }
	var edges []edge
	err = s.Edges(t.Context(), ingest.Env{Threads: 1}, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			edges = append(edges, edge{b.Src.Ints[i], b.Dst.Ints[i], uint64(b.Relations[i])})
		}
		return nil
	})
	want := []edge{{3, 2, 0}, {4, 0, 0}, {1, 2, 1}}
	if err != nil || len(edges) != 3 || edges[0] != want[0] || edges[1] != want[1] || edges[2] != want[2] {
		t.Errorf("edges %v (%v), expected %v", edges, err, want)
	}
	d := s.Describe()
	if x := d.NodeColumns[0]; x.Name != "author.x" || x.First != 3 || x.Rows != 2 || x.NodeType != "author" {
		t.Errorf("features %+v", x)
	}
	if d.Nodes != 5 || len(d.Relations) != 2 || d.Task != store.TaskNode {
		t.Errorf("described as %+v", d)
	}
	var labels []byte
	err = s.Rows(t.Context(), ingest.Env{}, 1, func(b []byte, _ ingest.Position) error {
		labels = append(labels, b...)
		return nil
	})
	if want := blocks.Bytes([]int64{-1, -1, -1, -1, 1}); err != nil || !bytes.Equal(labels, want) {
		t.Errorf("labels %v (%v), expected %v", labels, err, want)
	}
}

func TestGraphBoltBadInput(t *testing.T) {
	file := func(name, path string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: boltFiles(boltTypes, map[string][]byte{path: b}), want: want}
	}
	text := func(name, from, to string, want ...string) badCase {
		return badCase{name: name, path: "d", files: boltFiles(strings.Replace(boltTypes, from, to, 1), nil), want: want}
	}
	runBad(t, []badCase{
		file("source out of its type", "d/edges/writes.csv", []byte("0,2\n2,0\n"), "writes.csv: line 2", "source 2, expected 0 ≤ id < 2"),
		file("destination out of its type", "d/edges/cites.npy", npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 3})), "cites.npy: edge 0", "destination 3"),
		file("a bad line", "d/edges/writes.csv", []byte("0,2\nx,0\n"), "writes.csv: line 2", "column 1"),
		file("features of other nodes", "d/data/x.npy", npyBytes("<f4", "1, 1", make([]byte, 4)), "x.npy", "expected [2, D]"),
		file("a seed out of its type", "d/set/ids.npy", npyList(2), "ids.npy: row 0: node 2"),
		file("labels of other seeds", "d/set/labels.npy", npyList(1, 2), "expected [1] like the seeds"),
		text("YAML", "graph:", "graph: [", "metadata.yaml", "line"),
		text("torch tensors", "name: seeds, format: numpy", "name: seeds, format: torch", "tasks[0].train_set[0]", "numpy.save"),
		text("unknown type", "author:writes", "autor:writes", "graph.edges[0]", `"autor"`),
		text("a type that is no triple", "author:writes:paper", "writes", "expected source:relation:destination"),
		text("a file that is missing", "edges/cites.npy", "edges/none.npy", "graph.edges[1]", "no file d/edges/none.npy"),
		text("twice the same type", "type: author, num", "type: paper, num", "graph.nodes[1]", "twice"),
		text("a negative count", "num: 3", "num: -3", "graph.nodes[0]", "num -3"),
	})
}

// Whatever the metadata and the edges, a data set is refused or read as described.
func FuzzGraphBolt(f *testing.F) {
	f.Add([]byte(boltTypes), []byte("0,2\n1,0\n"))
	f.Add([]byte("graph: {nodes: [{num: 3}], edges: [{format: csv, path: edges/writes.csv}]}"), []byte("0,2"))
	f.Fuzz(func(t *testing.T, meta, edges []byte) {
		fs := memFS(t, boltFiles(string(meta), map[string][]byte{"d/edges/writes.csv": edges}))
		s, err := Open("d", Options{FS: fs, Format: "graphbolt"})
		if err != nil || s.Describe().Nodes > 1<<16 { // a column of all nodes takes its time
			return
		}
		_ = openDrain(t, fs, "d", Options{Format: "graphbolt"})
	})
}
