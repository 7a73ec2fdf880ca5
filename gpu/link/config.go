package link

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// Config is everything that decides the result of a run of link prediction,
// and what it may use. The zero value of a field means its default; Normalize fills them in.
// Tags say what flag a field is (tools/cli/command.Options).
// Fields tagged resume:"free" may differ from those of the run that is resumed.
type Config struct {
	Task    string `json:"task"`                                                                                                                    // "link"
	Model   string `json:"model" group:"model"`                                                                                                     // the decoder: "distmult" (default), "complex", "transe", "dot"
	Encoder string `json:"encoder" group:"link prediction" help:"graph neural network over the nodes' inputs" default:"none, with --features sage"` // "none", "sage", "gcn", "gat"
	Heads   int    `json:"heads,omitempty" group:"model" default:"4"`                                                                               // of gat, side by side; default 4
	Dim     int    `json:"dim" group:"link prediction" help:"numbers of an embedding"`                                                              // of embeddings, relations and the encoder's states; default 100
	// Layers of the encoder, with a ReLU behind all but the last; 0: one with tanh behind. Default: as many as there are Fanouts, if
	// there are several or Features, which have 2 where none are given.
	Layers int `json:"layers,omitempty" group:"model"`
	// Features are columns of the store that are projected to Dim numbers and added to a node's embedding; NoEmbeddings leaves
	// that out, so that nodes of which nothing was learned are as good as others. Default: none.
	Features     []string `json:"features,omitempty" group:"data"`
	NoEmbeddings bool     `json:"no_embeddings,omitempty" group:"link prediction" help:"with --features: nodes have no learned vectors, so that later ones are predicted as well"`
	// Relation is the one whose edges are predicted, by its name or what is between the types in it; edges of others are neighbours alone. Where one is, in a store of several types of
	// nodes, wrong answers and ranks are of the types of its ends. Default: all.
	Relation string `json:"relation,omitempty" group:"link prediction" help:"predict the edges of this relation alone, by its name or what is between the types in it; others only lead to neighbours" default:"all"`
	// Fanouts are the neighbours sampled over incoming edges, and as many over
	// outgoing ones, outward from the ends of edges; -1 for all. Default 20 for one layer, 15,10,5… for more, none without an encoder.
	Fanouts   []int `json:"fanouts" group:"model" default:"20 with an encoder of one layer, 15,10,5… of more"`
	BatchSize int   `json:"batch_size" group:"optimiser"`           // edges of a mini-batch; default 1000
	Epochs    int   `json:"epochs" resume:"free" group:"optimiser"` // default 8
	// Optimizer steps embeddings and parameters: "adagrad" (default without Features; a table has one vector of state a node) or "adam" (two; a
	// row's moments change when a batch has the node, and the bias of their zeros is corrected by the run's steps, as PyTorch's SparseAdam does).
	Optimizer string  `json:"optimizer" group:"link prediction" help:"adam keeps two vectors of state a node instead of one" values:"adagrad,adam"`
	LR        float64 `json:"lr" group:"optimiser" default:".1 of adagrad, .003 of adam"` // until it falls; default .1, of adam .003
	// DenseRate times LR is the rate of what every mini-batch steps: relations' vectors, and the weights of an encoder and of features.
	// Default with an encoder and Adagrad, where nodes have many edges, 4; else 1.
	DenseRate float64 `json:"dense_rate,omitempty" group:"link prediction,expert" help:"learning rate of relations and encoder, times --lr" default:"4 with an encoder and adagrad where nodes have many edges, else 1"`
	// LRDecay is the share of the run, at its end, in which the learning rate falls linearly to 0, so that what was
	// trained last does not weigh more than what was trained before; default .5. 1: it falls from the start; −1: never.
	LRDecay   float64 `json:"lr_decay" group:"link prediction,expert" help:"share of the run, at its end, in which the learning rate falls linearly to 0; 0: never" zero:"-1"`
	Negatives int     `json:"negatives" group:"link prediction" help:"wrong answers for each edge and side"`               // wrong answers for each edge and side; default 500
	Chunks    int     `json:"chunks" group:"link prediction,expert" help:"groups of a batch's edges that share negatives"` // groups of a batch's edges that share negatives; default 10
	// DegreeShare of the negatives is drawn in proportion to degree, the rest uniformly; default 0.
	DegreeShare float64 `json:"degree_share" group:"link prediction,expert" help:"share of negatives drawn in proportion to degree, 0 to 1"`
	// NegativesFrom is where they are drawn from: FromAnswers, the partitions in which the answer may lie, given the buckets
	// that the step trains; FromResident, all that are in memory; FromMixed, half of them from each; FromAuto (default), mixed
	// where a node has many edges, else resident.
	NegativesFrom string `json:"negatives_from" group:"link prediction,expert" help:"out of core wrong answers are drawn from partitions where a step's right ones may lie (answers), from all in memory (resident) or half from each (mixed); auto: mixed where nodes have many edges, else resident" values:"auto,mixed,answers,resident"`
	// RemoveBatchEdges hides a batch's edges, both ways, from the neighbourhoods of
	// their ends while they are the question. Default (nil): they are.
	RemoveBatchEdges *bool `json:"remove_batch_edges,omitempty" group:"link prediction,expert" help:"hide a batch's edges from the encoder while they are asked for" default:"with an encoder"`
	// KeepBatchEdges is the share of a batch's edges, drawn at random, that are seen where the batch's are hidden; Default, where
	// RemoveBatchEdges is nil: where nodes have many edges and no Features a half, but no more than twice the share of the partitions
	// that is in memory; else 0.
	KeepBatchEdges float64  `json:"keep_batch_edges,omitempty" group:"link prediction,expert" help:"share of a batch's edges that the encoder sees where they are hidden" default:"where nodes have many edges and no features a half, out of core at most twice the share of partitions in memory; else 0"`
	Loss           string   `json:"loss" group:"link prediction" help:"of an edge among its negatives"` // "softmax" (default), "logistic", "margin"
	Margin         *float64 `json:"margin" group:"link prediction,expert" help:"of the margin loss"`    // of the margin loss, 0 or more; default (nil): 1
	Seed           uint64   `json:"seed" group:"optimiser"`

	// Plan says which partitions are in memory when: "auto" (default), "memory", "comet", "beta";
	// Buffer how many at a time (default: what MemoryBytes allows), Logical is comet's number of logical
	// partitions (default: so many that four fit).
	Plan    string `json:"plan" group:"out of core"`
	Buffer  int    `json:"buffer" group:"out of core" default:"what mem allows"`
	Logical int    `json:"logical,omitempty" group:"link prediction,expert" help:"logical partitions of plan comet" default:"so many that four fit in memory"`

	// Group has plan memory train edges in the order of comet with so many partitions in memory, see [macro.Config]; 0 (default):
	// all together. It tells what the order costs.
	Group int `json:"group,omitempty"`

	// Absent is what an encoder sees of neighbours that are not in memory: "shadow", their last embeddings from a compressed copy of
	// all, beside the whole graph; "ignore", nothing; "auto" (default) is "ignore": a shadow was not found to gain (docs/design.md, "gpu/link").
	Absent string `json:"absent,omitempty" group:"out of core" values:"auto,shadow,ignore"`

	MemoryBytes int64  `json:"mem_bytes" resume:"free" group:"out of core" help:"memory bound of the whole run, such as 4GiB" flag:"mem" default:"none"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free" group:"input and output" help:"how files are read" values:"auto,io_uring,pread,mmap"`             // "auto" (default), "io_uring", "pread", "mmap"
	Device      string `json:"device" resume:"free" group:"input and output" help:"what computes: auto, host, cuda or cuda:N"`                           // "auto" (default), "host", "cuda", "cuda:N"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free" group:"input and output,expert" help:"memory of a GPU that may be allocated" flag:"device-mem" default:"what is free, less a tenth"`
	MatMul            string `json:"matmul,omitempty" group:"input and output,expert" help:"how matrices are multiplied: exact (errors as of float32); faster are tf32 (GPUs) and bf16 (GPUs, and processors with AMX)" default:"exact" values:"exact,tf32,bf16"`
	// DeviceCache is which rows a device that is not the host's memory keeps, of embeddings with their state, and of features: "auto"
	// (default), "none", "tracker" or "lookahead", see [train.Config]. DeviceWindow is lookahead's. Neither changes a result.
	DeviceCache  string `json:"device_cache,omitempty" resume:"free" group:"input and output,expert"`
	DeviceWindow int    `json:"device_window,omitempty" resume:"free" group:"input and output,expert" default:"16, without --mem up to 62 where those move less"`
	Threads      int    `json:"threads" resume:"free" group:"input and output" help:"processors to use" default:"all"` // default: all processors
	// EvalEvery is the epochs between validations; default 1. The last epoch is always validated and
	// tested; −1: not even that.
	EvalEvery int `json:"eval_every" resume:"free" group:"optimiser"`
	// Against is what the ends of edges of lists are ranked against: eval.AgainstGiven, the data set's own negatives of a list;
	// eval.AgainstAll, all nodes; eval.AgainstAuto (default), given ones where a list has some.
	Against string `json:"against,omitempty" resume:"free" group:"link prediction" help:"what edges are ranked against: given, the data set's own negatives; all, all nodes; auto, given ones of lists that have some" values:"auto,given,all"`

	// Table is the store's table of the embeddings and their optimiser state; default "embeddings". A run that
	// begins replaces an earlier run's.
	Table string `json:"table" group:"link prediction" help:"the store's table of embeddings; an earlier run's is replaced"`
	// CheckpointEvery is how often the run is made one to resume from: epochs ("1", the default), mini-batches
	// ("500steps") or time ("10m"); "0": only at the end.
	CheckpointEvery string `json:"checkpoint_every" resume:"free" group:"checkpoints"`
	// KeepCheckpoints is how many are kept; each takes the room of the whole table. Default 1.
	KeepCheckpoints int `json:"keep_checkpoints" group:"checkpoints" help:"checkpoints that are kept, each as large as all embeddings and their state"`
	// Resume goes on from Table's last checkpoint, or FromCheckpoint, of which later ones are dropped;
	// where there is none, a run begins. The result is an uninterrupted run's to the bit.
	Resume         bool   `json:"-" resume:"free" group:"checkpoints" flag:"resume"`
	FromCheckpoint uint64 `json:"-" resume:"free" group:"checkpoints,expert" help:"with --resume, go back to the kept checkpoint of this number" flag:"from-checkpoint"`

	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they be zero.
	Given []string `json:"-" resume:"free"`
}

