package temporal

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/budget"
)

// Ranks are means over the edges of a split: of the reciprocal rank of the answer, and of whether it is among the first ten; ties count half.
// Against 100 wrong answers, up to half of them nodes that were met before and the others uniform, none of them right (the protocol of
// TGB, section 4.1), and against all candidates that are not right.
type Ranks struct {
	Edges     int     `json:"edges"`
	MRR       float64 `json:"mrr"`
	Hits10    float64 `json:"hits10"`
	AllMRR    float64 `json:"all_mrr"`
	AllHits10 float64 `json:"all_hits10"`
}

func (r *Ranks) add(rank, all float64) {
	r.Edges++
	r.MRR, r.AllMRR = r.MRR+1/rank, r.AllMRR+1/all
	if rank <= 10 {
		r.Hits10++
	}
	if all <= 10 {
		r.AllHits10++
	}
}

func (r *Ranks) mean() {
	n := max(float64(r.Edges), 1)
	r.MRR, r.AllMRR, r.Hits10, r.AllHits10 = r.MRR/n, r.AllMRR/n, r.Hits10/n, r.AllHits10/n
}

// wrongAnswers is how many an answer is ranked against, and how many of them were met before at most.
const (
	wrongAnswers = 100
	metBefore    = wrongAnswers / 2
)

// scoresMax bounds the scores of a batch of an evaluation.
const scoresMax = 1 << 20

// evalBatch is how many edges are ranked at a time among so many candidates.
func evalBatch(cfg *Config, candidates int) int {
	return max(1, min(cfg.BatchSize, scoresMax/candidates))
}

// evaluation ranks edges by a model, and by the recency rule. sampler draws in the order of events, on the caller's goroutine.
type evaluation struct {
	d       *data
	cfg     *Config
	sampler *mini.Sampler
	batch   mini.Batch
	scores  []float32
	numbers []float32
	node    []int64 // by candidate: when the query's node last met it, and when any did
	any     []int64
	recent  []float32 // by candidate: what is added to its score, times a weight, see [recency.recent]
	picks   []uint32  // candidates by place
	taken   map[uint32]bool
	edges   int64 // sampled and held to the rule
}

func newEvaluation(d *data, cfg *Config) (*evaluation, error) {
	s, err := mini.New(mini.Config{Fanouts: cfg.Fanouts, Sampler: cfg.Sampler, Seed: cfg.Seed})
	return &evaluation{d: d, cfg: cfg, sampler: s, node: make([]int64, len(d.candidates)), any: make([]int64, len(d.candidates)), recent: make([]float32, len(d.candidates)), taken: map[uint32]bool{}}, err
}

// placeEvaluation is the place of an evaluation's draws, place by place.
const placeEvaluation = 0x6576616c // "eval"

// recallWeights are those that validation chooses from. The last one lets what was met before come first, the last met first, as the
// recency rule does, and leaves the rest to the model.
var recallWeights = []float32{0, 1, 2, 4, 8, 16, 1 << 20}

// choose ranks events with each weight of what was met lately, and returns the best one's ranks and the smallest weight with them.
func (v *evaluation) choose(ctx context.Context, m *model, events []event, split uint64) (ranks, rule Ranks, weight float32, err error) {
	weights := recallWeights
	if v.cfg.NoRecency {
		weights = weights[:1]
	}
	all, rule, err := v.rankAll(ctx, m, events, split, weights)
	best := 0
	for k := range all {
		if all[k].MRR > all[best].MRR {
			best = k
		}
	}
	return all[best], rule, weights[best], err
}

// run ranks events by the model and a weight of what was met lately; those of the rule come second. split keys the draws.
func (v *evaluation) run(ctx context.Context, m *model, events []event, split uint64, weight float32) (ranks, rule Ranks, err error) {
	all, rule, err := v.rankAll(ctx, m, events, split, []float32{weight})
	return all[0], rule, err
}

// rankAll is run for several weights.
func (v *evaluation) rankAll(ctx context.Context, m *model, events []event, split uint64, weights []float32) (ranks []Ranks, rule Ranks, err error) {
	key := keyed.New(v.cfg.Seed).With(placeEvaluation).With(split)
	ranks = make([]Ranks, len(weights))
	err = v.each(ctx, m, events, -1-int(split), func(i int, e event, past *recency, scores []float32) error {
		r := key.Rand(uint64(i))
		v.rank(&r, e, past, scores, weights, ranks, &rule)
		return nil
	})
	for k := range ranks {
		ranks[k].mean()
	}
	rule.mean()
	return ranks, rule, err
}

