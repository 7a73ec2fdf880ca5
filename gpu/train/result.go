package train

import (
	"math"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/gpu/train/reach"
	"github.com/gstore/gstore/store/buffer"
)

// Epoch is what happened in one epoch. Accuracies are in [0, 1].
type Epoch struct {
	Epoch         int     `json:"epoch"`          // from 1
	Loss          float64 `json:"loss"`           // mean over training examples, dropout on
	TrainAccuracy float64 `json:"train_accuracy"` // −1 of labels that are numbers, or several a node
	// ValidAccuracy is exact, after the epoch; −1 if it was not computed.
	ValidAccuracy float64 `json:"valid_accuracy"`
	// TestAccuracy comes with ValidAccuracy, for the reader: nothing is chosen by it.
	TestAccuracy float64 `json:"test_accuracy"`
	*Errors              // of labels that are numbers, which accuracies, −1, say nothing of
	*F1                  // of nodes with several labels, likewise

	// Balanced accuracies, the means over classes, of a run with class weights.
	ValidBalanced *float64 `json:"valid_balanced_accuracy,omitempty"`
	TestBalanced  *float64 `json:"test_balanced_accuracy,omitempty"`

	// RarePrecision is the validation nodes' average precision, where one of two classes is so rare that the best epoch is that of the best mean of it
	// and the accuracy.
	RarePrecision *float64 `json:"valid_rare_precision,omitempty"`

	LR           float64 `json:"lr,omitempty"`  // of an epoch whose learning rate is not that of all
	Best         bool    `json:"best"`          // the best validation accuracy so far; of a split without validation nodes, the last epoch
	Seconds      float64 `json:"seconds"`       // of training, waits included
	ValidSeconds float64 `json:"valid_seconds"` // of validation
	BytesRead    int64   `json:"bytes_read"`    // by training
	// What the history cost before this epoch: seconds are part of Seconds, or of the
	// ValidSeconds of the epoch before if a validation computed the states anyway; then nothing is read for it.
	HistorySeconds float64 `json:"history_seconds,omitempty"`
	HistoryBytes   int64   `json:"history_bytes,omitempty"`
	PlannedBytes   int64   `json:"planned_bytes"` // what the plan predicted that training reads
	Steps          int     `json:"steps"`         // macro-batches
	// Of plan rows: input rows of all mini-batches, and those that were read because the cache had them not.
	RowsUsed int64 `json:"rows_used,omitempty"`
	RowsRead int64 `json:"rows_read,omitempty"`
	// Passes over each step's macro-batch where timing decided (or Config.ReusePasses repeated) them.
	Passes       []int `json:"passes,omitempty"`
	Batches      int64 `json:"batches"`
	SampledEdges int64 `json:"sampled_edges"`
	// Of a run with Prune: edges of the lists that were drawn from, and those of them that it left out.
	ListedEdges int64            `json:"listed_edges,omitempty"`
	PrunedEdges int64            `json:"pruned_edges,omitempty"`
	Profile     progress.Profile `json:"profile"`
	gpu.DeviceTimes
	// DeviceRows is what feature rows cost between host and device; nil where the device reads them where they are.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Summary is a run's result: the keys of the summary event.
type Summary struct {
	TestAccuracy         float64   `json:"test_accuracy"`  // of the best epoch's model; −1: the split has no test nodes
	ValidAccuracy        float64   `json:"valid_accuracy"` // likewise
	*Areas                         // of two classes, or of several labels a node
	*Errors                        // of labels that are numbers, which accuracies, −1, say nothing of
	*F1                            // of nodes with several labels, likewise
	TestBalanced         *float64  `json:"test_balanced_accuracy,omitempty"` // likewise, with class weights
	ValidBalanced        *float64  `json:"valid_balanced_accuracy,omitempty"`
	RareClass            bool      `json:"rare_class,omitempty"`             // one of two classes is rare ([Epoch].RarePrecision)
	TrainLoss            float64   `json:"train_loss"`                       // of the last epoch
	BestEpoch            int       `json:"best_epoch"`                       // of the best validation accuracy, the last one where the split has no validation nodes
	LeastLoss            float64   `json:"least_valid_loss,omitempty"`       // mean loss of the validation nodes, see [eval.Metrics]
	LeastLossEpoch       int       `json:"least_valid_loss_epoch,omitempty"` // of LeastLoss; 0: nothing was validated
	DivergedEpoch        int       `json:"diverged_epoch,omitempty"`         // whose loss or parameters were no numbers any more: the run ended there
	EpochSeconds         []float64 `json:"epoch_seconds"`
	TotalSeconds         float64   `json:"total_seconds"`
	CPUSeconds           float64   `json:"cpu_seconds"`
	PeakRSSBytes         int64     `json:"peak_rss_bytes"`
	BytesRead            int64     `json:"bytes_read"`                       // by all of what follows: training, evaluation, states and rows in temporary files
	TrainBytesRead       int64     `json:"train_bytes_read"`                 // by the epochs' training
	EvalBytesRead        int64     `json:"eval_bytes_read"`                  // by validations, the test, passes for the history and to count neighbours
	HistoryBytes         int64     `json:"history_bytes,omitempty"`          // by passes for the history alone
	FeatureResidentBytes int64     `json:"feature_resident_bytes"`           // the most that feature rows of a step's partitions took
	HistoryResidentBytes int64     `json:"history_resident_bytes,omitempty"` // what the history holds in memory for the whole run
	HistoryRowBytes      int64     `json:"history_row_bytes,omitempty"`      // read by steps from the history's temporary file
	BytesWritten         int64     `json:"bytes_written"`                    // of states to temporary files, and of learned vectors to their table, checkpoints apart
	StateBytesRead       int64     `json:"state_bytes_read,omitempty"`       // by evaluation and for the history, of states in temporary files
	StateBytesWritten    int64     `json:"state_bytes_written,omitempty"`    // likewise
	ComputedRows         int64     `json:"computed_rows"`                    // of layers' outputs, by evaluation and for the history
	CheckpointBytes      int64     `json:"checkpoint_bytes,omitempty"`       // of learned vectors, by checkpoints and for evaluation
	Table                string    `json:"table,omitempty"`                  // of learned vectors
	Batches              int64     `json:"batches"`
	SampledEdges         int64     `json:"sampled_edges"`
	ListedEdges          int64     `json:"listed_edges,omitempty"` // of a run with Prune: of the lists that were drawn from
	PrunedEdges          int64     `json:"pruned_edges,omitempty"` // those of them that it left out
	Seed                 uint64    `json:"seed"`
	Resumed              bool      `json:"resumed,omitempty"`
	// Neighbours is what the model sees of the training nodes, where that was counted ([Hooks].Neighbours).
	Neighbours *reach.Seen `json:"neighbours,omitempty"`
	// Baselines is what the result stands beside, where that was asked for ([Hooks].Baselines).
	Baselines *baseline.Result `json:"baselines,omitempty"`
	// Choices is how layers were computed, which decides the results' last bits.
	Choices  []nn.Choice      `json:"choices,omitempty"`
	Plan     string           `json:"plan"`
	Device   string           `json:"device"`
	IOEngine string           `json:"io_engine"`
	Profile  progress.Profile `json:"profile"` // of all epochs together
	// DeviceRows is the epochs' together, as far as this process trained them.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Areas are how well a model of two classes ranks a split's nodes by the second class, or one of several labels a node by each of them, of
// which it is the mean; of the best epoch's model: the area under the ROC curve, and the average precision. nil: the split has no nodes, or none of a class.
type Areas struct {
	TestAUC        *float64 `json:"test_auc,omitempty"`
	ValidAUC       *float64 `json:"valid_auc,omitempty"`
	TestPrecision  *float64 `json:"test_average_precision,omitempty"`
	ValidPrecision *float64 `json:"valid_average_precision,omitempty"`
}

// Errors is how far a model of numbers is from a split's labels, in their unit ([eval.NumberMetrics]); nil: the split has no nodes, or,
// of R², fewer than two.
type Errors struct {
	TrainMAE  *float64 `json:"train_mae,omitempty"` // of an epoch, dropout on
	ValidMAE  *float64 `json:"valid_mae,omitempty"`
	ValidRMSE *float64 `json:"valid_rmse,omitempty"`
	ValidR2   *float64 `json:"valid_r2,omitempty"`
	TestMAE   *float64 `json:"test_mae,omitempty"`
	TestRMSE  *float64 `json:"test_rmse,omitempty"`
	TestR2    *float64 `json:"test_r2,omitempty"`
}

// set takes the metrics of valid and test.
func (e *Errors) set(ms []eval.Metrics) {
	for i, to := range [][3]**float64{{&e.ValidMAE, &e.ValidRMSE, &e.ValidR2}, {&e.TestMAE, &e.TestRMSE, &e.TestR2}} {
		n := ms[i].Numbers
		if n == nil {
			continue
		}
		for k, x := range []float64{n.MAE, n.RMSE, n.R2} {
			if !math.IsNaN(x) {
				*to[k] = &x
			}
		}
	}
}

// F1 is how well a model says the labels of a split's nodes, of which each may have several ([eval.LabelMetrics]); nil: the split has no
// nodes.
type F1 struct {
	ValidMicro *float64 `json:"valid_micro_f1,omitempty"`
	ValidMacro *float64 `json:"valid_macro_f1,omitempty"`
	ValidExact *float64 `json:"valid_exact_match,omitempty"`
	TestMicro  *float64 `json:"test_micro_f1,omitempty"`
	TestMacro  *float64 `json:"test_macro_f1,omitempty"`
	TestExact  *float64 `json:"test_exact_match,omitempty"`
}

// set takes the metrics of valid and test.
func (f *F1) set(ms []eval.Metrics) {
	for i, to := range [][3]**float64{{&f.ValidMicro, &f.ValidMacro, &f.ValidExact}, {&f.TestMicro, &f.TestMacro, &f.TestExact}} {
		if l := ms[i].Labels; l != nil {
			*to[0], *to[1], *to[2] = &l.MicroF1, &l.MacroF1, &l.Exact
		}
	}
}

// Hooks let a caller watch a run. Any may be nil; they are called from the
// training goroutine and should return soon.
type Hooks struct {
	// Start is called once before the first epoch with the configuration in full.
	Start func(config.Config)
	// Fitted is called once before Start, where the configuration left the model open, with which one is trained and why.
	Fitted func(why string)
	// Neighbours is called once before Start, of a run that begins with a model that reads neighbours, with what it sees of the training
	// nodes: all edges are read once for it. An error ends the run.
	Neighbours func(reach.Seen) error
	// Plan is called once after Start with why the plan was chosen, in sentences.
	Plan func(why []string)
	// Outlook is called once after Start with what a plan of several steps is expected to cost.
	Outlook func(planning.Outlook)
	Batch   func(epoch int, batches int64) // after each mini-batch's step
	Epoch   func(Epoch)
	// Enough is asked after each epoch: where it says so, the run ends as if validation had not improved for long.
	Enough func(Epoch) bool
	// Choices is called once, when the first mini-batch has decided how layers are computed.
	Choices func([]nn.Choice)
	// Resume is called once after Start in a run with [Config].Resume: what was trained before, or found false, if there is no
	// checkpoint to go on from.
	Resume func(found bool, epochs, step, batch int)
	// Checkpoint is called after each with what it holds: finished epochs, and the step and mini-batch of the
	// next one that come next.
	Checkpoint func(epochs, step, batch int)
	// Macro is called after each epoch's training with what the partition buffer measured, and what feature rows cost between host
	// and device; nil where the device reads them where they are.
	Macro func(buffer.Stats, *cache.Traffic)
	// Baselines is called at the end with what the result stands beside, which is computed for it once the run's memory is given back.
	Baselines func(*baseline.Result)
	// Confusion is called at the end with what the resulting model makes of the nodes of valid and test.
	Confusion func(split string, c *eval.Confusion)
}

// add counts an epoch.
func (s *Summary) add(r *Epoch) {
	s.EpochSeconds = append(s.EpochSeconds, r.Seconds)
	s.Profile.Add(r.Profile)
	s.TrainLoss = r.Loss
	s.Batches += r.Batches
	s.SampledEdges += r.SampledEdges
	s.ListedEdges += r.ListedEdges
	s.PrunedEdges += r.PrunedEdges
	s.TrainBytesRead += r.BytesRead
	if d := r.DeviceRows; d != nil {
		if s.DeviceRows == nil {
			s.DeviceRows = &cache.Traffic{}
		}
		s.DeviceRows.Add(d)
	}
}
