package config

import (
	"cmp"
	"fmt"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/table"
)

func learningOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.BatchSize }, Group: options.Optimiser,
			Help: "target nodes or edges of a mini-batch; as few as 62 are chosen, up to 16 to a step, where that leaves room for " +
				"all neighbours and partitions would lose accuracy",
			Default: 1000, Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.Accumulate }, Group: options.Optimiser, Level: options.Expert,
			Help: "mini-batches whose gradients make one step, as of a mini-batch so many times as large; as many are chosen as a " +
				"smaller batch size, chosen unasked, is smaller",
			Default: 1, Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.Epochs }, Group: options.Optimiser,
			Help: "passes over the training nodes or edges; auto: until validation has not improved for --patience epochs: its accuracy, " +
				"its loss, and where one of two classes is rare its average precision too",
			Otherwise: "auto", Values: options.AtLeast(0),
		},
		{
			Field: func(c *Config) any { return &c.Patience }, Group: options.Optimiser,
			Help:      "with --epochs auto, training stops when neither validation accuracy nor validation loss has improved for so many epochs",
			Otherwise: "20, up to 100 where an epoch is few mini-batches", Values: options.AtLeast(1),
			Rules: []rule{{Idle: true, Why: "a number of epochs is trained to its end", Needs: condition{Text: "--epochs auto",
				Holds: func(c *Config) bool { return c.Epochs == 0 },
				Found: func(c *Config) string { return fmt.Sprintf("--epochs %d", c.Epochs) }, Fix: "Leave one of them out"}}},
		},
		{
			Field: func(c *Config) any { return &c.ClassWeights }, Group: options.Optimiser,
			Help: "auto weighs the loss so that every class counts alike, however rare it is, and takes the epoch of the best balanced " +
				"accuracy, the mean over classes",
			Otherwise: WeightsNone, Values: options.Words(WeightsNone, WeightsAuto),
		},
		{Field: func(c *Config) any { return &c.LR }, Group: options.Optimiser, Help: "learning rate",
			Default: .005, Values: options.Positive()},
		scheduleOption(),
		{Field: func(c *Config) any { return &c.WeightDecay }, Group: options.Optimiser,
			Help:      "L2 penalty, added to the gradient",
			Otherwise: "0; of fewer than 1,000 training nodes whose features are mostly 0, up to 1 divided by their number", Values: options.AtLeast(0)},
		{
			Field: func(c *Config) any { return &c.Dropout }, Group: options.Optimiser,
			Help: "probability with which hidden values are dropped", Default: .5, Values: options.Below(0, 1),
			Rules: []rule{{Needs: ownHiddenLayer(), Idle: true, Why: "one layer has no hidden values"}},
		},
		{
			Field: func(c *Config) any { return &c.InputDropout }, Group: options.Optimiser, Level: options.Expert,
			Help:      "probability with which values of the first layer's input are dropped",
			Otherwise: ".1 with a precomputed hop, else 0", Values: options.Below(0, 1),
		},
		options.Seed(func(c *Config) any { return &c.Seed }),
		{
			Field: func(c *Config) any { return &c.EvalEvery }, Group: options.Optimiser, Level: options.Expert,
			Help:      "epochs between exact validations; of links -1 for none, not even of the last epoch",
			Otherwise: "1, up to 5 where an epoch is few mini-batches", Values: options.AtLeast(1),
		},
	}
}

// historyRules are what a history asks of the rest, as [Config].History or as a part of something else.
func historyRules(when condition) []rule {
	rules := []rule{
		{Needs: modelThat("with a history", keepsHistory), Why: "absent neighbours of others cannot be completed from their states"},
		{Needs: severalLayers(), Why: "it keeps the states between layers"},
		{Excludes: maximum(), Why: "it completes means and sums"},
		{Excludes: jumping(), Why: "it completes layers below a last one"},
		{Excludes: weights(), Why: "the sums that it adds give all neighbours the same weight"},
		{Excludes: edgeFeatures(), Why: "it has none of absent neighbours' edges"},
		{Excludes: pinsage(), Why: "it adds up adjacent nodes, which those that walks visit need not be"},
	}
	for i := range rules {
		rules[i].When = when
	}
	return rules
}

func absentOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.PrecomputedHop }, Group: options.OutOfCore,
			Help: "read what the first layer makes of neighbours from columns that gstore precompute made: sage their mean; gcn and " +
				"gin their sum (precompute --model); rsage the means of each relation (precompute --each-relation)",
			Rules: []rule{
				{Needs: modelThat("that reads a precomputed hop", readsHop), Why: "what its first layer computes depends on parameters"},
				{Needs: severalLayers(), Why: "it stands for the first layer's neighbours, and nothing would be left to sample"},
				{Excludes: pinsage(), Why: "it is of adjacent nodes, which those that walks visit need not be"},
				{When: sumHop(), Excludes: residual(), Why: "the sums stand in place of the nodes' own features, which it adds to the first layer"},
				{When: relationHop(), Excludes: jumping(), Why: "it is read by a first layer below a last one"},
				{When: relationHop(), Needs: uniform(), Why: "the relations that are not precomputed are drawn by it"},
				{When: relationHop(), Excludes: pruned(), Why: "the relations that are not precomputed are drawn from whole lists"},
				{When: relationHop(), Excludes: pbs(), Why: "it draws along edges of one relation"},
			},
		},
		{
			Field: func(c *Config) any { return &c.History }, Group: options.OutOfCore,
			Help: "add to the means and sums over neighbours what hidden states those outside memory had at the start of the epoch; " +
				"gat attends to them",
			Rules: historyRules(condition{}),
		},
		{
			Field: func(c *Config) any { return &c.HistoryDtype }, Group: options.OutOfCore, Level: options.Experimental,
			Help: "type of the numbers that a history keeps", Otherwise: "float32, or float16 where features take 16 bits or fewer",
			Values: options.Words("float32", "float16", "bfloat16"),
			Rules:  []rule{{Needs: history().With("Give --history too"), Why: "it says how a history's rows are stored"}},
		},
		{
			Field: func(c *Config) any { return &c.Absent }, Group: options.OutOfCore, Level: options.Expert,
			Help:    "neighbours out of memory: auto, the precomputed hop (in memory too) and history where store and model allow; ignore",
			Default: AbsentAuto, Values: options.Words(AbsentAuto, AbsentIgnore),
		},
		{
			Field: func(c *Config) any { return &c.LabelShift }, Group: options.OutOfCore, Level: options.Experimental,
			Help:    "correct the loss of steps whose classes are not mixed as the graph's",
			Default: ShiftAuto, Values: options.Words(ShiftAuto, ShiftOff),
		},
		{
			Field: func(c *Config) any { return &c.Mixture }, Group: options.OutOfCore, Level: options.Experimental,
			Help:    "which partitions a step has: labels, such that its classes are mixed as the graph's; random; or auto",
			Default: MixtureAuto, Values: options.Words(MixtureAuto, MixtureLabels, MixtureRandom),
			Rules: []rule{{Needs: stepsOfHanoi(), Idle: true, Why: "only its steps are composed"}},
		},
		{
			Field: func(c *Config) any { return &c.Vectors }, Group: options.OutOfCore, Level: options.Expert,
			Help: "where vectors learned of nodes without features are: memory, as parameters; table, of the store, read and written " +
				"with partitions; auto, a table where they do not fit --mem",
			Otherwise: VectorsAuto, Values: options.Words(VectorsAuto, VectorsMemory, VectorsTable),
			Rules: []rule{
				{Needs: isRelational(), Idle: true, Why: "no other model learns vectors of nodes"},
				{When: vectorTable(), Needs: isRelational(), Why: "no other model learns vectors of nodes"},
				{When: vectorTable(), Excludes: is("plan", macro.Rows, plan), Why: "it holds no table"},
				{When: vectorTable(), Excludes: condition{Text: "--accumulate 2 or more",
					Holds: func(c *Config) bool { return c.Accumulate > 1 }}, Why: "rows of a table step with every mini-batch"},
			},
		},
		{
			Field: func(c *Config) any { return &c.Table }, Group: options.OutOfCore, Level: options.Expert,
			Help: "the store's table of learned vectors, of links of all embeddings", Otherwise: defaultTable,
			Values: options.Text("a name of at most 64 letters, digits, '-' and '_'", table.ValidName),
			Rules:  []rule{{Needs: isRelational(), Idle: true, Why: "no other model learns vectors of nodes"}},
		},
	}
}

