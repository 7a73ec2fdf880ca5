package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/internal/meta"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

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
	if _, err := ingest.Repartition(context.Background(), s, a, ingest.Options{}); err != nil {
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
	runs := []string{"paper.feat 240 paper", "label 240 paper", "venue.feat 20 venue", "author.node 150 author", "split 240 paper"}
	bytes := s.Manifest().Bytes()
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
	if got := runsOf(s.Manifest()); !slices.Equal(got, runs) || rep.Manifest.Bytes() >= bytes {
		t.Errorf("rows of one type %q, expected %q; %d bytes, of format 1 %d", got, runs, rep.Manifest.Bytes(), bytes)
	}
	text := "src\tdst\trelation\tweight\n410\t0\tpaper:cites:paper\t2\n411\t410\tpaper:cites:paper\t3\n"
	if _, err := ingest.Append(t.Context(), dir, openText(t, text, store.IDsDense), ingest.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	s = checkTyped(t, dir, nil)
	grown := content(t, s)
	for _, line := range want {
		if strings.HasPrefix(line, "node ") && !slices.Contains(grown, line) {
			t.Errorf("after an append there is no %s", line)
		}
	}
	move(t, s, dir, 3, 9)
	checkTyped(t, dir, grown)
}
