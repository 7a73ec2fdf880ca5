package runs

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// Told is what a store's history tells of a training run.
type Told struct {
	Model  string // and its encoder; "": the run was no training
	Plan   string
	Epochs int
	Best   string // its best epoch, with what it came to
}

// Tell tells of a run of a store's history.
func Tell(r store.Run) (t Told) {
	var c struct{ Model, Encoder string }
	var s struct {
		Plan          string    `json:"plan"`
		EpochSeconds  []float64 `json:"epoch_seconds"`
		BestEpoch     int       `json:"best_epoch"`
		ValidAccuracy *float64  `json:"valid_accuracy"`
		TestAccuracy  *float64  `json:"test_accuracy"`
		ValidMAE      *float64  `json:"valid_mae"`
		TestMAE       *float64  `json:"test_mae"`
		ValidF1       *float64  `json:"valid_micro_f1"`
		TestF1        *float64  `json:"test_micro_f1"`
		ValidMRR      *float64  `json:"valid_mrr"`
		TestMRR       *float64  `json:"test_mrr"`
		Task          string    `json:"task"` // of targets of rows
		Valid, Test   struct {
			MRR      *float64 `json:"mrr"`
			AUC      *float64 `json:"roc_auc"`
			AP       *float64 `json:"average_precision"`
			MAP      *float64 `json:"map_at_k"`
			Accuracy *float64 `json:"accuracy"`
			MAE      *float64 `json:"mae"`
		}
	}
	if r.Command != "train" || errors.Join(json.Unmarshal(r.Config, &c), json.Unmarshal(r.Summary, &s)) != nil {
		return t
	}
	if c.Encoder != "" && c.Encoder != "none" {
		c.Model += " over " + c.Encoder
	}
	if c.Model == "" {
		if c.Model = "edges at moments"; s.Task != "" {
			c.Model = "targets " + s.Task
		}
	}
	t = Told{Model: c.Model, Plan: s.Plan, Epochs: len(s.EpochSeconds), Best: "not evaluated"}
	switch {
	case s.ValidMAE != nil && s.TestMAE != nil:
		t.Best = fmt.Sprintf("epoch %d: valid MAE %s, test MAE %s", s.BestEpoch, command.FormatNumber(*s.ValidMAE), command.FormatNumber(*s.TestMAE))
	case s.ValidF1 != nil && s.TestF1 != nil:
		t.Best = fmt.Sprintf("epoch %d: valid micro F1 %s, test %s", s.BestEpoch, command.FormatPercent(*s.ValidF1), command.FormatPercent(*s.TestF1))
	case s.ValidAccuracy != nil && s.TestAccuracy != nil:
		t.Best = fmt.Sprintf("epoch %d: valid %s, test %s", s.BestEpoch, command.FormatPercent(*s.ValidAccuracy), command.FormatPercent(*s.TestAccuracy))
	case s.ValidMRR != nil && s.TestMRR != nil:
		t.Best = fmt.Sprintf("valid MRR %.4f, test MRR %.4f", *s.ValidMRR, *s.TestMRR)
	case s.ValidMRR != nil:
		t.Best = fmt.Sprintf("valid MRR %.4f", *s.ValidMRR)
	}
	for _, of := range []struct { // of other tasks
		name        string
		valid, test *float64
	}{{"ROC AUC", s.Valid.AUC, s.Test.AUC}, {"average precision", s.Valid.AP, s.Test.AP}, {"MAP@k", s.Valid.MAP, s.Test.MAP}, {"accuracy", s.Valid.Accuracy, s.Test.Accuracy},
		{"MAE", s.Valid.MAE, s.Test.MAE}, {"MRR", s.Valid.MRR, s.Test.MRR}} {
		if of.valid != nil && of.test != nil {
			t.Best = fmt.Sprintf("epoch %d: valid %s %.4f, test %.4f", s.BestEpoch, of.name, *of.valid, *of.test)
			break
		}
	}
	return t
}
