package data_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// columnByExternal returns a feature column's rows by dense external id.
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
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "2000", "--edges", "12000", "--classes", "5", "--features", "4", "--quiet")
	clitest.MustRun(t, "ingest", in, out, "--undirected", "--partitions", "8", "--precompute-hops", "1", "--quiet")
	clitest.MustRun(t, "ingest", in, later, "--undirected", "--partitions", "8", "--quiet")
	clitest.MustRun(t, "precompute", later)
	want := columnByExternal(t, out, "x.hop1")
	if len(want) != 2000 {
		t.Fatalf("%d rows, expected 2000", len(want))
	}
	clitest.MustRun(t, "partition", out, "--partitions", "6", "--hubs", "0.02")
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
	clitest.MustRun(t, "train", out, "--precomputed-hop", "--history", "--split", "split", "--plan", "hanoi", "--buffer", "2", "--epochs", "1", "--hidden", "8")

	var stdout, errs bytes.Buffer
	if code := cli.Run(context.Background(), []string{"ingest", in, filepath.Join(dir, "x"), "--precompute-hops", "2"}, strings.NewReader(""), &stdout, &errs); code != cli.ExitUsage {
		t.Errorf("--precompute-hops 2: exit %d, expected a usage error: %s", code, errs.String())
	}
}

// TestPrecomputedHopDtype: a hop of 16-bit elements is the float32 one rounded, element by element; it
// replaces the column that was there and its file, the default is the feature's own type, and a store
// with 16-bit features and hop trains to nearly the same losses.
func TestPrecomputedHopDtype(t *testing.T) {
	dir := t.TempDir()
	in, out, half := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "half")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "2000", "--edges", "12000", "--classes", "5", "--features", "4", "--quiet")
	clitest.MustRun(t, "ingest", in, out, "--undirected", "--partitions", "8", "--precompute-hops", "1", "--quiet")
	exact := columnByExternal(t, out, "x.hop1")
	train := func(store string) []float64 {
		return clitest.Losses(clitest.Events(t, "train", store, "--precomputed-hop", "--epochs", "3", "--hidden", "16", "--plan", "hanoi", "--buffer", "3"))
	}
	want := train(out)
	for dtype, encode := range map[string]func(float32) uint16{"float16": blocks.Float16Bits, "bfloat16": blocks.BFloat16Bits} {
		clitest.MustRun(t, "precompute", out, "--dtype", dtype)
		rows := columnByExternal(t, out, "x.hop1")
		for v, row := range exact {
			for i := 0; i < len(row); i += 4 {
				rounded := encode(math.Float32frombits(binary.LittleEndian.Uint32([]byte(row[i:]))))
				if got := binary.LittleEndian.Uint16([]byte(rows[v][i/2:])); got != rounded {
					t.Fatalf("%s: node %d, column %d is %04x, expected %04x", dtype, v, i/4, got, rounded)
				}
			}
		}
		for e, loss := range train(out) {
			if math.Abs(loss-want[e]) > .01*want[e] {
				t.Errorf("%s, epoch %d: loss %v, with float32 %v", dtype, e+1, loss, want[e])
			}
		}
	}
	clitest.MustRun(t, "verify", out)
	if files, err := filepath.Glob(filepath.Join(out, "data", "*x.hop1*")); err != nil || len(files) != 1 {
		t.Errorf("files of the hop: %v, %v; expected one, the last made", files, err)
	}

	clitest.MustRun(t, "ingest", in, half, "--undirected", "--partitions", "8", "--feature-dtype", "float16", "--precompute-hops", "1", "--quiet")
	if row := columnByExternal(t, half, "x.hop1")[0]; len(row) != 8 {
		t.Errorf("a hop of float16 features has rows of %d bytes, expected 8", len(row))
	}
	for e, loss := range train(half) {
		if math.Abs(loss-want[e]) > .01*want[e] {
			t.Errorf("float16, epoch %d: loss %v, with float32 %v", e+1, loss, want[e])
		}
	}
	// What the flags of gcn's sum make is read out of core unasked, in place of the features; sage's mean is not.
	gcn := []string{"train", half, "--model", "gcn", "--epochs", "1", "--hidden", "8", "--plan", "hanoi", "--buffer", "3", "--explain"}
	if _, out, _ := clitest.Run(t, gcn...); strings.Contains(out, "reads x.hop1") {
		t.Errorf("without gcn's sum: %s", out)
	}
	clitest.MustRun(t, "precompute", half, "--model", "gcn")
	if _, out, _ := clitest.Run(t, gcn...); !strings.Contains(out, "reads x.hop1.gcn, which") || !strings.Contains(out, "history holds") {
		t.Errorf("with gcn's sum: %s", out)
	}
	for _, args := range [][]string{
		{"precompute", out, "--dtype", "int8"},
		{"ingest", in, filepath.Join(dir, "x"), "--precompute-hops", "1", "--precompute-dtype", "half"},
	} {
		var stdout, errs bytes.Buffer
		if code := cli.Run(context.Background(), args, strings.NewReader(""), &stdout, &errs); code != cli.ExitUsage {
			t.Errorf("%v: exit %d, expected a usage error: %s", args, code, errs.String())
		}
	}
}

