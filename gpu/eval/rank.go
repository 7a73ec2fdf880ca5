package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// placeCandidates is the place of the draws of sampled candidates, see [placeShuffle].
const placeCandidates = 0x63616e64 // "cand"

// Scores are computed in blocks of at most scoreBytes, of at most scoreCandidates candidates;
// queries and the scores of answers in blocks of queryRows and answerRows.
const (
	scoreBytes      = 8 << 20
	scoreBytesMin   = 1 << 20
	scoreCandidates = 4096
	queryRows       = 4096
	answerRows      = 64
)

// rank computes the metrics of the edge list name over states x.
func (v *Ranker) rank(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, x *spill.Table, name string) (RankMetrics, error) {
	shared, err := v.shared(name)
	if err != nil {
		return RankMetrics{}, err
	}
	given := uint64(0)
	if shared == 0 {
		if given, err = v.given(name); err != nil {
			return RankMetrics{}, err
		}
	}
	if v.o.Detail && shared+given > 0 {
		return RankMetrics{}, store.Invalid(errors.New("ranks among the data set's own negatives are not told apart by relation: rank against all nodes (--against all)"))
	}
	if shared > 0 {
		return v.rankShared(ctx, q, model, x, name, shared)
	}
	if given > 0 {
		return v.rankGiven(ctx, q, model, x, name, given)
	}
	edges, err := v.st.EdgeList(ctx, name)
	if err != nil {
		return RankMetrics{}, err
	}
	candidates := v.st.Manifest().Nodes
	if v.o.Types != nil {
		candidates = v.o.Types.Nodes(v.st.Manifest())
	}
	if v.sample != nil {
		candidates = uint64(len(v.sample))
	}
	sum := RankMetrics{Candidates: candidates}
	var detail []SideMetrics // by row of relations
	if v.o.Detail {
		detail = make([]SideMetrics, 2*v.relations)
	}
	for {
		b := v.nextBatch(edges)
		if len(b.answers) == 0 {
			break
		}
		if err := v.meetAll(ctx, q, model, x, b, meeting{known: true, ask: v.ask, score: model.Score, see: b.count, typed: true, other: notRanked}); err != nil {
			return RankMetrics{}, err
		}
		for i := range b.answers {
			filtered, raw := b.answers[i].ranks(candidates)
			sum.add(filtered, raw)
			if detail != nil {
				detail[b.list[b.answers[i].question].relation].add(filtered)
			}
		}
	}
	if detail != nil && edges.Err() == nil {
		if sum.Detail, err = v.detailOf(ctx, detail); err != nil {
			return RankMetrics{}, err
		}
	}
	return sum.mean(), edges.Err()
}

// meeting is what is done where a batch of questions meets a tile of candidates.
type meeting struct {
	known bool // read which candidates are known to be right
	ask   asker
	tile  func(rows []byte) // of a tile's candidates; may be nil
	// score sets out [n×m] to the scores of n queries with m candidates.
	score func(p *nn.Pass, query, candidates, out gpu.Tensor)
	// typed leaves out nodes of other types than answers' (RankerOptions.Types): their scores become other.
	typed bool
	other float32
	// see gets question i's scores of candidates from position c on. It is called by several goroutines, of one question by one at a time.
	see func(i int, scores []float32, c int, among candidates, known []uint64)
}

// asker makes a batch's questions queries, and may score its answers.
type asker func(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, b *rankBatch) error

// asked calls then once a batch has its vectors and ask is done with them.
func (v *Ranker) asked(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, x *spill.Table, b *rankBatch, ask asker, then func() error) (err error) {
	dim := v.o.Model.Dim
	rows := len(b.list) + len(b.answers)
	if b.vectors, err = blockio.AllocSlab(int64(rows)*int64(dim)*4, blockio.SlabOptions{}); err != nil {
		return err
	}
	defer func() { _ = b.vectors.Free() }() // temporary: nothing is lost
	if err := v.gather(x, b); err != nil {
		return err
	}
	mem, err := v.bring(q, b.vectors.Bytes())
	if err != nil {
		return err
	}
	defer func() { _ = mem.Free() }()
	all := gpu.MatrixOf(mem, 0, rows, dim)
	b.queries, b.truths = all.Head(len(b.list)), all.View(len(b.list), 0, len(b.answers), dim)
	if err := ask(ctx, q, model, b); err != nil {
		return err
	}
	return then()
}

