package metrics

import (
	"encoding/json"
	"fmt"
	"math"
)

// Begin is the first line of a run: with what it trains.
type Begin struct {
	Event  string          `json:"event"` // "begin"
	Store  string          `json:"store"`
	Config json.RawMessage `json:"config"` // the run's configuration in full
}

// Result is the line of what an epoch's training came to. Fields that are nil were not computed.
type Result struct {
	Event         string   `json:"event"` // "result"
	Epoch         int      `json:"epoch"` // from 1, as of the other lines
	Loss          *float64 `json:"loss,omitempty"`
	TrainAccuracy *float64 `json:"train_accuracy,omitempty"` // in [0, 1]
	ValidAccuracy *float64 `json:"valid_accuracy,omitempty"`
	TestAccuracy  *float64 `json:"test_accuracy,omitempty"`
	TrainMAE      *float64 `json:"train_mae,omitempty"` // of labels that are numbers, in their unit
	ValidMAE      *float64 `json:"valid_mae,omitempty"`
	TestMAE       *float64 `json:"test_mae,omitempty"`
	ValidMicroF1  *float64 `json:"valid_micro_f1,omitempty"` // of nodes with several labels, in [0, 1]
	TestMicroF1   *float64 `json:"test_micro_f1,omitempty"`
	ValidMRR      *float64 `json:"valid_mrr,omitempty"` // filtered, against all nodes
	ValidHits10   *float64 `json:"valid_hits10,omitempty"`
	ValidAUC      *float64 `json:"valid_roc_auc,omitempty"`           // of targets that are yes or no
	ValidAP       *float64 `json:"valid_average_precision,omitempty"` // of targets of several labels
	ValidMAP      *float64 `json:"valid_map_at_k,omitempty"`          // of recommendations
	End           float64  `json:"end_s,omitempty"`                   // when it was known
	// How a device that runs operations after they were issued spent the epoch's training: on mini-batches, waiting, and on copies
	// of whole partitions beside both; of others 0.
	DeviceSeconds     float64 `json:"device_seconds,omitempty"`
	DeviceIdleSeconds float64 `json:"device_idle_seconds,omitempty"`
	DeviceCopySeconds float64 `json:"device_copy_seconds,omitempty"`
	// What drawing mini-batches took a device that does, and what blocks, or neighbour lists and seeds, took to it.
	DeviceSampleSeconds float64 `json:"device_sample_seconds,omitempty"`
	DeviceBlockBytes    int64   `json:"device_block_bytes,omitempty"`
	DeviceWaits         int64   `json:"device_waits,omitempty"`     // how often the host waited for it
	ReplayedBatches     int64   `json:"replayed_batches,omitempty"` // run by one call of the host, by recordings
	ReplayShapes        int     `json:"replay_shapes,omitempty"`    // of so many shapes
}

// End is the line of a run's result.
type End struct {
	Event         string   `json:"event"`                // "end"
	BestEpoch     int      `json:"best_epoch,omitempty"` // from 1; of link prediction there is none
	ValidAccuracy *float64 `json:"valid_accuracy,omitempty"`
	TestAccuracy  *float64 `json:"test_accuracy,omitempty"`
	ValidMRR      *float64 `json:"valid_mrr,omitempty"`
	TestMRR       *float64 `json:"test_mrr,omitempty"`
	TestHits10    *float64 `json:"test_hits10,omitempty"`
	ValidMAE      *float64 `json:"valid_mae,omitempty"` // of labels that are numbers, in their unit
	TestMAE       *float64 `json:"test_mae,omitempty"`
	TestR2        *float64 `json:"test_r2,omitempty"`        // share of the labels' variance that is explained
	ValidMicroF1  *float64 `json:"valid_micro_f1,omitempty"` // of nodes with several labels, in [0, 1]
	TestMicroF1   *float64 `json:"test_micro_f1,omitempty"`
	ValidAUC      *float64 `json:"valid_roc_auc,omitempty"` // of targets that are yes or no
	TestAUC       *float64 `json:"test_roc_auc,omitempty"`
	ValidAP       *float64 `json:"valid_average_precision,omitempty"` // of targets of several labels
	TestAP        *float64 `json:"test_average_precision,omitempty"`
	ValidMAP      *float64 `json:"valid_map_at_k,omitempty"` // of recommendations
	TestMAP       *float64 `json:"test_map_at_k,omitempty"`
}

// ConfusionRow is the line of a class: as what the final model predicts its nodes of a split. There is one for each class.
type ConfusionRow struct {
	Event     string           `json:"event"` // "confusion"
	Split     string           `json:"split"`
	Label     string           `json:"label"`
	Predicted map[string]int64 `json:"predicted"` // nodes, by class
}

// Number is x, or nil where it is no finite number or below 0, which stands for none.
func Number(x float64) *float64 {
	if !(x >= 0) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Begin writes with what a run trains, which stays the first line where the run is resumed.
func (w *Writer) Begin(store string, config any) error {
	if w.resumed {
		return nil
	}
	b, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return w.line(Begin{Event: "begin", Store: store, Config: b})
}

// Result writes an epoch's result.
func (w *Writer) Result(r Result) error {
	r.Event = "result"
	if r.End > 0 {
		r.End += w.seconds
	}
	return w.line(r)
}

// End writes a run's result.
func (w *Writer) End(e End) error {
	e.Event = "end"
	return w.line(e)
}

// Confusion writes a class's line.
func (w *Writer) Confusion(c ConfusionRow) error {
	c.Event = "confusion"
	return w.line(c)
}

// line writes a line that readers see at once.
func (w *Writer) line(v any) error {
	if err := w.write(v); err != nil {
		return err
	}
	return w.w.Flush()
}
