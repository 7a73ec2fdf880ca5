package eval

// Ranking counts the nodes of two classes by their margin, the second class's logit less the first's, in bins: how well a model ranks them
// follows, to the width of a bin, in the same memory whatever the graph. Counts do not depend on the order in which nodes come.
type Ranking struct {
	counts [2][]uint32 // by class and bin
}

// Margins are told apart to rankingStep from −rankingMost to rankingMost; those beyond are of the outermost bins.
const (
	rankingMost = 32
	rankingStep = 1. / 64
	rankingBins = int(2 * rankingMost / rankingStep)
)

// rareShare is the share of nodes below which one of two classes is rare.
const rareShare = 0.1

func newRanking() *Ranking {
	return &Ranking{[2][]uint32{make([]uint32, rankingBins), make([]uint32, rankingBins)}}
}

// add counts a node of a class, 0 or 1.
func (r *Ranking) add(class int32, margin float32) {
	bin := (float64(margin) + rankingMost) / rankingStep
	switch {
	case !(bin >= 0): // NaN too
		bin = 0
	case bin > float64(rankingBins-1):
		bin = float64(rankingBins - 1)
	}
	r.counts[class][int(bin)]++
}

// Nodes are how many there are of each class.
func (r *Ranking) Nodes() (of [2]int64) {
	for class, bins := range r.counts {
		for _, n := range bins {
			of[class] += int64(n)
		}
	}
	return of
}

// Rare reports whether one class is so rare that accuracy says little of a model: answering the other for every node comes to more than
// 90 %. nil has none.
func (r *Ranking) Rare() bool {
	if r == nil {
		return false
	}
	of := r.Nodes()
	return float64(min(of[0], of[1])) < rareShare*float64(of[0]+of[1])
}

// AveragePrecision is the mean precision over recall of the rarer class, as scikit-learn's average_precision_score has it for margins that are
// rounded to bins; 0 without nodes of that class.
func (r *Ranking) AveragePrecision() float64 {
	of := r.Nodes()
	rare := 0
	if of[1] <= of[0] {
		rare = 1
	}
	hits, misses, sum := 0., 0., 0.
	for k := range rankingBins {
		if rare == 1 { // the likeliest first
			k = rankingBins - 1 - k
		}
		n := float64(r.counts[rare][k])
		hits, misses = hits+n, misses+float64(r.counts[1-rare][k])
		if n > 0 {
			sum += n * hits / (hits + misses)
		}
	}
	return sum / max(1, float64(of[rare]))
}
