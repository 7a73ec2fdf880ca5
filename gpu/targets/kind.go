package targets

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// kind is what targets are, and what a model says of a row: so many scores, which become answers.
//
//	task                        target                 answers
//	binary classification       0 or 1                 the probability of 1
//	classification of several   a class                a probability of each
//	labels                      any number of them     a probability of each
//	regression                  a number               the number
//	recommendation              rows of a table        its best rows: see [recommender], whose scores are as wide as states
type kind struct {
	name    string
	classes int // of a classification of several, or labels
	// Of a recommendation: how many items are recommended and how many there are, their learned vectors, the relations that lead to them, and
	// the width of scores.
	top, items, vectors, popular, wide int
	itemType                           int
	past                               int // numbers of an earlier target that the model reads; 0: it reads none
	// Of a regression, the mean of training targets and their deviation; else 0 and 1.
	mean, spread float64
}

// kindOf is the kind of a task's targets, of a model by cfg, which fits the task. trained is how many items there were in training; −1: they are those of
// the store.
func kindOf(m *store.Manifest, t *database.Task, cfg *Config, trained int) kind {
	k := kind{name: t.Kind, classes: len(t.Classes), spread: 1}
	if k.recommending() {
		k.recommends(m, t, cfg.Hidden, trained)
	}
	if cfg.ReadsPast() {
		k.past = pastWidth(t)
	}
	return k
}

// outputs is how many scores a model has of a row.
func (k *kind) outputs() int { return max(k.classes, k.wide, 1) }

// recommending reports whether rows of a table are recommended.
func (k *kind) recommending() bool { return k.name == database.Recommendation }

// listed reports whether targets are lists.
func (k *kind) listed() bool { return k.name == database.Multilabel || k.recommending() }

// truth are the targets of a part's rows.
type truth struct {
	targets []float32 // a number, 0 or 1, or the number of a class
	lists   [][]uint32
}

// truthOf are the targets of examples.
func (t *task) truthOf(part []example) (y truth) {
	for _, e := range part {
		if y.targets = append(y.targets, e.target); t.lists != nil {
			y.lists = append(y.lists, t.lists[e.list])
		}
	}
	return y
}

// findClasses numbers what the targets of all parts are, in order: numbers by size where all are some.
func findClasses(t *database.Task, parts ...*database.Targets) error {
	if t.Kind != database.Multiclass && t.Kind != database.Multilabel {
		return nil
	}
	found := map[string]bool{}
	for _, p := range parts {
		for _, words := range p.Words {
			for _, w := range words {
				found[w] = true
			}
		}
	}
	for w := range found {
		t.Classes = append(t.Classes, w)
	}
	slices.SortFunc(t.Classes, func(a, b string) int {
		x, xerr := strconv.ParseFloat(a, 64)
		y, yerr := strconv.ParseFloat(b, 64)
		switch {
		case xerr == nil && yerr == nil:
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
		case (xerr == nil) != (yerr == nil): // numbers first
			return map[bool]int{true: -1, false: 1}[xerr == nil]
		}
		return cmp.Compare(a, b)
	})
	if n := len(t.Classes); n == 0 || n > classesMax || n == 1 && t.Kind == database.Multiclass {
		return fmt.Errorf("train: targets of rows: %w: column %q has %d different values, expected 2 to %d classes", store.ErrInvalid, t.Target, n, classesMax)
	}
	return nil
}

// classesMax bounds classes, each of which is a column of scores of every row of a batch.
const classesMax = 1 << 12

// loss sets the gradients of the mean loss over rows by their scores, [rows × outputs], and returns the loss summed over rows: cross entropy of
// classes, its mean over labels of labels, else the absolute error of standardised targets.
func (k *kind) loss(scores []float32, y truth, grads []float32) (sum float64) {
	n := k.outputs()
	scale := 1 / float64(len(y.targets))
	for i, target := range y.targets {
		s, g := scores[i*n:(i+1)*n], grads[i*n:(i+1)*n]
		switch k.name {
		case database.Multiclass:
			copy(g, s)
			sum += softmaxLoss(g, []int{int(target)}, scale)
		case database.Multilabel:
			for j, x := range s {
				has := 0.
				if slices.Contains(y.lists[i], uint32(j)) {
					has = 1
				}
				sum += logisticLoss(float64(x), has, scale/float64(n), &g[j]) / float64(n)
			}
		case database.Binary:
			sum += logisticLoss(float64(s[0]), float64(target), scale, &g[0])
		default:
			d := float64(s[0]) - (float64(target)-k.mean)/k.spread
			sum += math.Abs(d)
			if g[0] = float32(scale); d < 0 {
				g[0] = float32(-scale)
			}
		}
	}
	return sum
}

// logisticLoss is the cross entropy of a score of what is y, 0 or 1, and sets scale times its derivative.
func logisticLoss(s, y, scale float64, grad *float32) float64 {
	*grad = float32(scale * (1/(1+math.Exp(-s)) - y))
	return math.Max(s, 0) - s*y + math.Log1p(math.Exp(-math.Abs(s)))
}

// softmaxLoss is the mean cross entropy of scores of which some are right, which become scale times its gradient; 0 where none is.
func softmaxLoss(s []float32, right []int, scale float64) (loss float64) {
	if len(right) == 0 {
		clear(s)
		return 0
	}
	most, total, share := float64(slices.Max(s)), 0., 1/float64(len(right))
	for _, x := range s {
		total += math.Exp(float64(x) - most)
	}
	for _, k := range right {
		loss += share * (math.Log(total) + most - float64(s[k]))
	}
	for k, x := range s {
		s[k] = float32(scale * math.Exp(float64(x)-most) / total)
	}
	for _, k := range right {
		s[k] -= float32(scale * share)
	}
	return loss
}

// answer turns scores, [rows × outputs], into answers.
func (k *kind) answer(scores []float32) {
	n := k.outputs()
	switch k.name {
	case database.Multiclass:
		for i := 0; i < len(scores); i += n {
			eval.Softmax(scores[i : i+n])
		}
	case database.Regression:
		for i, s := range scores {
			scores[i] = float32(float64(s)*k.spread + k.mean)
		}
	default:
		eval.Sigmoid(scores)
	}
}

// scale sets the mean and the deviation of a regression to those of training targets.
func (k *kind) scale(train []example) {
	if k.name != database.Regression {
		return
	}
	sum, squares := 0., 0.
	for _, e := range train {
		sum += float64(e.target)
	}
	k.mean = sum / float64(len(train))
	for _, e := range train {
		squares += (float64(e.target) - k.mean) * (float64(e.target) - k.mean)
	}
	if k.spread = math.Sqrt(squares / float64(len(train))); k.spread == 0 {
		k.spread = 1
	}
}
