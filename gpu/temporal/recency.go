package temporal

import "math"

// recencyDim is how many numbers say when a candidate was last met.
const recencyDim = 8

// recency knows, for one node at one moment, what it met before. It is for one goroutine.
type recency struct {
	d     *data
	round int32
	seen  []int32 // by row: the round in which the rest was set
	last  []int64 // when the node last met the row
	rank  []int32 // how many other rows it met after that
	count []int32 // how often it met the row
	met   []uint32
	now   []uint32 // rows that the node meets at the moment itself: right answers, too
	isNow []int32
	time  int64
}

func newRecency(d *data) *recency {
	n := d.mb.Rows
	return &recency{d: d, seen: make([]int32, n), last: make([]int64, n), rank: make([]int32, n), count: make([]int32, n), isNow: make([]int32, n)}
}

// enter looks at a node's past before t.
func (r *recency) enter(row uint32, t int64) {
	a := r.d.mb.Out
	r.round++
	r.time, r.met, r.now = t, r.met[:0], r.now[:0]
	first, end := past(a, row, t)
	for e := end - 1; e >= first; e-- {
		v := a.Indices[e]
		if r.seen[v] != r.round {
			r.seen[v], r.last[v], r.rank[v], r.count[v] = r.round, a.Times[e], int32(len(r.met)), 0
			r.met = append(r.met, v)
		}
		r.count[v]++
	}
	for e := end; e < a.Spans[row].End && a.Times[e] == t; e++ {
		r.now = append(r.now, a.Indices[e])
		r.isNow[a.Indices[e]] = r.round
	}
}

// isMet and answers report whether the node met v before, and whether it meets v at the moment.
func (r *recency) isMet(v uint32) bool   { return r.seen[v] == r.round }
func (r *recency) answers(v uint32) bool { return r.isNow[v] == r.round }

// recent is 1 for what the node met last, 1/2 for what it met before that, and so on; 0 for what it did not meet.
func (r *recency) recent(v uint32) float32 {
	if !r.isMet(v) {
		return 0
	}
	return 1 / float32(1+r.rank[v])
}

// never stands for the time of what was not.
const never = math.MinInt64

// lastBy returns when the node last met v, and when any node did.
func (r *recency) lastBy(v uint32) (node, any int64) {
	node, any = never, never
	if r.isMet(v) {
		node = r.last[v]
	}
	if first, end := past(r.d.mb.In, v, r.time); end > first {
		any = r.d.mb.In.Times[end-1]
	}
	return node, any
}

// numbers writes recencyDim numbers about candidate v to out. Ages are in minutes, on a logarithmic scale.
func (r *recency) numbers(v uint32, out []float32) {
	clear(out[:recencyDim])
	age := func(t int64) float64 { return math.Log1p(float64(ageAt(r.time, t))/60) / 10 }
	if r.isMet(v) {
		out[0], out[1] = 1, float32(age(r.last[v]))
		out[2], out[3] = r.recent(v), float32(math.Log1p(float64(r.rank[v]))/5)
		out[4] = float32(math.Log1p(float64(r.count[v])) / 5)
	}
	if first, end := past(r.d.mb.In, v, r.time); end > first {
		out[5], out[6] = 1, float32(age(r.d.mb.In.Times[end-1]))
		out[7] = float32(math.Log1p(float64(end-first)) / 5)
	}
}

// before is the recency rule: what the node met last, then what any node met last. It compares two candidates' times.
func before(aNode, aAny, bNode, bAny int64) int {
	switch {
	case aNode != bNode && aNode > bNode, aNode == bNode && aAny > bAny:
		return 1
	case aNode == bNode && aAny == bAny:
		return 0
	}
	return -1
}
