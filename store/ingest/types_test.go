package ingest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/internal/meta"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file in testdata")

// runsOf lists a store's columns of one type, with the rows that are stored of them.
func runsOf(m *store.Manifest) (out []string) {
	for i := range m.Columns {
		c := &m.Columns[i]
		rows := uint64(0)
		for p := range m.Partitions {
			if r := m.NodeRows(c, store.PartitionID(p)); c.Runs {
				rows += r.Rows
			}
		}
		if c.Runs {
			out = append(out, fmt.Sprint(c.Name, " ", rows, " ", c.NodeType))
		}
	}
	return out
}

// format is what the metadata say; a build of format 1 refuses all but "1".
func format(t *testing.T, dir string) string {
	t.Helper()
	db, err := meta.Open(t.Context(), meta.NewEnv(dir, nil, 0), false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // test
	b, _, err := db.Get([]byte(meta.KeyFormat))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkTyped compares a store with what it held, verifies it, and reads every column's rows one by one too.
func checkTyped(t *testing.T, dir string, want []string) *store.Store {
	t.Helper()
	s := openStore(t, dir, 0)
	m := s.Manifest()
	if got := content(t, s); want != nil && !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("%d and %d items; first difference:\n%s\n%s", len(got), len(want), got[i], want[i])
			}
		}
		t.Fatalf("%d items, expected %d", len(got), len(want))
	}
	var nodes []store.NodeID
	for v := range store.NodeID(m.Nodes) {
		nodes = append(nodes, store.NodeID(m.Nodes)-1-v)
	}
	for _, c := range m.Columns {
		if c.Role.OnEdges() {
			continue
		}
		rows, err := s.Features(t.Context(), c.Name, nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		for p, part := range m.Partitions {
			b, err := s.ReadColumn(t.Context(), c.Name, store.PartitionID(p), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := 0, c.RowBytes(); i < int(part.Nodes); i++ {
				at := (int(m.Nodes) - 1 - int(part.First) - i) * w
				if !bytes.Equal(rows[at:at+w], b[i*w:(i+1)*w]) {
					t.Fatalf("column %s, partition %d, row %d: %x alone, %x of the column", c.Name, p, i, rows[at:at+w], b[i*w:(i+1)*w])
				}
			}
		}
	}
	r, err := verify.Store(t.Context(), dir, verify.Options{Engine: "pread"})
	if err != nil || len(r.Damage) > 0 {
		t.Fatalf("verify: %v, %v", err, r.Damage)
	}
	return s
}

// move gives a store's nodes new partitions at random, with hubs.
func move(t *testing.T, s *store.Store, dir string, partitions int, seed uint64) {
	t.Helper()
	part := partitioner.Materialize(must(partitioner.NewRandom(s.Manifest().Nodes, partitions, seed))).Part()
	for v := range part {
		if v%40 == 0 {
			part[v] = store.PartitionID(partitions)
		}
	}
	a, err := partitioner.NewAssignment(part, partitions+1, store.PartitionID(partitions))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repartition.Run(context.Background(), s, a, ingest.Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestTypesOwnRows: a store of format 1 becomes one of format 2 when it is moved, an ingest makes one at once, and what they hold stays the
// same, in whatever partitions, after nodes were appended too.
func TestTypesOwnRows(t *testing.T) {
	graph, dir := storetest.Typed(t)
	if f := format(t, dir); f != "1" {
		t.Fatalf("the frozen store has format %q", f)
	}
	s := checkTyped(t, dir, nil)
	want := content(t, s)
	if r := runsOf(s.Manifest()); r != nil {
		t.Errorf("format 1 has columns of one type: %q", r)
	}
	// node_type follows from the others, and has no file.
	runs := []string{"paper.feat 240 paper", "label 240 paper", "venue.feat 20 venue", "node_type 0 ", "author.node 150 author", "split 240 paper"}
	size := s.Manifest().Bytes()
	for k, partitions := range []int{5, 2, 7} { // format 1 to 2, and on
		move(t, s, dir, partitions, uint64(k))
		s = checkTyped(t, dir, want)
		if got := runsOf(s.Manifest()); !slices.Equal(got, runs) || format(t, dir) != "2" {
			t.Errorf("format %q, rows of one type %q, expected %q", format(t, dir), got, runs)
		}
	}
	src, err := formats.Open(graph, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	dir = filepath.Join(t.TempDir(), "fresh")
	rep, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s = checkTyped(t, dir, want)
	if got := runsOf(s.Manifest()); !slices.Equal(got, runs) || rep.Manifest.Bytes() >= size {
		t.Errorf("rows of one type %q, expected %q; %d bytes, of format 1 %d", got, runs, rep.Manifest.Bytes(), size)
	}
	// Nodes whose type the source does not say: the schema counts them to the last type, node_type says 0.
	text := "src\tdst\trelation\tweight\n410\t0\tpaper:cites:paper\t2\n411\t410\tpaper:cites:paper\t3\n"
	if _, err := grow.Append(t.Context(), dir, openText(t, text, store.IDsDense), grow.Options{}); err != nil {
		t.Fatal(err)
	}
	grown := keeps(t, checkTyped(t, dir, nil), want)
	move(t, openStore(t, dir, 0), dir, 3, 9)
	s = checkTyped(t, dir, grown)
	if got := runsOf(s.Manifest()); slices.Contains(got, "node_type 0 ") || !slices.Contains(got, "paper.feat 240 paper") {
		t.Errorf("rows of one type %q, expected those of papers and none that follow from types, which two nodes have none of", got)
	}
}

// TestTypesWithoutNodes: a partition without nodes has rows of no type, and every column of it can be read.
func TestTypesWithoutNodes(t *testing.T) {
	_, dir := storetest.Typed(t)
	s := checkTyped(t, dir, nil)
	want := content(t, s)
	a, err := partitioner.NewAssignment(make([]store.PartitionID, s.Manifest().Nodes), 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repartition.Run(t.Context(), s, a, ingest.Options{}); err != nil {
		t.Fatal(err)
	}
	checkTyped(t, dir, want)
}

// keeps fails unless a store that was appended to has the nodes that it had, and returns what it has.
func keeps(t *testing.T, s *store.Store, nodes []string) []string {
	t.Helper()
	grown := content(t, s)
	for _, line := range nodes {
		if strings.HasPrefix(line, "node ") && !slices.Contains(grown, line) {
			t.Errorf("after an append there is no %s", line)
		}
	}
	return grown
}

// TestTypesDamage: a manifest that divides partitions otherwise than the files do is refused, and verify finds a changed byte in the rows of one type.
func TestTypesDamage(t *testing.T) {
	_, dir := storetest.Typed(t)
	move(t, openStore(t, dir, 0), dir, 3, 2)
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := w.Base().Clone()
	a, b := m.Partitions[0].Types, m.Partitions[1].Types // the same number of each type in all
	a[0], a[1], b[0], b[1] = a[0]+1, a[1]-1, b[0]-1, b[1]+1
	if err := w.Commit(t.Context(), m); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "rows, the manifest says") {
		t.Errorf("types that are not those of the files: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	m = openStore(t, dir, 0).Manifest()
	for _, c := range m.Columns {
		if !c.Runs || len(c.Files) == 0 {
			continue
		}
		path := filepath.Join(dir, "data", c.Files[0])
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := bytes.Clone(whole)
		damaged[blocks.HeaderBytes] ^= 1
		if err := os.WriteFile(path, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := verify.Store(t.Context(), dir, verify.Options{Engine: "pread"})
		if err != nil || len(r.Damage) == 0 || !strings.Contains(r.Damage[0].Error(), c.Files[0]) {
			t.Errorf("a changed byte of %s: %v, %v", c.Name, err, r.Damage)
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCodedWeights: weights of few values are stored as their numbers and read as they were given, whatever reads them; what is appended
// stands beside them as it is.
func TestCodedWeights(t *testing.T) {
	graph, old := storetest.Typed(t)
	weight := regexp.MustCompile(" weight/weight=([0-9a-f]+)")
	want := content(t, openStore(t, old, 0)) // with other weights
	for i, line := range want {
		want[i] = weight.ReplaceAllStringFunc(line, func(s string) string {
			b, err := hex.DecodeString(weight.FindStringSubmatch(s)[1])
			if err != nil {
				t.Fatal(err)
			}
			w := storetest.Quarter(math.Float32frombits(binary.LittleEndian.Uint32(b)))
			return fmt.Sprintf(" weight/weight=%x", binary.LittleEndian.AppendUint32(nil, math.Float32bits(w)))
		})
	}
	slices.Sort(want)
	storetest.Quarters(t, graph)
	src, err := formats.Open(graph, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	dir := filepath.Join(t.TempDir(), "s")
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	coded := func(s *store.Store) (extents int) {
		c, err := s.Manifest().Column("weight")
		if err != nil || !slices.Equal(c.Values, []float32{.5, .75, 1, 1.25, 1.5, 1.75, 2}) {
			t.Fatalf("%v, values %v", err, c.Values)
		}
		for p := range s.Manifest().Partitions {
			f, e, err := s.Files().Column("weight", store.PartitionID(p))
			if err != nil {
				t.Fatal(err)
			}
			if c.Coded(f) {
				if extents++; e.Length != int64(e.Rows) {
					t.Errorf("%d codes in %d bytes", e.Rows, e.Length)
				}
			}
		}
		return extents
	}
	s := checkTyped(t, dir, want)
	if n := coded(s); n != 4 {
		t.Errorf("%d of 4 extents hold codes", n)
	}
	move(t, s, dir, 6, 3)
	if s = checkTyped(t, dir, want); coded(s) != 7 {
		t.Errorf("moved: %d of 7 extents hold codes", coded(s))
	}
	text := "src\tdst\trelation\tweight\n410\t170\tpaper:cites:paper\t.3\n"
	if _, err := grow.Append(t.Context(), dir, openText(t, text, store.IDsDense), grow.Options{}); err != nil {
		t.Fatal(err)
	}
	s = checkTyped(t, dir, nil)
	grown := content(t, s)
	for _, line := range want {
		if !slices.Contains(grown, line) {
			t.Errorf("after an append there is no %s", line)
		}
	}
	if n := coded(s); n != 6 || len(grown) != len(want)+2 {
		t.Errorf("%d extents hold codes, expected 6 of 8: the one with the new edge and the new one have weights; %d items, before %d", n, len(grown), len(want))
	}
	// A manifest of fewer values than codes.
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := w.Base().Clone()
	c, err := m.Column("weight")
	if err != nil {
		t.Fatal(err)
	}
	c.Values = c.Values[:3]
	if err := errors.Join(w.Commit(t.Context(), m), w.Close()); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for p := range m.Partitions {
		if _, err := openStore(t, dir, 0).ReadColumn(t.Context(), "weight", store.PartitionID(p), nil); errors.Is(err, store.ErrCorrupt) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != 6 {
		t.Errorf("%d partitions with codes without values are refused, expected 6", refused)
	}
	if r, err := verify.Store(t.Context(), dir, verify.Options{Engine: "pread"}); err != nil || len(r.Damage) != 6 || !strings.Contains(r.Damage[0].Error(), "expected one of 3 values") {
		t.Errorf("verify of codes without values: %v, %v", err, r.Damage)
	}
}

// TestTypedLayout: what a graph of several types becomes, manifest and the size and checksum of each file, as the golden file has it.
func TestTypedLayout(t *testing.T) {
	src, err := formats.Open(typedGraph(t), formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	dir := filepath.Join(t.TempDir(), "s")
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 2, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	m := openStore(t, dir, 0).Manifest().Clone()
	m.Created, m.Ingest = time.Time{}, nil
	got, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", "typed.json")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what this build writes; if the format was meant to change, run with -rewrite\n%s", path, got)
	}
}

// typedGraph is the graph of several types whose weights become codes.
func typedGraph(t *testing.T) string {
	t.Helper()
	graph, _ := storetest.Typed(t)
	storetest.Quarters(t, graph)
	return graph
}
