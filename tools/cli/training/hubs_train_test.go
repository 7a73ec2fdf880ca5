package training_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// pinnedTraining checks that the pinned partitions of a store hold all training nodes of a split and no others, in partitions no larger than
// the rest are on average, and returns the manifest.
func pinnedTraining(t *testing.T, path, split string, pinned int) *store.Manifest {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := s.Manifest()
	loose := len(m.Partitions) - len(m.Pinned)
	if len(m.Pinned) != pinned || m.Ingest["hubs"] != "train" {
		t.Errorf("%s: pinned %v, expected %d; hubs %q", path, m.Pinned, pinned, m.Ingest["hubs"])
	}
	training, others := uint64(0), uint64(0)
	for p, info := range m.Partitions {
		b, err := s.ReadColumn(t.Context(), split, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, isPinned := bytes.Count(b, []byte{store.SplitTrain}), slices.Contains(m.Pinned, store.PartitionID(p))
		if isPinned && n != len(b) || !isPinned && n > 0 {
			t.Errorf("%s: partition %d (pinned: %v) has %d training nodes of %d", path, p, isPinned, n, len(b))
		}
		if isPinned {
			training += info.Nodes
		} else {
			others += info.Nodes
		}
	}
	for _, p := range m.Pinned {
		if m.Partitions[p].Nodes*uint64(loose) > others+uint64(loose) {
			t.Errorf("%s: pinned partition %d has %d nodes, the others %d on average", path, p, m.Partitions[p].Nodes, others/uint64(loose))
		}
	}
	if counts, err := s.TrainingNodes(t.Context(), split); err != nil || sumOf(counts) != training {
		t.Errorf("%s: %d training nodes are pinned, of %v (%v)", path, training, counts, err)
	}
	return m
}

func sumOf(x []uint64) (sum uint64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// TestHubsTrain: ingest and partition pin the training nodes, and only them, whatever places the others; two pinned
// partitions go through every plan, report, inspect, verify, another partitioning and an append.
func TestHubsTrain(t *testing.T) {
	dir := t.TempDir()
	in, plain := filepath.Join(dir, "in"), filepath.Join(dir, "plain")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "3000", "--edges", "20000", "--classes", "6", "--features", "4", "--train", ".1", "--quiet")
	other := make([]int64, 200) // a second split, of which fewer nodes train
	for i := range other {
		other[i] = int64(i)*13 + 1
	}
	clitest.Put(t, in, map[string][]byte{"split_other/train.npy": clitest.NpyInts(other), "split_other/valid.npy": clitest.NpyInts([]int64{0, 2}), "split_other/test.npy": clitest.NpyInts([]int64{3, 4})})
	common := []string{"--undirected", "--partitions", "16", "--quiet"}
	clitest.MustRun(t, append([]string{"ingest", in, plain}, common...)...)
	assigned := filepath.Join(dir, "assigned")
	clitest.MustRun(t, "partition", plain, "--partitioner", "random", "--seed", "5", "--output", assigned, "--quiet")
	made := map[string]string{}
	for _, p := range []string{"random", "range", "fennel", "file:" + assigned} {
		name := p[:4]
		made[name] = filepath.Join(dir, name)
		clitest.MustRun(t, append([]string{"ingest", in, made[name], "--partitioner", p, "--hubs", "train"}, common...)...)
		pinnedTraining(t, made[name], "split", 2) // 300 nodes, where 2700 are 16 partitions of 169
		moved := made[name] + ".moved"
		clitest.MustRun(t, append([]string{"ingest", in, moved}, common...)...)
		clitest.MustRun(t, "partition", moved, "--partitioner", p, "--hubs", "train", "--quiet")
		pinnedTraining(t, moved, "split", 2)
		clitest.MustRun(t, "verify", moved, "--quiet")
		a, b := clitest.Quality(t, "partition", made[name], "--report"), clitest.Quality(t, "partition", moved, "--report")
		a.ResidentShare, b.ResidentShare = nil, nil // sums in the order of nodes, and walks
		if a.Partitions != 18 || a.Pinned != 2 || a.PinnedNode != 300 || name != "fenn" && clitest.MustJSON(t, a) != clitest.MustJSON(t, b) {
			t.Errorf("%s: ingest makes\n%+v\npartition makes\n%+v", p, a, b)
		}
	}
	if f, r := clitest.Quality(t, "partition", made["fenn"], "--report"), clitest.Quality(t, "partition", made["rand"], "--report"); f.LostRate > .7*r.LostRate || f.NodeSpread.MaxOverMean > 1.04 {
		t.Errorf("fennel loses %.3f of the edges, random %.3f; its largest partition is %.3f of the mean", f.LostRate, r.LostRate, f.NodeSpread.MaxOverMean)
	}

	hubs := made["fenn"]
	code, stdout, stderr := clitest.Run(t, "--json", "plan", hubs, "--buffer", "3", "--measure", "0", "--steps")
	if code != cli.ExitOK {
		t.Fatalf("plan: exit code %d: %s", code, stderr)
	}
	e := clitest.ByName(t, stdout)
	if s := e["summary"][0]; s["plan"] != "trainnodes" || s["steps"] != 1. || s["pinned"] != 2. || e["epoch"][1]["examples"] != 300. || len(e["step"][0]["resident"].([]any)) != 5 {
		t.Errorf("auto plans %v\n%v", s, e["step"])
	}
	if next := e["epoch"][1]["bytes_read"].(float64); next <= 0 || next >= e["epoch"][0]["bytes_read"].(float64) {
		t.Errorf("epochs of %v read %v: expected what changes, without the pinned partitions", e["epoch"], next)
	}
	train := func(path string, args ...string) []map[string]any {
		return clitest.Events(t, append([]string{"train", path, "--epochs", "2", "--hidden", "8", "--batch-size", "100"}, args...)...)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"trainnodes", []string{"--buffer", "3"}},
		{"trainnodes", []string{"--buffer", "3", "--history"}},
		{"trainnodes", []string{"--buffer", "3", "--plan", "trainnodes", "--layers", "3"}},
		{"hanoi", []string{"--buffer", "3", "--plan", "hanoi"}},
		{"hanoi", []string{"--buffer", "3", "--split", "split_other"}},
		{"trainnodes", []string{"--buffer", "3", "--split", "split_other", "--plan", "trainnodes"}}, // in turn
	} {
		run := train(hubs, c.args...)
		s := run[len(run)-1]
		want := 6. // 3 batches of 100, twice
		if slices.Contains(c.args, "split_other") || c.want == "hanoi" {
			want = s["batches"].(float64) // which step has how many is the plan's affair
		}
		if s["plan"] != c.want || s["batches"] != want || want < 4 {
			t.Errorf("train %v: plan %v, %v batches, expected %s and %v", c.args, s["plan"], s["batches"], c.want, want)
		}
	}
	// In memory partitions do not matter.
	if a, b := clitest.Losses(train(plain, "--plan", "memory")), clitest.Losses(train(hubs, "--plan", "memory")); len(a) != 2 || !slices.Equal(a, b) {
		t.Errorf("in memory: losses %v, of the store with pinned training nodes %v", a, b)
	}
	if code, stdout, _ := clitest.Run(t, "inspect", hubs); code != cli.ExitOK || !strings.Contains(stdout, "pinned [16 17]") {
		t.Errorf("inspect: exit code %d:\n%s", code, stdout)
	}
	if code, stdout, _ := clitest.Run(t, "partition", hubs, "--report"); code != cli.ExitOK || !strings.Contains(stdout, "partitions 16 + 2 pinned with 300 nodes (10.0 %)") {
		t.Errorf("report: exit code %d:\n%s", code, stdout)
	}

	for args, want := range map[string]string{"ingest " + in + " " + hubs + ".text --hubs train --partitions 16": " in 16 partitions + 2 pinned, ",
		"ingest " + in + " " + hubs + ".plain --partitions 16": " in 16 partitions, ", "partition " + hubs + " --hubs train": ": 16 partitions + 2 pinned in "} {
		if code, stdout, stderr := clitest.Run(t, strings.Fields(args)...); code != cli.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, expected %q:\n%s%s", args, code, want, stdout, stderr)
		}
	}

	// The second split: by partition, again from what has hubs already, and by ingest.
	clitest.MustRun(t, "partition", hubs, "--split", "split_other", "--hubs", "train", "--quiet")
	second := filepath.Join(dir, "second")
	clitest.MustRun(t, append([]string{"ingest", in, second, "--partitioner", "fennel", "--split", "split_other", "--hubs", "train"}, common...)...)
	for _, path := range []string{hubs, second} {
		pinnedTraining(t, path, "split_other", 2) // 200 beside 175 a partition
		for split, want := range map[string]string{"": "hanoi", "split_other": "trainnodes"} {
			_, stdout, _ := clitest.Run(t, "--json", "plan", path, "--buffer", "3", "--measure", "0", "--split", split, "--history", "--hidden", "8")
			run := train(path, "--buffer", "3", "--split", split)
			if got := clitest.ByName(t, stdout)["summary"][0]["plan"]; got != want || run[len(run)-1]["plan"] != want {
				t.Errorf("%s, split %q: planned %v, trained by %v, expected %s", path, split, got, run[len(run)-1]["plan"], want)
			}
		}
	}
	// New nodes come behind pinned partitions.
	more := clitest.Put(t, filepath.Join(dir, "more"), map[string][]byte{"edge_index.npy": clitest.NpyFile("<i8", "2, 3", int64Bytes(3000, 3001, 5, 7, 8, 3001)), "node_feat.npy": clitest.NpyFile("<f4", "2, 4", make([]byte, 32)),
		"node_label.npy": clitest.NpyInts([]int64{1, 2}), "split/train.npy": clitest.NpyInts([]int64{3000}), "split/valid.npy": clitest.NpyInts(nil), "split/test.npy": clitest.NpyInts([]int64{3001})})
	clitest.MustRun(t, "append", second, more, "--quiet")
	if q := clitest.Quality(t, "partition", second, "--report"); q.Nodes != 3002 || q.Pinned != 2 || q.Partitions != 19 || q.PinnedNode != 200 {
		t.Errorf("after an append: %+v", q)
	}
	clitest.MustRun(t, "partition", second, "--hubs", "train", "--quiet")
	if m := pinnedTraining(t, second, "split", 2); m.Nodes != 3002 {
		t.Errorf("%d nodes", m.Nodes)
	}
	clitest.MustRun(t, "partition", second, "--quiet")
	if q := clitest.Quality(t, "partition", second, "--report"); q.Pinned != 0 || q.Partitions == 0 {
		t.Errorf("without --hubs: %d of %d partitions are pinned", q.Pinned, q.Partitions)
	}
}

