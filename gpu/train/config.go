package train

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// Config is everything that decides a run's result, and what it may use. It is
// stored with the run. The zero value of a field means its default; Normalize fills
// them in. Tags say what flag a field is (tools/cli/command.Options).
// Fields tagged resume:"free" may differ from those of the run that is resumed.
type Config struct {
	Task  string `json:"task"`                                                                                                                                  // "node" (default: the store's)
	Model string `json:"model" group:"model" help:"architecture, for link prediction decoder or encoder"`                                                       // one of [nn.Models]; "sage" (default)
	Heads int    `json:"heads,omitempty" group:"model" help:"attention heads of gat and rgat: side by side in hidden layers, averaged in the last" default:"4"` // of gat and rgat; 0: 4
	// Aggregator of sage, Norm, Residual and Jumping of any model, and Bases of rgcn: see [nn.Config].
	Aggregator string `json:"aggregator,omitempty" group:"model,expert" help:"how sage combines neighbours" default:"mean" values:"mean,max"`
	Norm       string `json:"norm,omitempty" group:"model" help:"of hidden layers" default:"none" values:"none,batch,layer"`
	Residual   bool   `json:"residual,omitempty" group:"model,expert" help:"add a hidden layer's input to its output"`
	Jumping    string `json:"jumping,omitempty" group:"model,expert" help:"what the last product sees: the last layer, or all layers by cat or max" default:"last" values:"last,cat,max"`
	Bases      int    `json:"bases,omitempty" group:"model,expert" help:"matrices of which rgcn's relations are sums" default:"4"`
	// Layers of the model; default: as many as Fanouts.
	Layers int `json:"layers" group:"model" help:"layers of the model; one a fanout where fanouts are given"`
	Hidden int `json:"hidden" group:"model" help:"columns between layers"` // columns between layers; default 128
	// Fanouts are the neighbours sampled per node and hop, outward from the
	// seeds, −1 for all; default 15,10,5,5… for Layers hops.
	Fanouts []int `json:"fanouts" group:"model" help:"neighbours sampled per node and hop, outward from the targets, -1 for all" default:"15,10,5,5…"`
	// RelationFanouts are fanouts of single relations, "depends=10,5;provides=5,5": of a node's edges of each relation, in each
	// direction, as many are drawn, and Fanouts of each relation that is not named. A name is the store's, or what is between
	// the types in it where that is one relation's. For models of relations and sampler uniform. "": Fanouts are of all
	// relations' edges together.
	RelationFanouts string `json:"relation_fanouts,omitempty" group:"model" help:"rgcn, rsage and rgat: neighbours sampled of single relations, such as depends=10,5;provides=5,5, and --fanouts of each of the others"`
	// EdgeWeights weighs neighbours by their edges' weights, of which the store must have a column, in sage's means and gcn's sums
	// ([nn.EdgeWeigher]). Neighbours are drawn as without: not by weight, which would count it twice. Off by default.
	EdgeWeights bool `json:"edge_weights,omitempty" group:"model" help:"sage and gcn: weigh neighbours by their edges' weights; they are drawn whatever their weights"`
	// EdgeFeatures names columns of edges that gat's attention reads side by side in this order ([nn.Config].EdgeDim), as they are
	// stored: features, of any type and dimension, the weight, the time. Default: none.
	EdgeFeatures []string `json:"edge_features,omitempty" group:"model" help:"gat: columns of edges that attention reads, side by side in this order and as they are stored: features, weight, time" default:"none"`
	// Sampler is how neighbours are drawn, one of [mini.Samplers]; "" (default): [mini.Uniform]. [mini.Weighted] needs a store
	// with weights of edges, which draw neighbours and nothing else: means are plain.
	Sampler string `json:"sampler,omitempty" group:"model" help:"how neighbours are drawn: uniform; weighted, in proportion to the edges' weights; labor, as uniform but fewer different ones a batch; dense, a node's once a batch for all layers; pinsage, the nodes that random walks visit most (evaluation reads all edges)" default:"uniform" values:"uniform,weighted,labor,dense,pinsage"`
	// Walks of at most WalkLength steps each, from every node, find the neighbours of sampler pinsage; after a step one begins anew with
	// probability WalkRestart. 0 and nil: see [mini.Walks]. Evaluation reads all edges, as ever.
	Walks       int      `json:"walks,omitempty" group:"model,expert" help:"of --sampler pinsage: random walks from a node" default:"10"`
	WalkLength  int      `json:"walk_length,omitempty" group:"model,expert" help:"of --sampler pinsage: steps of a walk, at most" default:"2"`
	WalkRestart *float64 `json:"walk_restart,omitempty" group:"model,expert" help:"of --sampler pinsage: probability that a walk ends after a step" default:"0.5"`
	// Prune is "A,B": of a list of more than A times the graph's mean degree plus B times the fanout neighbours only so many, that lie
	// together from a random one on, are drawn from, see [mini.Prune]; "" (default): all are. For uniform and dense.
	Prune     string `json:"prune,omitempty" group:"model,expert" help:"threshold pruning, as 1,1: draw from at most A times the mean degree plus B times the fanout neighbours of a node, which lie together" default:"all are drawn from"`
	BatchSize int    `json:"batch_size" group:"optimiser" help:"target nodes or edges of a mini-batch; by default 500 or 250, two or four to a step, where that leaves room for all neighbours, and partitions would lose accuracy"` // seeds of a mini-batch; default 1000
	// Accumulate is how many mini-batches' gradients make a step of the optimiser, the mean over their labels: such a step is that of one
	// mini-batch of as many times the seeds, but for the neighbours that are drawn, in the memory of the small one. Default 1.
	Accumulate int `json:"accumulate,omitempty" group:"optimiser" help:"mini-batches whose gradients make one step, as of a mini-batch so many times as large; by default as many as a smaller batch size, chosen unasked, is smaller" default:"1"`
	// Epochs of training; 0 (default): until the validation accuracy has not risen for Patience epochs, at most
	// EpochsMax, and EpochsBlind where no node is for validation.
	Epochs      int      `json:"epochs" resume:"free" group:"optimiser" help:"passes over the training nodes or edges; auto: until the validation accuracy has not risen for --patience epochs" default:"auto"`
	Patience    int      `json:"patience,omitempty" resume:"free" group:"optimiser" help:"with --epochs auto: how many epochs the validation accuracy may not rise"` // default 20
	LR          float64  `json:"lr" group:"optimiser" help:"learning rate"`                                                                                          // of Adam; default .005
	WeightDecay float64  `json:"weight_decay" group:"optimiser" help:"L2 penalty, added to the gradient"`
	Dropout     *float64 `json:"dropout" group:"optimiser" help:"probability with which hidden values are dropped"` // of hidden states; default .5
	// InputDropout drops elements of the first layer's input rows; nil (default): hopDropout with a precomputed hop, else 0.
	InputDropout *float64 `json:"input_dropout,omitempty" group:"optimiser" help:"probability with which values of the first layer's input are dropped" default:".1 with a precomputed hop, else 0"`
	Seed         uint64   `json:"seed" group:"optimiser" help:"of every random choice: the same seed gives the same losses to the bit"`
	// Features names the feature columns, which a model reads side by side in this order; default: all of role feature
	// that are computed from no other, in the store's order. Means of a precomputed hop follow what they are of.
	Features []string `json:"features" group:"data" help:"feature columns, side by side in this order" default:"all that are computed from no other"`

	// Split names the split column; default: the store's first.
	Split string `json:"split" group:"data" help:"split column" default:"the store's first"`

	// Order says which product of a sage or gcn layer comes first: "auto" (default), by the
	// sizes of the first mini-batch, "aggregate" or "multiply". See [nn.Model.ChooseOrders].
	Order string `json:"order" group:"model,expert" help:"which product of a sage or gcn layer comes first; auto goes by the first mini-batch's sizes" flag:"product-order" values:"auto,aggregate,multiply"`

	// History adds the hidden states of neighbours that are not in memory to the
	// last layer's means, as of the start of the epoch; 2 layers or more. Models that tell relations apart have no
	// precomputed hop: theirs completes the means of all layers, relation by relation.
	History bool `json:"history" group:"out of core" help:"add to the last layer's means, sums or, of gat, attention, with relations to all layers' means, what hidden states neighbours outside memory had at the start of the epoch"`
	// HistoryDtype is what the history's rows are stored as: "float32", "float16", "bfloat16"; "" (default)
	// is float32, float16 where features take 16 bits or fewer.
	HistoryDtype string `json:"history_dtype,omitempty" group:"out of core,expert" help:"what history keeps them as" default:"float32, float16 where features take 16 bits or fewer" values:"float32,float16,bfloat16"`

	// Absent is what is done for neighbours that are out of memory, or in memory but not drawn, beside what History and
	// PrecomputedHop ask for: "auto" (default: what the store has and the model can use, see [Config.Complete]) or "ignore".
	Absent string `json:"absent,omitempty" group:"out of core" help:"neighbours out of memory: auto, the precomputed hop (in memory too) and history where store and model allow; ignore; of links shadow, a compressed copy of all embeddings" values:"auto,ignore,shadow"`
	// LabelShift corrects the loss of steps whose classes are not mixed as the graph's: "auto" (default: where a step
	// has not all training nodes) or "off".
	LabelShift string `json:"label_shift,omitempty" group:"out of core,expert" help:"correct the loss of steps whose classes are not mixed as the graph's" values:"auto,off"`

	// Mixture is which partitions a step of plan hanoi has: MixtureLabels, so that its classes are mixed as the graph's;
	// MixtureRandom; MixtureAuto (default), what [Config.Mix] chooses.
	Mixture string `json:"mixture,omitempty" group:"out of core,expert" help:"which partitions a step has: labels, such that its classes are mixed as the graph's; random; or auto" values:"auto,labels,random"`

	// Vectors is where models of relations keep the vectors that they learn of nodes of types without features: VectorsMemory, as
	// parameters; VectorsTable, as rows of table Table of the store, which come and go with partitions; VectorsAuto (default), a table
	// where parameters do not fit MemoryBytes. A step of the optimiser moves all parameters, but of a table the rows that it read.
	Vectors string `json:"vectors,omitempty" group:"out of core" help:"rgcn, rsage and rgat: where vectors learned of nodes without features are: memory, as parameters; table, of the store, read and written with partitions; auto, a table where they do not fit --mem" default:"auto" values:"auto,memory,table"`
	// Table is the store's table of learned vectors; default "vectors".
	Table string `json:"table,omitempty" group:"out of core" help:"the store's table of learned vectors" default:"vectors"`
	// Overwrite lets a run that begins replace a table of that name.
	Overwrite bool `json:"-" resume:"free"`
	// VectorTypes are the node types whose vectors are in the table, once that was decided.
	VectorTypes []string `json:"vector_types,omitempty" resume:"free"`

	// PrecomputedHop reads the first layer's neighbourhood mean, gcn's or gin's sum, from the column
	// that precompute.Hop made: the model samples one hop less. Of sums Features names these alone. rsage reads Hops instead.
	PrecomputedHop bool `json:"precomputed_hop" group:"out of core" help:"read the first layer's neighbourhood mean from the column that gstore precompute made; gcn and gin their sum, gstore precompute --model; rsage the means of each relation, --each-relation"`
	// Hops are the columns that rsage reads instead of the first layer's means by some relations, which it does not sample then: with
	// PrecomputedHop all that the store has of c.Features. They are no features.
	Hops []string `json:"hops,omitempty"`

	Plan   string `json:"plan" group:"out of core" help:"which partitions are in memory when"`                                               // "auto" (default), "memory", "rows", "hanoi" or "trainnodes"
	Buffer int    `json:"buffer" group:"out of core" help:"partitions in memory at once, pinned ones not counted" default:"what mem allows"` // partitions resident at once, pinned ones not counted; 0: from MemoryBytes
	// RowReads is how plan rows reads: RowsCached, single rows by way of a cache; RowsPacked, all features once for a window of
	// mini-batches, whose rows go by a temporary file; RowsAuto (default), what the device is estimated to do sooner.
	RowReads string `json:"row_reads,omitempty" resume:"free" group:"out of core,expert" help:"plan rows: read single rows by a cache, or all features for a window of mini-batches, packed in a temporary file" values:"auto,cached,packed"`
	// Group is how many partitions plan memory trains together, see [macro.Config]; 0 (default): all.
	Group int `json:"group,omitempty"`
	// Reuse is the extra passes over each macro-batch, 0 … 4 (hanoi only); default 0.
	// [macro.ReuseAuto] takes them, up to 4, while the next macro-batch is not in memory yet: such a run depends on
	// timing and is not repeated by its seed, but by its passes, which each Epoch has.
	Reuse int `json:"reuse"`
	// ReusePasses are the passes of an earlier run with ReuseAuto, by epoch and step, to repeat.
	ReusePasses [][]int `json:"reuse_passes,omitempty"`

	MemoryBytes int64  `json:"mem_bytes" resume:"free" group:"out of core" help:"memory bound of the whole run, such as 4GiB" flag:"mem" default:"none"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free" group:"input and output" help:"how files are read" values:"auto,io_uring,pread,mmap"`             // "auto" (default), "io_uring", "pread", "mmap"
	Device      string `json:"device" resume:"free" group:"input and output" help:"what computes: auto, host, cuda or cuda:N"`                           // "auto" (default), "host", "cuda", "cuda:N"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free" group:"input and output,expert" help:"memory of a GPU that may be allocated" flag:"device-mem" default:"what is free, less a tenth"`
	MatMul            string `json:"matmul,omitempty" group:"input and output,expert" help:"how matrices are multiplied: exact (errors as of float32); faster are tf32 (GPUs) and bf16 (GPUs, and processors with AMX)" default:"exact" values:"exact,tf32,bf16"`
	// DeviceCache is which feature rows a device that is not the host's memory keeps: "auto" (default: what moves least of the
	// others on the run's first batches), "none", "tracker", "lookahead" or "presc", see [cache.Policy]. DeviceWindow is how many batches
	// lookahead knows; default 16, and without MemoryBytes up to 62 where those move less. Neither changes a result. What presc counts the store keeps ([store.Store.KeepVisits]).
	DeviceCache  string `json:"device_cache,omitempty" resume:"free" group:"input and output,expert" help:"which rows a GPU keeps from one mini-batch to the next, of features and, for links, of embeddings: auto is what moves least; presc is for nodes" values:"auto,none,tracker,lookahead,presc"`
	DeviceWindow int    `json:"device_window,omitempty" resume:"free" group:"input and output,expert" help:"mini-batches that are sampled ahead for --device-cache lookahead" default:"16, without --mem up to 62 where those move less"`
	// DevicePlan is how feature rows come to a device, see [macro.DeviceRecord]: "auto" (default: "direct" or "mirror", by bytes).
	// "lbs" and "pbs" are samplers, on any device: they decide what mini-batches are. DeviceMacro is the size of their
	// macro-batches: mini-batches drawn together (lbs; default 16), partitions trained together (pbs; default an eighth).
	DevicePlan  string `json:"device_plan,omitempty" group:"input and output,expert" help:"how feature rows come to a GPU: direct, by the mini-batch; mirror, by the partition; lbs and pbs sample in two stages, which changes mini-batches on any device; auto is direct or mirror, whichever moves less" values:"auto,direct,mirror,lbs,pbs"`
	DeviceMacro int    `json:"device_macro,omitempty" group:"input and output,expert" help:"with --device-plan lbs mini-batches that are drawn together (16), with pbs partitions that are trained together" default:"16, an eighth"`
	// RecordSteps says whether a GPU takes a training step down and runs it again by one call, mini-batches padded to a few
	// shapes: "auto" (default: where shapes allow) or "off". It changes no bit of a result.
	RecordSteps string `json:"record_steps,omitempty" resume:"free" group:"input and output,expert" help:"whether a GPU takes training steps down and runs them again by one call: auto is where shapes allow" values:"auto,off"`
	// SampleOn says where mini-batches are drawn: "host", "device", from neighbour lists that lie there, which takes plan mirror, or "auto" (default:
	// there where it can and less crosses). It changes no bit of a result. A device that is the host's memory has the host draw.
	SampleOn string `json:"sample_on,omitempty" resume:"free" group:"input and output,expert" help:"where mini-batches are drawn: a GPU that mirrors partitions can draw them from neighbour lists in its memory; auto is where less crosses" values:"auto,host,device"`
	Threads  int    `json:"threads" resume:"free" group:"input and output" help:"processors to use" default:"all"` // default: all processors
	// EvalEvery is the epochs between validations; default 1. The last epoch
	// is always validated.
	EvalEvery int `json:"eval_every" group:"optimiser" help:"epochs between exact validations; link prediction: -1 for none, not even of the last epoch"`

	// CheckpointFile is where, on the store's file system, the run keeps what it can be resumed from: parameters, optimiser state and
	// its place. It is replaced as often as CheckpointEvery says: epochs ("1"), mini-batches ("500steps") or time ("10m",
	// the default); "0": only at the end. No file: none.
	CheckpointFile  string `json:"-" resume:"free" group:"checkpoints,expert" help:"file of the last checkpoint" flag:"checkpoint-file" default:"in the store, of its last run"`
	CheckpointEvery string `json:"checkpoint_every,omitempty" resume:"free" group:"checkpoints" help:"epochs (1), mini-batches (500steps) or time (10m) between checkpoints; 0: only at the end"`
	// Resume goes on from CheckpointFile; where there is none, a run begins. The result is an
	// uninterrupted run's to the bit.
	Resume bool `json:"-" resume:"free" group:"checkpoints" help:"go on from the last checkpoint with the flags that the run began with; where there is none, begin" flag:"resume"`

	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they be zero.
	Given []string `json:"-" resume:"free"`
	// BatchSizeAuto says that BatchSize is Normalize's own: a run may lower it to a half or a quarter, see Complete.
	BatchSizeAuto bool `json:"-" resume:"free"`

	vectorsOf *vectors.Of // of VectorTypes, once they were counted; nil without

	probe *probe // of [Checkpoint.AggregateErrors]; nil in a run that trains

	lossy bool // a plan over partitions is expected to lose presentPoints or more, see Complete
}

