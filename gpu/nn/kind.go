package nn

import (
	"slices"
	"strings"
)

// Kind says what the models of one name are made of and what they can do. Everything that depends on a model's name is
// here: who samples, plans, evaluates or keeps histories asks for a capability. A new kind is a file with its layer and a
// function that returns its Kind, and an entry in [Kinds].
type Kind struct {
	Name string

	// What a layer reads.
	NodesAlone   bool   // of a node itself; its blocks are the identity
	Relations    bool   // which relation each edge is of
	NodeTypes    bool   // of which type each node is, where the graph has types ([Config].NodeTypes)
	ByRelation   bool   // [gpu.Graph].Groups by relation ([Grouper].ByRelation)
	EachEdge     bool   // groups of one edge each ([Grouper].Single)
	EachRelation bool   // streamed, edges of one relation at a time, and groups paired with sources ([Grouper].Pairs)
	Sparse       bool   // in its first layer, sparse rows: its weights can multiply them before all else
	EdgeFeatures bool   // in its attention, [Config].EdgeDim
	Weights      string // what [Config].EdgeWeights does: "", WeightsMean or WeightsSymmetric

	// What it is made of.
	Projected bool // an input layer brings nodes to [Config].Hidden columns, also without categories, unless it jumps
	Heads     bool // [Config].Heads
	MeanHeads bool // the last layer's output is their mean
	Bases     bool // [Config].Bases
	Max       bool // takes [Config].Aggregator max
	Sums      bool // it begins with sums over neighbours and the node itself, by degrees

	// What completes it where neighbours are absent.
	Hop     HopOf
	History HistoryOf

	// Aggregates: it tells [Pass].Aggregated what it makes of neighbours.
	Aggregates bool

	// layer declares a layer of a model.
	layer func(c *Config, p *Params, s slot) Layer
	// Products: its first layer, streamed, may add up products with its weights instead of states ([Config.StreamsProducts]).
	Products bool

	// stream is [Config.StreamDims] of a model; nil: what a destination accumulates is a state.
	stream func(c *Config) (accumulated, transformed int)
	// encoder declares the one layer, with tanh behind, of an encoder of links; nil: it is none.
	encoder func(c *LinkConfig, p *Params) Layer
	// relations and hidden say of a described model what its parameters' shapes tell; nil: nothing.
	relations func(first LayerInfo, named map[string]Parameter) int
	hidden    func(named map[string]Parameter) int
}

// What edges' weights do to messages.
const (
	WeightsMean      = "mean"      // a mean is weighted
	WeightsSymmetric = "symmetric" // messages are normalised by the weights of both their ends
)

// HopOf is what a precomputed hop holds for the first layer.
type HopOf string

// What a precomputed hop may hold.
const (
	NoHop        HopOf = ""
	HopMean      HopOf = "mean"          // over neighbours, beside the features
	HopSum       HopOf = "sum"           // the layer's sum, instead of the features
	HopRelations HopOf = "each relation" // a mean for each relation
)

// HistoryOf is what hidden states of absent neighbours complete.
type HistoryOf string

// What a history may complete.
const (
	NoHistory        HistoryOf = ""
	HistoryMean      HistoryOf = "mean"      // of the last layer
	HistorySum       HistoryOf = "sum"       // of the last layer, of the node itself too
	HistoryAttention HistoryOf = "attention" // of the last layer
	HistoryRelations HistoryOf = "relations" // a mean for each relation, of all layers
)

// slot is a layer's place in a model.
type slot struct {
	index, in, out int
	last           bool // its output is the logits
	act            Activation
	inputDropout   float32
}

// hop reports whether the layer there is the first, of a model that reads a precomputed hop.
func (s slot) hop(c *Config) bool { return s.index == 0 && c.PrecomputedHop }

// head is the columns of one head of a layer with so many, which are side by side but in the last layer.
func (s slot) head(heads int) int {
	if s.last {
		return s.out
	}
	return s.out / heads
}

// Kinds returns the kinds of models that [New] builds, the default first.
func Kinds() []Kind {
	return []Kind{kindOfSAGE(), kindOfGCN(), kindOfGAT(), kindOfGIN(), kindOfRGCN(), kindOfRSAGE(), kindOfRGAT(), kindOfHGT(),
		kindOfMLP()}
}

// KindNamed returns the kind called name, the default's for ""; the zero Kind where there is none.
func KindNamed(name string) Kind {
	for _, k := range Kinds() {
		if k.Name == name || name == "" {
			return k
		}
	}
	return Kind{}
}

// Kind returns the kind of c's model.
func (c *Config) Kind() Kind { return KindNamed(c.Model) }

// Models returns the names of the kinds of models that have something; nil: of all.
func Models(having func(*Kind) bool) (names []string) {
	for _, k := range Kinds() {
		if having == nil || having(&k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// Only names the kinds that have something for a sentence: "sage", "gat and rgat", "rgcn, rsage and rgat".
func Only(having func(*Kind) bool) string {
	names := Models(having)
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Encoders returns the names of the encoders of link prediction: "none", and kinds whose layers it runs over a node's
// neighbours of either direction. Where [LinkConfig].Layers is 0 it is one with tanh behind, and GAT has a learned
// residual, tanh(GAT(e)[v] + R·e[v]): in a softmax over 40 neighbours and the node itself its own embedding would all but
// vanish.
func Encoders() []string {
	return slices.Concat([]string{"none"}, Models(func(k *Kind) bool { return k.encoder != nil }))
}
