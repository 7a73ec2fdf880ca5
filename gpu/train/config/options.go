package config

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

type (
	option    = options.Option[Config]
	rule      = options.Rule[Config]
	condition = options.Condition[Config]
)

// Options is the table of node classification's options, in the order in which defaults are filled in.
func Options() *options.Table[Config] {
	t := &options.Table[Config]{Task: "node classification"}
	for _, group := range [][]option{deviceOptions(), modelOptions(), neighbourOptions(), samplerOptions(), learningOptions(),
		absentOptions(), memoryOptions(), runOptions()} {
		t.Options = append(t.Options, group...)
	}
	return t
}

// What several options ask of the rest.

// is is the condition of an option that has a value.
func is(flag, value string, of func(*Config) string) condition {
	return condition{Text: "--" + flag + " " + value, Holds: func(c *Config) bool { return of(c) == value },
		Found: func(c *Config) string { return "--" + flag + " " + of(c) }, Fix: "Use --" + flag + " " + value}
}

func plan(c *Config) string { return c.Plan }

func samplerOf(c *Config) string {
	if c.Sampler == "" {
		return mini.Uniform
	}
	return c.Sampler
}

func jumps(c *Config) bool { return c.Jumping != "" && c.Jumping != nn.JumpLast }

func isRelational() condition { return modelThat("of relations", isOfRelations) }

func hasNeighbours() condition { return modelThat("that reads neighbours", readsNeighbours) }

func hiddenLayer() condition {
	return condition{Text: "a model with a hidden layer",
		Holds: func(c *Config) bool { return c.Layers > 1 || jumps(c) || c.Relational() },
		Found: func(c *Config) string { return fmt.Sprintf("--layers %d", c.Layers) }, Fix: "Use --layers 2 or more"}
}

func severalLayers() condition {
	return condition{Text: "a model of 2 layers or more", Holds: func(c *Config) bool { return c.Layers > 1 },
		Found: func(c *Config) string { return fmt.Sprintf("--layers %d", c.Layers) }, Fix: "Use --layers 2 or more"}
}

func maximum() condition {
	return condition{Text: "--aggregator max", Holds: func(c *Config) bool { return c.Aggregator == aggregatorMax }}
}

func jumping() condition {
	return condition{Text: "--x jumping", Holds: jumps}
}

func weights() condition {
	return condition{Text: "--edge-weights", Holds: func(c *Config) bool { return c.EdgeWeights }}
}

func edgeFeatures() condition {
	return condition{Text: "--edge-features", Holds: func(c *Config) bool { return len(c.EdgeFeatures) > 0 }}
}

func relationFanouts() condition {
	return condition{Text: "--relation-fanouts", Holds: func(c *Config) bool { return c.RelationFanouts != "" }}
}

func pruned() condition {
	return condition{Text: "--x prune", Holds: func(c *Config) bool { return c.Prune != "" }}
}

func history() condition {
	return condition{Text: "--history", Holds: func(c *Config) bool { return c.History }}
}

func hop() condition {
	return condition{Text: "--precomputed-hop", Holds: func(c *Config) bool { return c.PrecomputedHop }}
}

// sumHop is a precomputed hop of a model that reads it instead of the nodes' own features.
func sumHop() condition {
	return condition{Text: "--precomputed-hop of a model of sums",
		Holds: func(c *Config) bool { return c.PrecomputedHop && c.Kind().Hop == nn.HopSum }}
}

func residual() condition {
	return condition{Text: "--residual", Holds: func(c *Config) bool { return c.Residual }}
}

// relationHop is a precomputed hop of a model of relations.
func relationHop() condition {
	return condition{Text: "--precomputed-hop of a model of relations",
		Holds: func(c *Config) bool { return c.PrecomputedHop && c.Relational() }}
}

func uniform() condition { return is("sampler", mini.Uniform, samplerOf) }

func pinsage() condition { return is("sampler", mini.Pinsage, samplerOf) }

