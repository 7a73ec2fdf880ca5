package training_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cgroup"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestMemoryUnasked: without --mem, each step of a graph that does not fit the process's cgroup works within it. The kernel ended ingest,
// train and precompute there.
func TestMemoryUnasked(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	const limit = 200 << 20
	group, err := cgroup.New("gstore-test", limit)
	if err != nil {
		t.Skipf("no cgroup with a limit of memory can be made here: %v", err)
	}
	t.Cleanup(group.Remove)
	in, dir := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "store")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "40001", "--edges", "200001", "--features", "1000", "--classes", "6", "--quiet")
	for _, args := range [][]string{
		{"ingest", in, dir, "--partitions", "40", "--quiet"},
		{"train", dir, "--epochs", "1"},
		{"eval", dir},
		{"predict", dir, "7", "40000"},
		{"partition", dir, "--partitions", "20"},
		{"precompute", dir, "--model", "gcn"},
		{"export", dir, filepath.Join(t.TempDir(), "out")},
	} {
		cmd := clitest.Command(args...)
		cmd.Args = group.Within(cmd.Args)
		cmd.Path = cmd.Args[0]
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("gstore %v within %d MiB: %v: %s", args, limit>>20, err, said)
		}
		told := slices.Contains([]string{"train", "eval", "predict", "partition"}, args[0])
		if strings.Contains(string(said), "memory: at most 150.0 MiB, three quarters of what this process's cgroup allows") != told {
			t.Errorf("gstore %v says of its memory: %s", args, said)
		}
	}
}

// TestSwitchedOff: what is done unasked for absent neighbours is not done where the caller switched it off.
func TestSwitchedOff(t *testing.T) {
	dir := coraStore(t)
	clitest.MustRun(t, "precompute", dir, "--quiet")
	for _, c := range []struct {
		args         []string
		history, hop bool
	}{{nil, true, true}, {[]string{"--history=false"}, false, true}, {[]string{"--precomputed-hop=false"}, true, false},
		{[]string{"--history=false", "--precomputed-hop=false"}, false, false}, {[]string{"--absent", "ignore"}, false, false}} {
		ev := clitest.Events(t, append([]string{"train", dir, "--epochs", "1", "--hidden", "8", "--plan", "hanoi", "--buffer", "2"}, c.args...)...)
		i := slices.IndexFunc(ev, func(e map[string]any) bool { return e["event"] == "start" })
		if i < 0 {
			t.Fatalf("%q: no start in %v", c.args, ev)
		}
		config := ev[i]["config"].(map[string]any)
		hop, _ := config["precomputed_hop"].(bool)
		if config["history"] != c.history || hop != c.hop {
			t.Errorf("%q: history %v, hop %v, expected %v and %v", c.args, config["history"], hop, c.history, c.hop)
		}
	}
}
