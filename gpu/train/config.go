package train

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
)

// Config is everything that decides a run's result, and what it may use. It is
// stored with the run. The zero value of a field means its default; Normalize fills
// them in. Fields tagged resume:"free" may differ from those of the run that is resumed.
type Config struct {
	Task  string `json:"task" yaml:"task"`             // "node" (default: the store's)
	Model string `json:"model" yaml:"model"`           // one of [nn.Models]; "sage" (default)
	Heads int    `json:"heads,omitempty" yaml:"heads"` // of gat; 0: 4
	// Aggregator of sage, Norm, Residual and Jumping of any model, and Bases of rgcn: see [nn.Config].
	Aggregator string `json:"aggregator,omitempty" yaml:"aggregator"`
	Norm       string `json:"norm,omitempty" yaml:"norm"`
	Residual   bool   `json:"residual,omitempty" yaml:"residual"`
	Jumping    string `json:"jumping,omitempty" yaml:"jumping"`
	Bases      int    `json:"bases,omitempty" yaml:"bases"`
	// Layers of the model; default: as many as Fanouts.
	Layers int `json:"layers" yaml:"layers"`
	Hidden int `json:"hidden" yaml:"hidden"` // columns between layers; default 128
	// Fanouts are the neighbours sampled per node and hop, outward from the
	// seeds, −1 for all; default 15,10,5,5… for Layers hops.
	Fanouts   []int `json:"fanouts" yaml:"fanouts"`
	BatchSize int   `json:"batch_size" yaml:"batch_size"` // seeds of a mini-batch; default 1000
	// Epochs of training; 0 (default): until the validation accuracy has not risen for Patience epochs, at most
	// EpochsMax, and EpochsBlind where no node is for validation.
	Epochs      int      `json:"epochs" yaml:"epochs" resume:"free"`
	Patience    int      `json:"patience,omitempty" yaml:"patience" resume:"free"` // default 20
	LR          float64  `json:"lr" yaml:"lr"`                                     // of Adam; default .005
	WeightDecay float64  `json:"weight_decay" yaml:"weight_decay"`
	Dropout     *float64 `json:"dropout" yaml:"dropout"` // of hidden states; default .5
	// InputDropout drops elements of the first layer's input rows; default 0.
	InputDropout float64 `json:"input_dropout" yaml:"input_dropout"`
	Seed         uint64  `json:"seed" yaml:"seed"`
	// Features names the feature columns; default: all of role feature.
	Features []string `json:"features" yaml:"features"`

	// Split names the split column; default: the store's first.
	Split string `json:"split" yaml:"split"`

	// Order says which product of a sage or gcn layer comes first: "auto" (default), by the
	// sizes of the first mini-batch, "aggregate" or "multiply". See [nn.Model.ChooseOrders].
	Order string `json:"order" yaml:"order"`

	// History adds the hidden states of neighbours that are not in memory to the
	// last layer's means, as of the start of the epoch; 2 layers or more.
	History bool `json:"history" yaml:"history"`
	// HistoryDtype is what the history's rows are stored as: "float32", "float16", "bfloat16"; "" (default)
	// is float32, float16 where features take 16 bits or fewer.
	HistoryDtype string `json:"history_dtype,omitempty" yaml:"history_dtype"`

	// Absent is what is done for neighbours that are out of memory, beside what History and PrecomputedHop ask for: "auto"
	// (default: what the store has and the model can use, see [Config.Complete]) or "ignore".
	Absent string `json:"absent,omitempty" yaml:"absent"`
	// LabelShift corrects the loss of steps whose classes are not mixed as the graph's: "auto" (default: where a step
	// has not all training nodes) or "off".
	LabelShift string `json:"label_shift,omitempty" yaml:"label_shift"`

	// PrecomputedHop reads the first layer's neighbourhood mean from the column
	// that precompute.Hop made: the model samples one hop less.
	PrecomputedHop bool `json:"precomputed_hop" yaml:"precomputed_hop"`

	Plan   string `json:"plan" yaml:"plan"`     // "auto" (default), "memory", "hanoi" or "trainnodes"
	Buffer int    `json:"buffer" yaml:"buffer"` // partitions resident at once, pinned ones not counted; 0: from MemoryBytes
	// Group is how many partitions plan memory trains together, see [macro.Config]; 0 (default): all.
	Group int `json:"group,omitempty" yaml:"group"`
	// Reuse is the extra passes over each macro-batch, 0 … 4 (hanoi only); default 0.
	// [macro.ReuseAuto] takes them, up to 4, while the next macro-batch is not in memory yet: such a run depends on
	// timing and is not repeated by its seed, but by its passes, which each Epoch has.
	Reuse int `json:"reuse" yaml:"reuse"`
	// ReusePasses are the passes of an earlier run with ReuseAuto, by epoch and step, to repeat.
	ReusePasses [][]int `json:"reuse_passes,omitempty" yaml:"reuse_passes"`

	MemoryBytes int64  `json:"mem_bytes" yaml:"mem_bytes" resume:"free"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" yaml:"io_engine" resume:"free"` // "auto" (default), "io_uring", "pread", "mmap"
	Device      string `json:"device" yaml:"device" resume:"free"`       // "auto" (default), "host", "cuda", "cuda:N"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how a GPU
	// multiplies: "exact" (default), "tf32" or "bf16".
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" yaml:"device_mem_bytes" resume:"free"`
	MatMul            string `json:"matmul,omitempty" yaml:"matmul"`
	Threads           int    `json:"threads" yaml:"threads" resume:"free"` // default: all processors
	// EvalEvery is the epochs between validations; default 1. The last epoch
	// is always validated.
	EvalEvery int `json:"eval_every" yaml:"eval_every"`

	// CheckpointFile is where the run keeps what it can be resumed from: parameters, optimiser state and
	// its place. It is replaced as often as CheckpointEvery says: epochs ("1"), mini-batches ("500steps") or time ("10m",
	// the default); "0": only at the end. No file: none.
	CheckpointFile  string `json:"-" yaml:"-" resume:"free"`
	CheckpointEvery string `json:"checkpoint_every,omitempty" yaml:"checkpoint_every" resume:"free"`
	// Resume goes on from CheckpointFile; where there is none, a run begins. The result is an
	// uninterrupted run's to the bit.
	Resume bool `json:"-" yaml:"-" resume:"free"`
}