func pbs() condition {
	return condition{Text: "--x device-plan=" + macro.DevicePBS, Holds: func(c *Config) bool { return c.DevicePlan == macro.DevicePBS }}
}

func lbs() condition {
	return condition{Text: "--x device-plan=" + macro.DeviceLBS, Holds: func(c *Config) bool { return c.DevicePlan == macro.DeviceLBS }}
}

// column is the condition of a store whose edges have a column of a role.
func column(role store.Role, text, fix string) condition {
	return condition{Text: text, Fix: fix, Is: store.ErrNotFound,
		Store: func(_ *Config, m *store.Manifest) bool { return len(m.ColumnsOf(role)) > 0 }}
}

func modelOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Model }, Group: options.Model,
			Help:    "architecture; of links the decoder, or the encoder beside the default one",
			Default: plainModel, Values: options.Words(slices.Concat([]string{ModelAuto}, nn.Models(nil))...),
			Otherwise: "auto: rsage for several types of nodes or edges, else sage",
		},
		{
			Field: func(c *Config) any { return &c.From }, Group: options.Checkpoints,
			Help: "begin with a trained model's parameters: the number of a run of this store, best for the best one, or a model file, of a store " +
				"alike; of links a table of embeddings, also of an earlier version; options of model and optimiser are that run's, unless they are given",
			Otherwise: "new parameters",
		},
		{
			Field: func(c *Config) any { return &c.Layers }, Group: options.Model,
			Help: "layers of the model; one a fanout where fanouts are given",
			Default: func(c *Config) any {
				if len(c.Fanouts) > 0 {
					return len(c.Fanouts)
				}
				return 2
			},
			Values: options.AtMost(1, 1000),
		},
		{
			Field: func(c *Config) any { return &c.Hidden }, Group: options.Model,
			Help: "columns between layers", Default: 128, Values: options.AtMost(1, 1<<20),
			Rules: []rule{{Needs: hiddenLayer(), Idle: true, Why: "one layer has nothing between layers"}},
		},
		{
			Field: func(c *Config) any { return &c.Heads }, Group: options.Model, Level: options.Expert,
			Help:      "attention heads: side by side in hidden layers, averaged in the last",
			Otherwise: "4", Values: options.AtLeast(1), Check: checkHeads,
			Rules: []rule{{Needs: modelThat("with attention heads", attends), Why: "no other model has heads"}},
		},
		{
			Field: func(c *Config) any { return &c.Aggregator }, Group: options.Model, Level: options.Expert,
			Help: "how sage combines neighbours", Otherwise: "mean", Values: options.Words("mean", aggregatorMax),
			Rules: []rule{
				{When: maximum(), Needs: modelThat("that can take the maximum", takesMaximum), Why: "others have a way of their own"},
				{When: maximum(), Excludes: hop(), Why: "what is precomputed are means"},
				{When: maximum(), Excludes: weights(), Why: "a maximum has no weights"},
			},
		},
		{
			Field: func(c *Config) any { return &c.Norm }, Group: options.Model, Level: options.Expert,
			Help: "norm of hidden layers", Otherwise: nn.NoNorm, Values: options.Words(nn.NoNorm, nn.BatchNorm, nn.LayerNorm),
			Rules: []rule{{When: condition{Text: "--norm", Holds: func(c *Config) bool { return c.Norm != "" && c.Norm != nn.NoNorm }},
				Needs: ownHiddenLayer(), Why: "it is of hidden layers"}},
		},
		{
			Field: func(c *Config) any { return &c.Residual }, Group: options.Model, Level: options.Expert,
			Help:  "add a hidden layer's input to its output",
			Rules: []rule{{Needs: ownHiddenLayer(), Why: "it is of hidden layers"}},
		},
		{
			Field: func(c *Config) any { return &c.Jumping }, Group: options.Model, Level: options.Experimental,
			Help:      "what makes the classes: the last layer, or all layers' states, side by side (cat) or their maximum (max)",
			Otherwise: nn.JumpLast, Values: options.Words(nn.JumpLast, nn.JumpCat, nn.JumpMax),
		},
		{
			Field: func(c *Config) any { return &c.Bases }, Group: options.Model, Level: options.Experimental,
			Help: "matrices of which rgcn's relations are sums", Otherwise: "4", Values: options.AtMost(1, 1<<16),
			Rules: []rule{{Needs: modelThat("with bases", hasBases), Why: "no other model has bases"}},
		},
		{
			Field: func(c *Config) any { return &c.Order }, Flag: "product-order", Group: options.Model, Level: options.Experimental,
			Help:    "which product of a sage or gcn layer comes first; auto goes by the sizes of the first mini-batch",
			Default: nn.OrderAuto, Values: options.Words(nn.OrderAuto, nn.OrderAggregate, nn.OrderMultiply),
		},
	}
}