// TestPrecomputedHopIsCheckedFirst: a feature that is not there or has no mean, and flags without a hop, are refused before
// anything is written, and a copy of standard input does not stay.
func TestPrecomputedHopIsCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "500", "--edges", "2000", "--classes", "3", "--features", "2", "--quiet")
	for i, c := range []struct {
		input string
		args  []string
		want  string
	}{
		{in, []string{"--precompute-hops", "1", "--precompute-feature", "y"}, `--precompute-feature y: the input's features are ["x"]`},
		{in, []string{"--precompute-hops", "1", "--precompute-feature", "label"}, `the input's features are ["x"]`},
		{in, []string{"--precompute-hops", "1", "--feature-dtype", "float64"}, "feature x holds float64"},
		{in, []string{"--precompute-feature", "x"}, "--precompute-feature says nothing without --precompute-hops"},
		{in, []string{"--precompute-dtype", "float16"}, "--precompute-dtype says nothing without --precompute-hops"},
		{"-", []string{"--precompute-hops", "1"}, "the input's features are []"},
		{"-", []string{"--hubs", "train"}, "split"},
	} {
		out := filepath.Join(dir, fmt.Sprint("out", i))
		var stdout, errs bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"ingest", c.input, out}, c.args...), strings.NewReader("0 1\n1 2\n"), &stdout, &errs)
		left, err := filepath.Glob(out + "*")
		if code != cli.ExitUsage || !strings.Contains(errs.String(), c.want) || err != nil || len(left) > 0 {
			t.Errorf("%v: exit code %d, %q is left (%v): %s", c.args, code, left, err, errs.String())
		}
	}
}

// TestPrecomputeUnlabelled: a mean over neighbours needs no labels and no split. A budget too small for it is refused
// with the smallest that works, which does and is kept.
func TestPrecomputeUnlabelled(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	in, dir := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "store")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "100k", "--edges", "200k", "--features", "64", "--quiet")
	for _, name := range []string{"node_label.npy", "split"} {
		if err := os.RemoveAll(filepath.Join(in, name)); err != nil {
			t.Fatal(err)
		}
	}
	clitest.MustRun(t, "ingest", in, dir, "--undirected", "--partitions", "4", "--quiet")
	sum, _, err := clitest.Child(t, "precompute", dir, "--mem", "20MiB", "--json")
	said, least := fmt.Sprint(sum["message"]), 0
	if _, scanErr := fmt.Sscanf(said[max(0, strings.Index(said, "works is")):], "works is %dMiB", &least); err == nil || scanErr != nil {
		t.Fatalf("20 MiB: %q (%v), expected a refusal that names the smallest budget", said, err)
	}
	if _, _, err = clitest.Child(t, "precompute", dir, "--mem", fmt.Sprintf("%dMiB", least-1), "--json"); err == nil {
		t.Errorf("%d MiB do, %d were named as the smallest", least-1, least)
	}
	sum, _, err = clitest.Child(t, "precompute", dir, "--mem", fmt.Sprintf("%dMiB", least), "--json")
	if err != nil {
		t.Fatalf("%d MiB, which was named: %v", least, sum)
	}
	if peak := sum["peak_rss_bytes"].(float64); peak > float64(least<<20) {
		t.Errorf("a peak of %.1f MiB within %d MiB", peak/(1<<20), least)
	}
}

