package mini

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// Prune is threshold pruning (Xia and others, "HyDRA", SC 2024, section III-A3, equation 4): of a list of more than
//
//	Alpha · Degree + Beta · fanout
//
// neighbours (rounded up, at least the fanout) only so many are drawn from, that lie one after the other from a random one on; behind
// the last the first follows. So each neighbour is as likely as without (a run that ends at the list's end, as the paper may be
// read, takes those at both ends seldom), while a draw's neighbours lie in a few cache lines, or, on another machine, in one
// message. Which neighbours come together is not as without: those that lie near each other do.
//
// Fanouts of [All] prune nothing. The zero Prune does not either; the paper has Alpha = Beta = 1.
type Prune struct {
	Alpha, Beta float64
	Degree      float64 // the graph's mean number of neighbours of a node, in a direction
}

// ParsePrune reads Alpha and Beta, as in "1,1".
func ParsePrune(text string) (p Prune, err error) {
	alpha, beta, _ := strings.Cut(text, ",")
	var err2 error
	p.Alpha, err = strconv.ParseFloat(strings.TrimSpace(alpha), 64)
	p.Beta, err2 = strconv.ParseFloat(strings.TrimSpace(beta), 64)
	if err != nil || err2 != nil || !(p.Alpha >= 0 && p.Beta >= 0 && p.Alpha+p.Beta > 0) || math.IsInf(p.Alpha+p.Beta, 0) {
		return Prune{}, fmt.Errorf("prune %q: expected two numbers of 0 or more, not both 0, such as 1,1: of the mean degree, and of the fanout", text)
	}
	return p, nil
}

// Threshold is how long a list may be that is drawn from whole; MaxInt64: any.
func (p *Prune) Threshold(fanout int) int64 {
	if *p == (Prune{}) || fanout == All {
		return math.MaxInt64
	}
	return int64(max(float64(fanout), min(math.Ceil(p.Alpha*p.Degree+p.Beta*float64(fanout)), math.MaxInt32)))
}

func (c *Config) checkPrune() error {
	p := c.Prune
	switch {
	case p == (Prune{}):
		return nil
	case !(p.Alpha >= 0 && p.Beta >= 0 && p.Degree >= 0) || math.IsInf(p.Alpha+p.Beta+p.Degree, 0):
		return fmt.Errorf("option Prune is %v: want finite numbers of 0 or more", p)
	case c.Sampler != "" && c.Sampler != Uniform && c.Sampler != Dense:
		return fmt.Errorf("option Prune with sampler %s: lists are pruned for %s and %s alone", c.Sampler, Uniform, Dense)
	case c.RelationFanouts != nil:
		return fmt.Errorf("option Prune with RelationFanouts: these read whole lists")
	}
	return nil
}

// pickPruned is pick from a part of span: threshold positions from a random one on, round the end.
func pickPruned(r *keyed.Rand, span buffer.Span, threshold int64, out []int64, large *[]int64) {
	begin := span.Begin + int64(r.Below(uint64(span.End-span.Begin)))
	if threshold == int64(len(out)) { // all of it
		for i := range out {
			out[i] = begin + int64(i)
		}
	} else {
		pick(r, begin, threshold, out, large)
	}
	for i, p := range out {
		if p >= span.End {
			out[i] = p - span.End + span.Begin
		}
	}
}
