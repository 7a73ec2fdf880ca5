package link

import (
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/store/buffer"
)

// Epoch is what happened in one epoch of link prediction.
type Epoch struct {
	Epoch int     `json:"epoch"` // from 1
	Loss  float64 `json:"loss"`  // mean over queries, two an edge
	// Valid is exact and filtered, after the epoch; nil if it was not computed.
	Valid        *eval.RankMetrics `json:"valid,omitempty"`
	Seconds      float64           `json:"seconds"`       // of training, waits included
	CPUSeconds   float64           `json:"cpu_seconds"`   // of the process meanwhile
	ValidSeconds float64           `json:"valid_seconds"` // of validation
	BytesRead    int64             `json:"bytes_read"`
	BytesWritten int64             `json:"bytes_written"` // embeddings and state that left memory; checkpoints apart
	Bias         float64           `json:"bias"`          // the plan's edge permutation bias (MariusGNN section 6)
	Steps        int               `json:"steps"`         // macro-batches
	Batches      int64             `json:"batches"`
	SampledEdges int64             `json:"sampled_edges"`
	Profile      progress.Profile  `json:"profile"`
	gpu.DeviceTimes
	// DeviceRows is what embeddings and features cost between host and device; nil where the device reads and writes them where they are.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// SharedHits are further shares of test edges among the best, of lists whose edges share their negatives ([eval.RankMetrics].Shared).
type SharedHits struct {
	Hits20  float64 `json:"hits20"`
	Hits50  float64 `json:"hits50"`
	Hits100 float64 `json:"hits100"`
}

// Summary is a run's result: the keys of the summary event.
type Summary struct {
	TestMRR         float64   `json:"test_mrr"` // filtered, after the last epoch; test ranks are 0 of a store without edges to test with
	TestHits1       float64   `json:"test_hits1"`
	TestHits3       float64   `json:"test_hits3"`
	TestHits10      float64   `json:"test_hits10"`
	TestRawMRR      float64   `json:"test_raw_mrr"` // known answers not left out
	ValidMRR        float64   `json:"valid_mrr"`
	TrainLoss       float64   `json:"train_loss"` // of the last epoch
	EpochSeconds    []float64 `json:"epoch_seconds"`
	EpochCPUSeconds []float64 `json:"epoch_cpu_seconds"`
	// Rates are the learning rates that the run tried and chose one of, see [Config].Rates.
	Rates []TriedRate `json:"rates,omitempty"`
	// DiscardedEpochs were trained after the best one at the full learning rate, before the run went back to that, or to choose
	// that rate; their bytes and mini-batches are among those below.
	DiscardedEpochs  int              `json:"discarded_epochs,omitempty"`
	DiscardedSeconds float64          `json:"discarded_seconds,omitempty"`
	TotalSeconds     float64          `json:"total_seconds"`
	CPUSeconds       float64          `json:"cpu_seconds"`
	PeakRSSBytes     int64            `json:"peak_rss_bytes"`
	BytesRead        int64            `json:"bytes_read"`
	BytesWritten     int64            `json:"bytes_written"`    // checkpoints apart
	CheckpointBytes  int64            `json:"checkpoint_bytes"` // written by checkpoints
	Checkpoints      int              `json:"checkpoints"`
	Amplification    float64          `json:"write_amplification"` // of BytesWritten: by padding
	Bias             float64          `json:"bias"`                // mean of the epochs' plans
	Given            bool             `json:"given,omitempty"`     // test ranks are among the data set's own negatives
	Shared           *SharedHits      `json:"shared,omitempty"`    // nil unless all edges share them
	Table            string           `json:"table"`
	Resumed          bool             `json:"resumed"`
	Batches          int64            `json:"batches"`
	SampledEdges     int64            `json:"sampled_edges"`
	Seed             uint64           `json:"seed"`
	Plan             string           `json:"plan"`
	Device           string           `json:"device"`
	IOEngine         string           `json:"io_engine"`
	Profile          progress.Profile `json:"profile"` // of all epochs together
	// DeviceRows is the epochs' together, as far as this process trained them.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Result is a finished run.
type Result struct {
	Version uint64  `json:"version"` // of the store that it was trained on
	Config  Config  `json:"config"`
	Summary Summary `json:"summary"`
}

// Hooks let a caller watch a run. Any may be nil; they are called from the training goroutine.
type Hooks struct {
	// Start is called once before the first epoch with the configuration in full and why the plan was chosen.
	Start func(c Config, why []string)
	Batch func(epoch int, batches int64) // after each mini-batch's step; epoch from 0
	Epoch func(Epoch)
	// Macro is called after each epoch with what the partition buffer measured, and Epoch.DeviceRows.
	Macro func(buffer.Stats, *cache.Traffic)
	// Resume is called once after Start in a run with [Config].Resume: what was trained before, or found false, if there is no
	// table to go on with.
	Resume func(found bool, epochs, step, batch int)
	// Back is called when the run, which so far had no number of epochs, goes back to its best one, from 1: it has so many now.
	Back func(best, epochs int)
	// Rewind is called when the run goes back to the end of an epoch, or to the beginning (0), and trains the ones behind once more, by c.
	Rewind func(c Config, epochs int)
	// Rate is called once a run that tried several learning rates goes on with one of them, c.LR, behind so many epochs: 0 or those that it
	// was tried for.
	Rate func(c Config, epochs int, tried []TriedRate)
	// Checkpoint is called after each with its number and what it holds: finished epochs, and the
	// step and mini-batch of the next one that come next.
	Checkpoint func(number uint64, epochs, step, batch int)
}

// add counts an epoch.
func (s *Summary) add(r *Epoch) {
	s.Bias += (r.Bias - s.Bias) / float64(len(s.EpochSeconds)+1)
	s.TrainLoss = r.Loss
	s.BytesRead += r.BytesRead
	s.BytesWritten += r.BytesWritten
	s.Batches += r.Batches
	s.SampledEdges += r.SampledEdges
	s.Profile.Add(r.Profile)
	s.EpochSeconds = append(s.EpochSeconds, r.Seconds)
	s.EpochCPUSeconds = append(s.EpochCPUSeconds, r.CPUSeconds)
	if d := r.DeviceRows; d != nil {
		if s.DeviceRows == nil {
			s.DeviceRows = &cache.Traffic{}
		}
		s.DeviceRows.Add(d)
	}
}

// discard counts in s, that of the epoch that a run goes back to, what it had tried since.
func (s *Summary) discard(tried *Summary) {
	s.Rates, s.DiscardedEpochs, s.DiscardedSeconds = tried.Rates, tried.DiscardedEpochs, tried.DiscardedSeconds
	s.CheckpointBytes, s.Checkpoints = tried.CheckpointBytes, tried.Checkpoints
	for _, x := range tried.EpochSeconds[len(s.EpochSeconds):] {
		s.DiscardedEpochs++
		s.DiscardedSeconds += x
	}
	s.BytesRead, s.BytesWritten, s.Batches, s.SampledEdges = tried.BytesRead, tried.BytesWritten, tried.Batches, tried.SampledEdges
	s.Profile, s.DeviceRows = tried.Profile, tried.DeviceRows
}

// addTable adds what was written by this process.
func (s *Summary) addTable(t buffer.TableStats) {
	s.CheckpointBytes += t.FlushedBytes
	s.Checkpoints += t.Checkpoints
	s.Amplification = t.WriteAmplification()
}
