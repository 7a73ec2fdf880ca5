package training_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestLinkRates: a run of links without a learning rate says which one it took, the one that validated best, and is recorded by it: in the
// file of --metrics, which has each epoch once, in TensorBoard's and in the summary.
func TestLinkRates(t *testing.T) {
	dir, work := smallKG(t), t.TempDir()
	file, board := filepath.Join(work, "m.jsonl"), filepath.Join(work, "board")
	events := clitest.Events(t, "train", dir, "--dim", "8", "--model", "rotate", "--negatives", "10", "--batch-size", "100", "--patience", "3", "--metrics", file, "--tensorboard", board)
	chosen, done := 0., events[len(events)-1]
	for _, e := range events {
		if e["event"] == "rate" {
			chosen = e["lr"].(float64)
		}
	}
	tried, best := done["rates"].([]any), map[string]any{"valid_mrr": 0.}
	for _, r := range tried {
		if x := r.(map[string]any); x["valid_mrr"].(float64) > best["valid_mrr"].(float64) {
			best = x
		}
	}
	if len(tried) != 2 || best["lr"] != chosen || done["discarded_epochs"].(float64) < 3 {
		t.Errorf("the rate is %v: %v, %v epochs discarded", chosen, tried, done["discarded_epochs"])
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(b), "\n"); !strings.Contains(first, fmt.Sprintf(`"lr":%v,`, chosen)) {
		t.Errorf("--metrics begins with %s, expected the rate %v", first, chosen)
	}
	if m, epochs := readMetrics(t, file), len(done["epoch_seconds"].([]any)); len(m.Results) != epochs || m.Results[epochs-1].Epoch != epochs {
		t.Errorf("%d results of %d epochs", len(m.Results), epochs)
	}
	files, err := filepath.Glob(filepath.Join(board, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("event files %v, %v", files, err)
	}
	if b, err = os.ReadFile(files[0]); err != nil || strings.Count(string(b), "session_start_info") != 1 {
		t.Errorf("%v, or the parameters are there %d times", err, strings.Count(string(b), "session_start_info"))
	}
}
