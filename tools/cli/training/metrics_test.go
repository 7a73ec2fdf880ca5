package training_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func readMetrics(t *testing.T, path string) *metrics.File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := metrics.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMetricsResults: the file of --metrics has what every epoch printed, the end and the confusion matrix; writing it changes
// nothing; and what a run that is resumed writes goes on.
func TestMetricsResults(t *testing.T) {
	dir, work := coraStore(t), t.TempDir()
	file, board := filepath.Join(work, "run.jsonl"), filepath.Join(work, "board")
	args := []string{"train", dir, "--hidden", "8", "--epochs", "4", "--eval-every", "2", "--threads", "1"}
	plain := clitest.Losses(clitest.Events(t, args...))
	events := clitest.Events(t, append(args, "--metrics", file, "--tensorboard", board)...)
	m, sum := readMetrics(t, file), events[len(events)-1]
	if len(m.Results) != 4 || len(plain) != 4 {
		t.Fatalf("%d results, %d losses of 4 epochs", len(m.Results), len(plain))
	}
	at := 0
	for _, e := range events {
		if e["event"] != "epoch" {
			continue
		}
		r := m.Results[at]
		if *r.Loss != e["loss"].(float64) || *r.Loss != plain[at] || *r.TrainAccuracy != e["train_accuracy"].(float64) || r.Epoch != at+1 {
			t.Errorf("epoch %d: %+v, printed %v, without --metrics the loss is %v", at+1, r, e, plain[at])
		}
		if validated := at%2 == 1; (r.ValidAccuracy != nil) != validated || validated && (*r.ValidAccuracy != e["valid_accuracy"].(float64) || *r.TestAccuracy != e["test_accuracy"].(float64)) {
			t.Errorf("epoch %d: validation %v, printed %v", at+1, r.ValidAccuracy, e["valid_accuracy"])
		}
		at++
	}
	if m.End == nil || *m.End.TestAccuracy != sum["test_accuracy"].(float64) || m.End.BestEpoch != int(sum["best_epoch"].(float64)) {
		t.Errorf("the end is %+v, the summary %v", m.End, sum)
	}
	for split, want := range map[string]float64{"valid": sum["valid_accuracy"].(float64), "test": sum["test_accuracy"].(float64)} {
		var right, all int64
		labels := 0
		for _, c := range m.Confusion {
			if c.Split == split {
				labels++
				for p, n := range c.Predicted {
					if all += n; p == c.Label {
						right += n
					}
				}
			}
		}
		if labels != 7 || float64(right)/float64(all) != want {
			t.Errorf("%s: %d of %d nodes of %d labels are right, the accuracy is %v", split, right, all, labels, want)
		}
	}
	if files, err := os.ReadDir(board); err != nil || len(files) != 1 || !strings.HasPrefix(files[0].Name(), "events.out.tfevents.") {
		t.Errorf("event files %v, %v", files, err)
	}

	// A run that is interrupted and goes on.
	long := []string{"train", dir, "--hidden", "8", "--batch-size", "10", "--threads", "1", "--metrics", file, "--tensorboard", board, "--epochs", "12", "--seed", "3"}
	interrupt(t, "epoch", 3, long...)
	clitest.MustRun(t, append(long, "--resume", "--quiet")...)
	m = readMetrics(t, file)
	for i, r := range m.Results {
		if r.Epoch != i+1 {
			t.Errorf("result %d is of epoch %d", i, r.Epoch)
		}
	}
	if len(m.Results) != 12 || m.End == nil {
		t.Errorf("%d results of 12 epochs, end %v", len(m.Results), m.End)
	}
	if files, err := os.ReadDir(board); err != nil || len(files) != 3 {
		t.Errorf("%d event files of three processes, %v", len(files), err)
	}
}

// TestMetricsLink: link prediction has ranks in place of accuracies; a folder that cannot be made is found before training.
func TestMetricsLink(t *testing.T) {
	dir, work := smallKG(t), t.TempDir()
	file := filepath.Join(work, "run.jsonl")
	events := clitest.Events(t, "train", dir, "--dim", "8", "--negatives", "10", "--epochs", "2", "--metrics", file)
	m, sum := readMetrics(t, file), events[len(events)-1]
	if len(m.Results) != 2 || m.Results[1].ValidMRR == nil || m.End == nil {
		t.Fatalf("results %+v, end %+v", m.Results, m.End)
	}
	if *m.Results[1].ValidMRR != sum["valid_mrr"].(float64) || *m.End.TestMRR != sum["test_mrr"].(float64) || m.Results[1].TrainAccuracy != nil {
		t.Errorf("results %+v, end %+v, summary %v", m.Results[1], m.End, sum)
	}
	if err := os.WriteFile(filepath.Join(work, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := clitest.Run(t, "train", dir, "--overwrite", "--tensorboard", filepath.Join(work, "file", "board"))
	if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "--tensorboard") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}
