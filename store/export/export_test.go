package export_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// smallest is a budget that forces many tiles and re-reading of ids.
const smallest = 61 << 20

// smallestParquet is that of Parquet files.
const smallestParquet = 74 << 20

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d lines, expected %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("line %d is\n%s\nexpected\n%s", i, got[i], want[i])
		}
	}
}

// ingested reads an export back.
func ingested(t *testing.T, input string, o ingest.Options, fo formats.Options) *store.Store {
	t.Helper()
	src, err := formats.Open(input, fo)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "again")
	o.MemoryBytes = 256 << 20
	if _, err := ingest.Run(context.Background(), dir, src, o); err != nil {
		t.Fatal(err)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// TestNumpyRoundTrip exports stores of every kind of ids and ingests the
// result: the same nodes, edges and columns.
func TestNumpyRoundTrip(t *testing.T) {
	for _, o := range []storetest.Options{
		{Nodes: 300},
		{Nodes: 300, Relations: 3},
		{Nodes: 300, Relations: 3, IDs: store.IDsIntegers},
		{Nodes: 300, IDs: store.IDsStrings},
		{Nodes: 30_000, Edges: 60_000, Dim: 100, Partitions: 9}, // tiles
	} {
		t.Run(fmt.Sprintf("%s ids, %d nodes, %d relations", o.IDs, o.Nodes, o.Relations), func(t *testing.T) {
			s := open(t, storetest.Create(t, storetest.Random(o)))
			out := filepath.Join(t.TempDir(), "out")
			r, err := export.Run(context.Background(), s, out, export.Options{MemoryBytes: smallest})
			if err != nil {
				t.Fatal(err)
			}
			size := int64(0)
			for _, f := range r.Files {
				info, err := os.Stat(filepath.Join(out, f.Name))
				if err != nil || info.Size() != f.Bytes {
					t.Errorf("%+v: %v, %v", f, info.Size(), err)
				}
				size += f.Bytes
			}
			if size != r.Bytes || len(r.Files) < 6 {
				t.Errorf("%+v", r)
			}
			again := ingested(t, out, ingest.Options{Partitions: 3}, formats.Options{})
			want := storetest.Lines(t, s, nil)
			for i := range want {
				if o.Relations == 0 { // the one relation of a graph without any has no name in files
					want[i] = strings.Replace(want[i], " r0 ", " edge ", 1)
				}
			}
			equal(t, storetest.Lines(t, again, nil), want)
		})
	}
}

// TestTypesRoundTrip: types of nodes come back, and the numbers of learned vectors as such, in every format and whether external ids count type by
// type or not; a meta.json that tells of other nodes than there are is refused.
func TestTypesRoundTrip(t *testing.T) {
	graph, _ := storetest.Typed(t)
	label := regexp.MustCompile(`(node .*)( label -?\d+)(.*)`) // tables have it behind features
	lines := func(s *store.Store) []string {
		l := storetest.Lines(t, s, nil)
		for i := range l {
			l[i] = label.ReplaceAllString(l[i], "$1$3$2")
		}
		return l
	}
	s := ingested(t, graph, ingest.Options{Partitions: 3}, formats.Options{})
	for _, inOrder := range []bool{true, false} {
		if !inOrder { // a paper behind the venues
			src, err := ingest.FromSlices(&ingest.Slices{Src: []uint64{410}, Dst: []uint64{170}, Relations: []uint32{0}, RelationNames: []string{"paper:cites:paper"},
				EdgeColumns: []ingest.SliceColumn{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1, Data: blocks.Bytes([]float32{2})}},
				NodeColumns: []ingest.SliceColumn{{Name: "paper.feat", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 16, Data: blocks.Bytes(slices.Repeat([]float32{5}, 16))}}})
			if err == nil {
				_, err = grow.Append(t.Context(), s.Dir(), src, grow.Options{})
			}
			if err != nil {
				t.Fatal(err)
			}
			s = open(t, s.Dir())
		}
		for _, format := range []export.Format{export.Numpy, export.TSV, export.Parquet} {
			out := filepath.Join(t.TempDir(), "out")
			if _, err := export.Run(t.Context(), s, out, export.Options{Format: format}); err != nil {
				t.Fatal(err)
			}
			again := ingested(t, out, ingest.Options{Partitions: 2}, formats.Options{})
			equal(t, lines(again), lines(s))
			m := again.Manifest()
			for _, c := range s.Manifest().Columns {
				got, err := m.Column(c.Name)
				runs := c.Runs && inOrder && format == export.Numpy
				if err != nil || got.Role != c.Role || got.Elem != c.Elem || got.Runs != runs || got.NodeType != c.NodeType && (runs || c.Role != store.RoleSplit) {
					t.Errorf("%s, in order %v: %v, %+v, expected %+v", format, inOrder, err, got, c)
				}
			}
			if !slices.Equal(m.Schema.NodeTypes, s.Manifest().Schema.NodeTypes) || !slices.Equal(m.Categories(), s.Manifest().Categories()) {
				t.Errorf("%s: types %v, vectors %v", format, m.Schema.NodeTypes, m.Categories())
			}
			path := filepath.Join(out, "meta.json")
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.Replace(string(b), `"count": 24`, `"count": 34`, 1)), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			src, err := formats.Open(out, formats.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = ingest.Run(t.Context(), filepath.Join(t.TempDir(), "x"), src, ingest.Options{})
			if want := fmt.Sprintf("node types of %d nodes (meta.json)", m.Nodes+100); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, expected %s", format, err, want)
			}
			if err := src.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUndirected exports an undirected graph with weights: each edge once, to
// be ingested as undirected again.
func TestUndirected(t *testing.T) {
	in := filepath.Join(t.TempDir(), "edges.tsv")
	if err := os.WriteFile(in, []byte("src\tdst\tweight\n0\t1\t.5\n3\t1\t2\n2\t0\t-1\n2\t2\t7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := ingested(t, in, ingest.Options{Undirected: true, Partitions: 2}, formats.Options{})
	for _, format := range []export.Format{export.Numpy, export.TSV} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := export.Run(context.Background(), s, out, export.Options{Format: format}); err != nil {
			t.Fatal(err)
		}
		input := out
		if format == export.TSV {
			input += "/edges.tsv"
		}
		equal(t, storetest.Lines(t, ingested(t, input, ingest.Options{Undirected: true}, formats.Options{}), nil), storetest.Lines(t, s, nil))
	}
}

// TestTriplesRoundTrip: a knowledge graph comes back with its names, in both forms.
func TestTriplesRoundTrip(t *testing.T) {
	in := t.TempDir()
	for name, text := range map[string]string{
		"train.tsv": "ann\tknows\tbob\nbob\tlikes\tcy\ncy\tknows\tdan\ndan\tlikes\tann\neve\tknows\tann\nann\tlikes\tbob\n",
		"valid.tsv": "ann\tlikes\tcy\nbob\tknows\teve\n", "test.tsv": "eve\tlikes\tbob\n",
	} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := ingested(t, in, ingest.Options{Partitions: 3}, formats.Options{})
	for _, format := range []export.Format{export.Numpy, export.TSV} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := export.Run(context.Background(), s, out, export.Options{Format: format, What: []export.What{export.Graph}}); err != nil {
			t.Fatal(err)
		}
		equal(t, storetest.Lines(t, ingested(t, out, ingest.Options{Partitions: 2}, formats.Options{}), nil), storetest.Lines(t, s, nil))
	}
}

// TestTSV compares nodes.tsv with the store.
func TestTSV(t *testing.T) {
	g := storetest.Random(storetest.Options{IDs: store.IDsStrings})
	s := open(t, storetest.Create(t, g))
	out := filepath.Join(t.TempDir(), "out")
	if _, err := export.Run(context.Background(), s, out, export.Options{Format: export.TSV, What: []export.What{export.Features, export.Labels, export.Splits, export.IDs}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(out, "nodes.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != g.Nodes()+1 || !strings.HasPrefix(lines[0], "id\tx.0\tx.1\t") || !strings.HasSuffix(lines[0], "x.7\tlabel\tsplit\tinternal_id") {
		t.Fatalf("%d lines: %s", len(lines), lines[0])
	}
	for v, l := range lines[1:] {
		want := g.External[v]
		for _, x := range g.Features[v*g.Dim : (v+1)*g.Dim] {
			want += fmt.Sprintf("\t%v", x)
		}
		want += fmt.Sprintf("\t%d\t%s\t%d", g.Labels[v], store.SplitNames()[g.Split[v]], v)
		if l != want {
			t.Fatalf("node %d is\n%s\nexpected\n%s", v, l, want)
		}
	}
}

// TestEmbeddings exports a table beside nothing else, in external order.
func TestEmbeddings(t *testing.T) {
	g := storetest.Random(storetest.Options{})
	s := open(t, storetest.Create(t, g))
	ctx := context.Background()
	table, err := table.Create(ctx, s, table.Options{Name: "e", Dim: 5, States: 1, Init: func(first store.NodeID, rows []float32) {
		for i := range rows {
			rows[i] = float32(int(first)*5+i) / 8
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	want := make([]float32, g.Nodes()*5)
	for p, info := range s.Manifest().Partitions {
		buf := make([]byte, table.PlaneBytes(store.PartitionID(p)))
		if err := table.Read(ctx, store.PartitionID(p), buf); err != nil {
			t.Fatal(err)
		}
		for i := range info.Nodes {
			var x int
			if _, err := fmt.Sscan(g.External[uint64(info.First)+i], &x); err != nil {
				t.Fatal(err)
			}
			for d := range 5 {
				want[5*x+d] = math.Float32frombits(binary.LittleEndian.Uint32(buf[20*int(i)+4*d:]))
			}
		}
	}
	c, err := export.Table(ctx, table, "embedding")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	r, err := export.Run(ctx, s, out, export.Options{Extra: []export.NodeColumn{c}})
	if err != nil || len(r.Files) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	b, err := os.ReadFile(filepath.Join(out, "node_embedding.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b[:128]), "'<f4'") || !strings.Contains(string(b[:128]), fmt.Sprintf("(%d, 5)", g.Nodes())) || string(b[128:]) != string(blocks.Bytes(want)) {
		t.Fatalf("%q", b[:128])
	}
}

func TestRefuses(t *testing.T) {
	s := open(t, storetest.Create(t, storetest.Random(storetest.Options{IDs: store.IDsStrings})))
	for _, c := range []struct {
		o    export.Options
		want error
	}{
		{export.Options{Format: "xml"}, export.ErrOptions},
		{export.Options{What: []export.What{"edges"}}, export.ErrOptions},
		{export.Options{Columns: []string{"y"}}, export.ErrOptions},
		{export.Options{Extra: []export.NodeColumn{{Name: "a"}}}, export.ErrOptions},
		{export.Options{MemoryBytes: 1 << 20}, store.ErrBudget},
	} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := export.Run(context.Background(), s, out, c.o); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, expected %v", c.o, err, c.want)
		}
		nothing(t, vfs.Default, out)
	}
	dir := t.TempDir()
	if _, err := export.Run(context.Background(), s, dir, export.Options{}); !errors.Is(err, export.ErrExists) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	if _, err := export.Run(ctx, s, out, export.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	nothing(t, vfs.Default, out)
}

func nothing(t *testing.T, fs vfs.FS, out string) {
	t.Helper()
	for _, name := range []string{out, out + ".partial"} {
		if _, err := fs.Stat(name); err == nil {
			t.Fatalf("%s is left", name)
		}
	}
}

// TestErrorAtEveryWrite fails every operation on the target once: a clear error, and
// nothing under the target's name.
func TestErrorAtEveryWrite(t *testing.T) {
	s := open(t, storetest.Create(t, storetest.Random(storetest.Options{Relations: 2})))
	injected := errors.New("injected")
	for _, format := range export.Formats() {
		for k := 0; ; k++ {
			n := 0
			fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == errorfs.OpRemoveAll || op.Kind == errorfs.OpStat {
					return nil
				}
				if n++; n-1 == k {
					return injected
				}
				return nil
			}))
			_, err := export.Run(context.Background(), s, "/out", export.Options{Format: format, FS: fs})
			if n <= k {
				if err != nil || k < 15 {
					t.Fatalf("%s: after %d operations: %v", format, n, err)
				}
				break
			}
			if !errors.Is(err, injected) {
				t.Fatalf("%s, operation %d: %v", format, k, err)
			}
			if k < n-2 { // the last one syncs the folder that holds the target
				nothing(t, fs, "/out")
			}
		}
	}
}

// TestParquet reads the files back with the library and compares them with the store.
func TestParquet(t *testing.T) {
	for _, ids := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		g := storetest.Random(storetest.Options{Nodes: 4000, Edges: 9000, Relations: 3, IDs: ids, Dim: 70})
		s := open(t, storetest.Create(t, g))
		out := filepath.Join(t.TempDir(), "out")
		if _, err := export.Run(context.Background(), s, out, export.Options{Format: export.Parquet, MemoryBytes: smallestParquet}); err != nil {
			t.Fatal(err)
		}
		type edge struct{ Src, Dst, Relation string }
		var got, want []edge
		for _, r := range rows(t, filepath.Join(out, "edges.parquet"), "src", "dst", "relation") {
			got = append(got, edge{r[0][0].String(), r[1][0].String(), r[2][0].String()})
		}
		for i, e := range g.Edges {
			want = append(want, edge{g.External[e[0]], g.External[e[1]], fmt.Sprintf("r%d", g.Relations[i])})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s ids: %d edges, expected %d\n%v\n%v", ids, len(got), len(want), got[:3], want[:3])
		}
		if n := len(rows(t, filepath.Join(out, "edges_valid.parquet"), "src", "dst", "relation")); n != len(g.Valid) {
			t.Errorf("%d edges of the list, expected %d", n, len(g.Valid))
		}
		nodes := map[string]int{}
		for v, x := range g.External {
			nodes[x] = v
		}
		for _, r := range rows(t, filepath.Join(out, "nodes.parquet"), "id", "x", "label", "split") {
			v, ok := nodes[r[0][0].String()]
			if !ok {
				t.Fatalf("node %v", r[0])
			}
			delete(nodes, r[0][0].String())
			var x []float32
			for _, e := range r[1] {
				x = append(x, e.Float())
			}
			if !slices.Equal(x, g.Features[v*g.Dim:(v+1)*g.Dim]) || r[2][0].Int64() != int64(g.Labels[v]) || r[3][0].String() != store.SplitNames()[g.Split[v]] {
				t.Fatalf("node %s: %v", g.External[v], r)
			}
		}
		if len(nodes) > 0 {
			t.Fatalf("%d nodes are missing", len(nodes))
		}
	}
}

// rows reads a Parquet file: the values of the named columns, by row.
func rows(t *testing.T, path string, columns ...string) (out [][][]parquet.Value) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range file.Schema().Columns() {
		names = append(names, c[0])
	}
	if !slices.Equal(names, columns) {
		t.Fatalf("%s has columns %v, expected %v", path, names, columns)
	}
	for _, group := range file.RowGroups() {
		r := group.Rows()
		defer r.Close()
		buf := make([]parquet.Row, 100)
		for {
			n, err := r.ReadRows(buf)
			for _, row := range buf[:n] {
				var values [][]parquet.Value
				row.Clone().Range(func(_ int, v []parquet.Value) bool {
					values = append(values, v)
					return true
				})
				out = append(out, values)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}
