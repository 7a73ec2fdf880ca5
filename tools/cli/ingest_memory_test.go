package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// childArgs, set in the environment, makes the test binary run as gstore with these arguments.
const childArgs = "GSTORE_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(childArgs); ok {
		os.Exit(Run(context.Background(), strings.Split(args, "\n"), os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// child runs gstore in a process of its own and returns its summary and what it said otherwise.
func child(t *testing.T, args ...string) (summary map[string]any, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childArgs+"="+strings.Join(args, "\n"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	for line := range bytes.Lines(out.Bytes()) {
		summary = map[string]any{}
		if jsonErr := json.Unmarshal(line, &summary); jsonErr != nil {
			t.Fatalf("%q: %v", line, jsonErr)
		}
	}
	return summary, errs.String(), err
}

// An ingest of ids that take more than the budget stays inside it: the dictionary spills. A
// budget below the smallest is refused with that, and that one does.
func TestIngestMemoryOfStringIDs(t *testing.T) {
	if raceEnabled {
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
	_, said, err := child(t, "ingest", input, dir, "--mem", "90MiB", "--json")
	least := 0
	if _, scanErr := fmt.Sscanf(said[max(0, strings.Index(said, "works is")):], "works is %d MiB", &least); err == nil || scanErr != nil {
		t.Fatalf("90 MiB: %q (%v), expected a refusal that names the smallest budget", said, err)
	}
	sum, said, err := child(t, "ingest", input, dir, "--mem", fmt.Sprintf("%dMiB", least), "--json")
	if err != nil {
		t.Fatalf("%d MiB, which was named: %v: %s", least, err, said)
	}
	peak, spilled := sum["peak_rss_bytes"].(float64), sum["bytes_spilled"].(float64)
	if sum["nodes"].(float64) != nodes || spilled == 0 || peak > float64(least<<20) {
		t.Errorf("%v nodes, %.0f bytes spilled, a peak of %.1f MiB; expected %d nodes, some and at most %d MiB", sum["nodes"], spilled, peak/(1<<20), nodes, least)
	}
	t.Logf("peak %.1f of %d MiB; %.0f MiB spilled", peak/(1<<20), least, spilled/(1<<20))
}
