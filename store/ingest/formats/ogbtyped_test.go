package formats

import (
	"archive/zip"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// ogbTypedFiles are three papers and two authors in the layout of ogbn-mag, with files replaced; nil removes one.
func ogbTypedFiles(t testing.TB, replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/raw/num-node-dict.csv.gz":                                gzipped(t, []byte("author,paper\n2,3\n")),
		"d/raw/triplet-type-list.csv.gz":                            gzipped(t, []byte("paper,cites,paper\nauthor,writes,paper\n")),
		"d/raw/nodetype-has-label.csv.gz":                           gzipped(t, []byte("author,paper\nFalse,True\n")),
		"d/raw/relations/paper___cites___paper/edge.csv.gz":         gzipped(t, []byte("1,2\n")),
		"d/raw/relations/paper___cites___paper/num-edge-list.csv":   []byte("1\n"),
		"d/raw/relations/paper___cites___paper/edge-feat.csv.gz":    gzipped(t, []byte("7,8\n")),
		"d/raw/relations/paper___cites___paper/edge_reltype.csv.gz": gzipped(t, []byte("1\n")),
		"d/raw/relations/author___writes___paper/edge.csv":          []byte("0,2\n1,0\n"),
		"d/raw/relations/author___writes___paper/num-edge-list.csv": []byte("2\n"),
		"d/raw/relations/author___writes___paper/edge-feat.csv":     []byte("1,2\n3,4\n"),
		"d/raw/node-feat/paper/node-feat.csv.gz":                    gzipped(t, []byte("1.5,2\n3,4\n5,6\n")),
		"d/raw/node-feat/paper/node_year.csv.gz":                    gzipped(t, []byte("2015\n2016\n2017\n")),
		"d/raw/node-label/paper/node-label.csv.gz":                  gzipped(t, []byte("1\n0\n1\n")),
		"d/split/time/nodetype-has-split.csv.gz":                    gzipped(t, []byte("author,paper\nFalse,True\n")),
		"d/split/time/paper/train.csv.gz":                           gzipped(t, []byte("0\n1\n")),
		"d/split/time/paper/test.csv":                               []byte("2\n"),
	}
	maps.Copy(files, replace)
	maps.DeleteFunc(files, func(_ string, b []byte) bool { return b == nil })
	return files
}

// ogbArchives is the same graph as archives.
func ogbArchives(t testing.TB, replace map[string][]byte) map[string][]byte {
	one := func(n int64) []byte { return npyList(n) }
	npz := func(arrays map[string][]byte) []byte { return npzBytes(t, zip.Deflate, arrays) }
	files := map[string][]byte{
		"d/raw/num_nodes_dict.npz": npz(map[string][]byte{"author": one(2), "paper": one(3)}),
		"d/raw/num_edges_dict.npz": npz(map[string][]byte{"paper___cites___paper": one(1), "author___writes___paper": one(2)}),
		"d/raw/edge_index_dict.npz": npz(map[string][]byte{"paper___cites___paper": npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 2})),
			"author___writes___paper": npyBytes("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 2, 0}))}),
		"d/raw/edge_feat_dict.npz": npz(map[string][]byte{"paper___cites___paper": npyBytes("<f4", "1, 2", blocks.Bytes([]float32{7, 8})),
			"author___writes___paper": npyBytes("<f4", "2, 2", blocks.Bytes([]float32{1, 2, 3, 4}))}),
		"d/raw/edge_reltype.npz":      npz(map[string][]byte{"paper___cites___paper": one(1), "author___writes___paper": npyList(0, 0)}),
		"d/raw/node_feat_dict.npz":    npz(map[string][]byte{"paper": npyBytes("<f4", "3, 2", blocks.Bytes([]float32{1.5, 2, 3, 4, 5, 6}))}),
		"d/raw/node_year.npz":         npz(map[string][]byte{"paper": npyList(2015, 2016, 2017)}),
		"d/raw/node-label.npz":        npz(map[string][]byte{"paper": npyBytes("<f8", "3, 1", blocks.Bytes([]float64{1, 0, 1}))}),
		"d/split/time/paper/test.csv": []byte("2\n"), "d/split/time/paper/train.csv.gz": gzipped(t, []byte("0\n1\n")),
	}
	maps.Copy(files, replace)
	return files
}