// hopDropout is the default input dropout of a model that reads a precomputed hop: an exact mean has none of the noise of a
// sampled one, and a model fits it too well (docs/findings.md, "Regularisation").
const hopDropout = .1

// inputDropout is InputDropout or its default.
func (c *Config) inputDropout() float64 {
	switch {
	case c.InputDropout != nil:
		return *c.InputDropout
	case c.PrecomputedHop && !c.relational():
		return hopDropout
	}
	return 0
}

// defaultFanouts are the neighbours per hop when none are given.
var defaultFanouts = [...]int{15, 10, 5}

// Normalize fills in defaults and says what is wrong with c: an error that matches [store.ErrInvalid].
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
	set(&c.Mixture, MixtureAuto)
	set(&c.RowReads, RowsAuto)
	set(&c.DeviceCache, cacheAuto)
	set(&c.RecordSteps, recordAuto)
	set(&c.SampleOn, sampleAuto)
	set(&c.DevicePlan, cacheAuto)
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
	for i := 0; len(c.Fanouts) == i && i < c.Layers; i++ { // none given: those that are given are one a layer
		c.Fanouts = append(c.Fanouts, defaultFanouts[min(i, len(defaultFanouts)-1)])
	}
	setInt(&c.Hidden, 128)
	c.BatchSizeAuto = c.BatchSizeAuto || c.BatchSize == 0
	setInt(&c.BatchSize, 1000)
	setInt(&c.Accumulate, 1)
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
	if err := c.normalizeDevicePlan(); err != nil {
		return store.Invalid(err)
	}
	return store.Invalid(c.validate())
}