// bring has the device read float32s of the host: copied, where it has memory of its own and room there, for products read them again and
// again, else where they are.
func (v *Ranker) bring(q *gpu.Queue, b []byte) (gpu.Memory, error) {
	if dev := v.e.dev; dev.Info().OwnMemory() && len(b) > 0 {
		mem, err := dev.Alloc(int64(len(b)))
		if err == nil {
			q.Upload(gpu.VectorOf(mem, 0, len(b)/4, blocks.Float32), b)
		}
		if !errors.Is(err, gpu.ErrMemory) {
			return mem, err
		}
	}
	return v.e.dev.Map(b)
}

// meetAll makes a batch's questions queries and lets them meet all candidates.
func (v *Ranker) meetAll(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, x *spill.Table, b *rankBatch, o meeting) error {
	return v.asked(ctx, q, model, x, b, o.ask, func() error { return v.meetTiles(ctx, q, x, b, o) })
}

// meetTiles lets a batch's queries meet all candidates.
func (v *Ranker) meetTiles(ctx context.Context, q *gpu.Queue, x *spill.Table, b *rankBatch, o meeting) error {
	if err := spill.Grow(&v.scores, v.scoreBytes); err != nil {
		return err
	}
	scores := asFloat32(v.scores.Bytes())
	mem, err := v.e.dev.Map(v.scores.Bytes())
	if err != nil {
		return err
	}
	defer func() { _ = mem.Free() }()
	for _, t := range v.e.tiles {
		if err := v.meet(ctx, q, x, b, t, scores, mem, o); err != nil {
			return err
		}
	}
	return nil
}

// gather copies the states of known ends and answers from the tiles where they lie.
func (v *Ranker) gather(x *spill.Table, b *rankBatch) error {
	want := make([]uint64, 0, len(b.list)+len(b.answers)) // node and row
	for i, k := range b.list {
		want = append(want, uint64(k.end)<<32|uint64(i))
	}
	for i := range b.answers {
		want = append(want, uint64(b.answers[i].node)<<32|uint64(len(b.list)+i))
	}
	slices.Sort(want)
	row := x.RowBytes
	for _, t := range v.e.tiles {
		n, _ := slices.BinarySearch(want, (t.Base+uint64(t.Nodes))<<32)
		if n == 0 {
			continue
		}
		rows, err := x.Rows(&v.tile, t.Base, t.Nodes)
		if err != nil {
			return err
		}
		for _, w := range want[:n] {
			from, to := int64(w>>32-t.Base)*row, int64(uint32(w))*row
			copy(b.vectors.Bytes()[to:to+row], rows[from:from+row])
		}
		want = want[n:]
	}
	return nil
}

