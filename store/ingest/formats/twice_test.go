package formats

import (
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// TestNamedTwice: a header that names an end twice, and a table with two columns of labels, are refused with the column's name; what the
// message names as a remedy works.
func TestNamedTwice(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		edges, nodes string
		options      table.Options
		refused      string // part of the message; "" = it is read
	}{
		"ends":              {edges: "src,src\n1,2\n2,3\n", refused: `two columns are called "src"`},
		"ends of text":      {edges: "Source, source\na,b\nb,c\n", refused: "two columns are called"},
		"ends, a header":    {edges: "src,src\n1,2\n2,3\n", options: table.Options{Header: &yes}, refused: `"src"`},
		"ends, an edge":     {edges: "src,src\na,b\nb,c\n", options: table.Options{Header: &no}},
		"ends, by columns":  {edges: "src,src\n1,2\n2,3\n", options: table.Options{Columns: []string{"src", "dst"}, Header: &yes}},
		"loop of a letter":  {edges: "h,h\ng,h\n"},
		"a third end":       {edges: "src,dst,src\n1,2,3\n2,3,4\n", refused: `"src"`},
		"labels":            {edges: "src,dst\n1,2\n2,1\n", nodes: "id,label,y\n1,0,1\n2,1,0\n", refused: `column "y" is a second column of labels, beside "label"`},
		"labels, skipped":   {edges: "src,dst\n1,2\n2,1\n", nodes: "id,label,y\n1,0,1\n2,1,0\n", options: table.Options{Skip: []string{"y"}}},
		"labels, a feature": {edges: "src,dst\n1,2\n2,1\n", nodes: "id,label,y\n1,0,1\n2,1,0\n", options: table.Options{Use: []string{"y"}}},
	} {
		files := map[string][]byte{"d/edges.csv": []byte(c.edges)}
		if c.nodes != "" {
			files["d/nodes.csv"] = []byte(c.nodes)
		}
		s, err := Open("d", Options{FS: memFS(t, files), Text: c.options})
		if err == nil {
			err = s.Close()
		}
		if c.refused == "" && err != nil || c.refused != "" && (!errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, expected %q", name, err, c.refused)
		}
	}
}

// TestDamagedExport: a meta.json of gstore's that is damaged is refused with its name; another program's is none of ours.
func TestDamagedExport(t *testing.T) {
	const whole = `{"classes": 0, "ids": "dense", "ingest": "gstore ingest d STORE", "undirected": true}`
	edges := npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1}))
	for meta, refused := range map[string]bool{
		whole: false, whole[:len(whole)-4]: true, whole[:20]: true, "": true, strings.Replace(whole, "true", "1", 1): true,
		`{"name": "another's", "ids": [1, 2]}`: false,
	} {
		for _, input := range []map[string][]byte{{"d/edge_index.npy": edges}, {"d/edges.csv": []byte("src,dst\n0,1\n")}} {
			input["d/meta.json"] = []byte(meta)
			s, err := Open("d", Options{FS: memFS(t, input)})
			if err == nil {
				err = s.Close()
			}
			if refused != (err != nil) || err != nil && (!errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "meta.json")) {
				t.Errorf("%q: %v, expected a refusal: %v", meta, err, refused)
			}
		}
	}
}

// TestTypedSplitWithoutTrain: it is refused, as a numpy folder's is.
func TestTypedSplitWithoutTrain(t *testing.T) {
	ids := npyBytes("<i8", "1,", blocks.Bytes([]int64{0}))
	_, err := Open("d", Options{FS: memFS(t, map[string][]byte{
		"d/edges/a__to__a/edge_index.npy": npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1})),
		"d/nodes/a/label.npy":             npyBytes("<i8", "2,", blocks.Bytes([]int64{0, 1})), "d/split/test.npy": ids,
	})})
	if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "d/split: a split without train.npy") {
		t.Errorf("%v, expected a refusal", err)
	}
}
