package formats

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// parquetBytes is a file of rows, in row groups of at most perGroup.
func parquetBytes[T any](t testing.TB, perGroup int, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(int64(perGroup)), parquet.Compression(&parquet.Zstd))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type edgeRow struct {
	Source   string    `parquet:"source"`
	Target   string    `parquet:"target"`
	Relation string    `parquet:"rel,dict"`
	W        float64   `parquet:"w"`
	Time     int64     `parquet:"time"`
	E        []float32 `parquet:"e,list"`
	N        int32     `parquet:"n"`
}

type nodeRow struct {
	Name  string    `parquet:"name"`
	Emb   []float64 `parquet:"emb,list"`
	Age   int32     `parquet:"age"`
	Size  float32   `parquet:"size"`
	Y     *int64    `parquet:"y,optional"`
	Split *string   `parquet:"split,optional"`
}

func ptr[T any](x T) *T { return &x }

// tablesOf is a folder of edges with every kind of column, and of nodes.
func tablesOf(t testing.TB, replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/edges.parquet": parquetBytes(t, 2,
			edgeRow{"a", "b", "likes", .5, 10, []float32{1, 2}, -1}, edgeRow{"b", "c d", "hates", 2, 11, []float32{3, 4}, 7},
			edgeRow{"c d", "a", "likes", 1, 12, []float32{5, 6}, 8}),
		"d/nodes/part-0.parquet": parquetBytes(t, 2,
			nodeRow{"c d", []float64{1, 2, 3}, 30, 1.5, ptr(int64(1)), ptr("train")}, nodeRow{"lonely", []float64{4, 5, 6}, 40, 2.5, nil, ptr("test")},
			nodeRow{"a", []float64{7, 8, 9}, 50, 3.5, ptr(int64(0)), nil}),
		"d/nodes/part-1.parquet": parquetBytes(t, 2, nodeRow{"b", []float64{0, 0, 1}, 60, 4.5, ptr(int64(2)), ptr("Valid")}),
	}
	maps.Copy(files, replace)
	return files
}

