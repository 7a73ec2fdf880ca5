package temporal

import (
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
)

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
	EvalEdges int `json:"eval_edges"`
	options.Running
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
