package training_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestLinkMemoryKept: the smallest budget that link training names is one that its process keeps, and evaluation's too.
func TestLinkMemoryKept(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	dir := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "generate", "kg", dir, "--nodes", "40k", "--edges", "60k", "--relations", "5", "--format", "store", "--partitions", "16", "--quiet")
	train := []string{"train", dir, "--overwrite", "--epochs", "1", "--negatives", "50", "--dim", "64", "--json", "--threads", "2"}
	for _, args := range [][]string{append(train, "--eval-every", "-1"), append(train, "--encoder", "sage", "--fanouts", "5", "--eval-every", "-1"), train, {"eval", dir, "--lists", "test", "--candidates", "500", "--json"}} {
		_, said, err := clitest.Child(t, append(args, "--mem", "30MiB")...)
		at := regexp.MustCompile(`the smallest that works is (\d+)MiB`).FindStringSubmatch(said)
		if err == nil || at == nil {
			t.Fatalf("%v: 30 MiB: %q (%v), expected a refusal that names the smallest budget", args, said, err)
		}
		sum, said, err := clitest.Child(t, append(args, "--mem", at[1]+"MiB")...)
		if err != nil {
			t.Fatalf("%v: %s MiB, which was named: %v: %s", args, at[1], err, said)
		}
		var least int
		_, _ = fmt.Sscan(at[1], &least)
		if peak, _ := sum["peak_rss_bytes"].(float64); peak == 0 || peak > float64(least<<20) {
			t.Errorf("%v: a peak of %.1f MiB with --mem %dMiB", args, peak/(1<<20), least)
		} else {
			t.Logf("%v: a peak of %.1f MiB with --mem %dMiB", args[2:], peak/(1<<20), least)
		}
	}
}
