package targets

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// past are earlier targets of the same entities: rows of the training table whose windows have ended by a seed's moment, so that
// what they were is known then. Of each seed the model reads how they were lately.
type past struct {
	window  int64    // seconds from a row's moment until its target is known
	width   int      // numbers of a target
	rows    []uint32 // of the buffer, ascending, those of each by moment
	moments []int64
	values  []float32 // [rows × width], see [kind.pastValues]
}

// What the model reads of earlier targets: whether there are some, how many and how old the last is; the last, means of the
// last few, and means in which one counts ever less with each window.
const (
	pastWidthMost = 16      // numbers of a target: of more, earlier ones are not read
	pastRowsMost  = 4 << 20 // of the training table, which go into the model's file
	pastSeen      = 64      // of an entity, the latest
	pastFirst     = 4       // columns beside those of values
)

var (
	pastMeans  = [...]int{1, 3, 10}
	pastDecays = [...]float64{2, 8, 32} // windows
)

// hiddenShare of the seeds that train are shown no earlier targets, so that the model does not rest on them alone and knows
// what to say of entities without.
const hiddenShare = .25

// pastColumns is how many columns the model reads of earlier targets of some width.
func pastColumns(width int) int {
	if width == 0 {
		return 0
	}
	return pastFirst + width*(len(pastMeans)+len(pastDecays))
}

// pastWidth is how many numbers an earlier target is for a model of a task; 0: it has too many classes, or is a recommendation,
// whose history is walked anyway.
func pastWidth(t *database.Task) int {
	n := max(1, len(t.Classes))
	if t.Kind == database.Recommendation || n > pastWidthMost {
		return 0
	}
	return n
}

// pastValues appends what an example's target is to the model: a standardised number, −1 or 1, or a 1 for each of its classes.
func (k *kind) pastValues(out []float32, e example, lists [][]uint32) []float32 {
	switch k.name {
	case database.Binary:
		return append(out, 2*e.target-1)
	case database.Regression:
		return append(out, float32((float64(e.target)-k.mean)/k.spread))
	}
	for j := range k.past {
		has := k.name == database.Multiclass && int(e.target) == j || k.name == database.Multilabel && slices.Contains(lists[e.list], uint32(j))
		out = append(out, map[bool]float32{true: 1}[has])
	}
	return out
}

// newPast keeps the targets of all parts; nil where the model reads none.
func (k *kind) newPast(window int64, lists [][]uint32, parts ...[]example) *past {
	if k.past == 0 {
		return nil
	}
	all := slices.Concat(parts...)
	slices.SortStableFunc(all, func(a, b example) int { return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.moment, b.moment)) })
	p := roomForPast(window, k.past, len(all))
	for _, e := range all {
		p.rows, p.moments, p.values = append(p.rows, e.row), append(p.moments, e.moment), k.pastValues(p.values, e, lists)
	}
	return p
}

// roomForPast makes room for so many targets.
func roomForPast(window int64, width, rows int) *past {
	return &past{window: window, width: width, rows: make([]uint32, 0, rows), moments: make([]int64, 0, rows), values: make([]float32, 0, rows*width)}
}

// known are the places of an entity's targets that are known at a moment, the latest last.
func (p *past) known(row uint32, moment int64) (lo, hi int) {
	lo = sort.Search(len(p.rows), func(i int) bool { return p.rows[i] >= row })
	hi = lo + sort.Search(len(p.rows)-lo, func(i int) bool { return p.rows[lo+i] > row || p.moments[lo+i] > moment-p.window })
	return max(lo, hi-pastSeen), hi
}

// appendNone appends the columns of an entity of which nothing is known: zeros, and none where the model reads none, where p is nil.
func (p *past) appendNone(out []float32) []float32 {
	if p == nil {
		return out
	}
	return append(out, make([]float32, pastColumns(p.width))...)
}

// append appends the columns of an entity at a moment.
func (p *past) append(out []float32, row uint32, moment int64) []float32 {
	begin := len(out)
	if out = p.appendNone(out); p == nil {
		return out
	}
	lo, hi := p.known(row, moment)
	n := hi - lo
	if n == 0 {
		return out
	}
	windows := func(i int) float64 { return float64(moment-p.window-p.moments[i]) / float64(p.window) } // since it was known
	to := out[begin:]
	to[0], to[1] = 1, float32(math.Log1p(float64(n))/4)
	to[2], to[3] = float32(math.Exp(-windows(hi-1)/pastDecays[0])), float32(math.Exp(-windows(hi-1)/pastDecays[1]))
	to = to[pastFirst:]
	const each = len(pastMeans) + len(pastDecays) // columns of a number
	var weights [pastSeen]float64
	for k, few := range pastMeans {
		few = min(few, n)
		for i := range few {
			weights[i] = 1
		}
		p.means(to[k:], each, hi-few, weights[:few], 0)
	}
	for k, d := range pastDecays {
		for i := range n {
			weights[i] = math.Exp(-windows(lo+i) / d)
		}
		p.means(to[len(pastMeans)+k:], each, lo, weights[:n], .1) // towards 0 where there are only old ones
	}
	return out
}

