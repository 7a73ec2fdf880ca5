package training

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gstore/gstore/tools/cli/command"
)

// tried is what a trial came to: a line of the file of results.
type tried struct {
	Trial   string    `json:"trial"`         // its flags
	Store   string    `json:"store"`         // and which version of it
	Metric  string    `json:"metric"`        // by which trials are compared, on validation nodes, edges or rows
	Valid   *float64  `json:"valid"`         // nil: there is nothing to validate with, or the run failed
	Test    *float64  `json:"test"`          // of the same model
	Run     uint64    `json:"run,omitempty"` // of the store, 0: its model has none
	Epochs  int       `json:"epochs"`
	Seconds float64   `json:"seconds"`
	Stopped bool      `json:"stopped,omitempty"` // given up, since others were better by then
	Failed  string    `json:"failed,omitempty"`
	Curve   []float64 `json:"curve,omitempty"` // of nodes: the best score up to each epoch
}

// lower reports whether less of the metric is better.
func (t *tried) lower() bool { return t.Metric == "mae" }

// better compares two trials for sorting: one without a result is worse than any.
func better(a, b *tried) int {
	switch {
	case a.Valid == nil && b.Valid == nil:
		return 0
	case a.Valid == nil:
		return 1
	case b.Valid == nil:
		return -1
	case *a.Valid == *b.Valid:
		return 0
	case (*a.Valid > *b.Valid) != a.lower():
		return -1
	}
	return 1
}

// take reads a run's events.
func (t *tried) take(events []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(events))
	lines.Buffer(nil, 64<<20)
	var sum struct {
		Event        string    `json:"event"`
		Model        string    `json:"model_file"`
		EpochSeconds []float64 `json:"epoch_seconds"`
		ValidMAE     *float64  `json:"valid_mae"`
		TestMAE      *float64  `json:"test_mae"`
		ValidF1      *float64  `json:"valid_micro_f1"`
		TestF1       *float64  `json:"test_micro_f1"`
		ValidBal     *float64  `json:"valid_balanced_accuracy"`
		TestBal      *float64  `json:"test_balanced_accuracy"`
		ValidMRR     *float64  `json:"valid_mrr"`
		TestMRR      *float64  `json:"test_mrr"`
		ValidAcc     *float64  `json:"valid_accuracy"`
		TestAcc      *float64  `json:"test_accuracy"`
		Valid        nested    `json:"valid"`
		Test         nested    `json:"test"`
	}
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"event":"summary"`)) {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &sum); err != nil {
			return fmt.Errorf("a trial's summary: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	t.Epochs = len(sum.EpochSeconds)
	if number, ok := strings.CutSuffix(filepath.Base(sum.Model), filepath.Ext(sum.Model)); ok {
		t.Run, _ = strconv.ParseUint(number, 10, 64) // 0: it is no run's
	}
	for _, m := range []struct {
		name        string
		valid, test *float64
	}{{"mae", sum.ValidMAE, sum.TestMAE}, {"micro_f1", sum.ValidF1, sum.TestF1}, {"balanced_accuracy", sum.ValidBal, sum.TestBal}, {"mrr", sum.ValidMRR, sum.TestMRR},
		{"mrr", sum.Valid.MRR, sum.Test.MRR}, {"roc_auc", sum.Valid.AUC, sum.Test.AUC}, {"mae", sum.Valid.MAE, sum.Test.MAE}, {"accuracy", sum.ValidAcc, sum.TestAcc}} {
		if m.valid != nil && *m.valid >= 0 {
			t.Metric, t.Valid = m.name, m.valid
			if m.test != nil && *m.test >= 0 {
				t.Test = m.test
			}
			break
		}
	}
	return nil
}

// nested are results of edges at moments and of rows of databases.
type nested struct {
	MRR *float64 `json:"mrr"`
	AUC *float64 `json:"roc_auc"`
	MAE *float64 `json:"mae"`
}

// readTried reads the results of earlier commands; a last line that a crash cut off is none.
func readTried(path string) (list []tried, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--results: %w", err)
	}
	for n, line := range bytes.SplitAfter(b, []byte("\n")) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			if len(line) > 0 { // goes, so that the next line begins anew
				err = os.Truncate(path, int64(len(b)-len(line)))
			}
			break
		}
		var t tried
		if err := json.Unmarshal(line, &t); err != nil || t.Trial == "" {
			return nil, command.Usagef("%s:%d: no result of a trial: name another file with --results", path, n+1)
		}
		list = append(list, t)
	}
	return list, err
}

// figure is a trial's metric for people.
func (t *tried) figure(x *float64) string {
	switch {
	case x == nil:
		return "-"
	case t.Metric == "mae":
		return command.FormatNumber(*x)
	case t.Metric == "mrr" || t.Metric == "roc_auc":
		return fmt.Sprintf("%.4f", *x)
	}
	return command.FormatPercent(*x)
}
