package link

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/table"
)

type (
	option    = options.Option[Config]
	rule      = options.Rule[Config]
	condition = options.Condition[Config]
)

// Options is the table of link prediction's options, in the order in which defaults are filled in.
func Options() *options.Table[Config] {
	t := &options.Table[Config]{Task: "link prediction"}
	t.Options = append(t.Options, modelOptions()...)
	t.Options = append(t.Options, learningOptions()...)
	t.Options = append(t.Options, negativeOptions()...)
	t.Options = append(t.Options, neighbourOptions()...)
	t.Options = append(t.Options, memoryOptions()...)
	t.Options = append(t.Options, deviceOptions()...)
	t.Options = append(t.Options, checkpointOptions()...)
	return t
}

// What options ask of the rest.

func anEncoder() condition {
	return condition{Text: "an encoder", Holds: func(c *Config) bool { return c.Encoder != noEncoder },
		Found: func(*Config) string { return "--encoder none" }, Fix: "Use --encoder " + options.OneOf(encodersThat(nil))}
}

func attention() condition {
	names := encodersThat(attends)
	return condition{Text: "an encoder with attention heads (" + strings.Join(names, ", ") + ")",
		Holds: func(c *Config) bool { return slices.Contains(names, c.Encoder) },
		Found: func(c *Config) string { return "--encoder " + c.Encoder }, Fix: "Use --encoder " + options.OneOf(names)}
}

func features() condition {
	return condition{Text: "features of nodes", Holds: func(c *Config) bool { return len(c.Features) > 0 },
		Found: func(*Config) string { return "none" }, Fix: "Name their columns with --features"}
}

func hiddenEdges() condition {
	return condition{Text: "an encoder from which a mini-batch's edges are hidden",
		Holds: func(c *Config) bool {
			return c.Encoder != noEncoder && (c.RemoveBatchEdges == nil || *c.RemoveBatchEdges)
		},
		Fix: "Use an encoder and leave --x remove-batch-edges out"}
}

func is(flag, value string, of func(*Config) string) condition {
	return condition{Text: "--" + flag + " " + value, Holds: func(c *Config) bool { return of(c) == value },
		Found: func(c *Config) string { return "--" + flag + " " + of(c) }, Fix: "Use --" + flag + " " + value}
}

// by is a default that is one of two: MariusGNN's, or another.
func by(marius, other any) func(*Config) any {
	return func(c *Config) any {
		if c.marius() {
			return marius
		}
		return other
	}
}

func modelOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Preset }, Group: options.LinkPrediction,
			Help: "whose defaults: auto, or marius, those of MariusGNN's evaluation (dimension 100, 500 negatives in " +
				"10 chunks, 8 epochs, no regulariser)",
			Default: PresetAuto, Values: options.Words(PresetAuto, PresetMarius),
		},
		{
			Field: func(c *Config) any { return &c.Model }, Group: options.Model,
			Default: nn.DistMult, Values: options.Words(nn.Decoders()...),
		},
		{
			Field: func(c *Config) any { return &c.From }, Group: options.Checkpoints,
			Otherwise: "new parameters",
		},
		{
			Field: func(c *Config) any { return &c.Features }, Group: options.Data,
			Otherwise: "none",
		},
		{
			Field: func(c *Config) any { return &c.Encoder }, Group: options.LinkPrediction,
			Help: "graph neural network that reads the nodes' embeddings or features",
			Default: func(c *Config) any {
				if len(c.Features) > 0 {
					return "sage"
				}
				return noEncoder
			},
			Otherwise: "none, with --features sage", Values: options.Words(nn.Encoders()...),
		},
		{
			Field: func(c *Config) any { return &c.Heads }, Group: options.Model, Level: options.Expert,
			Otherwise: "4", Values: options.AtLeast(1), Rules: []rule{{Needs: attention(), Why: "heads are of attention"}},
			Check: func(c *Config) string {
				model := nn.LinkConfig{Encoder: c.Encoder, Heads: c.Heads, Dim: c.Dim}
				text := said(model.Validate(), attention().Holds(c))
				if text != "" {
					text += ". Use a --dim that is a multiple of --heads"
				}
				return text
			},
		},
		{
			Field: func(c *Config) any { return &c.Dim }, Group: options.LinkPrediction,
			Help: "numbers of an embedding", Default: by(100, 200),
			Otherwise: "200, with an encoder, dot or --preset marius 100", Values: options.AtLeast(1),
			Check: func(c *Config) string {
				_, err := nn.NewDecoder(c.Model, c.Dim)
				return said(err, true)
			},
		},
		{
			Field: func(c *Config) any { return &c.Layers }, Group: options.Model,
			Default: layers, Otherwise: "one a fanout; 2 with --features",
			Rules: []rule{{Needs: anEncoder(), Why: "layers are an encoder's"}},
		},
		{
			Field: func(c *Config) any { return &c.Fanouts }, Group: options.Model,
			Default: func(c *Config) any {
				if c.Encoder == noEncoder {
					return nil
				}
				return defaultFanouts(c.Layers)
			},
			Otherwise: "20 with an encoder of one layer, 15,10,5… of more",
			Check: func(c *Config) string {
				return said((&mini.Config{Fanouts: c.Fanouts}).Validate(), true)
			},
			Rules: []rule{{Needs: anEncoder(), Why: "neighbours are sampled for an encoder"}, {Needs: fanoutPerLayer()}},
		},
		{
			Field: func(c *Config) any { return &c.NoEmbeddings }, Group: options.LinkPrediction,
			Help:  "give nodes no learned vectors, so that nodes which are appended later are predicted as well",
			Rules: []rule{{Needs: features(), Why: "without embeddings they are all that is known of a node"}},
		},
		{
			Field: func(c *Config) any { return &c.Relation }, Group: options.LinkPrediction,
			Help: "predict the edges of this relation alone, by its name or what is between the types in it; " +
				"others only lead to neighbours",
			Otherwise: "all",
		},
	}
}

