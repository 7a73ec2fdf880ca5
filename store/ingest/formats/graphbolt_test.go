package formats

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
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
	none := math.NaN()
	if want := blocks.Bytes([]float64{none, none, none, none, 1}); err != nil || !bytes.Equal(labels, want) {
		t.Errorf("labels %v (%v), expected %v", labels, err, want)
	}
}

// boltLinks is a data set whose sets are of edges, in both of GraphBolt's forms, and whose edges have features, weights and times.
const boltLinks = `
graph:
  nodes:
    - {type: paper, num: 3}
    - {type: author, num: 2}
  edges:
    - {type: "author:writes:paper", format: csv, path: edges/writes.csv}
    - {type: "paper:cites:paper", format: numpy, path: edges/cites.npy}
  feature_data:
    - {domain: edge, type: "author:writes:paper", name: timestamp, format: numpy, path: data/time.npy}
feature_data:
  - {domain: node, type: author, name: x, format: numpy, path: data/x.npy}
  - {domain: edge, type: "paper:cites:paper", name: weight, format: numpy, path: data/weight.npy}
  - {domain: edge, type: "author:writes:paper", name: feat, format: numpy, path: data/feat.npy}
tasks:
  - train_set:
      - type: "author:writes:paper"
        data: [{name: node_pairs, format: numpy, path: set/train.npy}]
    validation_set:
      - type: "author:writes:paper"
        data:
          - {name: node_pairs, format: numpy, path: set/valid.npy}
          - {name: negative_dsts, format: numpy, path: set/valid-dst.npy}
      - type: "paper:cites:paper"
        data:
          - {name: node_pairs, format: numpy, path: set/valid2.npy}
          - {name: negative_srcs, format: numpy, path: set/valid2-src.npy}
          - {name: negative_dsts, format: numpy, path: set/valid2-dst.npy}
    test_set:
      - type: "paper:cites:paper"
        data:
          - {name: seeds, format: numpy, path: set/test.npy}
          - {name: labels, format: numpy, path: set/test-labels.npy}
          - {name: indexes, format: numpy, path: set/test-indexes.npy}
`

// boltLinkFiles are boltLinks and its arrays, with files replaced.
func boltLinkFiles(yaml string, replace map[string][]byte) map[string][]byte {
	pairs := func(x ...int64) []byte { return npyBytes("<i8", fmt.Sprintf("%d, 2", len(x)/2), blocks.Bytes(x)) }
	files := map[string][]byte{
		"d/data/time.npy": npyList(70, 71), "d/data/weight.npy": npyBytes("<f4", "1,", blocks.Bytes([]float32{.5})),
		"d/data/feat.npy": npyBytes("<f4", "2, 2", blocks.Bytes([]float32{1, 2, 3, 4})), "d/set/train.npy": pairs(0, 2, 1, 0),
		"d/set/valid.npy": pairs(0, 0, 1, 1), "d/set/valid-dst.npy": pairs(1, 2, 2, 2),
		"d/set/valid2.npy": pairs(2, 0), "d/set/valid2-src.npy": npyList(1), "d/set/valid2-dst.npy": npyBytes("<i8", "1, 1", blocks.Bytes([]int64{1})),
		"d/set/test.npy": pairs(0, 1, 1, 0, 0, 2, 0, 0, 1, 1, 1, 2), "d/set/test-labels.npy": npyBytes("<f4", "6,", blocks.Bytes([]float32{1, 1, 0, 0, 0, 0})),
		"d/set/test-indexes.npy": npyList(0, 1, 0, 0, 1, 1),
	}
	maps.Copy(files, replace)
	return boltFiles(yaml, files)
}