// ownHiddenLayer is a hidden layer of the model's layers: the input layer of learned vectors is none.
func ownHiddenLayer() condition {
	x := hiddenLayer()
	x.Holds = func(c *Config) bool { return c.Layers > 1 || jumps(c) }
	return x
}

func checkHeads(c *Config) string {
	if heads := c.Heads; c.Kind().Heads && heads > 0 && (c.Layers > 1 || jumps(c)) && c.Hidden%heads != 0 {
		return fmt.Sprintf("--hidden %d and --heads %d: the hidden columns do not divide among the heads. Use a multiple", c.Hidden, heads)
	}
	return ""
}

// aggregatorMax is a value of [Config].Aggregator.
const aggregatorMax = "max"

func neighbourOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Fanouts }, Group: options.Model,
			Help:    "neighbours sampled per node and hop, outward from the targets; -1 for all",
			Default: fanouts, Otherwise: "15,10,5,5…",
			Check: func(c *Config) string {
				if err := (&mini.Config{Fanouts: c.Fanouts}).Validate(); err != nil {
					return "--fanouts: " + err.Error()
				}
				return ""
			},
			Rules: []rule{
				{When: condition{Text: "--fanouts", Holds: func(*Config) bool { return true }}, Needs: fanoutPerLayer()},
			},
		},
		{
			Field: func(c *Config) any { return &c.RelationFanouts }, Group: options.Model, Level: options.Expert,
			Help: "neighbours sampled of single relations, such as depends=10,5;provides=5,5, and --fanouts of each of the others",
			Rules: []rule{
				{Needs: isRelational(), Why: "the means of others are over all relations"},
				{Needs: uniform(), Why: "only that sampler draws by relation"},
			},
		},
		{
			Field: func(c *Config) any { return &c.EdgeWeights }, Group: options.Model,
			Help: "weigh neighbours by their edges' weights (sage, gcn); which of them are drawn does not depend on the weights",
			Rules: []rule{
				{Needs: modelThat("that weighs neighbours", readsEdgeWeights), Why: "gat reads weights as --edge-features"},
				{Excludes: is("sampler", mini.Weighted, samplerOf), Why: "it draws by the weights already, so that neighbours would count twice"},
				{Excludes: pinsage(), Why: noEdges},
				{Needs: column(store.RoleWeight, "a store whose edges have weights", "Ingest edges with weights")},
			},
		},
		{
			Field: func(c *Config) any { return &c.EdgeFeatures }, Group: options.Model,
			Help: "columns of edges that gat's attention reads, side by side in this order and as they are stored: " +
				"features, weight, time",
			Otherwise: "none",
			Rules: []rule{
				{Needs: modelThat("whose attention reads edges", readsEdges), Why: "others have no place for them"},
				{Excludes: pinsage(), Why: noEdges},
				{Excludes: is("plan", macro.Rows, plan), Why: "it does not hold them"},
			},
		},
		{
			Field: func(c *Config) any { return &c.Features }, Group: options.Data,
			Help: "feature columns, side by side in this order", Otherwise: "all that are computed from no other",
		},
		{
			Field: func(c *Config) any { return &c.Split }, Group: options.Data,
			Help: "split column", Otherwise: "the store's first",
		},
	}
}

