package targets

import (
	"cmp"
	"math"
	"slices"
)

// Score says how good predictions of a part of a training table are.
type Score struct {
	Rows int     `json:"rows"`
	AUC  float64 `json:"roc_auc,omitempty"` // of binary targets; a tie counts half
	AP   float64 `json:"average_precision,omitempty"`
	MAE  float64 `json:"mae,omitempty"` // of others
	RMSE float64 `json:"rmse,omitempty"`
}

// better reports whether s is better than t, of targets of one kind; NaN, of a part of one class, is no better.
func (s *Score) better(t *Score, binary bool) bool {
	if binary {
		return s.AUC > t.AUC
	}
	return s.MAE < t.MAE
}

// scoreOf compares predictions with targets.
func scoreOf(predicted, targets []float32, binary bool) (s Score) {
	s.Rows = len(targets)
	if binary {
		s.AUC, s.AP = rankings(predicted, targets)
		return s
	}
	squares := 0.
	for i, y := range targets {
		d := float64(predicted[i]) - float64(y)
		s.MAE += math.Abs(d)
		squares += d * d
	}
	n := float64(max(len(targets), 1))
	s.MAE, s.RMSE = s.MAE/n, math.Sqrt(squares/n)
	return s
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

// constant is what is best predicted of every row alike: the share of ones, or the median.
func constant(train []example, binary bool) float32 {
	values := make([]float32, len(train))
	sum := 0.
	for i, e := range train {
		values[i] = e.target
		sum += float64(e.target)
	}
	if binary {
		return float32(sum / float64(max(len(train), 1)))
	}
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}

// baselines scores what costs nothing: a constant, and the entity's last target in the training part before the moment, the constant where
// it has none.
func baselines(train, part []example, binary bool) (always, last Score) {
	c := constant(train, binary)
	before := map[uint32][]example{}
	for _, e := range train {
		before[e.row] = append(before[e.row], e)
	}
	same, entity, targets := make([]float32, len(part)), make([]float32, len(part)), make([]float32, len(part))
	for i, e := range part {
		same[i], entity[i], targets[i] = c, c, e.target
		latest := int64(math.MinInt64)
		for _, x := range before[e.row] {
			if x.moment < e.moment && x.moment >= latest {
				latest, entity[i] = x.moment, x.target
			}
		}
	}
	return scoreOf(same, targets, binary), scoreOf(entity, targets, binary)
}