func vectorTable() condition {
	return condition{Text: "--vectors table", Holds: func(c *Config) bool { return c.Vectors == VectorsTable }}
}

func stepsOfHanoi() condition {
	return condition{Text: "plan hanoi", Holds: func(c *Config) bool { return c.Plan == "auto" || c.Plan == macro.Hanoi },
		Found: func(c *Config) string { return "--plan " + c.Plan }, Fix: "Use --plan hanoi"}
}

func memoryOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Plan }, Group: options.OutOfCore,
			Help: "which partitions are in memory when: auto; memory, all; rows, the whole graph without features; hanoi or " +
				"trainnodes, some at a time; of links comet or beta",
			Default: "auto", Values: options.Words("auto", macro.Memory, macro.Rows, macro.Hanoi, macro.TrainNodes),
			Rules: []rule{
				{When: is("plan", macro.Rows, plan), Excludes: history(), Why: "no neighbour is absent"},
				{When: is("plan", macro.Rows, plan), Excludes: is("sampler", mini.Labor, samplerOf), Why: "it draws by names of nodes, which the plan does not keep"},
			},
		},
		{
			Field: func(c *Config) any { return &c.Buffer }, Group: options.OutOfCore, Level: options.Expert,
			Help: "partitions in memory at once, pinned ones not counted", Otherwise: "what --mem allows", Values: options.AtLeast(0),
		},
		{
			Field: func(c *Config) any { return &c.RowReads }, Group: options.OutOfCore, Level: options.Experimental,
			Help: "how plan rows reads features: cached, single rows by way of a cache; packed, all of them for a window of " +
				"mini-batches, by way of a temporary file; auto, what the disk is estimated to do sooner",
			Default: RowsAuto, Values: options.Words(RowsAuto, RowsCached, RowsPacked),
			Rules: []rule{{Idle: true, Why: "others read partitions", Needs: condition{Text: "plan rows",
				Holds: func(c *Config) bool { return c.Plan == "auto" || c.Plan == macro.Rows },
				Found: func(c *Config) string { return "--plan " + c.Plan }, Fix: "Use --plan rows"}}},
		},
		{
			Field: func(c *Config) any { return &c.Reuse }, Group: options.OutOfCore, Level: options.Experimental,
			Help: "extra passes over each macro-batch of plan hanoi, 0 to 4; auto, as many as fit while the next is read, which " +
				"depends on timing; or replay:FILE, those of an earlier run, from its --json",
			Otherwise: "0", Values: options.AtMost(macro.ReuseAuto, macro.ReuseMax), Check: checkReuse,
			Rules: []rule{{Needs: stepsOfHanoi(), Why: "other plans train every node once"}},
		},
		options.Memory(func(c *Config) any { return &c.MemoryBytes }),
	}
}

func checkReuse(c *Config) string {
	if c.ReusePasses == nil {
		return ""
	}
	if c.Reuse != macro.ReuseAuto {
		return "--x reuse: passes are given to repeat, beside a number of them"
	}
	if err := checkPasses(c.ReusePasses, cmp.Or(c.Epochs, len(c.ReusePasses))); err != nil {
		return "--x reuse: " + err.Error()
	}
	return ""
}