func int64Bytes(x ...int64) []byte {
	b := clitest.NpyInts(x)
	return b[len(b)-8*len(x):]
}

// TestHubsTrainRefused: what cannot be pinned, or cannot place the others, is refused and says why.
func TestHubsTrainRefused(t *testing.T) {
	dir := t.TempDir()
	many, few, none := filepath.Join(dir, "many"), filepath.Join(dir, "few"), filepath.Join(dir, "none")
	clitest.MustRun(t, "generate", "sbm", many, "--nodes", "600", "--edges", "3000", "--classes", "3", "--features", "2", "--train", ".6", "--test", ".2", "--quiet")
	clitest.MustRun(t, "generate", "sbm", few, "--nodes", "600", "--edges", "3000", "--classes", "3", "--features", "2", "--train", ".1", "--quiet")
	clitest.MustRun(t, "generate", "rmat", none, "--nodes", "600", "--edges", "3000", "--quiet")
	for i, c := range []struct {
		in   string
		args []string
		want string
	}{
		{many, nil, "360 of 600 nodes are training nodes, at most half"},
		{none, nil, "split"},
		{few, []string{"--split", "no"}, "split"},
		{few, []string{"--partitioner", "gap"}, "gap balances labels of training nodes"},
		{few, []string{"--partitioner", "hdr"}, "hdr pins the nodes of highest degree"},
		{few, []string{"--partitions", "550"}, "550 partitions for 540 nodes"},
	} {
		made := filepath.Join(dir, fmt.Sprint("made", i))
		clitest.MustRun(t, "ingest", c.in, made, "--quiet")
		for _, args := range [][]string{{"ingest", c.in, made + "2", "--hubs", "train"}, {"partition", made, "--hubs", "train"}} {
			args = append(args, c.args...)
			code, _, stderr := clitest.Run(t, args...)
			want := cli.ExitUsage
			if args[0] == "partition" && slices.Contains(args, "no") { // as where anything else of a store is not there
				want = cli.ExitFailed
			}
			if !strings.Contains(stderr, c.want) || code != want {
				t.Errorf("%v: exit code %d, expected %d: %s", args, code, want, stderr)
			}
		}
	}
}
