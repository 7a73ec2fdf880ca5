package ingest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

// tabled writes a graph of several types, whose nodes are numbered type by type, as tables: CSV, and of venues Parquet. That of authors has ids
// alone. Node 7 of papers is called 7, of authors a7.
func tabled(t *testing.T, graph string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	src, err := formats.Open(graph, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	d, env := src.Describe(), ingest.Env{Threads: 1, MemoryBytes: 1 << 20}
	files := map[string]*bytes.Buffer{}
	file := func(name, header string) *bytes.Buffer {
		if files[name] == nil {
			files[name] = bytes.NewBufferString(header)
		}
		return files[name]
	}
	name := func(id uint64) string {
		for _, n := range d.NodeTypes {
			if id < uint64(n.Count) && n.Name == "author" {
				return fmt.Sprint("a", id)
			} else if id < uint64(n.Count) {
				return fmt.Sprint(id)
			}
			id -= uint64(n.Count)
		}
		return ""
	}
	err = src.Edges(t.Context(), env, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			relation := d.Relations[b.Relations[i]]
			w, weight := "", ""
			if relation == "paper:cites:paper" { // the others have weight 1, as what has none
				weights, err := blocks.View[float32](b.Columns[0])
				if err != nil {
					return err
				}
				w, weight = ",weight", ","+strconv.FormatFloat(float64(weights[i]), 'g', -1, 32)
			}
			fmt.Fprintf(file("edges/"+strings.ReplaceAll(relation, ":", "-")+".csv", "src,dst"+w+"\n"), "%s,%s%s\n", name(b.Src.Ints[i]), name(b.Dst.Ints[i]), weight)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]byte{}
	for c, spec := range d.NodeColumns {
		err := src.Rows(t.Context(), env, c, func(b []byte, _ ingest.Position) error {
			rows[spec.Name] = append(rows[spec.Name], b...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	feats := func(column string, row int) (x []float32) {
		k := slices.IndexFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Name == column })
		all, err := blocks.View[float32](rows[column])
		if err != nil {
			t.Fatal(err)
		}
		return all[row*d.NodeColumns[k].Dim : (row+1)*d.NodeColumns[k].Dim]
	}
	parts := map[uint64]string{}
	for part := store.SplitTrain; part <= store.SplitTest; part++ {
		err := src.Split(t.Context(), env, 0, uint8(part), func(ids *ingest.IDs, _ ingest.Position) error {
			for _, id := range ids.Ints {
				parts[id] = store.SplitNames()[part]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	type venue struct {
		ID   int32     `parquet:"venue_id"`
		Feat []float32 `parquet:"feat,list"`
	}
	var venues []venue
	first := uint64(0)
	for _, n := range d.NodeTypes {
		for k := range int(n.Count) {
			switch n.Name {
			case "author":
				fmt.Fprintf(file("nodes/author.csv", "id\n"), "a%d\n", k)
			case "venue":
				venues = append(venues, venue{int32(k), feats("venue.feat", k)})
			case "paper":
				x := feats("paper.feat", k)
				header := "id,label,split"
				for i := range x {
					header += fmt.Sprint(",feat.", i)
				}
				label := int64(binary.LittleEndian.Uint64(rows["label"][8*k:]))
				b := file("nodes/paper.csv", header+"\n")
				fmt.Fprintf(b, "%d,%d,%s", k, label, parts[first+uint64(k)])
				for _, v := range x {
					fmt.Fprint(b, ",", strconv.FormatFloat(float64(v), 'g', -1, 32))
				}
				b.WriteByte('\n')
			}
		}
		first += uint64(n.Count)
	}
	slices.Reverse(venues) // rows stand in any order
	w := parquet.NewGenericWriter[venue](file("nodes/venue.parquet", ""))
	if _, err := w.Write(venues); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// byName is what a store of types holds, with names for numbers of relations and types, which have another order in another store, and
// nodes called TYPE:ID; columns of a line are in order of name.
func byName(t *testing.T, s *store.Store, lines []string) (out []string) {
	t.Helper()
	m := s.Manifest()
	number := func(text string) int {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return int(append(b, 0)[0])
	}
	dense := regexp.MustCompile(`^\d+$`)
	name := func(id string) string {
		if !dense.MatchString(id) {
			return id
		}
		n, _ := strconv.ParseUint(id, 10, 64)
		for _, kind := range m.Schema.NodeTypes {
			if n < kind.Count && kind.Name == "author" {
				return fmt.Sprint("author:a", n)
			} else if n < kind.Count {
				return fmt.Sprint(kind.Name, ":", n)
			}
			n -= kind.Count
		}
		return id
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		ends := 2
		if fields[0] == "edge" {
			ends = 3
		}
		for k, f := range fields {
			if k > 0 && k < ends {
				fields[k] = name(f)
			}
			column, value, _ := strings.Cut(f, "=")
			switch column {
			case "relation/relation":
				fields[k] = "relation=" + m.Schema.Relations[number(value)].Name
			case "node_type/node":
				fields[k] = "type=" + m.Schema.NodeTypes[number(value)-1].Name
			case "author.node/node": // by the order of ids, here of their text
				fields[k] = fmt.Sprint("author.node=", strings.Trim(value, "0") != "")
			}
		}
		slices.Sort(fields[ends:])
		out = append(out, strings.Join(fields, " "))
	}
	slices.Sort(out)
	return out
}

// TestTableFolder: a graph of several types in tables becomes the store that its folder of arrays does, but for the order of types, in
// however many partitions, and columns of a type have the rows of that type alone.
func TestTableFolder(t *testing.T) {
	graph, _ := storetest.Typed(t)
	dir := tabled(t, graph)
	ref := openStore(t, ingesttest.Store(t, graph, ingest.Options{}), 0)
	want := byName(t, ref, content(t, ref))
	sizes := map[string]uint64{}
	for _, r := range ref.Manifest().Schema.Relations {
		sizes[r.Name] = r.Count
	}
	for _, o := range []ingest.Options{{Partitions: 1}, {Partitions: 5, Threads: 3, MemoryBytes: 128 << 20}} {
		at := ingesttest.Store(t, dir, o)
		s := openStore(t, at, 0)
		m := s.Manifest()
		if got := byName(t, s, content(t, s)); !slices.Equal(got, want) {
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("%d items, of arrays %d; first difference:\n%s\n%s", len(got), len(want), got[i], want[i])
				}
			}
			t.Fatalf("%d items, of arrays %d", len(got), len(want))
		}
		got := map[string]uint64{}
		for _, r := range m.Schema.Relations {
			got[r.Name] = r.Count
		}
		if !maps.Equal(got, sizes) {
			t.Errorf("relations %v, expected %v", got, sizes)
		}
		runs := runsOf(m)
		slices.Sort(runs)
		if want := []string{"author.node 150 author", "label 240 paper", "node_type 0 ", "paper.feat 240 paper", "split 240 paper", "venue.feat 20 venue"}; !slices.Equal(runs, want) {
			t.Errorf("rows of one type %q, expected %q", runs, want)
		}
		if f := format(t, at); f != "2" {
			t.Errorf("format %q", f)
		}
	}
}

// TestTableFolderAppend: nodes that are added are of the types that their ids say, several at once; a type that the store lacks is refused.
func TestTableFolderAppend(t *testing.T) {
	graph, _ := storetest.Typed(t)
	tables := tabled(t, graph)
	dir := ingesttest.Store(t, tables, ingest.Options{Partitions: 3})
	before := content(t, openStore(t, dir, 0))
	text, err := os.ReadFile(filepath.Join(tables, "nodes", "paper.csv"))
	if err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(string(text), "\n")
	feat := strings.Repeat(",1", strings.Count(header, "feat."))
	more := func(files map[string]string) (ingest.Source, error) {
		in := t.TempDir()
		for name, text := range files {
			path := filepath.Join(in, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		o := formats.Options{}
		o.Text.Like = openStore(t, dir, 0).Manifest()
		return formats.Open(in, o)
	}
	paper := header + "\n9000,1,train" + feat + "\n9001,0,test" + feat + "\n"
	src, err := more(map[string]string{"nodes/paper.csv": paper, "edges/paper-cites-paper.csv": "src,dst,weight\n9000,3,.5\n", "edges/author-writes-paper.csv": "src,dst\na9000,9001\n"})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	rep, err := grow.Append(t.Context(), dir, src, grow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, 0)
	m := s.Manifest()
	counts := map[string]uint64{}
	for _, n := range m.Schema.NodeTypes {
		counts[n.Name] = n.Count
	}
	if !maps.Equal(counts, map[string]uint64{"author": 151, "paper": 242, "venue": 20}) || rep.NewNodes != 3 || rep.EdgesAdded != 2 {
		t.Errorf("%v nodes by type, %d new, %d edges added", counts, rep.NewNodes, rep.EdgesAdded)
	}
	grown := keeps(t, s, before)
	named := byName(t, s, grown)
	for _, id := range []string{"paper:9000", "paper:9001", "author:a9000"} {
		kind, _, _ := strings.Cut(id, ":")
		if !slices.ContainsFunc(named, func(line string) bool {
			return strings.HasPrefix(line, "node "+id+" ") && strings.Contains(line, " type="+kind)
		}) {
			t.Errorf("there is no node %s of its type", id)
		}
	}
	move(t, s, dir, 4, 7)
	checkTyped(t, dir, grown)
	for want, files := range map[string]map[string]string{
		`"paper:3" is in the store`: {"edges/author-writes-paper.csv": "src,dst\na1,2\n", "nodes/paper.csv": header + "\n3,1,train" + feat + "\n"}, // though no node is new
		"append adds no type":       {"edges/author-likes-shop.csv": "src,dst\na1,2\n", "nodes/shop.csv": "id,size\n1,2\n"},
		"is not one of the store":   {"edges/author-writes-paper.csv": "src,dst,stars\na1,2,5\n"},
		"is in the store":           {"edges/author-writes-paper.csv": "src,dst\na1,2\na9001,2\n", "nodes/paper.csv": header + "\n3,1,train" + feat + "\n"},
	} {
		src, err := more(files)
		if err == nil {
			_, err = grow.Append(t.Context(), dir, src, grow.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}
