package training_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// ringKG is a graph of three relations between 240 nodes in a ring, some edges of which are lists, and what comes later: more of these edges,
// and nodes of which one has a single edge, and one an edge of a relation that is new.
func ringKG(t *testing.T) (dir, more string) {
	t.Helper()
	const nodes = 240
	text := map[string]*strings.Builder{}
	for _, name := range []string{"train.txt", "valid.txt", "test.txt", "more.tsv"} {
		text[name] = &strings.Builder{}
	}
	for i := range nodes {
		for k := range 3 {
			name := "train.txt"
			switch (i*3 + k) % 29 {
			case 3:
				name = "valid.txt"
			case 5:
				name = "test.txt"
			case 7, 11, 13:
				name = "more.tsv"
			}
			fmt.Fprintf(text[name], "e%d\tr%d\te%d\n", i, k, (i+k*k*7+1)%nodes)
		}
	}
	fmt.Fprintf(text["more.tsv"], "new0\tr1\te5\ne7\tr2\tnew1\nnew1\tr0\te9\nnew2\tr3\te3\nnew3\tr0\tnew2\n")
	files := map[string][]byte{}
	for name, b := range text {
		files[name] = []byte(b.String())
	}
	in := clitest.Put(t, t.TempDir(), files)
	dir = filepath.Join(t.TempDir(), "ring.gstore")
	clitest.MustRun(t, "ingest", in, dir, "--format", "triples", "--partitions", "6", "--quiet")
	return dir, filepath.Join(in, "more.tsv")
}

// trained is what a table of the newest version holds.
type trained struct {
	rows      map[string][]float32 // by external id
	relations []float32
	config    link.Config
}

