package link

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
)

// Config is everything that decides the result of a run of link prediction,
// and what it may use. The zero value of a field means its default; Normalize fills them in.
// [Options] says of each field what flag it is, what it may be, and what it goes with.
// Fields tagged resume:"free" may differ from those of the run that is resumed.
type Config struct {
	Task string `json:"task"` // "link"
	// Preset is what the defaults below are of: PresetAuto (default), or PresetMarius, those of MariusGNN's evaluation
	// (section 7.1), which every run had before there were presets.
	Preset  string `json:"preset"`
	Model   string `json:"model"`           // the decoder: "distmult" (default), "complex", "rotate", "transe", "dot"
	Encoder string `json:"encoder"`         // "none", "sage", "gcn", "gat"
	Heads   int    `json:"heads,omitempty"` // of gat, side by side; default 4
	// Dim is that of embeddings, relations and the encoder's states; default 200, with an encoder, dot or PresetMarius 100.
	Dim int `json:"dim"`
	// Layers of the encoder, with a ReLU behind all but the last; 0: one with tanh behind. Default: as many as there
	// are Fanouts, if there are several or Features, which have 2 where none are given.
	Layers int `json:"layers,omitempty"`
	// Features are columns of the store that are projected to Dim numbers and added to a node's embedding;
	// NoEmbeddings leaves that out, so that nodes of which nothing was learned are as good as others. Default: none.
	Features     []string `json:"features,omitempty"`
	NoEmbeddings bool     `json:"no_embeddings,omitempty"`
	// Relation is the one whose edges are predicted, by its name or what is between the types in it; edges of others
	// are neighbours alone. Where one is, in a store of several types of nodes, wrong answers and ranks are of the
	// types of its ends. Default: all.
	Relation string `json:"relation,omitempty"`
	// Fanouts are the neighbours sampled over incoming edges, and as many over outgoing ones, outward from the ends
	// of edges; -1 for all. Default 20 for one layer, 15,10,5… for more, none without an encoder.
	Fanouts   []int `json:"fanouts"`
	BatchSize int   `json:"batch_size"` // edges of a mini-batch; default 1000
	// Epochs are at most so many by default as make runBatches mini-batches, but 8 to 50; with an encoder, dot or PresetMarius 8.
	Epochs int `json:"epochs" resume:"free"`
	// Patience, of a run whose Epochs are not given: once validation has not improved for so many epochs of the full learning
	// rate, it goes on from the best of them with a falling one. Default: 5 of a run with more than 8 epochs, else none. A run
	// for which it is given has [run.EpochsMax] at most.
	Patience int `json:"patience,omitempty"`
	// Optimizer steps embeddings and parameters: "adagrad" (default without Features; a table has one vector of state
	// a node) or "adam" (two; a row's moments change when a batch has the node, and the bias of their zeros is
	// corrected by the run's steps, as PyTorch's SparseAdam does).
	Optimizer string  `json:"optimizer"`
	LR        float64 `json:"lr"` // until it falls; default .1, of adam .003; where Rates are, the one of them that is in hand
	// Rates are those that the run tries for a few epochs each before it chooses LR among them by validation; empty once it has chosen.
	// Default: .1 and .3 of a decoder's run with Adagrad, Patience and EvalEvery 1, if neither LR nor Epochs are given; else none.
	Rates []float64 `json:"rates,omitempty"`
	// DenseRate times LR is the rate of what every mini-batch steps: relations' vectors, and the weights of an
	// encoder and of features. Default with an encoder and Adagrad, where nodes have many edges, 4; else 1.
	DenseRate float64 `json:"dense_rate,omitempty"`
	// LRDecay is the share of the run, at its end, in which the learning rate falls linearly to 0, so that what was
	// trained last does not weigh more than what was trained before; default .5. 1: it falls from the start; −1:
	// never.
	LRDecay   float64 `json:"lr_decay"`
	Negatives int     `json:"negatives"` // wrong answers for each edge and side; default 1000; where Dim is 100 by default 500
	Chunks    int     `json:"chunks"`    // groups of a batch's edges that share negatives; default 1; where Dim is 100 by default 10
	// NegativesFor is what the softmax takes negatives for: ForAll, a sample of all nodes that may be answers, whose
	// exponentials it adds up as an estimate of theirs, in memory or not; ForThemselves, all wrong answers that there are.
	// Default: ForAll, where Dim is 200 by default, of uniform negatives with the softmax.
	NegativesFor string `json:"negatives_for"`
	// DegreeShare of the negatives is drawn in proportion to degree, the rest uniformly; default 0.
	DegreeShare float64 `json:"degree_share"`
	// NegativesFrom is where they are drawn from: FromAnswers, the partitions in which the answer may lie, given the
	// buckets that the step trains; FromResident, all that are in memory; FromMixed, half of them from each; FromAuto
	// (default), mixed where a node has many edges, else resident.
	NegativesFrom string `json:"negatives_from"`
	// RemoveBatchEdges hides a batch's edges, both ways, from the neighbourhoods of
	// their ends while they are the question. Default (nil): they are.
	RemoveBatchEdges *bool `json:"remove_batch_edges,omitempty"`
	// KeepBatchEdges is the share of a batch's edges, drawn at random, that are seen where the batch's are hidden;
	// Default, where RemoveBatchEdges is nil: where nodes have many edges and no Features a half, but no more than
	// twice the share of the partitions that is in memory; else 0.
	KeepBatchEdges float64  `json:"keep_batch_edges,omitempty"`
	Loss           string   `json:"loss"`   // "softmax" (default), "logistic", "margin"
	Margin         *float64 `json:"margin"` // of the margin loss, 0 or more; default (nil): 1
	// N3 is the weight of a regulariser, the sum of the cubes of the numbers of an example's ends and relation (Lacroix
	// et al., ICML 2018, eq. 7), see [nn.LinkConfig]. Default: .05 of distmult and complex where Dim is 200 by default, else 0.
	N3 *float64 `json:"n3,omitempty"`
	// Dropout is the share of the numbers of ends, negatives and relations that count for 0 in a mini-batch; default 0.
	Dropout float64 `json:"dropout,omitempty"`
	Seed    uint64  `json:"seed"`

	// Plan says which partitions are in memory when: "auto" (default), "memory", "comet", "beta";
	// Buffer how many at a time (default: what MemoryBytes allows), Logical is comet's number of logical
	// partitions (default: so many that four fit).
	Plan    string `json:"plan"`
	Buffer  int    `json:"buffer"`
	Logical int    `json:"logical,omitempty"`

	// Group has plan memory train edges in the order of comet with so many partitions in memory, see [macro.Config];
	// 0 (default): all together. It tells what the order costs.
	Group int `json:"group,omitempty"`

	// Absent is what an encoder sees of neighbours that are not in memory: "shadow", their last embeddings from a
	// compressed copy of all, beside the whole graph; "ignore", nothing; "auto" (default) is "ignore": a shadow was
	// not found to gain (docs/design/gpu.md, "gpu/link").
	Absent string `json:"absent,omitempty"`

	MemoryBytes int64  `json:"mem_bytes" resume:"free"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free"` // "auto" (default), "io_uring", "pread", "mmap"
	Device      string `json:"device" resume:"free"`    // "auto" (default), "host", "cuda", "cuda:N"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free"`
	MatMul            string `json:"matmul,omitempty"`
	// DeviceCache is which rows a device that is not the host's memory keeps, of embeddings with their state, and of
	// features: "auto" (default), "none", "tracker" or "lookahead", see [train.Config]. DeviceWindow is lookahead's.
	// Neither changes a result.
	DeviceCache  string `json:"device_cache,omitempty" resume:"free"`
	DeviceWindow int    `json:"device_window,omitempty" resume:"free"`
	Threads      int    `json:"threads" resume:"free"` // default: all processors
	// EvalEvery is the epochs between validations; default 1. The last epoch is always validated and
	// tested; −1: not even that.
	EvalEvery int `json:"eval_every" resume:"free"`
	// Against is what the ends of edges of lists are ranked against: eval.AgainstGiven, the data set's own negatives
	// of a list; eval.AgainstAll, all nodes; eval.AgainstAuto (default), given ones where a list has some.
	Against string `json:"against,omitempty" resume:"free"`

	// Table is the store's table of the embeddings and their optimiser state; default "embeddings". A run that
	// begins replaces an earlier run's.
	Table string `json:"table"`
	// CheckpointEvery is how often the run is made one to resume from: epochs ("1", the default), mini-batches
	// ("500steps") or time ("10m"); "0": only at the end.
	CheckpointEvery string `json:"checkpoint_every" resume:"free"`
	// KeepCheckpoints is how many are kept, and one more in a run with Patience; each takes the room of the whole table. Default 1.
	KeepCheckpoints int `json:"keep_checkpoints"`
	// Resume goes on from Table's last checkpoint, or FromCheckpoint, of which later ones are dropped;
	// where there is none, a run begins. The result is an uninterrupted run's to the bit.
	Resume         bool   `json:"-" resume:"free"`
	FromCheckpoint uint64 `json:"-" resume:"free"`

	// From names the table that the run begins with, for the record; "": new embeddings and parameters. Begin is what it holds.
	From  string `json:"from,omitempty" resume:"free"`
	Begin *Begin `json:"-" resume:"free"`

	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they
	// be zero.
	Given []string `json:"-" resume:"free"`
}

