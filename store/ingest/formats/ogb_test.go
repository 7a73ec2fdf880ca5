package formats

import (
	"archive/zip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// ogbFiles is a graph of two edges in OGB's raw layout, with files replaced.
func ogbFiles(t testing.TB, replace map[string]string) map[string][]byte {
	files := map[string][]byte{}
	for name, text := range map[string]string{"edge": "0,1\n2,1\n", "num-node-list": "3\n", "num-edge-list": "2\n", "edge-feat": "1,2\n3,4\n",
		"edge_weight": "0.5\n2\n", "edge_year": "1999\n2000\n"} {
		if other, ok := replace[name]; ok {
			text = other
		}
		files["d/raw/"+name+".csv.gz"] = gzipped(t, []byte(text))
	}
	return files
}

// Edges have their features and weights in both layouts.
func TestOGBEdgeColumns(t *testing.T) {
	hex := func(x ...float32) string { return fmt.Sprintf("%x", blocks.Bytes(x)) }
	want := []string{"[{node -1}] [] 2  []", "edge 0 1 weight " + hex(.5) + " feat " + hex(1, 2), "edge 2 1 weight " + hex(2) + " feat " + hex(3, 4)}
	binary := func(weights string) map[string][]byte {
		return map[string][]byte{"d/raw/data.npz": npzBytes(t, zip.Deflate, map[string][]byte{
			"edge_index": npyBytes("<i8", "2, 2", blocks.Bytes([]int64{0, 2, 1, 1})), "num_nodes_list": npyList(3), "num_edges_list": npyList(2),
			"edge_feat": npyBytes("<f4", "2, 2", blocks.Bytes([]float32{1, 2, 3, 4})), "edge_weight": npyBytes("<f4", weights, blocks.Bytes([]float32{.5, 2}))})}
	}
	for name, files := range map[string]map[string][]byte{"text": ogbFiles(t, nil), "binary": binary("2,")} {
		s, err := Open("d", Options{FS: memFS(t, files)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := told(t, s); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nexpected\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if notes := strings.Join(s.Describe().Notes, "\n"); name == "text" && !strings.Contains(notes, "edge_year") {
			t.Errorf("%s: notes do not name what is not read: %q", name, notes)
		}
	}
	bad := func(name, file, text string, want ...string) badCase {
		return badCase{name: name, path: "d", files: ogbFiles(t, map[string]string{file: text}), want: want}
	}
	runBad(t, []badCase{
		bad("weights of two numbers", "edge_weight", "1,2\n3,4\n", "edge_weight.csv.gz: 2 numbers a line, expected one"),
		bad("features of fewer edges", "edge-feat", "1,2\n", "edge-feat.csv.gz: 1 rows, expected one for each edge"),
		bad("features of more edges", "edge-feat", "1\n2\n3\n", "edge-feat.csv.gz: more than 2 rows"),
		bad("other numbers of edges", "num-edge-list", "3\n", "edge.csv.gz: 2 edges, expected 3"),
		{name: "weights of other edges", path: "d", files: binary("1, 2"), want: []string{"edge_weight", "one an edge"}},
	})
}
