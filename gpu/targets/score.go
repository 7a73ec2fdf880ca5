package targets

import (
	"cmp"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Score says how good predictions of a part of a training table are.
type Score struct {
	Rows     int     `json:"rows"`
	AUC      float64 `json:"roc_auc,omitempty"`           // of binary targets; a tie counts half
	AP       float64 `json:"average_precision,omitempty"` // of binary targets; of labels the mean over those that some row has
	Accuracy float64 `json:"accuracy,omitempty"`          // of classes
	MacroF1  float64 `json:"macro_f1,omitempty"`
	MicroF1  float64 `json:"micro_f1,omitempty"` // of labels, of which those are said that are likelier than not
	MAE      float64 `json:"mae,omitempty"`      // of numbers
	RMSE     float64 `json:"rmse,omitempty"`
	MAP      float64 `json:"map_at_k,omitempty"`    // of recommendations: precisions at hits, summed, over the most hits that are possible
	Recall   float64 `json:"recall_at_k,omitempty"` // of recommendations
}

// better reports whether s is better than t, of targets of one kind; NaN, of a part of one class, is no better.
func (k *kind) better(s, t *Score) bool {
	switch k.name {
	case database.Binary:
		return s.AUC > t.AUC
	case database.Multiclass:
		return s.Accuracy > t.Accuracy
	case database.Multilabel:
		return s.AP > t.AP
	case database.Recommendation:
		return s.MAP > t.MAP
	}
	return s.MAE < t.MAE
}

// score compares answers, [rows × outputs], with targets.
func (k *kind) score(answers []float32, y truth) (s Score) {
	s.Rows = len(y.targets)
	switch k.name {
	case database.Binary:
		s.AUC, s.AP = rankings(answers, y.targets)
	case database.Multiclass:
		c := &eval.Confusion{Classes: k.classes, Counts: make([]int64, k.classes*k.classes)}
		for i, target := range y.targets {
			of := answers[i*k.classes : (i+1)*k.classes]
			c.Counts[int(target)*k.classes+slices.Index(of, slices.Max(of))]++
		}
		s.MacroF1, s.Accuracy = c.F1()
	case database.Multilabel:
		s.AP, s.MacroF1, s.MicroF1 = k.labels(answers, y.lists)
	default:
		squares := 0.
		for i, y := range y.targets {
			d := float64(answers[i]) - float64(y)
			s.MAE += math.Abs(d)
			squares += d * d
		}
		n := float64(max(s.Rows, 1))
		s.MAE, s.RMSE = s.MAE/n, math.Sqrt(squares/n)
	}
	return s
}

// labels are the average precision and F1 of labels: means over those that some row has, and F1 of all pairs together.
func (k *kind) labels(answers []float32, lists [][]uint32) (ap, macro, micro float64) {
	n, seen := len(lists), 0.
	var hits, misses float64
	of, has := make([]float32, n), make([]float32, n)
	for j := range k.classes {
		var right, off float64
		some := false
		for i := range n {
			of[i], has[i] = answers[i*k.classes+j], 0
			if slices.Contains(lists[i], uint32(j)) {
				has[i], some = 1, true
			}
			switch said := of[i] > .5; {
			case said && has[i] == 1:
				right++
			case said != (has[i] == 1):
				off++
			}
		}
		hits, misses = hits+right, misses+off
		if !some {
			continue
		}
		_, p := rankings(of, has)
		ap, macro, seen = ap+p, macro+2*right/max(2*right+off, 1), seen+1
	}
	return ap / max(seen, 1), macro / max(seen, 1), 2 * hits / max(2*hits+misses, 1)
}

// rankings are the area under the receiver operating characteristic, which is the share of pairs of a 1 and a 0 of which the 1 is predicted
// higher, a tie counting half, and the average precision; a half and the share of ones where there is one class alone.
func rankings(predicted, targets []float32) (auc, ap float64) {
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(predicted[b], predicted[a]) })
	ones, zeros := 0., 0.
	for i := 0; i < len(order); {
		j, one := i, 0.
		for ; j < len(order) && predicted[order[j]] == predicted[order[i]]; j++ {
			one += float64(targets[order[j]])
		}
		zero := float64(j-i) - one
		auc += zero * (ones + one/2) // ones that are higher than these zeros
		ones, zeros = ones+one, zeros+zero
		ap += one * ones / float64(j)
		i = j
	}
	if ones == 0 || zeros == 0 {
		return .5, ones / float64(max(len(targets), 1))
	}
	return auc / (ones * zeros), ap / ones
}

// constant is the answer that is best given of every row alike: the share of ones, of each class or of each label, or the median.
func (k *kind) constant(train truth) []float32 {
	n := float64(max(len(train.targets), 1))
	answer := make([]float32, k.outputs())
	counts := make([]float64, k.outputs())
	switch k.name {
	case database.Regression:
		if sorted := slices.Sorted(slices.Values(train.targets)); len(sorted) > 0 {
			answer[0] = sorted[len(sorted)/2]
		}
		return answer
	case database.Multilabel:
		for _, list := range train.lists {
			for _, j := range list {
				counts[j]++
			}
		}
	case database.Multiclass:
		for _, y := range train.targets {
			counts[int(y)]++
		}
	default:
		for _, y := range train.targets {
			counts[0] += float64(y)
		}
	}
	for j, c := range counts {
		answer[j] = float32(c / n)
	}
	return answer
}