// defaultTable is the default of Config.Table.
const defaultTable = "embeddings"

// What Config.Preset may be.
const (
	PresetAuto   = "auto"
	PresetMarius = "marius"
)

// What Config.NegativesFor may be.
const (
	ForAll        = "all"
	ForThemselves = "themselves"
)

// Defaults of Config.Chunks, the larger one of smaller batches too.
const (
	defaultChunks = 1
	mariusChunks  = 10
)

// Defaults of Config.Epochs: those that make runBatches mini-batches, within bounds; with MariusGNN's defaults mariusEpochs.
// On a small graph more of them are needed, on a large one a run of as few as 8 has seen enough.
const (
	runBatches   = 6000
	epochsLeast  = 8
	epochsMost   = 50
	mariusEpochs = 8
)

// marius reports whether c's defaults are MariusGNN's: by its preset, and where nothing better was found, which is with
// an encoder and without relations.
func (c *Config) marius() bool {
	return c.Preset == PresetMarius || c.Encoder != noEncoder || len(c.Features) > 0 || c.Model == nn.Dot
}

// epochs is the default of c.Epochs for a run on so many examples.
func (c *Config) epochs(examples uint64) int {
	if c.marius() {
		return mariusEpochs
	}
	return min(epochsMost, max(epochsLeast, c.epochsFor(runBatches, examples)))
}

