package data_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// A budget below what partitioning and writing take together is refused at once, with the smallest that works; that one
// is kept, though the store's one partition alone has more columns than it.
func TestPartitionMemoryKept(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	input, dir := filepath.Join(t.TempDir(), "sbm"), filepath.Join(t.TempDir(), "store")
	for _, args := range [][]string{
		{"generate", "sbm", input, "--nodes", "100k", "--edges", "200k", "--features", "320"},
		{"ingest", input, dir, "--partitions", "1"},
	} {
		if _, said, err := clitest.Child(t, append(args, "--json")...); err != nil {
			t.Fatalf("%v: %v: %s", args, err, said)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		low  string // takes the partitioner, and not what comes after it
	}{
		{"new version", []string{"--partitioner", "fennel", "--partitions", "16"}, "90MiB"},
		{"report", []string{"--report"}, "60MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"partition", dir, "--json"}, c.args...)
			sum, said, err := clitest.Child(t, append(args, "--mem", c.low)...)
			least := 0
			if err == nil {
				t.Fatalf("%s: not refused", c.low)
			}
			if _, err := fmt.Sscanf(fmt.Sprint(sum["message"]), "memory budget too small: --mem "+c.low[:2]+".0 MiB for a graph of 100000 nodes; the smallest that works is %dMiB", &least); err != nil {
				t.Fatalf("%s: %v, %q, expected a refusal that names the smallest budget", c.low, sum, said)
			}
			sum, said, err = clitest.Child(t, append(args, "--mem", fmt.Sprintf("%dMiB", least))...)
			if err != nil {
				t.Fatalf("%d MiB, which was named: %v: %s", least, err, said)
			}
			if peak := sum["peak_rss_bytes"].(float64); peak > float64(least<<20) {
				t.Errorf("a peak of %.1f MiB within %d MiB", peak/(1<<20), least)
			}
		})
	}
}