// TestPrecomputeEachRelation: of a store of several node types the means by each relation are made, told, read by rsage and not taken for
// features; the model is evaluated by all neighbours, whether the store has the means or not.
func TestPrecomputeEachRelation(t *testing.T) {
	last := func(events []map[string]any) map[string]any { return events[len(events)-1] }
	graph, _ := storetest.Typed(t)
	dir, bare := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "bare")
	for _, d := range []string{dir, bare} {
		clitest.MustRun(t, "ingest", graph, d, "--partitions", "4", "--quiet")
	}
	both := filepath.Join(t.TempDir(), "both")
	clitest.MustRun(t, "ingest", graph, both, "--partitions", "4", "--quiet", "--precompute-hops", "1", "--precompute-each-relation", "--precompute-dtype", "float16")
	if _, again, _ := clitest.Run(t, "precompute", both, "--each-relation"); !strings.Contains(again, "paper.feat.hop1.cites") {
		t.Errorf("ingest made no means: %s", again)
	}
	if files, err := filepath.Glob(filepath.Join(both, "data", "column-*.hop1.*-000002.gsb")); err != nil || len(files) != 5 {
		t.Errorf("means that ingest made: %q, %v", files, err)
	}
	if code, _, stderr := clitest.Run(t, "ingest", "-", filepath.Join(t.TempDir(), "x"), "--format", "edgelist", "--precompute-each-relation"); code != cli.ExitUsage {
		t.Errorf("exit code %d without a hop: %s", code, stderr)
	}
	columns := fmt.Sprint(last(clitest.Events(t, "precompute", dir, "--each-relation", "--dtype", "float16"))["columns"])
	for _, name := range []string{"paper.feat.hop1.cites", "paper.feat.hop1.cites.inverse", "venue.feat.hop1.prints"} {
		if !strings.Contains(columns+" ", name+" ") && !strings.Contains(columns, name+"]") {
			t.Errorf("columns %s, expected %s among them", columns, name)
		}
	}
	train := []string{"--model", "rsage", "--hidden", "8", "--epochs", "2", "--seed", "1"}
	plain := clitest.Losses(clitest.Events(t, append([]string{"train", bare}, train...)...))
	if got := clitest.Losses(clitest.Events(t, append([]string{"train", dir, "--absent", "ignore"}, train...)...)); !slices.Equal(got, plain) {
		t.Errorf("losses %v of a store with means that nobody asked for, %v without", got, plain)
	}
	hops := clitest.Events(t, append([]string{"train", dir, "--precomputed-hop"}, train...)...)
	if got := clitest.Losses(clitest.Events(t, append([]string{"train", dir}, train...)...)); !slices.Equal(got, clitest.Losses(hops)) {
		t.Errorf("losses %v of a run that reads the means unasked, %v of one that was asked to", got, clitest.Losses(hops))
	}
	if got := clitest.Losses(hops); slices.Equal(got, plain) {
		t.Errorf("losses %v with and without means", got)
	}
	want := last(hops)["test_accuracy"]
	if got := last(clitest.Events(t, "eval", dir))["test_accuracy"]; got != want {
		t.Errorf("eval: test accuracy %v, of the run %v", got, want)
	}
	if code, _, stderr := clitest.Run(t, append([]string{"train", bare, "--precomputed-hop"}, train...)...); code == cli.ExitOK || !strings.Contains(stderr, "--each-relation") {
		t.Errorf("exit code %d without means: %s", code, stderr)
	}
}

// TestPrecomputeRange: means of int8 features whose terms no float16 holds are stored as float32 unasked, and what was asked for and does
// not hold them is refused, with what does.
func TestPrecomputeRange(t *testing.T) {
	dir := t.TempDir()
	clitest.MustRun(t, "generate", "sbm", filepath.Join(dir, "in"), "--nodes", "50", "--edges", "200", "--classes", "3", "--features", "2", "--quiet")
	file := filepath.Join(dir, "in", "node_feat.npy")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b[len(b)-8:], math.Float32bits(1e9)) // the last node's first feature
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "s")
	clitest.MustRun(t, "ingest", filepath.Join(dir, "in"), out, "--feature-dtype", "int8", "--self-loops", "add", "--quiet")
	code, _, says := clitest.Run(t, "precompute", out, "--dtype", "float16")
	if code == cli.ExitOK || !strings.Contains(says, "does not fit float16; --dtype float32 holds it") {
		t.Fatalf("exit code %d: %s", code, says)
	}
	clitest.MustRun(t, "precompute", out, "--quiet")
	for id, row := range columnByExternal(t, out, "x.hop1") {
		if len(row) != 8 {
			t.Fatalf("node %d has a row of %d bytes, expected two float32", id, len(row))
		}
	}
}