// Papers are 0 to 2, authors 3 and 4. Negatives of an edge stand in order behind those of the edge before.
func TestGraphBoltLinks(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, boltLinkFiles(boltLinks, nil))})
	if err != nil {
		t.Fatal(err)
	}
	hex := func(x ...float32) string { return fmt.Sprintf("%x", blocks.Bytes(x)) }
	got, want := told(t, s), []string{
		"edge 1 2 1 weight " + hex(.5) + " timestamp 0000000000000080 feat " + hex(0, 0),
		"edge 3 2 0 weight " + hex(1) + " timestamp 4600000000000000 feat " + hex(1, 2),
		"edge 4 0 0 weight " + hex(1) + " timestamp 4700000000000000 feat " + hex(3, 4),
	}
	if !slices.Equal(got[1:4], want) {
		t.Errorf("edges %q, expected %q", got[1:4], want)
	}
	want = []string{"train_set [3 4] [0 0] [2 0]",
		"valid [3 4] [0 0] [0 1]", "valid [2] [1] [0]",
		"valid_negatives [3 3 4 4] [0 0 0 0] [1 2 2 2]", "valid_negatives [1 2] [1 1] [0 1]",
		"test [0 1] [1 1] [1 0]", "test_negatives [0 0 1 1] [1 1 1 1] [2 0 1 2]"}
	if lists := got[len(got)-len(want):]; !slices.Equal(lists, want) {
		t.Errorf("lists %q, expected %q", lists, want)
	}
	if d := s.Describe(); d.Task != store.TaskLink || len(d.Splits) != 0 {
		t.Errorf("described as %+v", d)
	}
}

// In a graph of one type, columns of nodes and of edges have names of their own, and sets of many pairs are read in pieces.
func TestGraphBoltOneType(t *testing.T) {
	const n = 1<<14 + 7 // more than one batch
	pairs, index := make([]int64, 4*n), make([]int64, 2*n)
	labels := make([]int64, 2*n)
	for i := range int64(n) {
		pairs[2*i], pairs[2*i+1], labels[i], index[i] = 0, 1, 1, i
		pairs[2*(n+i)], pairs[2*(n+i)+1], index[n+i] = 1, 0, i
	}
	s, err := Open("d", Options{FS: memFS(t, boltFiles(`
graph: {nodes: [{num: 2}], edges: [{format: numpy, path: edges/cites.npy}]}
feature_data:
  - {domain: node, name: feat, format: numpy, path: data/x.npy}
  - {domain: edge, name: feat, format: numpy, path: data/e.npy}
tasks: [{test_set: [{data: [{name: seeds, format: numpy, path: s.npy}, {name: labels, format: numpy, path: l.npy}, {name: indexes, format: numpy, path: i.npy}]}]}]
`, map[string][]byte{"d/edges/cites.npy": npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 0})), "d/data/e.npy": npyBytes("<f4", "1, 1", blocks.Bytes([]float32{5})),
		"d/s.npy": npyBytes("<i8", fmt.Sprintf("%d, 2", 2*n), blocks.Bytes(pairs)), "d/l.npy": npyList(labels...), "d/i.npy": npyList(index...)}))})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Describe()
	if d.NodeColumns[0].Name != "feat" || len(d.EdgeColumns) != 1 || d.EdgeColumns[0].Name != "edge_feat" || d.HasRelation {
		t.Errorf("described as %+v", d)
	}
	for l, src := range []uint64{0, 1} {
		total := 0
		err := s.EdgeList(t.Context(), ingest.Env{Threads: 1}, l, func(b *ingest.EdgeBatch) error {
			for i := range b.Len() {
				if b.Src.Ints[i] != src || b.Dst.Ints[i] != 1-src {
					t.Fatalf("list %d: edge %d → %d", l, b.Src.Ints[i], b.Dst.Ints[i])
				}
			}
			total += b.Len()
			return nil
		})
		if err != nil || total != n {
			t.Errorf("list %d: %d edges (%v), expected %d", l, total, err, n)
		}
	}
}

