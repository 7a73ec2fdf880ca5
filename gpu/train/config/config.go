package config

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Config is everything that decides a run's result, and what it may use. It is
// stored with the run. The zero value of a field means its default; Normalize fills
// them in. [Options] says of each field what flag it is, what it may be, and what it goes with.
// Fields tagged resume:"free" may differ from those of the run that is resumed.
type Config struct {
	Task  string `json:"task"`            // "node" (default: the store's)
	Model string `json:"model"`           // one of [nn.Models]; "sage" (default), or ModelAuto
	Heads int    `json:"heads,omitempty"` // of gat and rgat; 0: 4
	// Aggregator of sage, Norm, Residual and Jumping of any model, and Bases of rgcn: see [nn.Config].
	Aggregator string `json:"aggregator,omitempty"`
	Norm       string `json:"norm,omitempty"`
	Residual   bool   `json:"residual,omitempty"`
	Jumping    string `json:"jumping,omitempty"`
	Bases      int    `json:"bases,omitempty"`
	// Layers of the model; default: as many as Fanouts.
	Layers int `json:"layers"`
	Hidden int `json:"hidden"` // columns between layers; default 128
	// Fanouts are the neighbours sampled per node and hop, outward from the
	// seeds, −1 for all; default 15,10,5,5… for Layers hops.
	Fanouts []int `json:"fanouts"`
	// RelationFanouts are fanouts of single relations, "depends=10,5;provides=5,5": of a node's edges of each
	// relation, in each direction, as many are drawn, and Fanouts of each relation that is not named. A name is the
	// store's, or what is between the types in it where that is one relation's. For models of relations and sampler
	// uniform. "": Fanouts are of all relations' edges together.
	RelationFanouts string `json:"relation_fanouts,omitempty"`
	// EdgeWeights weighs neighbours by their edges' weights, of which the store must have a column, in sage's means
	// and gcn's sums ([nn.EdgeWeigher]). Neighbours are drawn as without: not by weight, which would count it twice.
	// Off by default.
	EdgeWeights bool `json:"edge_weights,omitempty"`
	// EdgeFeatures names columns of edges that gat's attention reads side by side in this order
	// ([nn.Config].EdgeDim), as they are stored: features, of any type and dimension, the weight, the time. Default:
	// none.
	EdgeFeatures []string `json:"edge_features,omitempty"`
	// Sampler is how neighbours are drawn, one of [mini.Samplers]; "" (default): [mini.Uniform]. [mini.Weighted]
	// needs a store with weights of edges, which draw neighbours and nothing else: means are plain.
	Sampler string `json:"sampler,omitempty"`
	// Walks of at most WalkLength steps each, from every node, find the neighbours of sampler pinsage; after a step
	// one begins anew with probability WalkRestart. 0 and nil: see [mini.Walks]. Evaluation reads all edges, as ever.
	Walks       int      `json:"walks,omitempty"`
	WalkLength  int      `json:"walk_length,omitempty"`
	WalkRestart *float64 `json:"walk_restart,omitempty"`
	// Prune is "A,B": of a list of more than A times the graph's mean degree plus B times the fanout neighbours only
	// so many, that lie together from a random one on, are drawn from, see [mini.Prune]; "" (default): all are. For
	// uniform and dense.
	Prune     string `json:"prune,omitempty"`
	BatchSize int    `json:"batch_size"` // seeds of a mini-batch; default 1000
	// Accumulate is how many mini-batches' gradients make a step of the optimiser, the mean over their labels: such a
	// step is that of one mini-batch of as many times the seeds, but for the neighbours that are drawn, in the memory
	// of the small one. Default 1.
	Accumulate int `json:"accumulate,omitempty"`
	// Epochs of training; 0 (default): until neither the validation accuracy has risen nor the validation loss fallen for Patience epochs, at
	// most run.EpochsMax, and run.EpochsBlind where no node is for validation.
	Epochs   int     `json:"epochs" resume:"free"`
	Patience int     `json:"patience,omitempty" resume:"free"` // default 20, up to 100 where an epoch is few steps, see planning.Decide
	LR       float64 `json:"lr"`                               // of Adam; default .005
	// LRSchedule is how the learning rate goes on from epoch to epoch: ScheduleConstant (default), ScheduleCosine, ScheduleLinear or
	// SchedulePlateau.
	LRSchedule string `json:"lr_schedule,omitempty"`
	// WeightDecay is added to the gradient, times the parameter; nil: 0, or what planning.Decide takes where few nodes are trained.
	WeightDecay *float64 `json:"weight_decay"`
	Dropout     *float64 `json:"dropout"` // of hidden states; default .5
	// InputDropout drops elements of the first layer's input rows; nil (default): hopDropout with a precomputed hop,
	// else 0.
	InputDropout *float64 `json:"input_dropout,omitempty"`
	Seed         uint64   `json:"seed"`
	// Features names the feature columns, which a model reads side by side in this order; default: all of role feature
	// that are computed from no other, in the store's order. Means of a precomputed hop follow what they are of.
	Features []string `json:"features"`

	// Split names the split column; default: the store's first.
	Split string `json:"split"`

	// Order says which product of a sage or gcn layer comes first: "auto" (default), by the
	// sizes of the first mini-batch, "aggregate" or "multiply". See [nn.Model.ChooseOrders].
	Order string `json:"order"`

	// History adds the hidden states of neighbours that are not in memory to the
	// last layer's means, as of the start of the epoch; 2 layers or more. Models that tell relations apart have no
	// precomputed hop: theirs completes the means of all layers, relation by relation.
	History bool `json:"history"`
	// HistoryDtype is what the history's rows are stored as: "float32", "float16", "bfloat16"; "" (default)
	// is float32, float16 where features take 16 bits or fewer.
	HistoryDtype string `json:"history_dtype,omitempty"`

	// Absent is what is done for neighbours that are out of memory, or in memory but not drawn, beside what History
	// and PrecomputedHop ask for: "auto" (default: what the store has and the model can use, see planning.Complete)
	// or "ignore".
	Absent string `json:"absent,omitempty"`
	// LabelShift corrects the loss of steps whose classes are not mixed as the graph's: "auto" (default: where a step
	// has not all training nodes) or "off".
	LabelShift string `json:"label_shift,omitempty"`
	// ClassWeights weighs the loss by class: "none" (default), or WeightsAuto, all classes alike ([feed.ClassWeights]): then the best
	// epoch is that of the best balanced accuracy.
	ClassWeights string `json:"class_weights,omitempty"`

	// Mixture is which partitions a step of plan hanoi has: MixtureLabels, so that its classes are mixed as the graph's;
	// MixtureRandom; MixtureAuto (default), what planning chooses.
	Mixture string `json:"mixture,omitempty"`

	// Vectors is where models of relations keep the vectors that they learn of nodes of types without features:
	// VectorsMemory, as parameters; VectorsTable, as rows of table Table of the store, which come and go with
	// partitions; VectorsAuto (default), a table where parameters do not fit MemoryBytes. A step of the optimiser
	// moves all parameters, but of a table the rows that it read.
	Vectors string `json:"vectors,omitempty"`
	// Table is the store's table of learned vectors; default "vectors".
	Table string `json:"table,omitempty"`
	// Overwrite lets a run that begins replace a table of that name.
	Overwrite bool `json:"-" resume:"free"`
	// VectorTypes are the node types whose vectors are in the table, once that was decided.
	VectorTypes []string `json:"vector_types,omitempty" resume:"free"`

	// PrecomputedHop reads the first layer's neighbourhood mean, gcn's or gin's sum, from the column that
	// precompute.Hop made: the model samples one hop less. Of sums Features names these alone. rsage reads Hops
	// instead.
	PrecomputedHop bool `json:"precomputed_hop"`
	// Hops are the columns that rsage reads instead of the first layer's means by some relations, which it does not
	// sample then: with PrecomputedHop all that the store has of c.Features. They are no features.
	Hops []string `json:"hops,omitempty"`

	Plan   string `json:"plan"`   // "auto" (default), "memory", "rows", "hanoi" or "trainnodes"
	Buffer int    `json:"buffer"` // partitions resident at once, pinned ones not counted; 0: from MemoryBytes
	// RowReads is how plan rows reads: RowsCached, single rows by way of a cache; RowsPacked, all features once for a
	// window of mini-batches, whose rows go by a temporary file; RowsAuto (default), what the device is estimated to
	// do sooner.
	RowReads string `json:"row_reads,omitempty" resume:"free"`
	// Group is how many partitions plan memory trains together, see [macro.Config]; 0 (default): all.
	Group int `json:"group,omitempty"`
	// Reuse is the extra passes over each macro-batch, 0 … 4 (hanoi only); default 0.
	// [macro.ReuseAuto] takes them, up to 4, while the next macro-batch is not in memory yet: such a run depends on
	// timing and is not repeated by its seed, but by its passes, which each Epoch has.
	Reuse int `json:"reuse"`
	// ReusePasses are the passes of an earlier run with ReuseAuto, by epoch and step, to repeat.
	ReusePasses [][]int `json:"reuse_passes,omitempty"`

	MemoryBytes int64  `json:"mem_bytes" resume:"free"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free"` // "auto" (default), "io_uring", "pread", "mmap"
	Device      string `json:"device" resume:"free"`    // "auto" (default), "host", "cuda", "cuda:N"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free"`
	MatMul            string `json:"matmul,omitempty"`
	// DeviceCache is which feature rows a device that is not the host's memory keeps: "auto" (default: what moves
	// least of the others on the run's first batches), "none", "tracker", "lookahead" or "presc", see [cache.Policy].
	// DeviceWindow is how many batches lookahead knows; default 16, and without MemoryBytes up to 62 where those move
	// less. Neither changes a result. What presc counts the store keeps ([store.Store.KeepVisits]).
	DeviceCache  string `json:"device_cache,omitempty" resume:"free"`
	DeviceWindow int    `json:"device_window,omitempty" resume:"free"`
	// ondevice.Plan is how feature rows come to a device, see [macro.DeviceRecord]: "auto" (default: "direct" or
	// "mirror", by bytes). "lbs" and "pbs" are samplers, on any device: they decide what mini-batches are.
	// DeviceMacro is the size of their macro-batches: mini-batches drawn together (lbs; default 16), partitions
	// trained together (pbs; default an eighth).
	DevicePlan  string `json:"device_plan,omitempty"`
	DeviceMacro int    `json:"device_macro,omitempty"`
	// RecordSteps says whether a GPU takes a training step down and runs it again by one call, mini-batches padded to
	// a few shapes: "auto" (default: where shapes allow) or "off". It changes no bit of a result.
	RecordSteps string `json:"record_steps,omitempty" resume:"free"`
	// SampleOn says where mini-batches are drawn: "host", "device", from neighbour lists that lie there, which takes
	// plan mirror, or "auto" (default: there where it can and less crosses). It changes no bit of a result. A device
	// that is the host's memory has the host draw.
	SampleOn string `json:"sample_on,omitempty" resume:"free"`
	Threads  int    `json:"threads" resume:"free"` // default: all processors
	// EvalEvery is the epochs between validations; default 1, or a twentieth of Patience where that is longer. The last epoch
	// is always validated.
	EvalEvery int `json:"eval_every"`

	// CheckpointFile is where, on the store's file system, the run keeps what it can be resumed from: parameters,
	// optimiser state and its place. It is replaced as often as CheckpointEvery says: epochs ("1"), mini-batches
	// ("500steps") or time ("10m", the default); "0": only at the end. No file: none.
	CheckpointFile  string `json:"-" resume:"free"`
	CheckpointEvery string `json:"checkpoint_every,omitempty" resume:"free"`
	// Resume goes on from CheckpointFile; where there is none, a run begins. The result is an
	// uninterrupted run's to the bit.
	Resume bool `json:"-" resume:"free"`

	// From names the model that the run begins with, for the record; "": new parameters. Begin is that model.
	From  string `json:"from,omitempty" resume:"free"`
	Begin *Begin `json:"-" resume:"free"`

	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they
	// be zero.
	Given []string `json:"-" resume:"free"`
	// BatchSizeAuto says that BatchSize is Normalize's own: a run may lower it to a half or a quarter, see Complete.
	BatchSizeAuto bool `json:"-" resume:"free"`

	VectorsOf *vectors.Of `json:"-" resume:"free"` // of VectorTypes, once they were counted; nil without

	// Nodes, if not nil, are what loaders train on instead of a split's.
	Nodes *buffer.Seeds `json:"-" resume:"free"`

	// Forward reads edges in their direction alone, for loaders whose model asks for no others.
	Forward bool `json:"-" resume:"free"`

	// MostlyZero says of the one feature that few of its elements are other than 0, as of a bag of words: where the model can, they are multiplied
	// before all else, whatever the plan. Sparse counts them where they alone are in memory, of all nodes. Of the store, by planning.
	MostlyZero bool           `json:"-" resume:"free"`
	Sparse     *sparse.Counts `json:"-" resume:"free"`
	// Dense: the run goes on from one that added up features before it multiplied them.
	Dense bool `json:"-" resume:"free"`

	Lossy bool `json:"-" resume:"free"` // a plan over partitions is expected to lose presentPoints or more, see Complete
}