// same appends the answer that is a target itself.
func (k *kind) same(out []float32, y truth, i int) []float32 {
	switch k.name {
	case database.Multiclass, database.Multilabel:
		at := len(out)
		out = append(out, make([]float32, k.classes)...)
		if k.name == database.Multiclass {
			out[at+int(y.targets[i])] = 1
			return out
		}
		for _, j := range y.lists[i] {
			out[at+int(j)] = 1
		}
		return out
	}
	return append(out, y.targets[i])
}

// scoreItems compares recommended items, the best first, with those that were right.
func (k *kind) scoreItems(best, lists [][]uint32) (s Score) {
	s, _ = k.scoreRows(best, lists)
	return s
}

// scoreRows is scoreItems with the average precision of each row.
func (k *kind) scoreRows(best, lists [][]uint32) (s Score, precisions []float64) {
	s.Rows = len(lists)
	for i, right := range lists {
		hits, sum := 0., 0.
		for rank, item := range best[i][:min(len(best[i]), k.top)] {
			if slices.Contains(right, item) {
				hits++
				sum += hits / float64(rank+1)
			}
		}
		precisions = append(precisions, sum/float64(max(min(len(right), k.top), 1)))
		s.MAP += precisions[i]
		s.Recall += hits / float64(max(len(right), 1))
	}
	n := float64(max(s.Rows, 1))
	s.MAP, s.Recall = s.MAP/n, s.Recall/n
	return s, precisions
}

// surely reports whether numbers are larger than others, pair by pair, by more than the standard error of the mean difference.
func surely(a, b []float64) bool {
	n, sum, squares := float64(len(a)), 0., 0.
	for i := range a {
		d := a[i] - b[i]
		sum += d
		squares += d * d
	}
	mean := sum / n
	return mean > 0 && mean*mean > (squares/n-mean*mean)/n
}

// itemsOf are the items of lists.
func itemsOf(best [][]scored) (lists [][]uint32) {
	for _, list := range best {
		var items []uint32
		for _, s := range list {
			items = append(items, s.item)
		}
		lists = append(lists, items)
	}
	return lists
}

// mostOften lists items by how often they were right in training, the most often first.
func mostOften(lists [][]uint32, top int) (items []uint32) {
	counts := map[uint32]int{}
	for _, list := range lists {
		for _, item := range list {
			counts[item]++
		}
	}
	for item := range counts {
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b uint32) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	return items[:min(len(items), top)]
}

// itemBaselines is baselines of a recommendation: the items that were right most often in training, and the entity's last list, of known
// ones, before those.
func (t *task) itemBaselines(train, known, y truth, last []int) (always, entity Score) {
	often := mostOften(train.lists, t.kind.top)
	var alike, own [][]uint32
	for _, at := range last {
		list := []uint32{}
		if at >= 0 {
			list = append(list, known.lists[at]...)
		}
		for _, item := range often {
			if !slices.Contains(list, item) {
				list = append(list, item)
			}
		}
		alike, own = append(alike, often), append(own, list)
	}
	return t.kind.scoreItems(alike, y.lists), t.kind.scoreItems(own, y.lists)
}

// baselines scores what costs nothing: a constant, and the entity's last target that is known at the moment, the constant where none is.
// Without a window nothing says when a target is known: the last one of the training part before the moment is taken.
func (t *task) baselines(part []example) (always, last Score) {
	of, train, y := t.train, t.truthOf(t.train), t.truthOf(part)
	known := train
	if t.window > 0 {
		of = slices.Concat(t.train, t.valid, t.test)
		known = t.truthOf(of)
	}
	latest := t.lastOf(of, part)
	if t.kind.recommending() {
		return t.itemBaselines(train, known, y, latest)
	}
	c := t.kind.constant(train)
	var alike, entity []float32
	for _, at := range latest {
		alike = append(alike, c...)
		if at < 0 {
			entity = append(entity, c...)
		} else {
			entity = t.kind.same(entity, known, at)
		}
	}
	return t.kind.score(alike, y), t.kind.score(entity, y)
}

// lastOf is, of each row of a part, the one of some examples of the same entity that is the last that is known at the moment; −1 = none is.
func (t *task) lastOf(of, part []example) (last []int) {
	before := map[uint32][]int{}
	for i, e := range of {
		before[e.row] = append(before[e.row], i)
	}
	after := max(t.window, 1) // of seconds: at the latest at the moment itself, or before it
	for _, e := range part {
		latest, at := int64(math.MinInt64), -1
		for _, i := range before[e.row] {
			if x := of[i]; x.moment+after <= min(e.moment, t.until) && x.moment >= latest {
				latest, at = x.moment, i
			}
		}
		last = append(last, at)
	}
	return last
}
