package formats

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// Lists of the items of users, as LightGCN's data sets have them, are edges between two types of nodes; some are kept to validate with where no
// file is.
func TestInteractions(t *testing.T) {
	train := "0 1 2 3\n1 0 2\n2\n"
	list := func(s ingest.Source, name string) (edges []string) {
		err := s.EdgeList(t.Context(), ingest.Env{Threads: 1}, slices.Index(s.Describe().EdgeLists, name), func(b *ingest.EdgeBatch) error {
			for i := range b.Len() {
				edges = append(edges, string(b.Src.At(i))+" "+string(b.Dst.At(i)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return edges
	}
	s, err := Open("d", Options{FS: memFS(t, map[string][]byte{"d/train.txt": []byte(train), "d/test.txt": []byte("0 7\n1 1 7 \n"), "d/valid.txt": []byte("1 9\n")})})
	if err != nil {
		t.Fatal(err)
	}
	got, err := show(t, s)
	want := []string{"user:0 item:1", "user:0 item:2", "user:0 item:3", "user:1 item:0", "user:1 item:2"}
	d := s.Describe()
	if slices.Sort(got); err != nil || !slices.Equal(got, want) || d.Task != store.TaskLink || !d.TypesByPrefix || len(d.Notes) > 0 {
		t.Errorf("%q (%v), expected %q; %+v", got, err, want, d)
	}
	if got, want := list(s, "test"), []string{"user:0 item:7", "user:1 item:1", "user:1 item:7"}; !slices.Equal(got, want) {
		t.Errorf("test %q, expected %q", got, want)
	}
	if got := list(s, "valid"); !slices.Equal(got, []string{"user:1 item:9"}) {
		t.Errorf("valid %q", got)
	}
	// Without a list to validate with: none of an edge is in both, and none is lost.
	var long strings.Builder
	for user := range 40 {
		fmt.Fprint(&long, user)
		for item := range 10 + user%2 {
			fmt.Fprint(&long, " ", item)
		}
		long.WriteByte('\n')
	}
	if s, err = Open("d", Options{FS: memFS(t, map[string][]byte{"d/train.txt": []byte(long.String()), "d/test.txt": []byte("0 7\n1 1\n")})}); err != nil {
		t.Fatal(err)
	}
	if got, err = show(t, s); err != nil {
		t.Fatal(err)
	}
	held := list(s, "valid")
	if n := len(got) + len(held); n != 40*10+20 || len(held) < 15 || len(held) > 27 || !slices.Equal(s.Describe().EdgeLists, []string{"valid", "test"}) {
		t.Errorf("%d edges, %d held", len(got), len(held))
	}
	runBad(t, []badCase{
		{name: "a word later", path: "d", want: []string{"line 3", "no number of a user or an item"}, format: "interactions",
			files: map[string][]byte{"d/train.txt": []byte("0 1 2\n1 2\n2 x\n"), "d/test.txt": []byte("0 1\n")}},
		{name: "no train.txt", path: "d", want: []string{"no train.txt"}, format: "interactions", files: map[string][]byte{"d/test.txt": []byte("0 1\n")}},
	})
}