// nodeRowsOf lists a source's keyed columns and split as "id column=value …".
func nodeRowsOf(t *testing.T, src ingest.Source) []string {
	t.Helper()
	s, d := src.(ingest.KeyedSource), src.Describe()
	env := ingest.Env{Threads: 1, MemoryBytes: 1 << 20}
	rows := map[string]string{}
	var order []string
	name := func(ids *ingest.IDs, i int) string {
		if ids.Ends != nil {
			return string(ids.At(i))
		}
		return fmt.Sprint(ids.Ints[i])
	}
	err := s.NodeIDs(t.Context(), env, func(ids *ingest.IDs, _ ingest.Position) error {
		for i := range ids.Len() {
			order = append(order, name(ids, i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for c, spec := range d.NodeColumns {
		err := s.KeyedRows(t.Context(), env, c, func(ids *ingest.IDs, b []byte, _ ingest.Position) error {
			for i := range ids.Len() {
				var v any
				var err error
				row := bytes.Clone(b[i*spec.RowBytes() : (i+1)*spec.RowBytes()])
				if spec.Elem == blocks.Float64 {
					v, err = blocks.View[float64](row)
				} else {
					v, err = blocks.View[float32](row)
				}
				if err != nil {
					return err
				}
				rows[name(ids, i)] += fmt.Sprintf(" %s=%v", spec.Name, v)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for k := range d.Splits {
		for part := store.SplitTrain; part <= store.SplitTest; part++ {
			err := s.Split(t.Context(), env, k, uint8(part), func(ids *ingest.IDs, _ ingest.Position) error {
				for i := range ids.Len() {
					rows[name(ids, i)] += " " + store.SplitNames()[part]
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var out []string
	for _, n := range order {
		out = append(out, n+rows[n])
	}
	return out
}

// Columns mean what their names say; all others are features.
func TestTables(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, tablesOf(t, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Describe()
	if d.Format != "parquet" || d.IDs != store.IDsStrings || !d.HasRelation || d.Task != store.TaskNode || d.Edges != 3 || len(d.Files) != 3 {
		t.Errorf("%+v", d)
	}
	want := []string{"a b likes [0.5] [10] [1 2] [-1]", "b c d hates [2] [11] [3 4] [7]", "c d a likes [1] [12] [5 6] [8]"}
	if edges, err := show(t, s); err != nil || fmt.Sprint(edges) != fmt.Sprint(want) {
		t.Errorf("edges %q (%v), expected %q", edges, err, want)
	}
	want = []string{"c d emb=[1 2 3] x=[30 1.5] label=[1] train", "lonely emb=[4 5 6] x=[40 2.5] label=[NaN] test",
		"a emb=[7 8 9] x=[50 3.5] label=[0]", "b emb=[0 0 1] x=[60 4.5] label=[2] valid"}
	if rows := nodeRowsOf(t, s); fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("nodes %q, expected %q", rows, want)
	}
	if _, err := drain(t, s); err != nil {
		t.Error(err)
	}
}

// The same nodes from CSV, with integers for ids and masks for the split, beside text edges; fields named in order.
func TestTextTables(t *testing.T) {
	files := map[string][]byte{
		"d/edges.csv": []byte("7,900\n900,8\n"),
		"d/nodes.csv": []byte("# people\nid,age,class,pos.0,pos.1,train_mask,val_mask,test_mask\n900,1.5,2,3,4,true,0,\n7,2,,5,6,0,1,0\n"),
		"more.tsv":    []byte("7\tSmith\t1\t2\t3\n8\tJones\t4\t5\t6\n"),
	}
	o := Options{FS: memFS(t, files)}
	s, err := Open("d", o)
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Describe(); d.IDs != store.IDsIntegers || d.Format != "edgelist" {
		t.Errorf("%+v", d)
	}
	if rows, want := fmt.Sprint(nodeRowsOf(t, s)), "[900 pos=[3 4] x=[1.5] label=[2] train 7 pos=[5 6] x=[2] label=[NaN] valid]"; rows != want {
		t.Errorf("nodes %s, expected %s", rows, want)
	}
	if edges, err := show(t, s); err != nil || fmt.Sprint(edges) != "[7 900 900 8]" {
		t.Errorf("edges %v (%v)", edges, err)
	}
	o.Text.NodeColumns, o.Nodes = []string{"id", "-", "size", "pos*2"}, []string{"more.tsv"}
	delete(files, "d/nodes.csv")
	o.FS = memFS(t, files)
	if s, err = Open("d", o); err != nil {
		t.Fatal(err)
	}
	if rows, want := fmt.Sprint(nodeRowsOf(t, s)), "[7 size=[1] pos=[2 3] 8 size=[4] pos=[5 6]]"; rows != want {
		t.Errorf("nodes %s, expected %s", rows, want)
	}
}

// A line that is bad in one column is skipped for all, and counted once a pass.
// TestTextTableWide: features of a table whose first lines are longer than what is usually looked at.
func TestTextTableWide(t *testing.T) {
	const columns = 20_000
	head, row := "id", ""
	for k := range columns {
		head += fmt.Sprintf(",x.%d", k)
		row += fmt.Sprintf(",%d.5", k)
	}
	s, err := Open("d", Options{FS: memFS(t, map[string][]byte{
		"d/edges.csv": []byte("src,dst\n0,1\n1,2\n"),
		"d/nodes.csv": []byte(head + "\n0" + row + "\n1" + row + "\n2" + row + "\n")})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if c := s.Describe().NodeColumns; len(c) != 1 || c[0].Name != "x" || c[0].Dim != columns {
		t.Errorf("columns of nodes %+v, expected x of %d numbers", c, columns)
	}
}

func TestTextTableBadLines(t *testing.T) {
	o := Options{Text: table.Options{SkipBadMax: 1}, FS: memFS(t, map[string][]byte{
		"d/edges.csv": []byte("1,2\n"), "d/nodes.csv": []byte("id,x,y\n1,2,3\n2,?,4\n")})}
	o.Text.NodeColumns = []string{"id", "x", "y"}
	s, err := Open("d", o)
	if err != nil {
		t.Fatal(err)
	}
	if rows, want := fmt.Sprint(nodeRowsOf(t, s)), "[1 x=[2] y=[3]]"; rows != want {
		t.Errorf("nodes %s, expected %s", rows, want)
	}
}

func TestTablesBadInput(t *testing.T) {
	good := tablesOf(t, nil)["d/edges.parquet"]
	damaged := bytes.Clone(good)
	for k := 8; k < 60; k++ {
		damaged[k] ^= 0x5a
	}
	bad := func(name, file string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: tablesOf(t, map[string][]byte{"d/" + file: b}), want: append(want, file)}
	}
	type ints struct {
		Src, Dst int64
	}
	type lists struct {
		ID string    `parquet:"id"`
		X  []float32 `parquet:"x,list"`
	}
	text := func(name, nodes string, want ...string) badCase {
		return badCase{name: name, path: "d", want: append(want, "nodes.csv"),
			files: map[string][]byte{"d/edges.csv": []byte("1,2\n"), "d/nodes.csv": []byte(nodes)}}
	}
	runBad(t, []badCase{
		bad("no Parquet", "edges.parquet", []byte("PAR1PAR1"), "no Parquet file"),
		bad("truncated", "edges.parquet", good[:len(good)-9], "no Parquet file"),
		bad("damaged pages", "edges.parquet", damaged, "row group 0", "page 0"),
		{name: "a negative id", path: "e.parquet", files: map[string][]byte{"e.parquet": parquetBytes(t, 9, ints{1, 2}, ints{1, -2})},
			want: []string{"e.parquet: row 1", "-2, expected a number ≥ 0"}},
		bad("no ends", "edges.parquet", parquetBytes(t, 9, lists{"a", []float32{1}}), "no columns of sources"),
		bad("an empty id", "edges.parquet", parquetBytes(t, 9, edgeRow{Target: "a", E: []float32{1}}), "row 0", "empty node id"),
		bad("lists of two lengths", "nodes/part-1.parquet", parquetBytes(t, 9, nodeRow{"b", []float64{0}, 0, 0, nil, nil}), "row 3", "expected 3 numbers"),
		bad("other columns", "nodes/part-1.parquet", parquetBytes(t, 9, lists{"a", []float32{1}}), "its columns differ"),
		bad("an unknown part", "nodes/part-1.parquet", parquetBytes(t, 9, nodeRow{"b", []float64{1, 2, 3}, 0, 0, nil, ptr("dev")}), "row 3", `split "dev"`),
		text("too few fields", "id,x\n1,2\n3\n", "line 3: column 2: the line has 1 fields"),
		text("no number", "id,x\n1,2\n2,3\n"+strings.Repeat("5,6\n", 30000)+"7,x\n", "line 30004: column 3", "(x)"),
		text("numbers and text", "id,x\n1,a\n2,3\n", `column "x" holds numbers and text ("a")`, "--skip x"),
		text("a bad label", "id,y\n1,1\n2,3\n"+strings.Repeat("5,6\n", 30000)+"7,x\n", "line 30004: column 3", "no finite number (y)"),
		text("no ids", "x,y\n1,2\n", "no column of ids"),
		text("ids of text", "id,x\nb,2\n", "ids of nodes are strings"),
		text("a split without labels", "id,split\n1,train\n", "no labels"),
		text("empty", "", "empty"),
	})
}

// Whatever the bytes, Parquet is refused or read as described.
func FuzzParquet(f *testing.F) {
	files := tablesOf(f, nil)
	f.Add(files["d/edges.parquet"], false)
	f.Add(files["d/nodes/part-0.parquet"], true)
	f.Fuzz(func(t *testing.T, b []byte, nodes bool) {
		in := map[string][]byte{"d/edges.parquet": b}
		if nodes {
			in = map[string][]byte{"d/edges.csv": []byte("a,b\n"), "d/nodes.parquet": b}
		}
		before := allocated()
		_ = openDrain(t, memFS(t, in), "d", Options{})
		if got := allocated() - before; got > parquetAllocMax+1<<12*uint64(len(b)) {
			t.Fatalf("%d bytes allocated for a file of %d", got, len(b))
		}
	})
}

// Whatever the text, a table of nodes is refused or read as described.
func FuzzTextTable(f *testing.F) {
	f.Add([]byte("id,x,label,split\n1,2,3,train\n"), "")
	f.Add([]byte("1\t2\t0\n"), "id,x,train_mask")
	f.Fuzz(func(t *testing.T, b []byte, columns string) {
		o := Options{}
		if columns != "" {
			o.Text.NodeColumns = strings.Split(columns, ",")
		}
		fs := memFS(t, map[string][]byte{"d/edges.csv": []byte("1,2\n"), "d/nodes.csv": b})
		if src, err := Open("d", Options{FS: fs, Text: o.Text}); err == nil {
			_ = src.Close()
		} else if errors.Is(err, ingest.ErrOptions) {
			return // the names of columns are none
		}
		_ = openDrain(t, fs, "d", o)
	})
}

// TestParquetOfNoRows: a row group of no rows, as pyarrow writes it of an empty table (testdata/norows.parquet), has no pages
// and is not damaged for it.
func TestParquetOfNoRows(t *testing.T) {
	type ints struct {
		Src int64 `parquet:"src,optional"`
		Dst int64 `parquet:"dst,optional"`
	}
	none, err := os.ReadFile("testdata/norows.parquet")
	if err != nil {
		t.Fatal(err)
	}
	fs := memFS(t, map[string][]byte{"d/edges/part-0.parquet": parquetBytes(t, 9, ints{1, 2}, ints{2, 1}), "d/edges/part-1.parquet": none})
	s, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	edges := 0
	err = s.Edges(t.Context(), ingest.Env{Threads: 1}, func(_ int, b *ingest.EdgeBatch) error {
		edges += len(b.Src.Ints)
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil || edges != 2 {
		t.Errorf("%d edges, %v, expected 2", edges, err)
	}
}
