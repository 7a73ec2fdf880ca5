package training

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// together is what ingest calls the feature that is made of a table's columns of numbers.
const together = "x"

// importanceRepeats is how often each feature is permuted: enough for a deviation.
const importanceRepeats = 3

// importanceShown is how many features are printed; --json has all.
const importanceShown = 30

// importance is what a model loses where nodes have each other's values of a feature.
type importance struct {
	Feature   string  `json:"feature"`
	Loses     float64 `json:"loses"`     // of the measure, in the mean over permutations
	Deviation float64 `json:"deviation"` // of one permutation

	column  string
	element int // −1: all
}

// importances are those of a model's features, the largest first.
type importances struct {
	list           []importance
	split, measure string
	whole          float64 // the measure without permutations
}

// judged is the measure by which a model's importances are told, how much of it larger is better, and its value.
func judged(m *eval.Metrics) (name string, better, value float64) {
	switch {
	case m.Numbers != nil:
		return "the mean absolute error", -1, m.Numbers.MAE
	case m.Labels != nil:
		return "micro F1 in %", 1, 100 * m.Labels.MicroF1
	}
	return "accuracy in %", 1, 100 * m.Accuracy
}

// importances measures each of the model's features, of those that are made of several columns each column, on the first of the splits
// valid, test and train that has nodes; metrics are those of o.splits without permutations.
func (o *evalOptions) importances(ctx context.Context, e *command.Env, st *store.Store, dev gpu.Device, cp *train.Checkpoint, metrics []eval.Metrics) (*importances, error) {
	x := &importances{list: featuresOf(st.Manifest(), cp)}
	if len(x.list) == 0 {
		return nil, command.Usagef("--importance: the model reads no feature of the store's")
	}
	measure := func(permute *eval.Permuted) (*eval.Metrics, error) {
		r, err := cp.Evaluate(ctx, st, dev, train.EvaluateOptions{MemoryBytes: int64(o.mem), Splits: []string{x.split}, Permute: permute})
		if err != nil {
			return nil, err
		}
		return &r.Metrics[0], r.Close()
	}
	var better float64
	for _, x.split = range []string{"valid", "test", "train"} {
		if k := slices.Index(o.splits, x.split); k >= 0 && metrics[k].Nodes > 0 {
			x.measure, better, x.whole = judged(&metrics[k])
			break
		}
	}
	if x.measure == "" {
		return nil, command.Usagef("--importance: no node of the splits %s has a label", strings.Join(o.splits, ", "))
	}
	bar := e.Progress(int64(len(x.list)*importanceRepeats), "features")
	for i := range x.list {
		f := &x.list[i]
		var sum, squares float64
		for seed := range uint64(importanceRepeats) {
			m, err := measure(&eval.Permuted{Column: f.column, Element: f.element, Seed: seed})
			if err != nil {
				return nil, fmt.Errorf("importance of %s: %w", f.Feature, err)
			}
			_, _, value := judged(m)
			loses := better * (x.whole - value)
			sum, squares = sum+loses, squares+loses*loses
			_ = bar.Add(1)
		}
		f.Loses = sum / importanceRepeats
		f.Deviation = math.Sqrt(max(0, squares/importanceRepeats-f.Loses*f.Loses) * importanceRepeats / (importanceRepeats - 1))
	}
	_ = bar.Finish()
	slices.SortStableFunc(x.list, func(a, b importance) int { return cmp.Compare(b.Loses, a.Loses) })
	return x, nil
}

// tell prints the largest, or all as events.
func (x *importances) tell(e *command.Env) {
	if e.JSON {
		for _, v := range x.list {
			f := command.Fields(v)
			f["split"], f["measure"], f["whole"] = x.split, x.measure, x.whole
			e.Event("importance", f)
		}
		return
	}
	fmt.Fprintf(e.Stdout, "\nimportance of features: by how much %s of %s nodes, %.4g, is worse where nodes have each other's values (mean and deviation of %d tries)\n",
		x.measure, x.split, x.whole, importanceRepeats)
	wide := len("feature")
	shown := x.list[:min(len(x.list), importanceShown)]
	for _, v := range shown {
		wide = max(wide, len([]rune(v.Feature)))
	}
	for _, v := range shown {
		fmt.Fprintf(e.Stdout, "  %-*s  %8.3g ± %.2g\n", wide, v.Feature, v.Loses, v.Deviation)
	}
	if n := len(x.list) - len(shown); n > 0 {
		fmt.Fprintf(e.Stdout, "  and %d more, of which none loses more than %.3g (--json has all)\n", n, x.list[len(shown)].Loses)
	}
}

// featuresOf are the model's features but those that were precomputed of others, which are permuted with them.
func featuresOf(m *store.Manifest, cp *train.Checkpoint) (list []importance) {
	for _, name := range cp.Config.OwnFeatures() {
		c, err := m.Column(name)
		if err != nil || c.Role != store.RoleFeature {
			continue
		}
		of := "" // what stands before the names of elements
		if c.NodeType != "" && len(m.Schema.NodeTypes) > 1 {
			of = c.NodeType + "."
		}
		if name != of+together || len(c.Elements) != c.Dim { // elements without names, or values of text, which are one feature
			list = append(list, importance{Feature: name, column: name, element: -1})
			continue
		}
		for k, element := range c.Elements {
			list = append(list, importance{Feature: of + element, column: name, element: k})
		}
	}
	return list
}
