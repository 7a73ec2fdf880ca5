package targets

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// TestLabelScores: scores of labels are scikit-learn's (average_precision_score and f1_score of this answer).
func TestLabelScores(t *testing.T) {
	k := kind{name: database.Multilabel, classes: 3}
	answers := []float32{0.265625, 0.453125, 0.328125, 0.703125, 0.453125, 0.203125, 0.578125, 0.765625, 0.328125,
		0.265625, 0.390625, 0.953125, 1.015625, 0.703125, 0.890625, 0.890625, 0.390625, 0.078125}
	s := k.score(answers, truth{targets: make([]float32, 6), lists: [][]uint32{{2}, {}, {0, 1, 2}, {1}, {1}, {1}}})
	for _, x := range [][2]float64{{s.AP, 0.5277777777777778}, {s.MacroF1, 0.35555555555555557}, {s.MicroF1, .4}} {
		if math.Abs(x[0]-x[1]) > 1e-12 {
			t.Errorf("%+v, expected %v", s, x[1])
		}
	}
}

// TestLossGradients: the gradients of every kind of targets are the slopes of its loss, and the answers of a constant are the shares.
func TestLossGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, k := range []kind{{name: database.Binary, spread: 1}, {name: database.Regression, mean: 2, spread: 3}, {name: database.Multiclass, classes: 4}, {name: database.Multilabel, classes: 3}} {
		const rows = 5
		y := truth{}
		for range rows {
			y.targets, y.lists = append(y.targets, float32(rng.IntN(max(k.classes, 2)))), append(y.lists, []uint32{uint32(rng.IntN(3))})
		}
		scores, grads, other := make([]float32, rows*k.outputs()), make([]float32, rows*k.outputs()), make([]float32, rows*k.outputs())
		for i := range scores {
			scores[i] = float32(rng.NormFloat64())
		}
		k.loss(scores, y, grads)
		for i := range scores {
			const step = 1. / 64
			moved := slices.Clone(scores)
			moved[i] += step
			up := k.loss(moved, y, other)
			moved[i] -= 2 * step
			slope := (up - k.loss(moved, y, other)) / (2 * step * rows)
			if math.Abs(slope-float64(grads[i])) > 1e-4 {
				t.Errorf("%s: score %d: gradient %v, slope %v", k.name, i, grads[i], slope)
			}
		}
	}
}

// TestClassesAreInOrder: classes are numbered by size where they are numbers, else by name, and of one alone nothing is learned.
func TestClassesAreInOrder(t *testing.T) {
	of := func(words ...string) *database.Targets {
		p := &database.Targets{}
		for _, w := range words {
			p.Words = append(p.Words, []string{w})
		}
		return p
	}
	task := &database.Task{Kind: database.Multiclass}
	if err := findClasses(task, of("b", "10", "9"), of("a", "b")); err != nil || !slices.Equal(task.Classes, []string{"9", "10", "a", "b"}) {
		t.Errorf("classes %q: %v", task.Classes, err)
	}
	if err := findClasses(&database.Task{Kind: database.Multiclass}, of("b", "b")); err == nil {
		t.Errorf("one class is no error, expected %v", store.ErrInvalid)
	}
}