// words is what Sprintln makes of x, without the line's end.
func words(x ...any) string { return strings.TrimSuffix(fmt.Sprintln(x...), "\n") }

// told says what a source describes and streams, a line for each thing.
func told(t *testing.T, s ingest.Source) (out []string) {
	t.Helper()
	d, env := s.Describe(), ingest.Env{Threads: 2, ScratchDir: "scratch", FS: memFS(t, map[string][]byte{"scratch/x": nil})}
	out = append(out, words(d.NodeTypes, d.Relations, d.Edges, d.Task, d.Splits))
	var edges []string
	err := s.Edges(t.Context(), env, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			line := words("edge", b.Src.Ints[i], b.Dst.Ints[i])
			if d.HasRelation {
				line = words(line, b.Relations[i])
			}
			for c, spec := range d.EdgeColumns {
				line += fmt.Sprintf(" %s %x", spec.Name, b.Columns[c][i*spec.RowBytes():(i+1)*spec.RowBytes()])
			}
			edges = append(edges, line)
		}
		return nil
	})
	slices.Sort(edges)
	out = append(out, edges...)
	for c, spec := range d.NodeColumns {
		line := words(spec.Name, spec.Role, spec.Elem, spec.Dim, spec.First, spec.Rows, spec.NodeType, "")
		if err == nil && spec.Keyed {
			err = s.(ingest.KeyedSource).KeyedRows(t.Context(), env, c, func(ids *ingest.IDs, b []byte, _ ingest.Position) error {
				line += fmt.Sprintf("%v %x", ids.Ints, b)
				return nil
			})
		} else if err == nil {
			err = s.Rows(t.Context(), env, c, func(b []byte, _ ingest.Position) error {
				line += fmt.Sprintf("%x", b)
				return nil
			})
		}
		out = append(out, line)
	}
	for k, name := range d.Splits {
		for part := store.SplitTrain; part <= store.SplitTest; part++ {
			if err == nil {
				err = s.Split(t.Context(), env, k, part, func(ids *ingest.IDs, _ ingest.Position) error {
					out = append(out, words(name, part, ids.Ints))
					return nil
				})
			}
		}
	}
	for l, name := range d.EdgeLists {
		if err == nil {
			err = s.EdgeList(t.Context(), env, l, func(b *ingest.EdgeBatch) error {
				out = append(out, words(name, b.Src.Ints, b.Relations, b.Dst.Ints))
				return nil
			})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Both layouts hold one graph: authors 0 and 1, papers 2 to 4, types in the order of the alphabet.
func TestOGBTyped(t *testing.T) {
	hex := func(x ...float32) string { return fmt.Sprintf("%x", blocks.Bytes(x)) }
	want := []string{
		"[{author 2} {paper 3}] [author:writes:paper paper:cites:paper] 3 node [time]",
		"edge 0 4 0 feat " + hex(1, 2), "edge 1 2 0 feat " + hex(3, 4), "edge 3 4 1 feat " + hex(7, 8),
		"paper.feat feature float32 2 2 3 paper " + hex(1.5, 2, 3, 4, 5, 6),
		"label label float64 1 2 3 paper " + fmt.Sprintf("%x", blocks.Bytes([]float64{1, 0, 1})),
		"node_type node uint32 1 0 5  " + fmt.Sprintf("%x", blocks.Bytes([]uint32{1, 1, 2, 2, 2})),
		"author.node node uint32 1 0 2 author " + fmt.Sprintf("%x", blocks.Bytes([]uint32{1, 2})),
		"time 1 [2 3]", "time 3 [4]",
	}
	for name, files := range map[string]map[string][]byte{"text": ogbTypedFiles(t, nil), "archives": ogbArchives(t, nil)} {
		s, err := Open("d", Options{FS: memFS(t, files)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := told(t, s); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nexpected\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		notes := strings.Join(s.Describe().Notes, "\n")
		if !strings.Contains(notes, "node_year") || !strings.Contains(notes, "edge_reltype") {
			t.Errorf("%s: notes do not name what is not read: %q", name, notes)
		}
	}
}

func TestOGBTypedBadInput(t *testing.T) {
	const cites = "d/raw/relations/paper___cites___paper/"
	file := func(name, path, text string, want ...string) badCase {
		return badCase{name: name, path: "d", files: ogbTypedFiles(t, map[string][]byte{path: []byte(text), path + ".gz": nil}), want: want}
	}
	archive := func(name, path string, arrays map[string][]byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: ogbArchives(t, map[string][]byte{"d/raw/" + path: npzBytes(t, zip.Store, arrays)}), want: want}
	}
	runBad(t, []badCase{
		file("several graphs", "d/raw/num-node-dict.csv", "author,paper\n2,3\n4,5\n", "num-node-dict.csv: 3 lines"),
		file("a count that is no number", "d/raw/num-node-dict.csv", "author,paper\n2,x\n", "num-node-dict.csv: line 2", `"x"`),
		file("a type twice", "d/raw/num-node-dict.csv", "paper,paper\n2,3\n", "twice"),
		file("a type that leads elsewhere", "d/raw/num-node-dict.csv", "..,paper\n2,3\n", `".."`, "name of a folder"),
		file("an edge type that leads elsewhere", "d/raw/triplet-type-list.csv", "../x,cites,paper\n", "name of a folder"),
		file("an edge type that is no triple", "d/raw/triplet-type-list.csv", "paper,paper\n", "expected source___relation___destination"),
		file("an edge type without edges", "d/raw/triplet-type-list.csv", "paper,sees,paper\n", "paper___sees___paper: no edge.csv"),
		file("an end of an unknown type", "d/raw/num-node-dict.csv", "writer,paper\n2,3\n", `node type "author"`),
		file("other numbers of edges", cites+"num-edge-list.csv", "2\n", "edge.csv.gz: 1 edges, expected 2"),
		file("a destination out of its type", cites+"edge.csv", "1,3\n", "edge.csv: line 1", "destination 3, expected 0 ≤ id < 3"),
		file("features of fewer edges", "d/raw/relations/author___writes___paper/edge-feat.csv", "1,2\n", "edge-feat.csv: 1 rows, expected one for each edge"),
		file("features of more edges", cites+"edge-feat.csv", "1,2\n3,4\n", "edge-feat.csv: more than 1 rows"),
		file("a feature that is no number", cites+"edge-feat.csv", "1,x\n", "edge-feat.csv: line 1", `"x" is no number`),
		file("labels of two types", "d/raw/node-label/author/node-label.csv", "1\n2\n", "second type", "paper"),
		file("a split of a type without labels", "d/split/time/author/train.csv", "0\n", "author: a split of nodes without labels"),
		file("a seed out of its type", "d/split/time/paper/test.csv", "3\n", "test.csv: line 1: node 3, expected 0 ≤ id < 3"),
		archive("sizes of two graphs", "num_nodes_dict.npz", map[string][]byte{"author": npyList(2), "paper": npyList(1, 2)}, "num_nodes_dict.npz: paper"),
		archive("features of a type that is not there", "node_feat_dict.npz", map[string][]byte{"field": npyList(1)}, `node type "field"`),
		archive("features of other nodes", "node_feat_dict.npz", map[string][]byte{"author": npyList(1)}, "expected 2 rows"),
		archive("edges of other number", "num_edges_dict.npz", map[string][]byte{"paper___cites___paper": npyList(4)}, "1 edges, expected 4"),
		archive("features of other edges", "edge_feat_dict.npz", map[string][]byte{"paper___cites___paper": npyList(1, 2)}, "expected 1 rows (the number of edges)"),
	})
}

// Whatever the lists of types and the edges, a folder is refused or read as described.
func FuzzOGBTyped(f *testing.F) {
	f.Add([]byte("author,paper\n2,3\n"), []byte("paper,cites,paper\nauthor,writes,paper\n"), []byte("1,2\n"), []byte("7,8\n"))
	packed := ogbTypedFiles(f, nil)
	f.Fuzz(func(t *testing.T, nodes, relations, edges, feat []byte) {
		const cites = "d/raw/relations/paper___cites___paper/"
		files := maps.Clone(packed)
		maps.Copy(files, map[string][]byte{"d/raw/num-node-dict.csv": nodes, "d/raw/triplet-type-list.csv": relations, cites + "edge.csv": edges, cites + "edge-feat.csv": feat})
		fs := memFS(t, files)
		s, err := Open("d", Options{FS: fs, Format: "ogb"})
		if err != nil || s.Describe().Nodes > 1<<16 {
			return
		}
		_ = openDrain(t, fs, "d", Options{Format: "ogb"})
	})
}