// hopDropout is the default input dropout of a model that reads a precomputed hop: an exact mean has none of the
// noise of a sampled one, and a model fits it too well (docs/lab/findings.md, "Regularisation").
const hopDropout = .1

// InputDropout is InputDropout or its default.
func (c *Config) InputDropoutUsed() float64 {
	switch {
	case c.InputDropout != nil:
		return *c.InputDropout
	case c.PrecomputedHop && !c.Relational():
		return hopDropout
	}
	return 0
}

// DecayUsed is WeightDecay, or 0.
func (c *Config) DecayUsed() float64 {
	if c.WeightDecay == nil {
		return 0
	}
	return *c.WeightDecay
}

// defaultFanouts are the neighbours per hop when none are given.
var defaultFanouts = [...]int{15, 10, 5}

// Normalize fills in defaults and says what is wrong with c: an error that matches [store.ErrInvalid].
func (c *Config) Normalize() error {
	if c.Task == "" {
		c.Task = "node"
	}
	c.BatchSizeAuto = c.BatchSizeAuto || c.BatchSize == 0
	Options().Complete(c)
	if err := c.Validate(); err != nil {
		return store.Invalid(err)
	}
	if c.DevicePlan == macro.DevicePBS {
		c.Plan, c.History = macro.Memory, true // the halo's states
	}
	return nil
}