// layers is the default of Config.Layers: as many as there are fanouts, if there are several or features, which have
// 2 where none are given; else 0, one with tanh behind.
func layers(c *Config) any {
	switch {
	case c.Encoder == noEncoder:
		return 0
	case len(c.Fanouts) > 1 || len(c.Fanouts) == 1 && len(c.Features) > 0:
		return len(c.Fanouts)
	case len(c.Features) > 0:
		return 2
	}
	return 0
}

func hops(c *Config) int { return (&nn.LinkConfig{Encoder: c.Encoder, Layers: c.Layers}).Hops() }

func fanoutPerLayer() condition {
	return condition{Text: "one number for each layer",
		Holds: func(c *Config) bool { return len(c.Fanouts) == hops(c) },
		Found: func(c *Config) string {
			return options.Count(len(c.Fanouts), "number") + " for " + options.Count(hops(c), "layer")
		}}
}

// said is an error of a lower layer as a sentence of a refusal, where it is asked for.
func said(err error, asked bool) string {
	if err == nil || !asked {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "nn: ")
}

// rotateRate is the largest learning rate of rotate's relations: a step of Adagrad or Adam moves a number by about as much,
// and from a modulus of 1 to one below √3, see [nn.Decoder.Constrain].
const rotateRate = .5

func learningOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.BatchSize }, Group: options.Optimiser,
			Default: 1000, Values: options.AtLeast(1),
			Check: func(c *Config) string {
				if int64(c.BatchSize) > 1<<31 || int64(c.BatchSize)*2*(int64(c.Negatives)+1) > 1<<31 {
					return "--batch-size and --negatives make more than 2^31 scores a mini-batch: use a smaller one of either"
				}
				return ""
			},
		},
		{
			Field: func(c *Config) any { return &c.Epochs }, Group: options.Optimiser, Values: options.AtLeast(1),
			Otherwise: fmt.Sprintf("at most as many as make %d mini-batches, but %d to %d; with an encoder, dot or --preset marius %d; with --from a third of these, %[2]d at least",
				runBatches, epochsLeast, epochsMost, mariusEpochs),
		},
		{
			Field: func(c *Config) any { return &c.Patience }, Group: options.Optimiser, Values: options.AtLeast(1),
			Otherwise: fmt.Sprintf("%d of a run with more than %d epochs, which goes on from the best one with a falling learning rate; none with --from",
				defaultPatience, epochsLeast),
			Rules: []rule{
				{Idle: true, Why: "a number of epochs is trained to its end", Excludes: condition{Text: "--epochs",
					Holds: func(c *Config) bool { return slices.Contains(c.Given, "epochs") && c.Epochs > 0 }}},
				{Idle: true, Why: "nothing else says when validation stops improving", Needs: condition{Text: "validation",
					Holds: func(c *Config) bool { return c.EvalEvery > 0 }, Fix: "Leave --eval-every out"}},
				{Idle: true, Why: "it counts epochs of the full learning rate", Needs: condition{Text: "--lr-decay below 1",
					Holds: func(c *Config) bool { return c.LRDecay < 1 }, Fix: "Leave one of them out"}},
			},
		},
		{
			Field: func(c *Config) any { return &c.Optimizer }, Group: options.LinkPrediction, Level: options.Expert,
			Help: "adagrad, or adam, which keeps two vectors of state a node instead of one",
			Default: func(c *Config) any {
				if len(c.Features) > 0 {
					return adam
				}
				return adagrad
			},
			Otherwise: "adagrad, with --features adam", Values: options.Words(adagrad, adam),
		},
		{
			Field: func(c *Config) any { return &c.LR }, Group: options.Optimiser,
			Default: func(c *Config) any { return map[string]float64{adagrad: .1, adam: .003}[c.Optimizer] },
			Otherwise: "of a decoder without --epochs that of .1 and .3 which validates better after 3 epochs, of a small graph more; else " +
				".1 of adagrad, .003 of adam", Values: options.Positive(),
		},
		{
			Field: func(c *Config) any { return &c.DenseRate }, Group: options.LinkPrediction, Level: options.Experimental,
			Help:      "learning rate of relations and encoder, times --lr",
			Otherwise: "4 with an encoder and adagrad where nodes have many edges, else 1", Values: options.Positive(),
			Check: func(c *Config) string {
				if max(c.DenseRate, 1)*c.LR > math.MaxFloat32 {
					return "--x dense-rate times --lr is more than a float32 holds: use a smaller one of either"
				}
				if rate := max(c.DenseRate, 1) * c.LR; c.Model == nn.RotatE && rate > rotateRate {
					return fmt.Sprintf("--model rotate with a learning rate of relations (--lr times --x dense-rate) of %g: expected at most %g, "+
						"for the moduli of its relations to stay near 1", rate, rotateRate)
				}
				return ""
			},
		},
		{
			Field: func(c *Config) any { return &c.LRDecay }, Group: options.LinkPrediction, Level: options.Expert,
			Help: "share of the run, at its end, in which the learning rate falls linearly to 0; 0: it never falls",
			Default: func(c *Config) any {
				if c.begins() {
					return 1.
				}
				return .5
			},
			Otherwise: "0.5, with --from and without --patience 1", Zero: "-1", Values: options.AtMost(0, 1).Or(noDecay, "never"),
		},
		{
			Field: func(c *Config) any { return &c.Loss }, Group: options.LinkPrediction, Level: options.Expert,
			Help: "loss of an edge among its wrong answers", Default: gpu.SoftmaxLoss.String(),
			Values: options.Words(gpu.SoftmaxLoss.String(), gpu.LogisticLoss.String(), gpu.MarginLoss.String()),
		},
		{
			Field: func(c *Config) any { return &c.Margin }, Group: options.LinkPrediction, Level: options.Expert,
			Help: "by how much a right answer is to score above a wrong one", Default: 1.,
			Values: options.AtMost(0, math.MaxFloat32).As("0 or more, and finite"),
			Rules: []rule{{Needs: is("loss", gpu.MarginLoss.String(), func(c *Config) string { return c.Loss }), Idle: true,
				Why: "no other loss has a margin"}},
		},
		{
			Field: func(c *Config) any { return &c.N3 }, Flag: "regularize", Group: options.LinkPrediction, Level: options.Expert,
			Help: "weight of the regulariser N3, cubes of the numbers of an edge's ends and relation",
			Default: func(c *Config) any {
				if !c.marius() && (c.Model == nn.DistMult || c.Model == nn.ComplEx) && c.Loss == gpu.SoftmaxLoss.String() {
					return .05
				}
				return 0.
			},
			Otherwise: ".05 of distmult and complex without an encoder and --preset marius, else 0",
			Values:    options.AtMost(0, math.MaxFloat32).As("0 or more, and finite"),
		},
		{
			Field: func(c *Config) any { return &c.Dropout }, Group: options.Optimiser, Values: options.Below(0, 1),
			Otherwise: "0: of the numbers of ends, wrong answers and relations",
		},
		options.Seed(func(c *Config) any { return &c.Seed }),
		{
			Field: func(c *Config) any { return &c.EvalEvery }, Group: options.Optimiser, Level: options.Expert,
			Default: 1, Values: options.AtLeast(1).Or(-1, "none, not even of the last epoch"),
		},
		{
			Field: func(c *Config) any { return &c.Against }, Group: options.LinkPrediction, Level: options.Expert,
			Help: "what edges are ranked against: given, the data set's own negatives; all, all nodes; " +
				"auto, given ones of lists that have some",
			Default: eval.AgainstAuto, Values: options.Words(eval.AgainstAuto, eval.AgainstGiven, eval.AgainstAll),
		},
	}
}

func negativeOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Negatives }, Group: options.LinkPrediction,
			Help: "wrong answers for each edge and side", Default: by(500, 1000),
			Otherwise: "1000, with an encoder, dot or --preset marius 500", Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.Chunks }, Group: options.LinkPrediction, Level: options.Experimental,
			Help: "groups of a mini-batch's edges that share wrong answers", Default: by(mariusChunks, defaultChunks),
			Otherwise: "1, with an encoder, dot or --preset marius 10", Values: options.AtLeast(1),
			Check: func(c *Config) string {
				switch {
				case c.Chunks > max(c.BatchSize, mariusChunks): // those without an edge only draw negatives
					return fmt.Sprintf("--x chunks=%d with --batch-size %d: expected at most one an edge", c.Chunks, c.BatchSize)
				case c.Negatives > 1<<31 || int64(c.Chunks)*2*int64(c.Negatives) > 1<<31:
					return "--x chunks and --negatives make more than 2^31 wrong answers a mini-batch: use a smaller one of either"
				}
				return ""
			},
		},
		{
			Field: func(c *Config) any { return &c.DegreeShare }, Group: options.LinkPrediction, Level: options.Expert,
			Help: "share of wrong answers that are drawn in proportion to degree, 0 to 1", Values: options.AtMost(0, 1),
		},
		{
			Field: func(c *Config) any { return &c.NegativesFor }, Group: options.LinkPrediction, Level: options.Experimental,
			Help: "what the softmax takes an edge's wrong answers for: a sample of all nodes (all), or all that there are (themselves)",
			Default: func(c *Config) any {
				if !c.marius() && sampled().Holds(c) {
					return ForAll
				}
				return ForThemselves
			},
			Otherwise: "all of uniform ones with the softmax, without an encoder and --preset marius, else themselves",
			Values:    options.Words(ForAll, ForThemselves),
			Rules: []rule{{When: condition{Text: "--x negatives-for=" + ForAll, Holds: func(c *Config) bool { return c.NegativesFor == ForAll }},
				Needs: sampled(), Why: "a sum of exponentials is estimated from uniform draws"}},
		},
		{
			Field: func(c *Config) any { return &c.NegativesFrom }, Group: options.LinkPrediction,
			Level: options.Experimental,
			Help: "out of core wrong answers are drawn from partitions where a step's right ones may lie (answers), " +
				"from all in memory (resident) or half from each (mixed); auto: mixed where nodes have many edges, else resident",
			Default: FromAuto, Values: options.Words(FromAuto, FromMixed, FromAnswers, FromResident),
		},
	}
}

