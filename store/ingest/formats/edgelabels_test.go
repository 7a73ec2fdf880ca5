package formats_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// labelsOf are the labels that a source says, by id; classes by name.
func labelsOf(t *testing.T, src ingest.Source) map[string]any {
	t.Helper()
	d, out := src.Describe(), map[string]any{}
	c := slices.IndexFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Role == store.RoleLabel })
	if c < 0 || d.Task != store.TaskNode {
		t.Fatalf("columns %+v, task %q: expected labels", d.NodeColumns, d.Task)
	}
	env := ingest.Env{Threads: 1, MemoryBytes: 64 << 20}
	err := src.(ingest.KeyedSource).KeyedRows(t.Context(), env, c, func(ids *ingest.IDs, rows []byte, _ ingest.Position) error {
		for i := range ids.Len() {
			switch x := blocks.Float64.Float64(rows[8*i:]); {
			case math.IsNaN(x):
				out[string(ids.At(i))] = nil
			case d.ClassNames != nil:
				out[string(ids.At(i))] = d.ClassNames[int(x)]
			default:
				out[string(ids.At(i))] = x
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refersTo are the ids that each id refers to, in order.
func refersTo(t *testing.T, src ingest.Source) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := src.Edges(context.Background(), ingest.Env{Threads: 1, MemoryBytes: 64 << 20}, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			out[string(b.Src.At(i))] += " " + string(b.Dst.At(i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLabelsOfEdges: where a label is a column of edges, each is a row that refers to both its ends and has the label; other columns are its
// features. What cannot be read so is refused with what to do instead.
func TestLabelsOfEdges(t *testing.T) {
	for _, c := range []struct {
		name, text, label string
		labels            map[string]any
		refers            map[string]string
		types             string
	}{
		{"rating.csv", "user_id,film_id,stars,minutes\nu1,f1,4.5,90\nu1,f2,,80\nu2,f1,1,70\n", "stars",
			map[string]any{"rating:0": 4.5, "rating:1": nil, "rating:2": 1.}, map[string]string{"rating:0": " user:u1 film:f1", "rating:1": " user:u1 film:f2", "rating:2": " user:u2 film:f1"}, "film rating user"},
		{"score.csv", "userId,movieId,stars,minutes\nu1,f1,4.5,90\nu2,f1,1,70\n", "stars",
			map[string]any{"score:0": 4.5, "score:1": 1.}, map[string]string{"score:0": " user:u1 movie:f1", "score:1": " user:u2 movie:f1"}, "movie score user"},
		{"sent.csv", "Account,To Bank,Account,Bad\nx,1,y,0\ny,2,x,1\n", "Bad",
			map[string]any{"sent:0": 0., "sent:1": 1.}, map[string]string{"sent:0": " node:x node:y", "sent:1": " node:y node:x"}, "node sent"},
		{"tie.tsv", "src\tdst\tsign\n3\t5\tfriend\n5\t3\tfoe\n3\t3\t\n", "tie.sign",
			map[string]any{"tie:0": "friend", "tie:1": "foe", "tie:2": nil}, map[string]string{"tie:0": " node:3 node:5", "tie:1": " node:5 node:3", "tie:2": " node:3 node:3"}, "node tie"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := formats.Open(path, formats.Options{Text: formats.TextOptions{Label: []string{c.label}}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := labelsOf(t, src); len(got) != len(c.labels) || slices.ContainsFunc(slices.Collect(maps.Keys(c.labels)), func(k string) bool { return got[k] != c.labels[k] }) {
			t.Errorf("%s: labels %v, expected %v", c.name, got, c.labels)
		}
		if got := refersTo(t, src); len(got) != len(c.refers) || slices.ContainsFunc(slices.Collect(maps.Keys(c.refers)), func(k string) bool { return got[k] != c.refers[k] }) {
			t.Errorf("%s: edges %v, expected %v", c.name, got, c.refers)
		}
		var types []string
		features := map[string]bool{}
		for _, x := range src.Describe().NodeTypes {
			types = append(types, x.Name)
		}
		for _, x := range src.Describe().NodeColumns {
			if x.Role == store.RoleFeature {
				features[x.NodeType] = true
			}
		}
		if strings.Join(types, " ") != c.types || src.Describe().Input != path {
			t.Errorf("%s: types %v of %s", c.name, types, src.Describe().Input)
		}
		if name, _, _ := strings.Cut(c.name, "."); len(features) != 1 || !features[name] {
			t.Errorf("%s: features of %v: rows alone have some, or they would learn vectors by heart", c.name, features)
		}
		if err := src.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Where a table of nodes has a column of that name, it is meant.
	dir := t.TempDir()
	edges, nodes := filepath.Join(dir, "e.csv"), filepath.Join(dir, "n.csv")
	if err := errors.Join(os.WriteFile(edges, []byte("src,dst,label\na,b,1\n"), 0o666), os.WriteFile(nodes, []byte("id,label\na,0\nb,1\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	src, err := formats.Open(edges, formats.Options{Nodes: []string{nodes}, Text: formats.TextOptions{Label: []string{"label"}}})
	if err != nil || src.Describe().Task != store.TaskNode || len(src.Describe().NodeTypes) != 1 || src.Describe().EdgeColumns[0].Name != "edge_label" {
		t.Errorf("labels of nodes beside a column of edges: %v", err)
	}
	for name, c := range map[string]struct {
		file, text, want string
		nodes            []string
	}{
		"no ends":   {"rating.csv", "who,what,stars\na,b,1\n", "the first line must name the columns of both ends", nil},
		"its type":  {"user.csv", "user_id,film_id,stars\na,b,1\n", "the file is called as the type of its column", nil},
		"with more": {"rating.csv", "user_id,film_id,stars\na,b,1\n", "put all of them into a folder", []string{"user.csv"}},
		"a list":    {"rating.csv", "src,dst,stars\na,b,\n", "", nil},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o666), os.WriteFile(filepath.Join(dir, "user2.csv"), []byte("id\na\n"), 0o666)); err != nil {
			t.Fatal(err)
		}
		var nodes []string
		for range c.nodes {
			nodes = append(nodes, filepath.Join(dir, "user2.csv"))
		}
		src, err := formats.Open(filepath.Join(dir, c.file), formats.Options{Nodes: nodes, Text: formats.TextOptions{Label: []string{"stars"}}})
		if err == nil {
			err = src.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}
