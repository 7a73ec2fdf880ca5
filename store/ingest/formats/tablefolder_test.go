package formats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// tableFolderFiles are two types of nodes with tables and one without, in three tables of edges, with files replaced.
func tableFolderFiles(t testing.TB, replace map[string][]byte) map[string][]byte {
	type bought struct {
		Item   string  `parquet:"item_id"`
		Person int64   `parquet:"person_id"`
		Weight float64 `parquet:"weight"`
	}
	files := map[string][]byte{
		"d/nodes/person.csv":                  []byte("person_id,age,label,split\n1,30,gold,train\n2,40,silver,test\n"),
		"d/nodes/item.tsv.gz":                 gzipped(t, []byte("id\temb.0\temb.1\tsplit\na\t1\t2\ttrain\nb\t3\t4\tnone\n")),
		"d/edges/person-bought-item.parquet":  parquetBytes(t, 9, bought{"a", 1, .5}, bought{"c", 3, 2}), // the columns say which end is whose
		"d/edges/person-is-friend-person.csv": []byte("src,dst,time,type\n1,2.0,77,old\n"),
		"d/edges/person__visits__shop.tsv":    []byte("person\tshop\n2\tmain\n"),
		"d/edges/_SUCCESS":                    nil,
		"d/edges/notes.md":                    []byte("x"),
	}
	maps.Copy(files, replace)
	return files
}