// each calls fn for every event, in order, with the scores of all candidates, valid during the call. epoch keys the draws.
func (v *evaluation) each(ctx context.Context, m *model, events []event, epoch int, fn func(i int, e event, past *recency, scores []float32) error) (err error) {
	d, c := v.d, len(v.d.candidates)
	s := &source{d: d, events: events, size: evalBatch(v.cfg, c), ages: v.cfg.fixedAges()}
	var seeds []uint32
	var times []int64
	for i := range s.Batches() {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := &v.batch
		if seeds, err = s.Seeds(i, seeds, b); err == nil {
			if times, err = s.Times(i, times, b); err == nil {
				err = v.sampler.SampleAt(mini.Key{Epoch: epoch, Batch: i}, mini.Graph{In: d.mb.In, Out: d.mb.Out}, seeds, times, b)
			}
		}
		if err == nil {
			err = s.Finish(b)
		}
		if err != nil {
			return fmt.Errorf("evaluation: batch %d: %w", i, err)
		}
		x := b.Extra.(*extra)
		v.edges += int64(x.edges)
		var numbers []float32
		if !v.cfg.NoRecency {
			v.numbers = resize(v.numbers, len(seeds)*c*recencyDim)
			numbers = v.numbers
			for q, row := range seeds {
				x.recency.enter(row, times[q])
				for k, u := range d.candidates {
					x.recency.numbers(u, numbers[(q*c+k)*recencyDim:])
				}
			}
		}
		budget.Mark(ctx, "evaluation")
		if v.scores, err = m.score(ctx, b, numbers, v.scores); err != nil {
			return err
		}
		for q := range seeds {
			if err := fn(i*s.size+q, s.at(i, q), x.recency, v.scores[q*c:(q+1)*c]); err != nil {
				return err
			}
		}
	}
	return nil
}

// rank ranks one edge, by scores with each weight of what was met lately, and by the rule.
func (v *evaluation) rank(r *keyed.Rand, e event, past *recency, scores, weights []float32, ranks []Ranks, rule *Ranks) {
	d := v.d
	past.enter(e.src, e.time)
	for k, u := range d.candidates {
		v.node[k], v.any[k] = past.lastBy(u)
		v.recent[k] = past.recent(u)
	}
	answer := d.place[e.dst]
	v.draw(r, past)
	for i, w := range weights {
		right := scores[answer] + w*v.recent[answer]
		v.count(past, &ranks[i], func(k int32) int {
			switch s := scores[k] + w*v.recent[k]; {
			case s > right:
				return 1
			case s == right:
				return 0
			}
			return -1
		})
	}
	v.count(past, rule, func(k int32) int { return before(v.node[k], v.any[k], v.node[answer], v.any[answer]) })
}

// count adds the rank of an answer that cmp compares candidates with.
func (v *evaluation) count(past *recency, ranks *Ranks, cmp func(k int32) int) {
	few, all := 1., 1.
	half := func(c int) float64 { return float64(c+1) / 2 } // 1 before the answer, a half beside it
	for _, k := range v.picks {
		few += half(cmp(int32(k)))
	}
	for k, u := range v.d.candidates {
		if !past.answers(u) {
			all += half(cmp(int32(k)))
		}
	}
	ranks.add(few, all)
}

// draw lists the wrong answers of the node and moment that past entered.
func (v *evaluation) draw(r *keyed.Rand, past *recency) {
	d := v.d
	v.picks = v.picks[:0]
	clear(v.taken)
	take := func(u uint32) {
		if k := d.place[u]; k >= 0 && !past.answers(u) && !v.taken[u] {
			v.taken[u] = true
			v.picks = append(v.picks, uint32(k))
		}
	}
	// Of what was met before, metBefore in random order: the first of a shuffle.
	for i := 0; i < len(past.met) && len(v.picks) < metBefore; i++ {
		j := i + int(r.Below(uint64(len(past.met)-i)))
		past.met[i], past.met[j] = past.met[j], past.met[i]
		take(past.met[i])
	}
	left := len(d.candidates) - len(past.now)
	for len(v.picks) < min(wrongAnswers, left-1) && len(v.taken) < left {
		take(d.candidates[r.Below(uint64(len(d.candidates)))])
	}
}