// noEdges is why walks do not go with what reads edges.
const noEdges = "no edge need lead to the nodes that walks visit"

// fanouts is the default of Config.Fanouts.
func fanouts(c *Config) any {
	var f []int
	for i := range c.Layers {
		f = append(f, defaultFanouts[min(i, len(defaultFanouts)-1)])
	}
	return f
}

func fanoutPerLayer() condition {
	return condition{Text: "one number for each layer", Holds: func(c *Config) bool { return len(c.Fanouts) == c.Layers },
		Found: func(c *Config) string {
			return options.Count(len(c.Fanouts), "number") + " for " + options.Count(c.Layers, "layer")
		}}
}

func samplerOptions() []option {
	walks := []rule{{Needs: pinsage(), Why: "no other sampler walks"}}
	return []option{
		{
			Field: func(c *Config) any { return &c.Sampler }, Group: options.Model,
			Help: "how neighbours are drawn: uniform; weighted, in proportion to the edges' weights; labor, as uniform but " +
				"fewer different ones a mini-batch; dense, a node's once a mini-batch for all layers; pinsage, the nodes that random " +
				"walks visit most (evaluation reads all edges); of edges at moments latest or temporal",
			Otherwise: mini.Uniform, Values: options.Words(mini.Samplers()...),
			Rules: []rule{
				{Needs: hasNeighbours(), Idle: true, Why: "it samples none"},
				{When: pinsage(), Needs: modelThat("that reads neither relations nor degrees of edges", readsAnyNodes), Why: noEdges},
				{When: is("sampler", mini.Weighted, samplerOf),
					Needs: column(store.RoleWeight, "a store whose edges have weights", "Ingest edges with weights")},
			},
		},
		{
			Field: func(c *Config) any { return &c.Walks }, Group: options.Model, Level: options.Experimental,
			Help: "of --sampler pinsage: random walks from a node", Otherwise: "10", Values: options.AtLeast(1), Rules: walks,
			Check: func(c *Config) string {
				w := mini.Walks{PerNode: c.Walks, Length: c.WalkLength}
				if err := w.Validate(); err != nil {
					return "--x walks and --x walk-length: " + err.Error()
				}
				return ""
			},
		},
		{
			Field: func(c *Config) any { return &c.WalkLength }, Group: options.Model, Level: options.Experimental,
			Help: "of --sampler pinsage: most steps of a walk", Otherwise: "2", Values: options.AtLeast(1), Rules: walks,
		},
		{
			Field: func(c *Config) any { return &c.WalkRestart }, Group: options.Model, Level: options.Experimental,
			Help:      "of --sampler pinsage: probability that a walk ends after a step",
			Otherwise: ".5", Values: options.Below(0, 1), Rules: walks,
		},
		{
			Field: func(c *Config) any { return &c.Prune }, Group: options.Model, Level: options.Experimental,
			Help: "threshold pruning, as 1,1: draw from at most A times the mean degree plus B times the fanout neighbours of a " +
				"node, which lie together",
			Otherwise: "all are drawn from",
			Values:    options.Text("two numbers of 0 or more, not both 0, such as 1,1", isPrune),
			Rules: []rule{
				{Needs: hasNeighbours(), Idle: true, Why: "it samples none"},
				{Needs: condition{Text: "--sampler uniform or dense",
					Holds: func(c *Config) bool { s := samplerOf(c); return s == mini.Uniform || s == mini.Dense },
					Found: func(c *Config) string { return "--sampler " + samplerOf(c) }, Fix: "Use one of them"},
					Why: "others draw from whole lists"},
				{Excludes: relationFanouts(), Why: "the parts of lists that it keeps are not divided by relation"},
			},
		},
	}
}

func isPrune(text string) bool {
	_, err := mini.ParsePrune(text)
	return err == nil
}