// readTrained reads a table of the newest version.
func readTrained(t *testing.T, dir, name string) *trained {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	tab, err := table.Open(t.Context(), st, table.Options{Name: name, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close() //nolint:errcheck // test
	run, err := link.Load(t.Context(), tab)
	if err != nil {
		t.Fatal(err)
	}
	model, err := run.Config.LinkModel(st.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	x := &trained{rows: map[string][]float32{}, config: run.Config}
	if x.relations, err = model.RelationVectors(run.Model); err != nil {
		t.Fatal(err)
	}
	for p, info := range st.Manifest().Partitions {
		ids, _, err := st.ReadExternal(t.Context(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		b := blocks.Bytes(make([]float32, int(info.Nodes)*tab.Dim()))
		if err := tab.ReadRows(t.Context(), store.PartitionID(p), 0, b); err != nil {
			t.Fatal(err)
		}
		v, err := blocks.View[float32](b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(info.Nodes) {
			x.rows[string(ids.Append(nil, i))] = v[i*tab.Dim():][:tab.Dim()]
		}
	}
	return x
}

// near reports whether numbers are the same but for steps of nothing.
func near(a, b []float32) bool {
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-6 {
			return false
		}
	}
	return len(a) == len(b)
}

// TestFromLinks: a run of links begins with a table, on the same version, after an append of nodes and a relation, out of core and once the
// store is partitioned anew: half of its rows, and its relations, are what the run begins with, a new node's are what its edges ask for. Which table it is, its options
// and the name of the new one need not be said; the new one is then asked.
func TestFromLinks(t *testing.T) {
	dir, more := ringKG(t)
	train := func(more ...string) []map[string]any {
		return clitest.Events(t, append([]string{"train", dir, "--threads", "1"}, more...)...)
	}
	train("--model", "transe", "--dim", "12", "--lr", ".2", "--epochs", "30", "--batch-size", "100", "--negatives", "50", "--seed", "3")
	old := readTrained(t, dir, "embeddings")
	valid := func(events []map[string]any) float64 { return events[len(events)-1]["valid_mrr"].(float64) }
	mrr := valid(train("--from", "embeddings", "--epochs", "1", "--lr", "1e-30"))
	same := readTrained(t, dir, "embeddings-v1")
	if c := same.config; c.Model != "transe" || c.Dim != 12 || c.BatchSize != 100 || c.Negatives != 50 || c.From != "embeddings" || c.Seed != 0 || c.LRDecay != 1 {
		t.Errorf("begins as %+v", c)
	}
	for _, row := range old.rows { // which a new run takes half of
		for j := range row {
			row[j] /= 2
		}
	}
	if !near(same.relations, old.relations) || !near(same.rows["e17"], old.rows["e17"]) {
		t.Error("on the same version rows or relations have changed")
	}

	clitest.MustRun(t, "append", dir, more, "--new-nodes", "ok", "--quiet")
	check := func(name string, grows bool) {
		t.Helper()
		x := readTrained(t, dir, name)
		for id, row := range old.rows {
			if !near(x.rows[id], row) {
				t.Errorf("%s: node %s has changed", name, id)
			}
		}
		half, n := len(old.relations)/2, len(x.relations)/2
		if n != half+12 || !near(x.relations[:half], old.relations[:half]) || !near(x.relations[n:n+half], old.relations[half:]) {
			t.Errorf("%s: relations have changed", name)
		}
		small := func(id string) bool {
			for _, v := range x.rows[id] {
				if math.Abs(float64(v)) > .01 {
					return false
				}
			}
			return len(x.rows[id]) == 12
		}
		if !small("new2") || !small("new3") {
			t.Errorf("%s: nodes without an edge that says something do not begin as in a new run", name)
		}
		ask := func(sum []float32, end string, relation int) {
			for j, v := range old.rows[end] {
				sum[j] += v + old.relations[relation*12+j]
			}
		}
		zero, one := make([]float32, 12), make([]float32, 12)
		ask(zero, "e5", 3+1) // the head of relation 1
		ask(one, "e7", 2)
		ask(one, "e9", 3+0)
		for j := range one {
			one[j] /= 2
		}
		if grows && (!near(x.rows["new0"], zero) || !near(x.rows["new1"], one)) || !grows && !(small("new0") && small("new1")) {
			t.Errorf("%s: new nodes begin with %v and %v", name, x.rows["new0"], x.rows["new1"])
		}
	}
	train("--from", "best", "--epochs", "1", "--lr", "1e-30")
	check("embeddings-v2", true)
	train("--from", "1", "--epochs", "1", "--lr", "1e-30", "--plan", "comet", "--buffer", "4", "--table", "comet", "--optimizer", "adam")
	check("comet", true)
	clitest.MustRun(t, "plan", dir, "--from", "embeddings", "--measure", "0")

	// By default it learns what came, in fewer epochs than a new run.
	events := train("--from", "embeddings", "--overwrite")
	if got := valid(events); len(clitest.Losses(events)) != 16 || got < mrr-.05 {
		t.Errorf("%d epochs from validation MRR %v to %v", len(clitest.Losses(events)), mrr, got)
	}
	clitest.MustRun(t, "drop", dir, "--table", "comet", "--quiet")
	if _, out, _ := clitest.Run(t, "predict", dir, "new0", "r1", "?", "--top", "3"); !strings.Contains(out, "e5") {
		t.Errorf("new0 r1: %s", out)
	}
	clitest.MustRun(t, "partition", dir, "--partitions", "5", "--quiet")
	train("--from", "embeddings", "--epochs", "1", "--lr", "1e-30")
	check("embeddings-v3", false)

	for _, c := range []struct{ args, says string }{
		{"--from embeddings-v3 --table embeddings-v3", "--table NAME"}, {"--from embeddings --table z --dim 16", "leave out options of the model"},
		{"--from embeddings --table z --model rotate --encoder sage", "leave out options of the model"}, {"--from nosuch", "nosuch"},
		{"--from 99 --table z", "99"}, {"--from embeddings", "--overwrite"}, {"--from 2 --table z --features x", "no features"},
	} {
		code, _, errs := clitest.Run(t, append([]string{"train", dir, "--epochs", "1"}, strings.Fields(c.args)...)...)
		if code == cli.ExitOK || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s, expected %q", c.args, code, errs, c.says)
		}
	}
	// What was given as a run began need not be given to resume it, nor need the table be there that it began with.
	train("--from", "embeddings-v3", "--table", "next", "--epochs", "1", "--lr", ".05")
	clitest.MustRun(t, "drop", dir, "--table", "embeddings-v3", "--quiet")
	train("--from", "embeddings-v3", "--table", "next", "--resume")
	if c := readTrained(t, dir, "next").config; c.LR != .05 || c.From != "embeddings-v3" {
		t.Errorf("resumed as %+v", c)
	}
}