// defaultFanouts are the neighbours per hop when none are given.
var defaultFanouts = [...]int{15, 10, 5}

// Normalize fills in defaults and says what is wrong with c.
func (c *Config) Normalize() error {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&c.Task, "node")
	set(&c.Model, "sage")
	set(&c.Plan, "auto")
	set(&c.IOEngine, "auto")
	set(&c.Device, "auto")
	set(&c.Order, nn.OrderAuto)
	set(&c.Absent, AbsentAuto)
	set(&c.LabelShift, ShiftAuto)
	set(&c.CheckpointEvery, "10m")
	setInt := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if c.Layers == 0 {
		c.Layers = len(c.Fanouts)
	}
	setInt(&c.Layers, 2)
	for i := len(c.Fanouts); i < c.Layers; i++ {
		c.Fanouts = append(c.Fanouts, defaultFanouts[min(i, len(defaultFanouts)-1)])
	}
	setInt(&c.Hidden, 128)
	setInt(&c.BatchSize, 1000)
	setInt(&c.Patience, 20)
	setInt(&c.Threads, runtime.GOMAXPROCS(0))
	setInt(&c.EvalEvery, 1)
	if c.LR == 0 {
		c.LR = .005
	}
	if c.Dropout == nil {
		half := .5
		c.Dropout = &half
	}
	return c.validate()
}

