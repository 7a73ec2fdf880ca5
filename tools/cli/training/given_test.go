package training_test

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestGivenNegatives: edges of a GraphBolt data set that has negatives for them are ranked against these by train and eval, which say so,
// and with --against all against all nodes.
func TestGivenNegatives(t *testing.T) {
	const nodes, edges, lists, each = 60, 600, 30, 5
	r := rand.New(rand.NewPCG(3, 4))
	pairs := func(n int) (b []int64) {
		for range n {
			b = append(b, r.Int64N(nodes), r.Int64N(nodes))
		}
		return b
	}
	negatives := make([]int64, lists*each)
	for i := range negatives {
		negatives[i] = r.Int64N(nodes)
	}
	graph := pairs(edges)
	var ends []int64 // [2, E]
	for side := range 2 {
		for i := range edges {
			ends = append(ends, graph[2*i+side])
		}
	}
	array := func(shape string, x []int64) []byte { return clitest.NpyFile("<i8", shape, blocks.Bytes(x)) }
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{
		"g/metadata.yaml": []byte(`
graph: {nodes: [{num: 60}], edges: [{format: numpy, path: e.npy}]}
tasks:
  - validation_set: [{data: [{name: seeds, format: numpy, path: v.npy}, {name: negative_dsts, format: numpy, path: n.npy}]}]
    test_set: [{data: [{name: seeds, format: numpy, path: v.npy}, {name: negative_srcs, format: numpy, path: n.npy}, {name: negative_dsts, format: numpy, path: n.npy}]}]
`),
		"g/e.npy": array("2, 600", ends), "g/v.npy": array("30, 2", pairs(lists)), "g/n.npy": array("30, 5", negatives),
	})
	store := filepath.Join(dir, "s.gstore")
	run := func(args ...string) (text string, s map[string]any) {
		t.Helper()
		code, text, stderr := clitest.Run(t, args...)
		if code != cli.ExitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		_ = json.Unmarshal([]byte(lines[len(lines)-1]), &s) // of --json
		return text, s
	}
	if text, _ := run("ingest", filepath.Join(dir, "g"), store, "--partitions", "2"); !strings.Contains(text, "ranked against them") {
		t.Errorf("ingest says nothing of negatives: %s", text)
	}
	if text, _ := run("train", store, "--epochs", "1", "--dim", "8", "--batch-size", "100"); !strings.Contains(text, "own negatives") {
		t.Errorf("train says nothing of negatives: %s", text)
	}
	text, _ := run("eval", store)
	if !strings.Contains(text, "valid against the data set's own negatives, at most 5") {
		t.Errorf("eval says nothing of negatives: %s", text)
	}
	for against, queries := range map[string]float64{"auto": lists, "all": 2 * lists} {
		_, s := run("eval", store, "--against", against, "--lists", "valid", "--json")
		if s["valid_queries"] != queries || s["valid_given"] != nil != (against == "auto") {
			t.Errorf("against %s: %v, expected %v queries", against, s, queries)
		}
	}
	if code, _, stderr := clitest.Run(t, "eval", store, "--by-relation"); code == cli.ExitOK || !strings.Contains(stderr, "--against all") {
		t.Errorf("given negatives by relation: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := clitest.Run(t, "eval", store, "--against", "given", "--candidates", "9"); code != cli.ExitUsage {
		t.Errorf("given negatives and candidates: exit code %d, %s", code, stderr)
	}
}
