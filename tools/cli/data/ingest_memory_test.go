package data_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// An ingest of ids that take more than the budget stays inside it: the dictionary spills. A
// budget below the smallest is refused with that, and that one does.
func TestIngestMemoryOfStringIDs(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	const nodes = 400_000
	input := filepath.Join(t.TempDir(), "edges.tsv")
	f, err := os.Create(input)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	name := strings.Repeat("a long name ", 8)
	for k := range nodes { // a ring, in an order that visits names at random
		v := k * 7919 % nodes
		fmt.Fprintf(w, "%s%d\t%s%d\n", name, v, name, (v+1)%nodes)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	_, said, err := clitest.Child(t, "ingest", input, dir, "--mem", "90MiB", "--json")
	least := 0
	if _, scanErr := fmt.Sscanf(said[max(0, strings.Index(said, "works is")):], "works is %dMiB", &least); err == nil || scanErr != nil {
		t.Fatalf("90 MiB: %q (%v), expected a refusal that names the smallest budget", said, err)
	}
	sum, said, err := clitest.Child(t, "ingest", input, dir, "--mem", fmt.Sprintf("%dMiB", least), "--json")
	if err != nil {
		t.Fatalf("%d MiB, which was named: %v: %s", least, err, said)
	}
	peak, spilled := sum["peak_rss_bytes"].(float64), sum["bytes_spilled"].(float64)
	if sum["nodes"].(float64) != nodes || spilled == 0 || peak > float64(least<<20) {
		t.Errorf("%v nodes, %.0f bytes spilled, a peak of %.1f MiB; expected %d nodes, some and at most %d MiB", sum["nodes"], spilled, peak/(1<<20), nodes, least)
	}
	t.Logf("peak %.1f of %d MiB; %.0f MiB spilled", peak/(1<<20), least, spilled/(1<<20))
}