// means sets each column of to that is a multiple of step to the weighted mean of a number of the targets from lo on, beside zeros of
// some weight.
func (p *past) means(to []float32, step, lo int, weights []float64, zeros float64) {
	all := zeros
	for _, w := range weights {
		all += w
	}
	for j := range p.width {
		sum := 0.
		for i, w := range weights {
			sum += w * float64(p.values[(lo+i)*p.width+j])
		}
		to[j*step] = float32(sum / all)
	}
}

// hidden reports whether an example that trains is shown no earlier targets in an epoch.
func hidden(key keyed.Key, epoch, at int) bool {
	return float64(key.With(uint64(epoch)).At(uint64(at))>>11) < hiddenShare*(1<<53)
}

// pastBytes is what earlier targets take of the heap, at most, while they are put in order: in training as examples, else once more,
// with as many external ids.
func (k *kind) pastBytes(rows int, train bool) int64 {
	if k.past == 0 {
		return 0
	}
	own, beside := 4+8+4*k.past, exampleBytes
	if !train {
		beside = keyBytes + own
	}
	return int64(rows) * int64(own+beside)
}

// encode writes earlier targets for a model's file, in order of external ids, which no partitioning changes: of each entity its
// id and how many there are, then a moment and the values of each; a multiple of four bytes.
func (p *past) encode(ctx context.Context, st *store.Store, d *data) ([]byte, error) {
	var nodes []store.NodeID
	var begins []int
	for i, row := range p.rows {
		if i == 0 || row != p.rows[i-1] {
			nodes, begins = append(nodes, d.node(row)), append(begins, i)
		}
	}
	ids, err := st.ExternalStrings(ctx, nodes)
	if err != nil {
		return nil, err
	}
	ends, order := append(begins[1:], len(p.rows)), counting(len(ids))
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(ids[a], ids[b]) })
	var b []byte
	for _, k := range order {
		b = binary.AppendUvarint(b, uint64(len(ids[k])))
		b = append(b, ids[k]...)
		b = binary.AppendUvarint(b, uint64(ends[k]-begins[k]))
		for at := begins[k]; at < ends[k]; at++ {
			b = binary.LittleEndian.AppendUint64(b, uint64(p.moments[at]))
			for _, v := range p.values[at*p.width:][:p.width] {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
		}
	}
	return append(b, make([]byte, -len(b)&3)...), nil
}

// readPast reads what encode wrote, for the rows that a store has of its entities now: others are left out. Nil where the model reads
// none.
func (c *Checkpoint) readPast(ctx context.Context, st *store.Store, d *data, k *kind, b []byte) (*past, error) {
	if k.past == 0 {
		return nil, nil
	}
	if c.PastRows < 0 || c.Task.Window < 1 {
		return nil, errPast
	}
	var keys []string
	var counts []int
	size := 8 + 4*k.past
	total := 0
	p := roomForPast(c.Task.Window, k.past, min(c.PastRows, len(b)/size))
	for total < c.PastRows {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return nil, errPast
		}
		keys, b = append(keys, string(b[used:used+int(n)])), b[used+int(n):]
		n, used = binary.Uvarint(b)
		if used <= 0 || n == 0 || n > uint64((len(b)-used)/size) {
			return nil, errPast
		}
		counts, b = append(counts, int(n)), b[used:]
		for range n {
			p.moments = append(p.moments, int64(binary.LittleEndian.Uint64(b)))
			for j := range k.past {
				p.values = append(p.values, math.Float32frombits(binary.LittleEndian.Uint32(b[8+4*j:])))
			}
			b = b[size:]
		}
		total += int(n)
	}
	if len(b) > 3 { // padding
		return nil, errPast
	}
	nodes := make([]store.NodeID, len(keys))
	if err := st.LookupStrings(ctx, keys, nodes); err != nil {
		return nil, err
	}
	return p.of(d, nodes, counts), nil
}

var errPast = fmt.Errorf("the model's earlier targets are cut short or too long: %w", gpu.ErrShape)

// of puts the targets of entities, which lie one entity after another, in order of the rows that the entities are now.
func (p *past) of(d *data, nodes []store.NodeID, counts []int) *past {
	type entity struct {
		row     uint32
		at, end int
	}
	var list []entity
	at := 0
	for i, v := range nodes {
		if row, err := d.row(v); err == nil { // else it is no longer there
			list = append(list, entity{row, at, at + counts[i]})
		}
		at += counts[i]
	}
	slices.SortFunc(list, func(a, b entity) int { return cmp.Compare(a.row, b.row) })
	q := roomForPast(p.window, p.width, len(p.moments))
	for _, e := range list {
		for i := e.at; i < e.end; i++ {
			q.rows = append(q.rows, e.row)
		}
		q.moments, q.values = append(q.moments, p.moments[e.at:e.end]...), append(q.values, p.values[e.at*p.width:e.end*p.width]...)
	}
	return q
}