// Validate says what is wrong with c, whose defaults are filled in: by the table, and what the model finds behind it.
func (c *Config) Validate() error {
	if c.Task != "node" && c.Task != "auto" {
		return fmt.Errorf("train: the task of a store of labels is node, not %q", c.Task)
	}
	if err := Options().Check(c); err != nil {
		return err
	}
	// What the store decides is checked when the model is built.
	m := c.ModelConfig(Shape{In: 1, Classes: 1, Relations: 1, EdgeDim: len(c.EdgeFeatures)})
	return m.Validate()
}

// Relational reports whether the model reads its edges' relations.
func (c *Config) Relational() bool { return c.Kind().Relations }

// Kind says what models of c's name can do.
func (c *Config) Kind() nn.Kind { return nn.KindNamed(c.Model) }

const AbsentAuto = "auto"

const AbsentIgnore = "ignore"

// UnusedWeights says, in a sentence, that the store's edges have weights which a run of c leaves alone; "" where
// there are none, or they are used.
func (c *Config) UnusedWeights(m *store.Manifest) string {
	weights := m.ColumnsOf(store.RoleWeight)
	if c.EdgeWeights || c.Sampler == mini.Weighted || len(weights) == 0 || slices.Contains(c.EdgeFeatures, weights[0].Name) {
		return ""
	}
	return "the edges' weights are not used: --edge-weights weighs neighbours by them (sage, gcn), --edge-features gives them to attention (gat), --sampler weighted draws by them"
}

const ShiftAuto = "auto"

// Names of [Config.ClassWeights].
const (
	WeightsNone = "none"
	WeightsAuto = "auto"
)

const ShiftOff = "off"

const MixtureAuto = "auto"

const MixtureLabels = "labels"

const MixtureRandom = "random"

// checkPasses says what is wrong with a record for a run of so many epochs.
func checkPasses(replay [][]int, epochs int) error {
	if len(replay) < epochs {
		return fmt.Errorf("train: passes of %d epochs are recorded, the run has %d", len(replay), epochs)
	}
	for e, steps := range replay {
		for s, n := range steps {
			if n < 1 || n > 1+macro.ReuseMax {
				return fmt.Errorf("train: epoch %d, step %d: %d passes are recorded, expected 1 to %d", e+1, s, n, 1+macro.ReuseMax)
			}
		}
	}
	return nil
}

const RowsAuto = "auto"

const RowsCached = "cached"

const RowsPacked = "packed"

const VectorsAuto = "auto"

const VectorsMemory = "memory"

const VectorsTable = "table"