// defaultTable is the default of Config.Table.
const defaultTable = "embeddings"

// defaultChunks is the default of Config.Chunks, of smaller batches too.
const defaultChunks = 10

// What Config.Optimizer may be.
const (
	adagrad = "adagrad"
	adam    = "adam"
)

// denseRate is the default of Config.DenseRate with an encoder where nodes have many edges (docs/accuracy.md, "Link prediction").
const denseRate = 4

// noDecay is the LRDecay of a constant learning rate.
const noDecay = -1

// Normalize fills in defaults and says what is wrong with c: an error that matches [store.ErrInvalid].
func (c *Config) Normalize() error {
	text := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	number := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	text(&c.Task, "link")
	text(&c.Model, nn.DistMult)
	if len(c.Features) > 0 {
		text(&c.Encoder, "sage")
		text(&c.Optimizer, adam)
	}
	text(&c.Encoder, "none")
	switch {
	case c.Encoder == "none":
	case len(c.Fanouts) > 1 || len(c.Fanouts) == 1 && len(c.Features) > 0:
		number(&c.Layers, len(c.Fanouts))
	case len(c.Features) > 0:
		number(&c.Layers, 2)
	}
	text(&c.Loss, gpu.SoftmaxLoss.String())
	text(&c.IOEngine, "auto")
	text(&c.Device, "auto")
	text(&c.Plan, "auto")
	text(&c.Absent, AbsentAuto)
	text(&c.NegativesFrom, FromAuto)
	text(&c.Against, eval.AgainstAuto)
	text(&c.DeviceCache, cacheAuto)
	text(&c.Table, defaultTable)
	text(&c.CheckpointEvery, "1")
	number(&c.KeepCheckpoints, 1)
	number(&c.Dim, 100)
	number(&c.BatchSize, 1000)
	number(&c.Epochs, 8)
	number(&c.Negatives, 500)
	number(&c.Chunks, defaultChunks)
	number(&c.Threads, runtime.GOMAXPROCS(0))
	number(&c.EvalEvery, 1)
	text(&c.Optimizer, adagrad)
	if c.LR == 0 {
		c.LR = map[string]float64{adagrad: .1, adam: .003}[c.Optimizer]
	}
	if c.Margin == nil {
		one := 1.
		c.Margin = &one
	}
	if c.LRDecay == 0 {
		c.LRDecay = .5
	}
	if c.Encoder != "none" && len(c.Fanouts) == 0 {
		c.Fanouts = defaultFanouts(c.Layers)
	}
	if err := c.validate(); err != nil {
		return store.Invalid(err)
	}
	c.complete()
	return nil
}

