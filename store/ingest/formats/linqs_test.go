package formats

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// A citation graph of LINQS is a folder, or one of its two files; its words are no measurements.
func TestLINQS(t *testing.T) {
	d := map[string][]byte{"d/tiny.content": []byte("31\t1\t0\tTheory\n7\t0\t1\tRules\n40\t1\t1\tTheory\n"), "d/tiny.cites": []byte("31\t7\n40\t31\n"),
		"d/README": []byte("of it\n")}
	want := []string{"[{node -1}] [] -1 node []", "edge 31 40", "edge 7 31",
		fmt.Sprintf("x feature float32 2 0 -1  [31 7 40] %x", blocks.Bytes([]float32{1, 0, 0, 1, 1, 1})),
		fmt.Sprintf("label label float64 1 0 -1  [31 7 40] %x", blocks.Bytes([]float64{1, 0, 1}))}
	for _, path := range []string{"d", "d/tiny.cites", "d/tiny.content"} {
		s, err := Open(path, Options{FS: memFS(t, d)})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got := told(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected\n%q", path, got, want)
		}
		about := s.Describe()
		if about.Format != "linqs" || !about.Undirected || !slices.Equal(about.ClassNames, []string{"Rules", "Theory"}) || about.NodeColumns[0].Measured {
			t.Errorf("%s: %+v", path, about)
		}
		if got := about.Uses[4]; got.Column != "field 3" || got.As != "feature x[1] of 2" {
			t.Errorf("%s: told of %+v", path, got)
		}
	}
	// An id that is no integer may be any line's, the first one is a node as well.
	var content, cites strings.Builder
	for v := range 3000 {
		fmt.Fprintf(&content, "%d\t0\t1\tTheory\n", v)
		fmt.Fprintf(&cites, "%d\t%d\n", v, (v+1)%3000)
	}
	content.WriteString("smith97\t1\t0\tRules\n")
	cites.WriteString("smith97\t0\n")
	s, err := Open("d", Options{FS: memFS(t, map[string][]byte{"d/c.content": []byte(content.String()), "d/c.cites": []byte(cites.String())})})
	if err != nil {
		t.Fatal(err)
	}
	if edges, err := show(t, s); err != nil || len(edges) != 3001 || s.Describe().IDs != store.IDsStrings {
		t.Errorf("%d edges, %v, ids %s", len(edges), err, s.Describe().IDs)
	}
	more := map[string][]byte{"d/b.content": nil, "d/b.cites": nil}
	for name, b := range d {
		more[name] = b
	}
	runBad(t, []badCase{
		{name: "two graphs", path: "d", files: more, want: []string{"2 graphs, b, tiny", "d/b.cites"}},
		{name: "no words", path: "d", files: map[string][]byte{"d/a.content": []byte("1\tTheory\n"), "d/a.cites": []byte("1\t1\n")}, want: []string{"2 fields a line"}},
		{name: "a line too short", path: "d", files: map[string][]byte{"d/a.content": []byte("1\t0\t1\tTheory\n2\t0\tTheory\n"), "d/a.cites": []byte("1\t2\n")}, want: []string{"a.content", "line 2"}},
		{name: "a word that is none", path: "d", files: map[string][]byte{"d/a.content": []byte("1\t0\t1\tTheory\n2\t0\tx\tTheory\n"), "d/a.cites": []byte("1\t2\n")}, want: []string{"a.content", "holds text"}},
	})
}
