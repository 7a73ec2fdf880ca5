package formats

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// hgbFiles are three papers, of which two have labels, and two authors, without features. Files are replaced; nil removes one.
func hgbFiles(replace map[string]string) map[string][]byte {
	files := map[string]string{
		"node.dat":       "0\tp0\t0\t1,0.5\n1\tp1\t0\t0,2\n2\tp2\t0\t1,1\n3\ta0\t1\n4\ta1\t1\n",
		"link.dat":       "0\t3\t0\t1.0\n2\t4\t0\t1.0\n3\t0\t1\t1.0\n1\t2\t2\t1\n",
		"label.dat":      "2\tp2\t0\t1\n",
		"label.dat.test": "0\tp0\t0\t0\n",
		"info.dat": `{"dataset": "T", "node.dat": {"node type": {"0": "paper", "1": "author"}, "n": 1},
			"link.dat": {"link type": {"0": {"start": 0, "end": 1, "meaning": "paper-author"}, "1": {"start": 1, "end": 0, "meaning": "author-paper"}}}}`,
	}
	for name, text := range replace {
		files[name] = text
	}
	out := map[string][]byte{}
	for name, text := range files {
		if text != "" {
			out["d/"+name] = []byte(text)
		}
	}
	return out
}

func TestHGB(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, hgbFiles(nil))})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"[{paper 3} {author 2}] [paper:paper-author:author author:author-paper:paper paper:2:paper] 4 node [split]",
		"edge 0 3 0", "edge 1 2 2", "edge 2 4 0", "edge 3 0 1",
		fmt.Sprintf("paper.feat feature float32 2 0 3 paper %x", blocks.Bytes([]float32{1, .5, 0, 2, 1, 1})),
		fmt.Sprintf("label label float64 1 0 3 paper %x", blocks.Bytes([]float64{0, math.NaN(), 1})),
		fmt.Sprintf("node_type node uint32 1 0 5  %x", blocks.Bytes([]uint32{1, 1, 1, 2, 2})), fmt.Sprintf("author.node node uint32 1 3 2 author %x", blocks.Bytes([]uint32{1, 2})), "split 1 [2]", "split 3 [0]"}
	if got := told(t, s); !slices.Equal(got, want) {
		t.Errorf("%q, expected\n%q", got, want)
	}
	if d := s.Describe(); d.Format != "hgb" || d.Input != "d" || d.Undirected {
		t.Errorf("%+v", d)
	}
	// Weights, several labels a node, one of five that validates, types without names, PyG's folder.
	var lines strings.Builder
	for v := range 10 {
		fmt.Fprintf(&lines, "%d\t\t0\t%d,2\r\n", v, v%2)
	}
	var nodes strings.Builder
	for v := range 12 {
		fmt.Fprintf(&nodes, "%d\tn\t0\n", v)
	}
	files := hgbFiles(map[string]string{"info.dat": "TYPE\tMEANING\n0\tx\n", "node.dat": nodes.String(), "link.dat": "0\t1\t0\t2.5\n1\t2\t0\t1\n", "label.dat": lines.String(), "label.dat.test": "11\t\t0\t1\n"})
	raw := map[string][]byte{}
	for name, b := range files {
		raw[strings.Replace(name, "d/", "d/raw/", 1)] = b
	}
	if s, err = Open("d", Options{FS: memFS(t, raw)}); err != nil {
		t.Fatal(err)
	}
	got := told(t, s)
	edges := []string{fmt.Sprintf("edge 0 1 weight %x", blocks.Bytes([]float32{2.5})), fmt.Sprintf("edge 1 2 weight %x", blocks.Bytes([]float32{1}))}
	if !slices.Equal(got[1:3], edges) || !slices.Contains(got, "split 1 [0 1 2 3 5 6 7 8]") || !slices.Contains(got, "split 2 [4 9]") || got[0] != "[{0 12}] [0:0:0] 2 node [split]" {
		t.Errorf("%q", got)
	}
	label := s.Describe().NodeColumns[0]
	if label.Role != store.RoleLabel || label.Dim != 3 || !strings.HasSuffix(got[3], fmt.Sprintf("%x", blocks.Bytes([]float64{math.NaN(), math.NaN(), math.NaN(), 0, 1, 0}))) {
		t.Errorf("labels %+v, %q", label, got[3])
	}
}

func TestHGBBadInput(t *testing.T) {
	bad := func(name, file, text string, want ...string) badCase {
		return badCase{name: name, path: "d", files: hgbFiles(map[string]string{file: text}), want: append(want, "d/"+file)}
	}
	runBad(t, []badCase{
		bad("no nodes", "node.dat", "\n", "no nodes"),
		bad("nodes out of order", "node.dat", "1\tp\t0\n", "line 1", "node 1, expected 0"),
		bad("types out of order", "node.dat", "0\tp\t1\n", "type 1, expected 0"),
		bad("a type again", "node.dat", "0\tp\t0\n1\ta\t1\n2\tp\t0\n", "line 3", "follow each other"),
		bad("another number of features", "node.dat", "0\tp\t0\t1,2\n1\tp\t0\t1\n", "line 2", "1 features, expected 2"),
		bad("too few fields", "node.dat", "0\tp\n", "2 fields, expected field 3"),
		bad("a feature that is none", "node.dat", "0\tp0\t0\t1,x\n1\tp1\t0\t0,2\n2\tp2\t0\t1,1\n3\ta0\t1\n4\ta1\t1\n", "line 1", "feature 1"),
		bad("a node beyond", "link.dat", "0\t5\t0\t1\n", "line 1", "destination"),
		bad("an edge between other types", "link.dat", "0\t3\t0\t1\n0\t1\t0\t1\n", "line 2", "between types 0 and 0"),
		bad("a weight that is none", "link.dat", "0\t3\t0\tx\n", "line 1", "the weight"),
		bad("a label twice", "label.dat.test", "2\tp\t0\t1\n", "a second line of node 2"),
		bad("labels of two types", "label.dat.test", "3\ta\t1\t1\n", "node 3 is of type 1"),
		bad("no label", "label.dat", "2\tp\t0\n", "3 fields, expected 4"),
		bad("a negative label", "label.dat", "2\tp\t0\t-1\n", "expected the label"),
	})
	if _, err := Open("d", Options{FS: memFS(t, hgbFiles(map[string]string{"label.dat": "\n", "label.dat.test": "\n"}))}); err == nil || !strings.Contains(err.Error(), "no labels") {
		t.Errorf("without labels: %v", err)
	}
}

func FuzzHGB(f *testing.F) {
	files := hgbFiles(nil)
	f.Add(files["d/node.dat"], files["d/link.dat"], files["d/label.dat"], files["d/info.dat"])
	f.Fuzz(func(t *testing.T, node, link, label, info []byte) {
		all := maps.Clone(files)
		all["d/node.dat"], all["d/link.dat"], all["d/label.dat"], all["d/info.dat"] = node, link, label, info
		_ = openDrain(t, memFS(t, all), "d", Options{})
	})
}