func deviceOptions() []option {
	stages := condition{Text: "--x device-plan=lbs or pbs", Holds: (*Config).Stages, Fix: "Give --x device-plan=lbs"}
	return []option{
		{
			Field: func(c *Config) any { return &c.DevicePlan }, Group: options.InputOutput, Level: options.Expert,
			Help: "how feature rows come to a GPU: direct, by the mini-batch; mirror, by the partition; auto, whichever moves less; " +
				"lbs and pbs sample in two stages, which changes mini-batches on any device",
			Default:  CacheAuto,
			Values:   options.Words(CacheAuto, macro.DeviceDirect, macro.DeviceMirror, macro.DeviceLBS, macro.DevicePBS),
			Unproven: []string{macro.DeviceLBS, macro.DevicePBS},
			Rules: append([]rule{
				{When: lbs(), Needs: uniform(), Why: "it draws neighbours itself"},
				{When: lbs(), Needs: hasNeighbours(), Idle: true, Why: "it draws none"},
				{When: pbs(), Needs: uniform(), Why: "it draws neighbours itself"},
				{When: pbs(), Excludes: isRelational(), Why: "it draws along edges of one relation and direction"},
				{When: lbs(), Excludes: is("plan", macro.Rows, plan), Why: "it draws by names of nodes, which that plan does not keep"},
				{When: pbs(), Needs: condition{Text: "plan memory",
					Holds: func(c *Config) bool { return c.Plan == "auto" || c.Plan == macro.Memory },
					Found: func(c *Config) string { return "--plan " + c.Plan }, Fix: "Use --plan memory"},
					Why: "its groups are of partitions in memory; plan hanoi has what it has of partitions that are read"},
			}, historyRules(pbs())...),
		},
		{
			Field: func(c *Config) any { return &c.DeviceMacro }, Group: options.InputOutput, Level: options.Experimental,
			Help: "with device-plan=lbs mini-batches that are drawn together, with pbs partitions that are trained together",
			Default: func(c *Config) any {
				if c.DevicePlan == macro.DeviceLBS {
					return togetherDefault
				}
				return 0
			},
			Otherwise: "16, an eighth", Values: options.AtLeast(0),
			Rules: []rule{{Needs: stages, Why: "no other has macro-batches of its own"}},
		},
		{
			Field: func(c *Config) any { return &c.DeviceCache }, Group: options.InputOutput, Level: options.Expert,
			Help: "which rows a GPU keeps from one mini-batch to the next, of features and, for links, of embeddings: auto is what " +
				"moves least; presc is for nodes",
			Default: CacheAuto,
			Values:  options.Words(CacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead, cache.NamePreSC),
		},
		{
			Field: func(c *Config) any { return &c.DeviceWindow }, Group: options.InputOutput, Level: options.Experimental,
			Help:      "mini-batches that are sampled ahead for --device-cache lookahead",
			Otherwise: "16, without --mem up to 62 where those move less", Values: options.AtMost(1, cache.WindowMax),
			Rules: []rule{{Idle: true, Why: "only lookahead samples ahead", Needs: condition{Text: "--device-cache lookahead",
				Holds: func(c *Config) bool { return c.DeviceCache == CacheAuto || c.DeviceCache == cache.NameLookahead },
				Found: func(c *Config) string { return "--device-cache " + c.DeviceCache }, Fix: "Use --device-cache lookahead"}}},
		},
		{
			Field: func(c *Config) any { return &c.RecordSteps }, Group: options.InputOutput, Level: options.Experimental,
			Help:    "whether a GPU takes training steps down and runs them again by one call: auto is where shapes allow",
			Default: recordAuto, Values: options.Words(recordAuto, RecordOff),
		},
		{
			Field: func(c *Config) any { return &c.SampleOn }, Group: options.InputOutput, Level: options.Expert,
			Help: "where mini-batches are drawn: a GPU that mirrors partitions can draw them from neighbour lists in its memory; " +
				"auto is where less crosses",
			Default: sampleAuto, Values: options.Words(sampleAuto, SampleHost, SampleDevice),
		},
	}
}

func runOptions() []option {
	return []option{
		options.IOEngine(func(c *Config) any { return &c.IOEngine }),
		options.Device(func(c *Config) any { return &c.Device }),
		options.DeviceMemory(func(c *Config) any { return &c.DeviceMemoryBytes }),
		options.MatMul(func(c *Config) any { return &c.MatMul }),
		options.Threads(func(c *Config) any { return &c.Threads }),
		options.CheckpointFile(func(c *Config) any { return &c.CheckpointFile }),
		{
			Field: func(c *Config) any { return &c.CheckpointEvery }, Group: options.Checkpoints,
			Help:    "epochs (1), mini-batches (500steps) or time (10m) between checkpoints; 0: only at the end",
			Default: "10m", Values: options.Text(progress.Intervals, progress.IsInterval),
		},
		{
			Field: func(c *Config) any { return &c.Resume }, Flag: "resume", Group: options.Checkpoints,
			Help: "go on from the last checkpoint, with the flags that the run began with; where there is none, begin",
			Rules: []rule{{Needs: condition{Text: "a file of checkpoints", Holds: func(c *Config) bool { return c.CheckpointFile != "" },
				Found: func(*Config) string { return "none" }, Fix: "Name it with --checkpoint-file"}}},
		},
	}
}