// defaultFanouts are those of an encoder of so many layers, see [Config].Layers.
func defaultFanouts(layers int) []int {
	if layers <= 1 {
		return []int{20}
	}
	f := []int{15, 10}
	for len(f) < layers {
		f = append(f, 5)
	}
	return f
}

func (c *Config) validate() error {
	if _, err := nn.NewDecoder(c.Model, c.Dim); err != nil {
		return err
	}
	if _, err := c.loss(); err != nil {
		return err
	}
	if err := eval.CheckAgainst(c.Against, 0); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	model := nn.LinkConfig{Encoder: c.Encoder, Heads: c.Heads, Dim: c.Dim, Layers: c.Layers}
	if err := model.Validate(); err != nil {
		return err
	}
	if err := (&mini.Config{Fanouts: c.Fanouts}).Validate(); err != nil {
		return fmt.Errorf("train: fanouts %v: %w", c.Fanouts, err)
	}
	if _, err := progress.ParseInterval(c.CheckpointEvery); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]string{"auto", macro.Memory, macro.Comet, macro.Beta}, c.Plan):
		return fmt.Errorf("train: plan %q of link prediction is not known (known: auto, memory, comet, beta)", c.Plan)
	case !slices.Contains([]string{AbsentAuto, AbsentShadow, AbsentIgnore}, c.Absent):
		return fmt.Errorf("train: absent neighbours %q: expected %s, %s or %s", c.Absent, AbsentAuto, AbsentShadow, AbsentIgnore)
	case !slices.Contains([]string{FromAuto, FromMixed, FromAnswers, FromResident}, c.NegativesFrom):
		return fmt.Errorf("train: negatives from %q: expected %s, %s, %s or %s", c.NegativesFrom, FromAuto, FromMixed, FromAnswers, FromResident)
	case !slices.Contains([]string{cacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead}, c.DeviceCache) || c.DeviceWindow < 0 || c.DeviceWindow > cache.WindowMax:
		return fmt.Errorf("train: device cache %q with a window of %d batches: link prediction takes %s, %s, %s or %s, and at most %d", c.DeviceCache, c.DeviceWindow, cacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead, cache.WindowMax)
	case c.Optimizer != adagrad && c.Optimizer != adam:
		return fmt.Errorf("train: optimizer %q is not known (known: adagrad, adam)", c.Optimizer)
	case c.Buffer < 0 || c.Logical < 0 || c.Group < 0:
		return fmt.Errorf("train: buffer of %d partitions, %d logical ones, groups of %d: expected 0 or more", c.Buffer, c.Logical, c.Group)
	case c.KeepCheckpoints < 1 || c.KeepCheckpoints > table.CheckpointsMax:
		return fmt.Errorf("train: %d checkpoints kept: expected 1 to %d", c.KeepCheckpoints, table.CheckpointsMax)
	case !table.ValidName(c.Table):
		return fmt.Errorf("train: table %q: expected a name of at most 64 letters, digits, '-' and '_'", c.Table)
	case !slices.Contains(blockio.Names(), c.IOEngine):
		return fmt.Errorf("train: i/o engine %q is not known (known: %s)", c.IOEngine, strings.Join(blockio.Names(), ", "))
	case c.Task != "link" && c.Task != "auto":
		return fmt.Errorf("train: task %q of a store of edges, expected link", c.Task)
	case c.NoEmbeddings && len(c.Features) == 0:
		return fmt.Errorf("train: without embeddings a node's features are all that is known of it: name their columns with features")
	case c.Absent == AbsentShadow && (c.Layers > 1 || len(c.Features) > 0):
		return fmt.Errorf("train: absent neighbours are read from a shadow by an encoder of one layer without features: use %s", AbsentIgnore)
	case len(c.Fanouts) != model.Hops():
		return fmt.Errorf("train: fanouts %v for encoder %s, expected %d of them", c.Fanouts, c.Encoder, model.Hops())
	case c.hidesEdges() && c.Encoder == "none":
		return fmt.Errorf("train: there are no neighbourhoods to remove a batch's edges from without an encoder")
	case !(c.KeepBatchEdges >= 0 && c.KeepBatchEdges <= 1):
		return fmt.Errorf("train: keep batch edges %v: expected a share, 0 to 1", c.KeepBatchEdges)
	case c.KeepBatchEdges > 0 && (c.Encoder == "none" || c.RemoveBatchEdges != nil && !*c.RemoveBatchEdges):
		return fmt.Errorf("train: keep batch edges %v: none are hidden, of which some could be kept: hide them from an encoder", c.KeepBatchEdges)
	case c.BatchSize < 1 || c.Epochs < 1 || c.Threads < 1 || c.EvalEvery < -1 || c.EvalEvery == 0 || c.Negatives < 1 || c.Chunks < 1:
		return fmt.Errorf("train: batch size %d, epochs %d, threads %d, eval every %d, negatives %d, chunks %d: expected positive numbers",
			c.BatchSize, c.Epochs, c.Threads, c.EvalEvery, c.Negatives, c.Chunks)
	case c.Chunks > max(c.BatchSize, defaultChunks): // those without an edge only draw negatives
		return fmt.Errorf("train: %d chunks of a batch of %d edges: expected at most one an edge", c.Chunks, c.BatchSize)
	case c.Negatives > 1<<31 || int64(c.Chunks)*2*int64(c.Negatives) > 1<<31:
		return fmt.Errorf("train: %d chunks of %d negatives make more than 2^31 wrong answers a batch: use fewer of either", c.Chunks, c.Negatives)
	case int64(c.BatchSize) > 1<<31 || int64(c.BatchSize)*2*(int64(c.Negatives)+1) > 1<<31:
		return fmt.Errorf("train: %d edges with %d negatives make more than 2^31 scores: use a smaller batch", c.BatchSize, c.Negatives)
	case !(c.LR > 0 && c.LR <= math.MaxFloat32) || !(*c.Margin >= 0 && *c.Margin <= math.MaxFloat32) || !(c.DegreeShare >= 0 && c.DegreeShare <= 1):
		return fmt.Errorf("train: learning rate %v, margin %v, degree share %v: expected > 0, ≥ 0, both finite as float32, and 0 to 1", c.LR, *c.Margin, c.DegreeShare)
	case !(c.DenseRate >= 0 && max(c.DenseRate, 1)*c.LR <= math.MaxFloat32):
		return fmt.Errorf("train: dense rate %v of learning rate %v: expected > 0, and a product that is finite as float32", c.DenseRate, c.LR)
	case c.LRDecay != noDecay && !(c.LRDecay > 0 && c.LRDecay <= 1):
		return fmt.Errorf("train: the learning rate falls in the last %v of the run: expected a share, 0 to 1, or -1 for never", c.LRDecay)
	case c.MemoryBytes < 0:
		return fmt.Errorf("train: memory %d bytes: expected 0 or more", c.MemoryBytes)
	}
	return nil
}