// epochsFor is how many epochs of so many examples make so many mini-batches.
func (c *Config) epochsFor(batches, examples uint64) int {
	each := max(1, (examples+uint64(c.BatchSize)-1)/uint64(c.BatchSize))
	return int((batches + each - 1) / each)
}

// What Config.Optimizer may be.
const (
	adagrad = "adagrad"
	adam    = "adam"
)

// denseRate is the default of Config.DenseRate with an encoder where nodes have many edges (docs/accuracy.md, "Link
// prediction").
const denseRate = 4

// noDecay is the LRDecay of a constant learning rate.
const noDecay = -1

// Normalize fills in defaults and says what is wrong with c: an error that matches [store.ErrInvalid].
func (c *Config) Normalize() error {
	if c.Task == "" {
		c.Task = "link"
	}
	t := Options()
	c.tryRates(t)
	if err := c.validate(t); err != nil {
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

// validate says what is wrong with c: by the table, and what the model finds behind it.
func (c *Config) validate(t *options.Table[Config]) error {
	if c.Task != "link" && c.Task != "auto" {
		return fmt.Errorf("train: the task of a store of edges is link, not %q", c.Task)
	}
	if c.Group < 0 {
		return fmt.Errorf("train: groups of %d partitions: expected 0 or more", c.Group)
	}
	if err := t.Check(c); err != nil {
		return err
	}
	model := nn.LinkConfig{Encoder: c.Encoder, Heads: c.Heads, Dim: c.Dim, Layers: c.Layers}
	return model.Validate()
}

// keptEdges is how many times the share of the partitions in memory Config.KeepBatchEdges is by default, at most
// keptEdgesMost, which it is in memory. An edge is one of a node's neighbours in memory, which are the fewer the
// smaller that share: if all were seen, an encoder would learn little else than to find the answer among them; if
// none are, it over-fits (docs/design/gpu.md, "gpu/link").
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
	l := nn.LinkConfig{Decoder: c.Model, Encoder: c.Encoder, Heads: c.Heads, Dim: c.Dim, Layers: c.Layers,
		NoEmbeddings: c.NoEmbeddings, Relations: len(m.Schema.Relations), Loss: loss, N3: c.n3(), Dropout: float32(c.Dropout), Seed: c.Seed}
	for _, x := range columns {
		l.Features = append(l.Features, x.Dim)
	}
	return l, nil
}

// n3 is c.N3 as the model takes it.
func (c *Config) n3() float32 {
	if c.N3 == nil {
		return 0
	}
	return float32(*c.N3)
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
