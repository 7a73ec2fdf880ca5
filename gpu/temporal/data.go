package temporal

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// event is an edge: what is predicted is its dst.
type event struct {
	src, dst uint32 // rows
	time     int64
}

// data is a graph with its edges in order of time.
type data struct {
	mb     *buffer.MacroBatch
	events []event // by time, then by the numbers of their ends
	// events[:train] train, those up to valid validate, the rest test; each begins with a moment of its own.
	train, valid int
	// candidates are the rows that an edge may lead to, in order of their numbers; place is each one's, −1 of other rows.
	candidates []uint32
	place      []int32
}

// newData looks at a macro-batch that holds the whole graph, with both directions in order of time.
func newData(mb *buffer.MacroBatch, m *store.Manifest, cfg *Config) (*data, error) {
	d := &data{mb: mb, place: make([]int32, mb.Rows), events: make([]event, 0, mb.In.Edges())}
	for dst, s := range mb.In.Spans {
		for e := s.Begin; e < s.End; e++ {
			d.events = append(d.events, event{mb.In.Indices[e], uint32(dst), mb.In.Times[e]})
		}
	}
	slices.SortFunc(d.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(mb.Keys[a.src], mb.Keys[b.src]), cmp.Compare(mb.Keys[a.dst], mb.Keys[b.dst]))
	})
	n := len(d.events)
	d.valid = d.moment(n - int(cfg.TestShare*float64(n)))
	d.train = d.moment(n - int((cfg.TestShare+cfg.ValidShare)*float64(n)))
	if d.train == 0 || d.train == d.valid || d.valid == n {
		return nil, fmt.Errorf("train: %w: %d edges by time leave %d to train, %d to validate, %d to test: expected some of each; are there enough different times?",
			store.ErrInvalid, n, d.train, d.valid-d.train, n-d.valid)
	}
	d.findCandidates(m)
	return d, nil
}

// moment returns the first event of events[at]'s moment: edges of one moment are never divided.
func (d *data) moment(at int) int {
	if at <= 0 || at >= len(d.events) {
		return max(0, min(at, len(d.events)))
	}
	return sort.Search(at, func(i int) bool { return d.events[i].time >= d.events[at].time })
}

// findCandidates lists the nodes of the types that edges lead to; where there is one type of nodes, those that edges lead to.
func (d *data) findCandidates(m *store.Manifest) {
	types := m.Schema.NodeTypes
	reached := make([]bool, len(types))
	typeOf := func(p *buffer.ResidentPartition, v uint32) int {
		if t, ok := m.TypeOf(p.ID, uint64(v-p.Base)); ok {
			return t
		}
		key, end := d.mb.Keys[v], uint64(0) // external ids count type by type
		for k, t := range types {
			if end += t.Count; uint64(key) < end {
				return k
			}
		}
		return len(types) - 1
	}
	rows := func(fn func(v uint32, kind int)) {
		for i := range d.mb.Partitions {
			p := &d.mb.Partitions[i]
			for v := p.Base; v < p.Base+p.Nodes; v++ {
				fn(v, typeOf(p, v))
			}
		}
	}
	rows(func(v uint32, kind int) { reached[kind] = reached[kind] || d.mb.In.Degree(v) > 0 })
	rows(func(v uint32, kind int) {
		if reached[kind] && (len(types) > 1 || d.mb.In.Degree(v) > 0) {
			d.candidates = append(d.candidates, v)
		}
	})
	slices.SortFunc(d.candidates, func(a, b uint32) int { return cmp.Compare(d.mb.Keys[a], d.mb.Keys[b]) })
	for v := range d.place {
		d.place[v] = -1
	}
	for i, v := range d.candidates {
		d.place[v] = int32(i)
	}
}

// past returns how many of a row's edges, in order of time, are strictly before t.
func past(a *buffer.Adjacency, row uint32, t int64) (first, end int64) {
	s := a.Spans[row]
	n := sort.Search(int(s.End-s.Begin), func(i int) bool { return a.Times[s.Begin+int64(i)] >= t })
	return s.Begin, s.Begin + int64(n)
}

// sample returns at most n of the events lo … hi−1, a keyed sample in order of time.
func (d *data) sample(key keyed.Key, lo, hi, n int) []event {
	if hi-lo <= n {
		return d.events[lo:hi]
	}
	perm := keyed.NewPermutation(key, uint64(hi-lo))
	at := make([]int, n)
	for i := range at {
		at[i] = lo + int(perm.At(uint64(i)))
	}
	slices.Sort(at)
	out := make([]event, n)
	for i, k := range at {
		out[i] = d.events[k]
	}
	return out
}
