package temporal

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/gstore/gstore/sampler/mini"
)

// Config is everything that decides a run's result, and what it may use. The zero value of a field means its default; Normalize
// fills them in. Tags say what flag a field is (tools/cli/command.Options).
type Config struct {
	// Sampler draws a node's past edges, one of [mini.TimedSamplers]; default [mini.Latest].
	Sampler   string  `json:"sampler" group:"model" values:"latest,temporal" default:"latest"`
	Fanouts   []int   `json:"fanouts" group:"model" default:"10"`                 // one: past edges of a node; default 10
	Dim       int     `json:"dim" group:"link prediction"`                        // of vectors and states; default 64
	BatchSize int     `json:"batch_size" group:"optimiser"`                       // edges of a mini-batch; default 1000
	Epochs    int     `json:"epochs" resume:"free" group:"optimiser" default:"3"` // default 3
	LR        float64 `json:"lr" group:"optimiser" default:".01"`                 // of Adam; default .01
	Negatives int     `json:"negatives" group:"link prediction"`                  // wrong answers that a batch shares; default 500
	// DegreeShare of the wrong answers are the ends of random training edges, the rest uniform; default 0.
	DegreeShare float64 `json:"degree_share" group:"link prediction,expert"`
	Seed        uint64  `json:"seed" group:"optimiser"`
	// TimeEncoding is how the age of an edge enters its message, one of [TimeEncodings]; default [TimeCos], also of models of versions
	// that knew no other.
	TimeEncoding string `json:"time_encoding" group:"model" help:"how an edge's age enters its message: cosines of fixed frequencies, their sines too, both of frequencies that are learned (TGAT), or not at all" values:"cos,cos-sin,learned,none"`
	// NoRecency leaves out of scores when a candidate was last met, by the node and by any.
	NoRecency bool `json:"no_recency" group:"link prediction" help:"do not score by when a candidate was last met, by the node and by any"`
	// ValidShare and TestShare of the edges, the last ones in time, are for validation and test; default .15 each.
	ValidShare float64 `json:"valid_share" group:"data" help:"share of the edges, before those of test, that validate" default:".15"`
	TestShare  float64 `json:"test_share" group:"data" help:"share of the edges, the last in time, that test" default:".15"`
	// EvalEdges is how many edges of a split are ranked at most, a keyed sample; default 4000.
	EvalEdges   int    `json:"eval_edges" group:"data" help:"edges of a split that are ranked at most"`
	MemoryBytes int64  `json:"mem_bytes" resume:"free" group:"out of core" flag:"mem" default:"none"` // of the partition buffer; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free" group:"input and output"`                      // default "auto"
	Device      string `json:"device" resume:"free" group:"input and output"`                         // default "auto"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free" group:"input and output" flag:"device-mem" default:"what is free, less a tenth"`
	MatMul            string `json:"matmul,omitempty" group:"input and output" default:"exact"`
	Threads           int    `json:"threads" resume:"free" group:"input and output" default:"all"` // default: all processors
	// CheckpointFile is where the run keeps, after every epoch, what it can be resumed from; no file: none. Resume goes on from
	// there; where there is none, a run begins. The result is an uninterrupted run's to the bit.
	CheckpointFile string `json:"-" resume:"free" group:"checkpoints,expert" flag:"checkpoint-file" default:"in the store, of its last run"`
	Resume         bool   `json:"-" resume:"free" group:"checkpoints" flag:"resume"`
	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they be zero.
	Given []string `json:"-" resume:"free"`
}

// Values of [Config].TimeEncoding.
const (
	TimeCos    = "cos"     // cos(ω·age), of a geometric series of ω
	TimeCosSin = "cos-sin" // sin(ω·age) too: the layer above learns a phase φ of each, cos(ω·age + φ)
	// TimeLearned is TimeCosSin of frequencies that the model learns, by their logarithms, from the series on.
	TimeLearned = "learned"
	TimeNone    = "none"
)

// TimeEncodings lists how ages can be encoded.
func TimeEncodings() []string { return []string{TimeCos, TimeCosSin, TimeLearned, TimeNone} }

// Normalize fills in defaults and says what is wrong with c.
func (c *Config) Normalize() error {
	number := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	share := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
	}
	if c.Sampler == "" {
		c.Sampler = mini.Latest
	}
	if c.TimeEncoding == "" {
		c.TimeEncoding = TimeCos
	}
	if len(c.Fanouts) == 0 {
		c.Fanouts = []int{10}
	}
	if c.IOEngine == "" {
		c.IOEngine = "auto"
	}
	if c.Device == "" {
		c.Device = "auto"
	}
	number(&c.Dim, 64)
	number(&c.BatchSize, 1000)
	number(&c.Epochs, 3)
	number(&c.Negatives, 500)
	number(&c.EvalEdges, 4000)
	number(&c.Threads, runtime.GOMAXPROCS(0))
	share(&c.LR, .01)
	share(&c.ValidShare, .15)
	share(&c.TestShare, .15)
	switch {
	case !slices.Contains(mini.TimedSamplers(), c.Sampler):
		return fmt.Errorf("train: sampler %q of edges at moments is not known (known: %v)", c.Sampler, mini.TimedSamplers())
	case !slices.Contains(TimeEncodings(), c.TimeEncoding):
		return fmt.Errorf("train: time encoding %q is not known (known: %v)", c.TimeEncoding, TimeEncodings())
	case len(c.Fanouts) != 1 || c.Fanouts[0] < 1:
		return fmt.Errorf("train: fanouts %v: expected one positive number, the past edges of a node", c.Fanouts)
	case c.Dim < 1 || c.BatchSize < 1 || c.Epochs < 1 || c.Negatives < 1 || c.EvalEdges < 1 || c.Threads < 1 || c.MemoryBytes < 0:
		return fmt.Errorf("train: dim %d, batch size %d, epochs %d, negatives %d, edges to rank %d, threads %d: expected positive numbers", c.Dim, c.BatchSize, c.Epochs, c.Negatives, c.EvalEdges, c.Threads)
	case int64(c.BatchSize)*int64(c.Negatives+1) > 1<<28 || c.Dim > 1<<16:
		return fmt.Errorf("train: %d edges with %d negatives, dim %d: use smaller batches", c.BatchSize, c.Negatives, c.Dim)
	case !(c.DegreeShare >= 0 && c.DegreeShare <= 1):
		return fmt.Errorf("train: degree share %v: expected 0 to 1", c.DegreeShare)
	case !(c.LR > 0) || !(c.ValidShare > 0) || !(c.TestShare > 0) || c.ValidShare+c.TestShare >= 1:
		return fmt.Errorf("train: learning rate %v, shares %v and %v of validation and test: expected > 0, and shares below 1 together", c.LR, c.ValidShare, c.TestShare)
	}
	return nil
}