func (c *Config) validate() error {
	switch {
	case c.Task != "node" && c.Task != "auto":
		return fmt.Errorf("train: task %q is not known (known: node)", c.Task)
	case c.PrecomputedHop && c.relational() && (c.Model != "rsage" || c.Jumping != "" && c.Jumping != nn.JumpLast):
		return fmt.Errorf("train: model %s, jumping %q, has no precomputed hop: sage has one, and rsage that does not jump one a relation", c.Model, c.Jumping)
	case c.PrecomputedHop && c.relational() && (c.Sampler != "" && c.Sampler != mini.Uniform || c.Prune != "" || c.DevicePlan == macro.DevicePBS):
		return fmt.Errorf("train: precomputed hops of relations with sampler %s, prune %q, device plan %q: the relations that they leave are drawn by sampler %s, without prune and %s", cmp.Or(c.Sampler, mini.Uniform), c.Prune, c.DevicePlan, mini.Uniform, macro.DevicePBS)
	case c.PrecomputedHop && c.Layers < 2:
		return fmt.Errorf("train: a precomputed hop leaves a model of %d layer nothing to sample: use 2 layers or more", c.Layers)
	case c.History && !slices.Contains([]string{"sage", "gcn", "gin", "gat", "rsage", "rgcn"}, c.Model):
		return fmt.Errorf("train: model %s has no history (known: sage, gcn, gin, gat, rsage, rgcn)", c.Model)
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
	case c.Sampler != "" && !slices.Contains(mini.Samplers(), c.Sampler):
		return fmt.Errorf("train: sampler %q is not known (known: %s)", c.Sampler, strings.Join(mini.Samplers(), ", "))
	case c.Sampler != mini.Pinsage && c.walks() != (mini.Walks{}):
		return fmt.Errorf("train: walks, their length or restart with sampler %s: they are of %s", cmp.Or(c.Sampler, mini.Uniform), mini.Pinsage)
	case c.WalkRestart != nil && !(*c.WalkRestart >= 0 && *c.WalkRestart < 1):
		return fmt.Errorf("train: walks that end after a step with probability %v: expected 0 ≤ p < 1", *c.WalkRestart)
	case c.Sampler == mini.Pinsage && (c.relational() || c.Model == "gcn"):
		return fmt.Errorf("train: sampler %s with model %s, which reads relations or degrees of edges: the nodes that walks visit need not be adjacent. Choose sage, gat or gin", mini.Pinsage, c.Model)
	case c.Sampler == mini.Pinsage && c.EdgeWeights:
		return fmt.Errorf("train: edge weights with sampler %s: no edge need lead to the nodes that walks visit. Use one of them", mini.Pinsage)
	case c.Sampler == mini.Pinsage && len(c.EdgeFeatures) > 0:
		return fmt.Errorf("train: features %q of edges with sampler %s: no edge need lead to the nodes that walks visit. Use one of them", c.EdgeFeatures, mini.Pinsage)
	case c.Sampler == mini.Pinsage && (c.History || c.PrecomputedHop):
		return fmt.Errorf("train: sampler %s with a history or a precomputed hop, which are means over adjacent nodes: the nodes that walks visit need not be adjacent", mini.Pinsage)
	case c.Prune != "" && (c.RelationFanouts != "" || c.Sampler != "" && c.Sampler != mini.Uniform && c.Sampler != mini.Dense):
		return fmt.Errorf("train: prune %q with relation fanouts or sampler %s: lists are pruned for %s and %s, without relation fanouts", c.Prune, cmp.Or(c.Sampler, mini.Uniform), mini.Uniform, mini.Dense)
	case c.EdgeWeights && c.Sampler == mini.Weighted:
		return fmt.Errorf("train: edge weights with sampler %s, which draws by them already: neighbours would count twice. Use one of them", mini.Weighted)
	case c.EdgeWeights && c.History:
		return fmt.Errorf("train: edge weights with a history, whose sums are of neighbours that weigh the same: use one of them")
	case len(c.EdgeFeatures) > 0 && c.History:
		return fmt.Errorf("train: features %q of edges with a history, whose neighbours' edges have none: use one of them", c.EdgeFeatures)
	case len(c.EdgeFeatures) > 0 && c.Model != "gat":
		return fmt.Errorf("train: features %q of edges with model %s: only gat's attention reads them", c.EdgeFeatures, c.Model)
	case len(c.EdgeFeatures) > 0 && c.Plan == macro.Rows:
		return fmt.Errorf("train: features %q of edges with plan %s, which holds none: use plan %s or %s", c.EdgeFeatures, macro.Rows, macro.Memory, macro.Hanoi)
	case c.RelationFanouts != "" && !c.relational():
		return fmt.Errorf("train: relation fanouts %q with model %s, whose means are over all relations: choose rgcn, rsage or rgat", c.RelationFanouts, c.Model)
	case c.RelationFanouts != "" && c.Sampler != "" && c.Sampler != mini.Uniform:
		return fmt.Errorf("train: relation fanouts %q with sampler %s: expected %s", c.RelationFanouts, c.Sampler, mini.Uniform)
	case c.RowReads != RowsAuto && c.RowReads != RowsCached && c.RowReads != RowsPacked:
		return fmt.Errorf("train: row reads %q: expected %s, %s or %s", c.RowReads, RowsAuto, RowsCached, RowsPacked)
	case c.RecordSteps != recordAuto && c.RecordSteps != recordOff:
		return fmt.Errorf("train: record steps %q, expected %s or %s", c.RecordSteps, recordAuto, recordOff)
	case !slices.Contains([]string{sampleAuto, sampleHost, sampleDevice}, c.SampleOn):
		return fmt.Errorf("train: sample on %q, expected %s, %s or %s", c.SampleOn, sampleAuto, sampleHost, sampleDevice)
	case !slices.Contains([]string{cacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead, cache.NamePreSC}, c.DeviceCache) || c.DeviceWindow < 0 || c.DeviceWindow > cache.WindowMax:
		return fmt.Errorf("train: device cache %q with a window of %d batches: expected %s, %s, %s, %s or %s, and at most %d", c.DeviceCache, c.DeviceWindow, cacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead, cache.NamePreSC, cache.WindowMax)
	case !slices.Contains([]string{"", VectorsAuto, VectorsMemory, VectorsTable}, c.Vectors):
		return fmt.Errorf("train: learned vectors %q: expected %s, %s or %s", c.Vectors, VectorsAuto, VectorsMemory, VectorsTable)
	case c.Table != "" && !table.ValidName(c.Table):
		return fmt.Errorf("train: table %q: expected a name of letters, digits, '-' and '_'", c.Table)
	case c.LabelShift != ShiftAuto && c.LabelShift != ShiftOff:
		return fmt.Errorf("train: label shift %q: expected %s or %s", c.LabelShift, ShiftAuto, ShiftOff)
	case c.Mixture != MixtureAuto && c.Mixture != MixtureLabels && c.Mixture != MixtureRandom:
		return fmt.Errorf("train: mixture %q: expected %s, %s or %s", c.Mixture, MixtureAuto, MixtureLabels, MixtureRandom)
	case c.Layers < 1 || len(c.Fanouts) != c.Layers:
		return fmt.Errorf("train: %d fanouts %v for %d layers: one a layer is needed", len(c.Fanouts), c.Fanouts, c.Layers)
	case c.Plan == macro.Comet || c.Plan == macro.Beta:
		return fmt.Errorf("train: plan %q of node classification is not known (known: auto, memory, rows, hanoi, trainnodes)", c.Plan)
	case !slices.Contains(blockio.Names(), c.IOEngine):
		return fmt.Errorf("train: i/o engine %q is not known (known: %s)", c.IOEngine, strings.Join(blockio.Names(), ", "))
	case c.Patience < 1:
		return fmt.Errorf("train: patience of %d epochs, expected 1 or more", c.Patience)
	case c.Accumulate < 1:
		return fmt.Errorf("train: %d mini-batches a step, expected 1 or more", c.Accumulate)
	case c.BatchSize < 1 || c.Epochs < 0 || c.Hidden < 1 || c.Threads < 1 || c.EvalEvery < 1:
		return fmt.Errorf("train: batch size %d, epochs %d, hidden %d, threads %d, eval every %d: expected positive numbers", c.BatchSize, c.Epochs, c.Hidden, c.Threads, c.EvalEvery)
	case !(c.LR > 0) || !(c.WeightDecay >= 0):
		return fmt.Errorf("train: learning rate %v and weight decay %v: expected > 0 and ≥ 0", c.LR, c.WeightDecay)
	case !(*c.Dropout >= 0 && *c.Dropout < 1) || !(c.inputDropout() >= 0 && c.inputDropout() < 1):
		return fmt.Errorf("train: dropout %v and input dropout %v, expected 0 ≤ p < 1", *c.Dropout, c.inputDropout())
	case c.Reuse < macro.ReuseAuto || c.Reuse > macro.ReuseMax:
		return fmt.Errorf("train: reuse %d, expected 0 to %d extra passes, or %d while reads are pending", c.Reuse, macro.ReuseMax, macro.ReuseAuto)
	case c.ReusePasses != nil && c.Reuse != macro.ReuseAuto:
		return fmt.Errorf("train: passes to repeat and reuse %d, expected %d", c.Reuse, macro.ReuseAuto)
	case c.MemoryBytes < 0 || c.Buffer < 0:
		return fmt.Errorf("train: memory %d bytes, buffer %d partitions: expected 0 or more", c.MemoryBytes, c.Buffer)
	}
	if _, err := c.prune(0); err != nil {
		return err
	}
	if w := c.walks(); w.Validate() != nil {
		return fmt.Errorf("train: %w", w.Validate())
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
	if err := (&mini.Config{Fanouts: c.Fanouts}).Validate(); err != nil {
		return fmt.Errorf("train: fanouts %v: %w", c.Fanouts, err)
	}
	m := c.model(shape{in: 1, classes: 1, relations: 1, edgeDim: len(c.EdgeFeatures)}) // what the store decides is checked when the model is built
	return m.Validate()
}

// relational reports whether the model reads its edges' relations.
func (c *Config) relational() bool { return nn.ReadsRelations(c.Model) }

// shape is what the data decides of a model.
type shape struct {
	in, classes int
	edgeDim     int           // columns of Config.EdgeFeatures
	relations   int           // edge types of the store
	draws       relationDraws // [Config.relationDraws]
	hops        []nn.RelationHop
	degree      float64 // [Config.meanDegree]
	categories  []int   // learned vectors that each column of categories names, the 0 for none counted
	vectors     bool    // learned vectors lie in a table
	inverse     bool    // edges are read in both directions, those against theirs as relations of their own
}

// model returns the model's description for a store.
func (c *Config) model(s shape) nn.Config {
	m := nn.Config{Model: c.Model, Heads: c.Heads, Aggregator: c.Aggregator, Norm: c.Norm, Residual: c.Residual, Jumping: c.Jumping, Bases: c.Bases,
		Layers: c.Layers, In: s.in, Hidden: c.Hidden, Out: s.classes, Dropout: float32(*c.Dropout), InputDropout: float32(c.inputDropout()), PrecomputedHop: c.PrecomputedHop && !c.relational(), EdgeWeights: c.EdgeWeights, EdgeDim: s.edgeDim, Order: c.Order, Seed: c.Seed}
	if c.relational() {
		m.Relations, m.Categories, m.Vectors, m.RelationHops = s.relations, s.categories, s.vectors, s.hops
		if s.inverse {
			m.Relations *= 2
		}
	}
	return m
}
