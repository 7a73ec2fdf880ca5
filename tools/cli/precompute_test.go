package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
)

// columnByExternal returns a float32 column's rows by dense external id.
func columnByExternal(t *testing.T, dir, name string) map[uint64]string {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	c, err := st.Manifest().Column(name)
	if err != nil {
		t.Fatal(err)
	}
	if c.Role != store.RoleFeature {
		t.Errorf("column %s has role %s, expected %s", name, c.Role, store.RoleFeature)
	}
	rows := map[uint64]string{}
	for p := range st.Manifest().Partitions {
		ids, _, err := st.ReadExternal(t.Context(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := st.ReadColumn(t.Context(), name, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range ids.Ints {
			rows[x] = string(b[i*c.RowBytes() : (i+1)*c.RowBytes()])
		}
	}
	return rows
}

// TestPrecomputedHopMoves: the hop that ingest adds is the one of gstore precompute,
// and gstore partition carries it over, node by node.
func TestPrecomputedHopMoves(t *testing.T) {
	dir := t.TempDir()
	in, out, later := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "later")
	mustRun(t, "generate", "sbm", in, "--nodes", "2000", "--edges", "12000", "--classes", "5", "--features", "4", "--quiet")
	mustRun(t, "ingest", in, out, "--undirected", "--partitions", "8", "--precompute-hops", "1", "--quiet")
	mustRun(t, "ingest", in, later, "--undirected", "--partitions", "8", "--quiet")
	mustRun(t, "precompute", later)
	want := columnByExternal(t, out, "x.hop1")
	if len(want) != 2000 {
		t.Fatalf("%d rows, expected 2000", len(want))
	}
	mustRun(t, "partition", out, "--partitions", "6", "--hubs", "0.02")
	for name, got := range map[string]map[uint64]string{"made later": columnByExternal(t, later, "x.hop1"), "after partition": columnByExternal(t, out, "x.hop1")} {
		for v, row := range want {
			if got[v] != row {
				t.Fatalf("%s: node %d has another mean", name, v)
			}
		}
	}
	if x := columnByExternal(t, out, "x"); x[7] == want[7] {
		t.Error("the mean is the feature itself")
	}
	mustRun(t, "train", out, "--precomputed-hop", "--history", "--split", "split", "--plan", "hanoi", "--buffer", "2", "--epochs", "1", "--hidden", "8")

	var stdout, errs bytes.Buffer
	if code := Run(context.Background(), []string{"ingest", in, filepath.Join(dir, "x"), "--precompute-hops", "2"}, strings.NewReader(""), &stdout, &errs); code != ExitUsage {
		t.Errorf("--precompute-hops 2: exit %d, expected a usage error: %s", code, errs.String())
	}
}
