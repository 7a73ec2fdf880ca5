package temporal

import (
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/sampler/mini"
)

type option = options.Option[Config]

// Options is the table of temporal link prediction's options, in the order in which defaults are filled in.
func Options() *options.Table[Config] {
	t := &options.Table[Config]{Task: "temporal link prediction"}
	t.Options = append(t.Options, modelOptions()...)
	t.Options = append(t.Options, learningOptions()...)
	t.Options = append(t.Options, options.RunningOptions(func(c *Config) *options.Running { return &c.Running })...)
	return t
}

func modelOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Sampler }, Group: options.Model,
			Default: mini.Latest, Values: options.Words(mini.TimedSamplers()...),
		},
		{
			Field: func(c *Config) any { return &c.Fanouts }, Group: options.Model,
			Default: []int{10}, Values: options.AtLeast(1),
			Rules: []options.Rule[Config]{{
				When:  options.Condition[Config]{Text: "--fanouts", Holds: func(*Config) bool { return true }},
				Needs: oneFanout(), Why: "it is how many past edges of a node are sampled",
			}},
		},
		{
			Field: func(c *Config) any { return &c.Dim }, Group: options.LinkPrediction,
			Default: 64, Values: options.AtMost(1, 1<<16),
		},
		{
			Field: func(c *Config) any { return &c.TimeEncoding }, Group: options.Model, Level: options.Expert,
			Help: "how an edge's age enters its message: cos, cosines of fixed frequencies; cos-sin, their sines too; " +
				"learned, both of frequencies that are learned (TGAT); none",
			Default: TimeCos, Values: options.Words(TimeEncodings()...),
		},
		{
			Field: func(c *Config) any { return &c.NoRecency }, Group: options.LinkPrediction, Level: options.Experimental,
			Help: "leave out of the score when a candidate was last met, by the node and by any",
		},
	}
}

func oneFanout() options.Condition[Config] {
	return options.Condition[Config]{Text: "one number", Holds: func(c *Config) bool { return len(c.Fanouts) == 1 },
		Found: func(c *Config) string { return options.Count(len(c.Fanouts), "number") }}
}

func learningOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.BatchSize }, Group: options.Optimiser,
			Default: 1000, Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.Epochs }, Group: options.Optimiser,
			Default: 3, Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.LR }, Group: options.Optimiser,
			Default: .01, Values: options.Positive(),
		},
		{
			Field: func(c *Config) any { return &c.Negatives }, Group: options.LinkPrediction,
			Default: 500, Values: options.AtLeast(1), Check: checkScores,
		},
		{
			Field: func(c *Config) any { return &c.DegreeShare }, Group: options.LinkPrediction, Level: options.Expert,
			Values: options.AtMost(0, 1),
		},
		options.Seed(func(c *Config) any { return &c.Seed }),
		{
			Field: func(c *Config) any { return &c.ValidShare }, Group: options.Data, Level: options.Expert,
			Help:    "share of the edges, before those of test, that validate",
			Default: .15, Values: options.Below(0, 1), Check: checkShares,
		},
		{
			Field: func(c *Config) any { return &c.TestShare }, Group: options.Data, Level: options.Expert,
			Help: "share of the edges, the last in time, that test", Default: .15, Values: options.Below(0, 1),
		},
		{
			Field: func(c *Config) any { return &c.EvalEdges }, Group: options.Data, Level: options.Expert,
			Help: "how many edges of a split are ranked at most", Default: 4000, Values: options.AtLeast(1),
		},
	}
}

func checkScores(c *Config) string {
	if int64(c.BatchSize)*int64(c.Negatives+1) > 1<<28 {
		return "--batch-size and --negatives make more than 2^28 scores a mini-batch: use a smaller one of either"
	}
	return ""
}

func checkShares(c *Config) string {
	if c.ValidShare+c.TestShare >= 1 {
		return "--valid-share and --test-share leave no edges to train: expected less than 1 together"
	}
	return ""
}
