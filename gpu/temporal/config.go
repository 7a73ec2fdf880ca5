package temporal

import "github.com/gstore/gstore/store"

// Config is everything that decides a run's result, and what it may use. The zero value of a field means its default;
// Normalize fills them in. [Options] says of each field what flag it is, what it may be, and what it goes with.
type Config struct {
	// Sampler draws a node's past edges, one of [mini.TimedSamplers]; default [mini.Latest].
	Sampler   string  `json:"sampler"`
	Fanouts   []int   `json:"fanouts"`              // one: past edges of a node; default 10
	Dim       int     `json:"dim"`                  // of vectors and states; default 64
	BatchSize int     `json:"batch_size"`           // edges of a mini-batch; default 1000
	Epochs    int     `json:"epochs" resume:"free"` // default 3
	LR        float64 `json:"lr"`                   // of Adam; default .01
	Negatives int     `json:"negatives"`            // wrong answers that a batch shares; default 500
	// DegreeShare of the wrong answers are the ends of random training edges, the rest uniform; default 0.
	DegreeShare float64 `json:"degree_share"`
	Seed        uint64  `json:"seed"`
	// TimeEncoding is how the age of an edge enters its message, one of [TimeEncodings]; default [TimeCos], also of
	// models of versions that knew no other.
	TimeEncoding string `json:"time_encoding"`
	// NoRecency leaves out of scores when a candidate was last met, by the node and by any.
	NoRecency bool `json:"no_recency"`
	// ValidShare and TestShare of the edges, the last ones in time, are for validation and test; default .15 each.
	ValidShare float64 `json:"valid_share"`
	TestShare  float64 `json:"test_share"`
	// EvalEdges is how many edges of a split are ranked at most, a keyed sample; default 4000.
	EvalEdges   int    `json:"eval_edges"`
	MemoryBytes int64  `json:"mem_bytes" resume:"free"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free"` // default "auto"
	Device      string `json:"device" resume:"free"`    // default "auto"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free"`
	MatMul            string `json:"matmul,omitempty"`
	Threads           int    `json:"threads" resume:"free"` // default: all processors
	// CheckpointFile is where the run keeps what it can be resumed from, as often as CheckpointEvery says and where its
	// context ends it; no file: none. Resume goes on from there; where there is none, a run begins. The result is an
	// uninterrupted run's to the bit.
	CheckpointFile string `json:"-" resume:"free"`
	// CheckpointEvery is in epochs ("1", the default), mini-batches ("500steps") or time ("10m"); "0" is only at the end.
	CheckpointEvery string `json:"checkpoint_every,omitempty" resume:"free"`
	Resume          bool   `json:"-" resume:"free"`
	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they
	// be zero.
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

// Normalize fills in defaults and says what is wrong with c: an error that matches [store.ErrInvalid].
func (c *Config) Normalize() error {
	t := Options()
	t.Complete(c)
	return store.Invalid(t.Check(c))
}
