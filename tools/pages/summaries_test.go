package pages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSummaryKeys: the keys of the commands' summaries are on the reference's page, each in its table or among the common ones.
func TestSummaryKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## JSON summaries")
	if !found {
		t.Fatal("the reference has no section on summaries")
	}
	known := map[string]bool{"event": true}
	for _, m := range regexp.MustCompile("`([a-zA-Z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		known[m[1]] = true
	}
	split, raw := regexp.MustCompile(`^(train|valid|test)_`), regexp.MustCompile(`^SPLIT_raw_`)
	s := newShell(t)
	s.run(t, "gstore generate kg kg --nodes 200 --edges 2k\nprintf 'source,target\nnew,dpkg\n' >new.csv\n")
	tables := "testdata/packages/depends.csv p --nodes testdata/packages/packages.csv --undirected --split-random 60/20/20"
	for _, line := range []string{
		"ingest " + tables, "train p --epochs 1 --metrics run.jsonl", "report run.jsonl -o run.html", "eval p", "predict p bbmap",
		"plan p", "inspect p", "verify p", "export p out", "precompute p", "walks p walks.npy --internal --length 3", "append p new.csv",
		"partition p --partitions 4", "ingest kg k", "train k --epochs 1", "eval k", "generate kg kg2 --nodes 200 --edges 2k", "version",
	} {
		out := strings.TrimSpace(s.run(t, "gstore "+line+" --json"))
		var summary map[string]any
		if err := json.Unmarshal([]byte(out[strings.LastIndex(out, "\n")+1:]), &summary); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for key := range summary {
			general := raw.ReplaceAllString(split.ReplaceAllString(key, "SPLIT_"), "SPLIT_")
			if !known[key] && !known[general] {
				t.Errorf("the summary of gstore %s has %q, which docs/reference/README.md does not name", line, key)
			}
		}
	}
}