// query turns known ends into queries, in place.
func (v *Ranker) query(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, b *rankBatch) error {
	a := v.e.arena
	var index []uint32
	for lo := 0; lo < len(b.list); lo += queryRows {
		part := b.queries.View(lo, 0, min(queryRows, len(b.list)-lo), b.queries.Cols)
		index = index[:0]
		for _, k := range b.list[lo : lo+part.Rows] {
			index = append(index, k.relation)
		}
		query := model.Query(&nn.Pass{Queue: q, Arena: a}, part, a.Uint32s(q, index))
		if q.Err() == nil {
			q.Copy(part, query)
		}
		if err := v.done(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// done waits for the queue and frees what its work took.
func (v *Ranker) done(ctx context.Context, q *gpu.Queue) error {
	if err := q.Sync(ctx); err != nil {
		return err
	}
	return v.e.arena.Reset()
}

// ask is query that computes the answers' scores too: the diagonals of small products, so that they are the same to
// the bit as among all candidates'.
func (v *Ranker) ask(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, b *rankBatch) error {
	if err := v.query(ctx, q, model, b); err != nil {
		return err
	}
	a := v.e.arena
	var index []uint32
	host := make([]float32, answerRows*answerRows)
	for lo := 0; lo < len(b.answers); lo += answerRows {
		n := min(answerRows, len(b.answers)-lo)
		index = index[:0]
		for _, x := range b.answers[lo : lo+n] {
			index = append(index, uint32(x.question))
		}
		query, out := a.Matrix(q, n, b.queries.Cols), a.Matrix(q, n, n)
		if q.Err() == nil {
			q.Gather(query, b.queries, a.Uint32s(q, index))
			model.Score(&nn.Pass{Queue: q, Arena: a}, query, b.truths.View(lo, 0, n, b.truths.Cols), out)
			q.Download(blocks.Bytes(host[:n*n]), out)
		}
		if err := v.done(ctx, q); err != nil {
			return err
		}
		for i := range n {
			b.answers[lo+i].score = host[i*n+i]
		}
	}
	return nil
}

// meet lets a batch's questions meet the candidates of a tile.
func (v *Ranker) meet(ctx context.Context, q *gpu.Queue, x *spill.Table, b *rankBatch, t Tile, scores []float32, mem gpu.Memory, o meeting) error {
	among := v.candidates(t)
	var known knownAnswers
	if o.known {
		var err error
		if known, err = v.known(ctx, b, among); err != nil {
			return err
		}
		defer func() { _ = known.slab.Free() }()
	}
	var kinds []uint32
	if o.typed {
		var err error
		if kinds, err = v.kinds(ctx, among); err != nil {
			return err
		}
	}
	rows, err := x.Rows(&v.tile, t.Base, t.Nodes)
	if err != nil {
		return err
	}
	if among.some != nil {
		if rows, err = v.pick(x, rows, among); err != nil {
			return err
		}
	}
	n, dim := among.len(), v.o.Model.Dim
	if n == 0 {
		return nil
	}
	tileMem, err := v.bring(q, rows)
	if err != nil {
		return err
	}
	defer func() { _ = tileMem.Free() }()
	if o.tile != nil {
		o.tile(rows[:int64(n)*x.RowBytes])
	}
	all, own := gpu.MatrixOf(tileMem, 0, n, dim), v.e.dev.Info().OwnMemory()
	for c := 0; c < n; c += scoreCandidates {
		width := min(scoreCandidates, n-c)
		step := len(scores) / width
		for lo := 0; lo < len(b.list); lo += step {
			hi := min(lo+step, len(b.list))
			out := gpu.MatrixOf(mem, 0, hi-lo, width)
			if own {
				out = v.e.arena.Matrix(q, hi-lo, width)
			}
			o.score(&nn.Pass{Queue: q, Arena: v.e.arena}, b.queries.View(lo, 0, hi-lo, dim), all.View(c, 0, width, dim), out)
			if own && q.Err() == nil {
				q.Download(blocks.Bytes(scores[:(hi-lo)*width]), out)
			}
			if err := v.done(ctx, q); err != nil {
				return err
			}
			v.parallel(lo, hi, func(i int) {
				own := scores[(i-lo)*width : (i-lo+1)*width]
				if kinds != nil {
					v.leaveOut(b.list[i], own, kinds[c:c+width], o.other)
				}
				o.see(i, own, c, among, known.of)
			})
		}
	}
	return nil
}

// parallel calls f for lo ≤ i < hi.
func (v *Ranker) parallel(lo, hi int, f func(i int)) {
	each(v.o.Threads, func(w int) {
		for i := lo + w; i < hi; i += v.o.Threads {
			f(i)
		}
	})
}

// count adds the scores of candidates from position c on to the standing of question i's answers.
func (b *rankBatch) count(i int, scores []float32, c int, among candidates, known []uint64) {
	known = knownOf(known, i, c, len(scores))
	for k := b.first[i]; k < b.first[i+1]; k++ {
		a := &b.answers[k]
		own := among.position(a.node) - c
		if own < 0 || own >= len(scores) {
			own = -1
		}
		a.see(scores, own, known, func(k uint64) int { return int(uint32(k)) - c })
	}
}

// knownOf returns those of knownAnswers that are of question i and n candidates from position c on.
func knownOf(known []uint64, i, c, n int) []uint64 {
	lo, _ := slices.BinarySearch(known, uint64(i)<<32|uint64(c))
	hi, _ := slices.BinarySearch(known, uint64(i)<<32|uint64(c+n))
	return known[lo:hi]
}

// candidates are the nodes of a tile, or some of them, ascending.
type candidates struct {
	t    Tile
	some []uint32 // nil: all
}

func (v *Ranker) candidates(t Tile) candidates {
	c := candidates{t: t}
	if v.sample != nil {
		lo, _ := slices.BinarySearch(v.sample, uint32(t.Base))
		hi, _ := slices.BinarySearchFunc(v.sample, t.Base+uint64(t.Nodes), func(s uint32, end uint64) int { return cmp.Compare(uint64(s), end) })
		c.some = v.sample[lo:hi:hi] // not nil
	}
	return c
}

func (c candidates) len() int {
	if c.some != nil {
		return len(c.some)
	}
	return c.t.Nodes
}

// node returns the node at a position.
func (c candidates) node(at int) store.NodeID {
	if c.some != nil {
		return store.NodeID(c.some[at])
	}
	return store.NodeID(c.t.Base + uint64(at))
}

// position returns where a node stands, −1 if it is none of them.
func (c candidates) position(node uint32) int {
	at := uint64(node) - c.t.Base
	if at >= uint64(c.t.Nodes) { // nodes below the tile wrap around
		return -1
	}
	if c.some == nil {
		return int(at)
	}
	if i, ok := slices.BinarySearch(c.some, node); ok {
		return i
	}
	return -1
}

// pick copies the candidates' states out of their tile's.
func (v *Ranker) pick(x *spill.Table, rows []byte, among candidates) ([]byte, error) {
	size := int64(len(among.some)) * x.RowBytes
	if size == 0 {
		return nil, nil
	}
	if err := spill.Grow(&v.some, size); err != nil {
		return nil, err
	}
	to := v.some.Bytes()[:size]
	for i, node := range among.some {
		from := int64(uint64(node)-among.t.Base) * x.RowBytes
		copy(to[int64(i)*x.RowBytes:int64(i+1)*x.RowBytes], rows[from:])
	}
	return to, nil
}

// knownAnswers are a batch's questions with the candidates of a tile that are
// known to answer them, by the graph or any edge list but those of negatives: question<<32 | position, ascending, off the Go heap.
type knownAnswers struct {
	of   []uint64
	slab *blockio.Slab
}

// known reads the edges into a tile, twice: to count and to fill.
func (v *Ranker) known(ctx context.Context, b *rankBatch, among candidates) (k knownAnswers, err error) {
	each := func(f func(at uint64)) error {
		hit := func(q question, node uint32) {
			if i, ok := b.number[q]; ok {
				if at := among.position(node); at >= 0 {
					f(uint64(i)<<32 | uint64(at))
				}
			}
		}
		m := v.st.Manifest()
		everything := Tile{Hi: len(m.Partitions), Nodes: int(m.Nodes)}
		err := v.filter.each(ctx, everything, among.t, func(d, s uint32, e about) { hit(question{s, uint32(e.relation)}, uint32(among.t.Base)+d) })
		if err != nil {
			return err
		}
		for _, l := range m.EdgeLists {
			if l.Negatives() {
				continue
			}
			edges, err := v.st.EdgeList(ctx, l.Name)
			if err != nil {
				return err
			}
			for edges.Next() {
				v.both(edges.Edge(), hit)
			}
			if err := edges.Err(); err != nil {
				return fmt.Errorf("edge list %s: %w", l.Name, err)
			}
		}
		return nil
	}
	n := 0
	if err := each(func(uint64) { n++ }); err != nil {
		return k, err
	}
	if k.slab, err = blockio.AllocSlab(max(8, int64(n)*8), blockio.SlabOptions{}); err != nil {
		return k, err
	}
	all, err := blocks.View[uint64](k.slab.Bytes())
	if err == nil {
		all = all[:n]
		i := 0
		err = each(func(at uint64) { all[i] = at; i++ })
	}
	if err != nil {
		_ = k.slab.Free()
		return k, err
	}
	slices.Sort(all)
	k.of = slices.Compact(all)
	return k, nil
}