func (c *Config) validate() error {
	switch {
	case c.Task != "node" && c.Task != "auto":
		return fmt.Errorf("train: task %q is not known (known: node)", c.Task)
	case c.PrecomputedHop && c.Layers < 2:
		return fmt.Errorf("train: a precomputed hop leaves a model of %d layer nothing to sample: use 2 layers or more", c.Layers)
	case c.History && c.Model != "sage":
		return fmt.Errorf("train: model %s has no history: its messages are not means over neighbours (known: sage)", c.Model)
	case c.History && (c.Aggregator == "max" || c.Jumping != "" && c.Jumping != nn.JumpLast):
		return fmt.Errorf("train: history completes the means below a last layer: it takes neither aggregator max nor jumping")
	case c.History && c.Layers < 2:
		return fmt.Errorf("train: a model of %d layer has no hidden states to keep a history of: use 2 layers or more", c.Layers)
	case c.HistoryDtype != "" && !c.History:
		return fmt.Errorf("train: history rows of %s, but no history is asked for", c.HistoryDtype)
	case c.HistoryDtype != "" && c.HistoryDtype != "float32" && c.HistoryDtype != "float16" && c.HistoryDtype != "bfloat16":
		return fmt.Errorf("train: history rows of %s: expected float32, float16 or bfloat16", c.HistoryDtype)
	case c.Absent != AbsentAuto && c.Absent != AbsentIgnore:
		return fmt.Errorf("train: absent neighbours %q: expected %s or %s", c.Absent, AbsentAuto, AbsentIgnore)
	case c.LabelShift != ShiftAuto && c.LabelShift != ShiftOff:
		return fmt.Errorf("train: label shift %q: expected %s or %s", c.LabelShift, ShiftAuto, ShiftOff)
	case c.Layers < 1 || len(c.Fanouts) != c.Layers:
		return fmt.Errorf("train: %d fanouts %v for %d layers: one a layer is needed", len(c.Fanouts), c.Fanouts, c.Layers)
	case c.Patience < 1:
		return fmt.Errorf("train: patience of %d epochs, expected 1 or more", c.Patience)
	case c.BatchSize < 1 || c.Epochs < 0 || c.Hidden < 1 || c.Threads < 1 || c.EvalEvery < 1:
		return fmt.Errorf("train: batch size %d, epochs %d, hidden %d, threads %d, eval every %d: expected positive numbers", c.BatchSize, c.Epochs, c.Hidden, c.Threads, c.EvalEvery)
	case !(c.LR > 0) || !(c.WeightDecay >= 0):
		return fmt.Errorf("train: learning rate %v and weight decay %v: expected > 0 and ≥ 0", c.LR, c.WeightDecay)
	case !(*c.Dropout >= 0 && *c.Dropout < 1) || !(c.InputDropout >= 0 && c.InputDropout < 1):
		return fmt.Errorf("train: dropout %v and input dropout %v, expected 0 ≤ p < 1", *c.Dropout, c.InputDropout)
	case c.Reuse < macro.ReuseAuto || c.Reuse > macro.ReuseMax:
		return fmt.Errorf("train: reuse %d, expected 0 to %d extra passes, or %d while reads are pending", c.Reuse, macro.ReuseMax, macro.ReuseAuto)
	case c.ReusePasses != nil && c.Reuse != macro.ReuseAuto:
		return fmt.Errorf("train: passes to repeat and reuse %d, expected %d", c.Reuse, macro.ReuseAuto)
	case c.MemoryBytes < 0 || c.Buffer < 0:
		return fmt.Errorf("train: memory %d bytes, buffer %d partitions: expected 0 or more", c.MemoryBytes, c.Buffer)
	}
	if c.ReusePasses != nil {
		if err := checkPasses(c.ReusePasses, cmp.Or(c.Epochs, len(c.ReusePasses))); err != nil {
			return err
		}
	}
	if c.Resume && c.CheckpointFile == "" {
		return fmt.Errorf("train: resume: no file of checkpoints is named")
	}
	if _, err := progress.ParseInterval(c.CheckpointEvery); err != nil {
		return err
	}
	m := c.model(shape{in: 1, classes: 1, relations: 1}) // what the store decides is checked when the model is built
	return m.Validate()
}

// shape is what the data decides of a model.
type shape struct {
	in, classes int
	relations   int  // edge types of the store
	inverse     bool // edges are read in both directions, those against theirs as relations of their own
}

// model returns the model's description for a store.
func (c *Config) model(s shape) nn.Config {
	m := nn.Config{Model: c.Model, Heads: c.Heads, Aggregator: c.Aggregator, Norm: c.Norm, Residual: c.Residual, Jumping: c.Jumping, Bases: c.Bases,
		Layers: c.Layers, In: s.in, Hidden: c.Hidden, Out: s.classes, Dropout: float32(*c.Dropout), InputDropout: float32(c.InputDropout), PrecomputedHop: c.PrecomputedHop, Order: c.Order, Seed: c.Seed}
	if c.Model == "rgcn" {
		m.Relations = s.relations
		if s.inverse {
			m.Relations *= 2
		}
	}
	return m
}