func TestGraphBoltBadLinks(t *testing.T) {
	file := func(name, path string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: boltLinkFiles(boltLinks, map[string][]byte{path: b}), want: want}
	}
	text := func(name, from, to string, want ...string) badCase {
		if !strings.Contains(boltLinks, from) {
			t.Fatalf("%s: no %q", name, from)
		}
		return badCase{name: name, path: "d", files: boltLinkFiles(strings.Replace(boltLinks, from, to, 1), nil), want: want}
	}
	runBad(t, []badCase{
		file("times of fewer edges than lines", "d/data/time.npy", npyList(70), "time.npy: 1 rows, expected one for each edge"),
		file("times of more edges than lines", "d/data/time.npy", npyList(70, 71, 72), "time.npy: more than 2 rows"),
		file("weights of other edges", "d/data/weight.npy", npyBytes("<f4", "2,", make([]byte, 8)), "weight.npy", "expected 1 rows (the number of edges)"),
		file("a negative out of its type", "d/set/valid-dst.npy", npyBytes("<i8", "2, 2", blocks.Bytes([]int64{1, 2, 2, 3})), "valid.npy: row 1: destination 3"),
		file("negatives of other edges", "d/set/valid-dst.npy", npyList(1), "expected 2 rows like the edges"),
		file("fewer negatives of some", "d/set/valid2-dst.npy", npyBytes("<i8", "1, 2", make([]byte, 16)), "3 negatives an edge, expected 2"),
		file("indexes out of order", "d/set/test-indexes.npy", npyList(0, 1, 0, 1, 0, 1), "test-indexes.npy: row 3: index 1, expected 0"),
		file("indexes of other edges", "d/set/test-indexes.npy", npyList(0, 2, 0, 0, 1, 1), "test-indexes.npy: row 1: index 2, expected 1"),
		file("negatives that divide badly", "d/set/test-labels.npy", npyList(1, 1, 1, 1, 0, 0), "4 edges and 2 negatives"),
		file("no edge among negatives", "d/set/test-labels.npy", npyList(0, 0, 0, 0, 0, 0), "0 edges and 6 negatives"),
		file("hyperedges", "d/set/train.npy", npyBytes("<i8", "1, 3", make([]byte, 24)), "train.npy", "or of edges [N, 2]"),
		text("labels of edges", "          - {name: indexes, format: numpy, path: set/test-indexes.npy}\n", "", "labels of edges have no place in a store"),
		text("times of a set", "{name: negative_dsts, format: numpy, path: set/valid-dst", "{name: timestamp, format: numpy, path: set/valid-dst", "validation_set[0]", `"timestamp"`, "times of a set"),
		text("other data of a set", "name: negative_srcs", "name: rank", "validation_set[1]", `"rank" has no place`),
		text("seeds twice", "{name: labels,", "{name: node_pairs,", "seeds are there already"),
		text("a set of edges that the graph lacks", "    test_set:\n      - type: \"paper:cites:paper\"", "    test_set:\n      - type: \"paper:likes:paper\"", "test_set[0]", "paper:likes:paper"),
		text("features of edges that the graph lacks", `domain: edge, type: "paper:cites:paper"`, `domain: edge, type: "paper:likes:paper"`, "feature_data[1]", "a type of graph.edges"),
		text("features of the graph", "domain: node", "domain: graph", `domain "graph"`),
	})
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
	f.Add([]byte(boltLinks), []byte("0,2\n1,0\n"))
	f.Add([]byte("graph: {nodes: [{num: 3}], edges: [{format: csv, path: edges/writes.csv}]}"), []byte("0,2"))
	f.Fuzz(func(t *testing.T, meta, edges []byte) {
		fs := memFS(t, boltLinkFiles(string(meta), map[string][]byte{"d/edges/writes.csv": edges}))
		s, err := Open("d", Options{FS: fs, Format: "graphbolt"})
		if err != nil || s.Describe().Nodes > 1<<16 { // a column of all nodes takes its time
			return
		}
		_ = openDrain(t, fs, "d", Options{Format: "graphbolt"})
	})
}