// typedEdgesOf lists edges as "source relation destination columns".
func typedEdgesOf(t *testing.T, s ingest.Source) (out []string) {
	t.Helper()
	d := s.Describe()
	err := s.Edges(t.Context(), ingest.Env{Threads: 1, MemoryBytes: 1 << 20}, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			line := fmt.Sprintf("%s %s %s", b.Src.At(i), d.Relations[b.Relations[i]], b.Dst.At(i))
			for c := range d.EdgeColumns {
				w := d.EdgeColumns[c].RowBytes()
				line += fmt.Sprintf(" %s=%x", d.EdgeColumns[c].Name, b.Columns[c][i*w:(i+1)*w])
			}
			out = append(out, line)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// Names of tables are types and relations; columns that a relation lacks have their default, whatever the order of tables and columns.
func TestTableFolder(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, tableFolderFiles(t, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Describe()
	var types []string
	for _, n := range d.NodeTypes {
		types = append(types, n.Name)
	}
	if d.Format != "tables" || !d.TypesByPrefix || !slices.Equal(types, []string{"item", "person", "shop"}) || d.IDs != store.IDsStrings || d.Task != store.TaskNode || len(d.Splits) != 1 {
		t.Errorf("%+v", d)
	}
	none := "timestamp=0000000000000080"
	want := []string{"person:1 person:bought:item item:a weight=0000003f " + none, "person:1 person:is-friend:person person:2 weight=0000803f timestamp=4d00000000000000",
		"person:2 person:visits:shop shop:main weight=0000803f " + none, "person:3 person:bought:item item:c weight=00000040 " + none}
	if got := typedEdgesOf(t, s); !slices.Equal(got, want) {
		t.Errorf("edges %q, expected %q", got, want)
	}
	want = []string{"item:a item.emb=[1 2]", "item:b item.emb=[3 4]", "person:1 person.x=[30] label=[0] train", "person:2 person.x=[40] label=[1] test"}
	if got := nodeRowsOf(t, s); !slices.Equal(got, want) {
		t.Errorf("nodes %q, expected %q", got, want)
	}
	for _, c := range d.NodeColumns {
		if kind, _, ok := strings.Cut(c.Name, "."); ok && c.NodeType != kind || c.Name == "label" && c.NodeType != "person" {
			t.Errorf("column %s is of type %q", c.Name, c.NodeType)
		}
	}
	for _, want := range []string{"notes.md is not read", `item.tsv.gz: split "split" is left out`} {
		if !slices.ContainsFunc(d.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("%q is not said: %q", want, d.Notes)
		}
	}
	if _, err := drain(t, s); err != nil {
		t.Error(err)
	}
}

// A folder edges of Parquet is part files of one table unless their names say types.
func TestTableFolderDetected(t *testing.T) {
	edges, nodes := parquetBytes(t, 9, edgeRow{"a", "b", "likes", .5, 10, []float32{1}, 1}), []byte("id,x\n1,2\n")
	for _, c := range []struct {
		want  string
		files map[string][]byte
	}{
		{"parquet", map[string][]byte{"d/edges/part-0-17.parquet": edges, "d/edges/part-1-17.parquet": edges}},
		{"tables", map[string][]byte{"d/edges/a-likes-b.parquet": edges, "d/nodes/a.csv": nodes}},
		{"tables", map[string][]byte{"d/edges/a__likes__b.parquet/part-0.parquet": edges}},
		{"tables", map[string][]byte{"d/edges/a-likes-b.csv": []byte("src,dst\n1,2\n")}},
		{"graphbolt", map[string][]byte{"d/edges/a-likes-b.csv": []byte("1,2\n"), "d/metadata.yaml": []byte("x")}},
	} {
		if got, err := detect(memFS(t, c.files), "d"); err != nil || got.name != c.want {
			t.Errorf("%q: %+v (%v), expected %q", slices.Sorted(maps.Keys(c.files)), got, err, c.want)
		}
	}
}

func TestTableFolderBadInput(t *testing.T) {
	file := func(name, path, text string, want ...string) badCase {
		return badCase{name: name, path: "d", files: tableFolderFiles(t, map[string][]byte{"d/" + path: []byte(text)}), want: want}
	}
	runBad(t, []badCase{
		file("a name of one part", "edges/likes.csv", "src,dst\n1,2\n", "edges/likes.csv", "SOURCE-NAME-DESTINATION"),
		file("a name with an empty part", "edges/person--item.csv", "src,dst\n1,2\n", "SOURCE-NAME-DESTINATION"),
		file("a type with a hyphen", "nodes/friend-person.csv", "id,x\n1,2\n", "person-is-friend-person.csv", `"friend-person" has a table`, "divide it by __"),
		file("a second table of a type", "nodes/item.csv", "id,x\n1,2\n", "item.tsv.gz", "second table"),
		file("a type with a colon", "nodes/a:b.csv", "id,x\n1,2\n", `"a:b"`, "without a colon"),
		file("labels of two types", "nodes/shop.csv", "id,label\nmain,1\n", "nodes/shop.csv", "second type", "--skip shop.label"),
		{name: "the table of a split without labels", path: "d", files: map[string][]byte{"d/edges/a-r-b.csv": []byte("src,dst\n1,2\n"), "d/nodes/a.csv": []byte("id,x\n1,2\n"), "d/nodes/b.csv": []byte("id,split\n2,train\n")},
			want: []string{"nodes/b.csv", "a split of nodes, but no labels"}},
		file("no column of ids", "nodes/shop.csv", "x,y\n1,2\n", "nodes/shop.csv", "no column of ids"),
		file("an empty id of a node", "nodes/shop.csv", "id,x\nmain,1\n,2\n", "nodes/shop.csv: line 3", "empty node id"),
		file("an empty end", "edges/person__visits__shop.tsv", "person\tshop\n2\t\n", "visits__shop.tsv: line 2", "empty node id"),
		file("ends without names", "edges/person__visits__shop.tsv", "a\tb\n2\t3\n", "visits__shop.tsv: line 1", "names of both ends"),
		file("a bad number", "nodes/person.csv", "id,age,label\n1,30,0\n2,old,1\n", "nodes/person.csv", "age"),
		{name: "no edges", path: "d", format: "tables", files: map[string][]byte{"d/nodes/a.csv": []byte("id,x\n1,2\n")}, want: []string{"no table edges/"}},
	})
	if _, err := Open("d", Options{FS: memFS(t, tableFolderFiles(t, map[string][]byte{"d/nodes/shop.csv": []byte("id,label,size\nmain,1,2\n")})), Text: table.Options{Skip: []string{"shop.label"}}}); err != nil {
		t.Errorf("a column of one type left out: %v", err)
	}
}

// Whatever the text of tables and the name of one, a folder is refused or read as described.
func FuzzTableFolder(f *testing.F) {
	f.Add("person-likes-item", []byte("src,dst\n1,2\n"), []byte("id,x,label\n1,2,0\n"))
	f.Add("a__b__c", []byte("a_id\tc\n1\tx\n"), []byte("person_id\n1\n"))
	f.Fuzz(func(t *testing.T, name string, edges, nodes []byte) {
		if strings.ContainsAny(name, "/\x00") {
			return
		}
		fs := memFS(t, map[string][]byte{"d/edges/" + name + ".csv": edges, "d/nodes/person.csv": nodes})
		_ = openDrain(t, fs, "d", Options{Format: "tables"})
	})
}