func sampled() condition {
	return condition{Text: "--loss softmax and --degree-share 0",
		Holds: func(c *Config) bool { return c.Loss == gpu.SoftmaxLoss.String() && c.DegreeShare == 0 },
		Found: func(c *Config) string { return fmt.Sprintf("--loss %s and --degree-share %v", c.Loss, c.DegreeShare) }}
}

func neighbourOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.RemoveBatchEdges }, Group: options.LinkPrediction,
			Level:     options.Experimental,
			Help:      "hide a mini-batch's edges from the encoder while they are asked for",
			Otherwise: "with an encoder",
			Rules: []rule{{When: condition{Text: "--x remove-batch-edges", Holds: (*Config).hidesEdges}, Needs: anEncoder(),
				Why: "without one there are no neighbourhoods to hide edges from"}},
		},
		{
			Field: func(c *Config) any { return &c.KeepBatchEdges }, Group: options.LinkPrediction, Level: options.Experimental,
			Help: "share of a mini-batch's edges that the encoder sees where they are hidden",
			Otherwise: "where nodes have many edges and no features a half, out of core at most twice the share of " +
				"partitions in memory; else 0",
			Values: options.AtMost(0, 1),
			Rules:  []rule{{Needs: hiddenEdges(), Why: "it says how many of the hidden edges are seen after all"}},
		},
		{
			Field: func(c *Config) any { return &c.Absent }, Group: options.OutOfCore, Level: options.Expert,
			Default: AbsentAuto, Values: options.Words(AbsentAuto, AbsentShadow, AbsentIgnore), Unproven: []string{AbsentShadow},
			Rules: []rule{
				{When: aShadow(), Needs: anEncoder(), Idle: true, Why: "it stands for neighbours that the encoder misses"},
				{When: aShadow(), Needs: condition{Text: "an encoder of one layer without features",
					Holds: func(c *Config) bool { return c.Layers <= 1 && len(c.Features) == 0 },
					Found: func(c *Config) string {
						if len(c.Features) > 0 {
							return "--features " + strings.Join(c.Features, ",")
						}
						return fmt.Sprintf("--layers %d", c.Layers)
					}, Fix: "Use --absent ignore"}, Why: "it holds the inputs of one layer, which are embeddings"},
			},
		},
	}
}