// keptEdges is how many times the share of the partitions in memory Config.KeepBatchEdges is by default, at most keptEdgesMost, which it
// is in memory. An edge is one of a node's neighbours in memory, which are the fewer the smaller that share: if all were seen, an
// encoder would learn little else than to find the answer among them; if none are, it over-fits (docs/design.md, "gpu/link").
const (
	keptEdges     = 2
	keptEdgesMost = .5
)

// hidesEdges is RemoveBatchEdges once the plan is known.
func (c *Config) hidesEdges() bool { return c.RemoveBatchEdges != nil && *c.RemoveBatchEdges }

// LinkModel returns what c says of the model, for a store: its relations, its features' columns.
func (c *Config) LinkModel(m *store.Manifest) (nn.LinkConfig, error) {
	loss, err := c.loss()
	if err != nil {
		return nn.LinkConfig{}, err
	}
	columns, err := c.columns(m)
	if err != nil {
		return nn.LinkConfig{}, err
	}
	l := nn.LinkConfig{Decoder: c.Model, Encoder: c.Encoder, Heads: c.Heads, Dim: c.Dim, Layers: c.Layers, NoEmbeddings: c.NoEmbeddings, Relations: len(m.Schema.Relations), Loss: loss, Seed: c.Seed}
	for _, x := range columns {
		l.Features = append(l.Features, x.Dim)
	}
	return l, nil
}

// loss returns the loss that c names.
func (c *Config) loss() (gpu.LinkLossOptions, error) {
	for l := gpu.SoftmaxLoss; l <= gpu.MarginLoss; l++ {
		if l.String() != c.Loss {
			continue
		}
		o := gpu.LinkLossOptions{Loss: l}
		if c.Margin != nil {
			o.Margin = float32(*c.Margin)
		}
		return o, nil
	}
	return gpu.LinkLossOptions{}, fmt.Errorf("train: loss %q is not known (known: softmax, logistic, margin)", c.Loss)
}
