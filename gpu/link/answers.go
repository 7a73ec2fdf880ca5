package link

import (
	"bytes"
	"slices"

	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store/buffer"
)

// What Config.NegativesFrom may be.
const (
	FromAuto     = "auto"
	FromMixed    = "mixed"
	FromAnswers  = "answers"
	FromResident = "resident"
)

// manyEdges is the edges a node from which on defaults take a graph's nodes to have many. FB15k-237, with 19, gains .005 of MRR by
// FromMixed, WN18RR, with 2, loses .004 (docs/design.md, "sampler"); in memory an encoder loses .009 there where a batch's edges are
// hidden and gains .07 here. Between them nothing was measured.
const manyEdges = 6

// answers says where the answers to a step's questions lie. A step trains only some of the buckets that are in memory, so the
// answer to a question about a node of partition i lies in one of the partitions j whose bucket with i it trains, and which
// these are changes from step to step. A wrong answer from elsewhere could be none: telling the two apart teaches the model
// the step, as a shift of the classes' shares does where nodes are classified (docs/design/gpu.md, "gpu/link").
type answers struct {
	partitions []buffer.ResidentPartition
	chunks     int
	mixed      bool              // half of the negatives come from all that is in memory
	whole      [2]*negative.Pool // by negative.Side
	sides      [2]answerSets     // by negative.Side
}

// answerSets are, of one side, the different sets of partitions where answers lie, in an order that has similar sets next to each
// other. No sets: answers lie everywhere.
type answerSets struct {
	of   []int    // by position of the asked node's partition: its set
	sets [][]bool // by set and position
	pool []*negative.Pool
}

// newAnswers looks at the step's buckets. pools are, by side, of the whole macro-batch, from one of [Config].NegativesFrom's values.
func newAnswers(x *examples, pools [2]*negative.Pool, chunks int, from string) *answers {
	a := &answers{partitions: x.partitions, chunks: chunks, mixed: from == FromMixed, whole: pools}
	if from == FromResident || x.trained == nil {
		return a
	}
	n := len(x.partitions)
	for side := range a.sides {
		found := make([][]byte, n) // by asked partition: a byte a partition
		for i := range found {
			found[i] = make([]byte, n)
			for j := range n {
				src, dst := i, j
				if side == int(negative.Head) {
					src, dst = j, i
				}
				if x.trained[src*n+dst] {
					found[i][j] = 1
				}
			}
		}
		different := slices.Clone(found)
		slices.SortFunc(different, bytes.Compare)
		different = slices.CompactFunc(different, bytes.Equal)
		s := &a.sides[side]
		for _, key := range different {
			set := make([]bool, n)
			for j, v := range key {
				set[j] = v != 0
			}
			s.sets, s.pool = append(s.sets, set), append(s.pool, a.only(side, set))
		}
		for _, key := range found {
			k, _ := slices.BinarySearchFunc(different, key, bytes.Compare)
			s.of = append(s.of, k)
		}
	}
	return a
}

// only is a side's pool of a set of partitions; the whole one where it has no node there.
func (a *answers) only(side int, set []bool) *negative.Pool {
	if pool := a.whole[side].Only(set); pool != nil {
		return pool
	}
	return a.whole[side]
}

// division is a batch's questions of one side in chunks; its slices are kept from one batch to the next.
type division struct {
	order []uint32         // the edges in the order in which chunks take them
	ends  []int            // by chunk: where its questions end, in order
	pools []*negative.Pool // by chunk: what its wrong answers are drawn from
	set   []int            // by edge
	first []int            // by set: where its edges begin in order; then their end
	share []int            // by set: chunks of its own
}

// divide cuts a batch's questions about rows into chunks: each of one set of partitions where there are as many chunks as sets, of
// sizes as even as that allows; else evenly, and wrong answers of a chunk come from any of its questions' sets.
func (a *answers) divide(d *division, side int, rows []uint32) {
	n, s := len(rows), &a.sides[side]
	d.order, d.ends, d.pools = resize(d.order, n), d.ends[:0], d.pools[:0]
	if len(s.sets) == 0 { // answers lie everywhere
		for k := range n {
			d.order[k] = uint32(k)
		}
		d.cut(0, n, a.chunks, a.whole[side])
		return
	}
	present := a.sort(d, s, rows)
	if present <= a.chunks {
		d.deal(a.chunks - present)
		for k, pool := range s.pool {
			d.cut(d.first[k], d.first[k+1], d.share[k], pool)
		}
		return
	}
	for c := range a.chunks {
		lo, hi := c*n/a.chunks, (c+1)*n/a.chunks
		union := make([]bool, len(a.partitions))
		for _, k := range d.order[lo:hi] {
			for j, v := range s.sets[d.set[k]] {
				union[j] = union[j] || v
			}
		}
		d.cut(lo, hi, 1, a.only(side, union))
	}
}

// sort puts a batch's edges in order of their sets, those of one set as they came, and returns how many sets there are.
func (a *answers) sort(d *division, s *answerSets, rows []uint32) (present int) {
	d.set, d.first, d.share = resize(d.set, len(rows)), resize(d.first, len(s.sets)+1), resize(d.share, len(s.sets))
	clear(d.first)
	for k, row := range rows {
		at := slices.IndexFunc(a.partitions, func(p buffer.ResidentPartition) bool { return row-p.Base < p.Nodes })
		d.set[k] = s.of[at]
		d.first[d.set[k]+1]++
	}
	for k := range d.share {
		if d.share[k] = min(1, d.first[k+1]); d.share[k] > 0 {
			present++
		}
		d.first[k+1] += d.first[k]
	}
	next := slices.Clone(d.first)
	for k, set := range d.set {
		d.order[next[set]] = uint32(k)
		next[set]++
	}
	return present
}

// deal gives so many chunks more to the sets whose chunks are largest.
func (d *division) deal(more int) {
	for range more {
		best, most := 0, 0.
		for k, share := range d.share {
			if share == 0 {
				continue
			}
			if size := float64(d.first[k+1]-d.first[k]) / float64(share); size > most {
				best, most = k, size
			}
		}
		d.share[best]++
	}
}

// cut appends chunks of the questions lo ≤ at < hi in order, whose sizes differ by at most one.
func (d *division) cut(lo, hi, chunks int, pool *negative.Pool) {
	for c := range chunks {
		d.ends = append(d.ends, lo+(c+1)*(hi-lo)/chunks)
		d.pools = append(d.pools, pool)
	}
}