func aShadow() condition {
	return condition{Text: "--x absent=" + AbsentShadow, Holds: func(c *Config) bool { return c.Absent == AbsentShadow }}
}

func memoryOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Plan }, Group: options.OutOfCore,
			Default: "auto", Values: options.Words("auto", macro.Memory, macro.Comet, macro.Beta),
		},
		{Field: func(c *Config) any { return &c.Buffer }, Group: options.OutOfCore, Level: options.Expert,
			Otherwise: "what --mem allows", Values: options.AtLeast(0)},
		{
			Field: func(c *Config) any { return &c.Logical }, Group: options.LinkPrediction, Level: options.Experimental,
			Help: "logical partitions of plan comet", Otherwise: "so many that four fit in memory", Values: options.AtLeast(1),
			Rules: []rule{{Idle: true, Why: "no other plan has logical partitions",
				Needs: condition{Text: "plan comet",
					Holds: func(c *Config) bool { return c.Plan == "auto" || c.Plan == macro.Comet },
					Found: func(c *Config) string { return "--plan " + c.Plan }, Fix: "Use --plan comet"}}},
		},
		options.Memory(func(c *Config) any { return &c.MemoryBytes }),
		{
			Field: func(c *Config) any { return &c.Table }, Group: options.OutOfCore, Level: options.Expert,
			Default: defaultTable, Otherwise: defaultTable + "; with --from that table's name and the version, such as " + defaultTable + "-v2",
			Values: options.Text("a name of at most 64 letters, digits, '-' and '_'", table.ValidName),
		},
	}
}

func deviceOptions() []option {
	return []option{
		options.IOEngine(func(c *Config) any { return &c.IOEngine }),
		options.Device(func(c *Config) any { return &c.Device }),
		options.DeviceMemory(func(c *Config) any { return &c.DeviceMemoryBytes }),
		options.MatMul(func(c *Config) any { return &c.MatMul }),
		{
			Field: func(c *Config) any { return &c.DeviceCache }, Group: options.InputOutput, Level: options.Expert,
			Default: cacheAuto, Values: options.Words(cacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead),
		},
		{
			Field: func(c *Config) any { return &c.DeviceWindow }, Group: options.InputOutput, Level: options.Experimental,
			Otherwise: "16, without --mem up to 62 where those move less", Values: options.AtMost(1, cache.WindowMax),
			Rules: []rule{{Idle: true, Why: "only lookahead samples ahead",
				Needs: condition{Text: "--device-cache lookahead",
					Holds: func(c *Config) bool { return c.DeviceCache == cacheAuto || c.DeviceCache == cache.NameLookahead },
					Found: func(c *Config) string { return "--device-cache " + c.DeviceCache }, Fix: "Use --device-cache lookahead"}}},
		},
		options.Threads(func(c *Config) any { return &c.Threads }),
	}
}

func checkpointOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.CheckpointEvery }, Group: options.Checkpoints,
			Default: "1", Values: options.Text(progress.Intervals, progress.IsInterval),
		},
		{
			Field: func(c *Config) any { return &c.KeepCheckpoints }, Group: options.Checkpoints, Level: options.Expert,
			Help:    "how many checkpoints are kept, and one more with --patience, each as large as all embeddings and their state",
			Default: 1, Values: options.AtMost(1, table.CheckpointsMax),
		},
		options.Resume(func(c *Config) any { return &c.Resume }),
		{
			Field: func(c *Config) any { return &c.FromCheckpoint }, Flag: "from-checkpoint",
			Group: options.Checkpoints, Level: options.Expert,
			Help: "with --resume, go back to the kept checkpoint of this number",
			Rules: []rule{{Why: "it says what the run goes on from",
				Needs: condition{Text: "--resume", Holds: func(c *Config) bool { return c.Resume }, Fix: "Give --resume too"}}},
		},
	}
}
