package targets

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/keyed"
)

// encoder brings the rows of one table to states of one width: relu(P·[x, age, counts] + Σ_k V_k[c_k] + b), with x the table's features
// side by side, c_k its categories, of which 0 is none, and V_k[0] = 0.
type encoder struct {
	in           int // columns of x
	weight, bias *nn.Param
	vectors      []*nn.Param // by category
}

// model scores an entity at a moment: z is the state of its row after the layers of gnn over the states of its tree's rows, and
//
//	score = w₂·relu(W₁·z + S·[season, past, through] + b₁) + b₂
//
// with the season of the moment, what earlier targets of the entity were ([past]) and how many rows refer to those that refer to it. What
// becomes of scores hangs on the targets' kind.
type model struct {
	cfg      *Config
	d        *data
	q        *gpu.Queue
	arena    *gpu.Arena
	params   *nn.Params // of encoders and head
	encoders []encoder  // by type
	gnn      *nn.Model
	groupers []nn.Grouper
	season   *nn.Param
	w1, b1   *nn.Param
	w2, b2   *nn.Param
	tables   []gpu.Tensor // by column of the macro-batch; none of categories
	unmap    []func()
	adam     gpu.AdamOptions
	kind     kind
	items    *recommender // nil: nothing is recommended
	scores   []float32
	grads    []float32
}

func uniform(in int) nn.Init {
	bound := 1 / math.Sqrt(float64(max(in, 1)))
	return func(r *keyed.Rand) float32 { return float32(bound * (2*r.Float64() - 1)) }
}

func zero(*keyed.Rand) float32 { return 0 }

// noneZero is uniform(h) for a table of vectors of h columns whose first, that of none, is zero.
func noneZero(h int) nn.Init {
	n, value := 0, uniform(h)
	return func(r *keyed.Rand) float32 {
		if n++; n <= h {
			return 0
		}
		return value(r)
	}
}

// newModel makes a model for the rows of d.
func newModel(ctx context.Context, dev gpu.Device, cfg *Config, d *data, k kind, relations int) (_ *model, err error) {
	m := &model{cfg: cfg, d: d, kind: k, arena: gpu.NewArena(dev), params: nn.NewParams(dev),
		adam: gpu.AdamOptions{LR: float32(cfg.LR), Beta1: .9, Beta2: .999, Epsilon: 1e-8}}
	if m.q, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = m.close()
		}
	}()
	h := cfg.Hidden
	for t, name := range d.names {
		e := encoder{}
		for _, c := range d.columns[t] {
			if err := nn.CheckFeature(d.mb.Features[c].Name, d.mb.Features[c].Type); err != nil {
				return nil, err
			}
			e.in += d.mb.Features[c].Dim
		}
		in := e.in + d.movingColumns(t)
		if in > 0 {
			e.weight = m.params.Add("encoder."+name, in, h, uniform(in))
		}
		e.bias = m.params.Add("encoder."+name+".bias", 1, h, uniform(in))
		for _, c := range d.groups[t] {
			e.vectors = append(e.vectors, m.params.Add("encoder."+d.mb.Features[c].Name, d.values[c], h, noneZero(h)))
		}
		if k.vectors > 0 && k.itemType == t {
			e.vectors = append(e.vectors, m.params.Add("encoder."+name+".vectors", k.vectors+1, h, noneZero(h)))
		}
		m.encoders = append(m.encoders, e)
	}
	moment := seasonColumns + pastColumns(k.past) + d.throughColumns()
	m.season = m.params.Add("head.season", moment, h, uniform(moment))
	m.w1, m.b1 = m.params.Add("head.weight", h, h, uniform(h)), m.params.Add("head.bias", 1, h, zero)
	m.w2, m.b2 = m.params.Add("score.weight", h, k.outputs(), uniform(h)), m.params.Add("score.bias", 1, k.outputs(), zero)
	if k.recommending() {
		m.items = newRecommender(m.params, k, h)
	}
	if err := m.params.Allocate(ctx, m.q, cfg.Seed+1); err != nil {
		return nil, err
	}
	c := nn.Config{Model: "rsage", Layers: len(cfg.Fanouts), In: h, Hidden: h, Out: h, Dropout: float32(*cfg.Dropout), Relations: relations, Seed: cfg.Seed}
	if c.Layers > 1 {
		c.Norm = nn.LayerNorm
	}
	if m.gnn, err = nn.New(ctx, m.q, c); err != nil {
		return nil, err
	}
	m.groupers = c.Groupers(len(cfg.Fanouts))
	return m, m.mapTables(dev)
}

// mapTables makes the macro-batch's features tables of the device.
func (m *model) mapTables(dev gpu.Device) error {
	for c := range m.d.mb.Features {
		if m.d.values[c] > 0 {
			m.tables = append(m.tables, gpu.Tensor{})
			continue
		}
		t, release, err := m.d.table(dev, c)
		if err != nil {
			return err
		}
		m.tables, m.unmap = append(m.tables, t), append(m.unmap, release)
	}
	return nil
}

func (m *model) close() error {
	var errs []error
	for _, release := range m.unmap {
		release()
	}
	if m.gnn != nil {
		errs = append(errs, m.gnn.Close())
	}
	return errors.Join(append(errs, m.params.Close(), m.arena.Close(), m.q.Close())...)
}

// encoded is what the encoder of a type made of a batch's rows of it.
type encoded struct {
	at         gpu.Tensor   // uint32: their places among the batch's rows
	x          gpu.Tensor   // [rows × in]
	categories []gpu.Tensor // uint32
	y          gpu.Tensor   // [rows × hidden]
}

// pass is what a batch's backward pass needs of its forward pass.
type pass struct {
	pass    *nn.Pass
	types   []encoded
	states  gpu.Tensor // [rows, then items × hidden]
	z       gpu.Tensor // [seeds × hidden]
	season  gpu.Tensor
	hidden  gpu.Tensor
	scores  gpu.Tensor // [seeds × outputs]
	sources int
}

// encode sets the states of the batch's rows.
func (m *model) encode(p *pass, x *extra, states gpu.Tensor) {
	q, a := m.q, m.arena
	q.Fill(states, 0) // of rows that are not known
	p.types = make([]encoded, len(m.encoders))
	for t := range m.encoders {
		e, y, part := &m.encoders[t], &p.types[t], &x.parts[t]
		n := len(part.at)
		if n == 0 {
			continue
		}
		y.at, y.y = a.Uint32s(q, part.at), a.Matrix(q, n, m.cfg.Hidden)
		q.Fill(y.y, 0)
		if e.weight != nil {
			y.x = a.Matrix(q, n, e.weight.Value.Rows)
			at := 0
			for k, c := range m.d.columns[t] {
				dim := m.d.mb.Features[c].Dim
				q.Gather(y.x.View(0, at, n, dim), m.tables[c], a.Uint32s(q, part.places[k]))
				at += dim
			}
			if wide := m.d.movingColumns(t); wide > 0 {
				moving := a.Matrix(q, n, wide)
				if q.Err() == nil {
					q.Upload(moving, blocks.Bytes(part.moving))
					q.Copy(y.x.View(0, at, n, wide), moving)
				}
			}
			q.Gemm(gpu.GemmOptions{}, y.x, e.weight.Value, y.y)
		}
		for k, v := range e.vectors {
			ids, own := a.Uint32s(q, part.categories[k]), a.Matrix(q, n, m.cfg.Hidden)
			q.Gather(own, v.Value, ids)
			q.Axpy(1, own, y.y)
			y.categories = append(y.categories, ids)
		}
		if q.Err() != nil {
			return
		}
		q.AddBias(true, e.bias.Value, y.y)
		q.CopyRows(states, y.at, y.y, a.Uint32s(q, counting(n)))
	}
}

// counting is 0 … n−1.
func counting(n int) []uint32 {
	c := make([]uint32, n)
	for i := range c {
		c[i] = uint32(i)
	}
	return c
}

// forward computes the scores of a batch's seeds.
func (m *model) forward(b *batch, train bool) *pass {
	q, a, h := m.q, m.arena, m.cfg.Hidden
	p := &pass{pass: &nn.Pass{Queue: q, Arena: a, Train: train, DropoutSeed: b.dropout}, sources: len(b.Input)}
	p.states = a.Matrix(q, len(b.Input)+len(b.choice.items), h)
	if q.Err() != nil {
		return p
	}
	m.encode(p, &b.extra, p.states)
	graphs := make([]gpu.Graph, len(b.Blocks))
	for i := range b.Blocks {
		k := &b.Blocks[i]
		graphs[i] = gpu.Graph{NumDst: k.NumDst, NumSrc: k.NumSrc}
		m.groupers[i].Group(q, a, &graphs[i], k.Indptr, k.Indices, k.Relations)
	}
	p.z = m.gnn.Forward(p.pass, graphs, nn.Dense(p.states.Head(len(b.Input))))
	n := len(b.Seeds)
	p.season, p.hidden, p.scores = a.Float32s(q, b.season), a.Matrix(q, n, h), a.Matrix(q, n, m.kind.outputs())
	if q.Err() != nil {
		return p
	}
	p.season = gpu.MatrixOf(p.season.Mem, p.season.Offset, n, m.season.Value.Rows)
	q.Gemm(gpu.GemmOptions{}, p.z, m.w1.Value, p.hidden)
	q.Gemm(gpu.GemmOptions{Accumulate: true}, p.season, m.season.Value, p.hidden)
	q.AddBias(true, m.b1.Value, p.hidden)
	q.Gemm(gpu.GemmOptions{Bias: m.b2.Value}, p.hidden, m.w2.Value, p.scores)
	return p
}

// step trains one batch and returns its loss, summed over seeds.
func (m *model) step(ctx context.Context, b *batch) (float64, error) {
	if m.items != nil {
		return m.stepItems(ctx, b)
	}
	q, a := m.q, m.arena
	p := m.forward(b, true)
	m.scores = resize(m.scores, len(b.Seeds)*m.kind.outputs())
	q.Download(blocks.Bytes(m.scores), p.scores)
	if err := q.Sync(context.WithoutCancel(ctx)); err != nil {
		return 0, errors.Join(err, a.Reset())
	}
	m.grads = resize(m.grads, len(m.scores))
	loss := m.kind.loss(m.scores, b.truth, m.grads)
	if err := m.diverged(loss); err != nil {
		return 0, errors.Join(err, a.Reset())
	}
	d := a.Matrix(q, len(b.Seeds), m.kind.outputs())
	if q.Err() == nil {
		q.Upload(d, blocks.Bytes(m.grads))
		m.params.ZeroGrads(q) // of tables that the batch has no rows of
		m.backward(p, d, gpu.Tensor{})
		m.adamStep()
	}
	return loss, errors.Join(q.Sync(context.WithoutCancel(ctx)), a.Reset())
}

// diverged is an error where a loss is no finite number.
func (m *model) diverged(loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("the loss is not a finite number: %w: use a smaller learning rate than %v", run.ErrDiverged, m.cfg.LR)
	}
	return nil
}

// sets are all parameters: those of encoders and head, and those of the layers.
func (m *model) sets() []*nn.Params { return []*nn.Params{m.params, m.gnn.Params()} }

// adamStep moves all parameters.
func (m *model) adamStep() {
	for _, p := range m.sets() {
		if p.Adam(m.q, p.Step(m.adam)); m.cfg.averages() {
			p.Average(m.q)
		}
	}
}

// openAverage makes room for the averages of a model that is trained, if there are to be some.
func (m *model) openAverage() (err error) {
	for _, p := range m.sets() {
		if m.cfg.averages() {
			err = errors.Join(err, p.OpenAverage())
		}
	}
	return err
}

// swapAverage exchanges all parameters and their averages, if there are some.
func (m *model) swapAverage() {
	for _, p := range m.sets() {
		if m.cfg.averages() {
			p.SwapAverage(m.q)
		}
	}
}

// backward sets the gradients of all parameters, which are zero, from that of the scores and that of the states of items, if there are some.
func (m *model) backward(p *pass, d, items gpu.Tensor) {
	q, a, h, n := m.q, m.arena, m.cfg.Hidden, d.Rows
	dHidden, dz := a.Matrix(q, n, h), a.Matrix(q, n, h)
	if q.Err() != nil {
		return
	}
	q.ColumnSum(d, m.b2.Grad)
	q.Gemm(gpu.GemmOptions{TransA: true}, p.hidden, d, m.w2.Grad)
	q.Gemm(gpu.GemmOptions{TransB: true}, d, m.w2.Value, dHidden)
	q.ReLUBackward(1, p.hidden, dHidden)
	q.ColumnSum(dHidden, m.b1.Grad)
	q.Gemm(gpu.GemmOptions{TransA: true}, p.season, dHidden, m.season.Grad)
	q.Gemm(gpu.GemmOptions{TransA: true}, p.z, dHidden, m.w1.Grad)
	q.Gemm(gpu.GemmOptions{TransB: true}, dHidden, m.w1.Value, dz)
	states := m.gnn.InputGradient(p.pass, dz)
	if !items.IsZero() && q.Err() == nil {
		all := a.Matrix(q, p.states.Rows, h)
		if q.Err() != nil {
			return
		}
		q.Copy(all.Head(states.Rows), states)
		q.Copy(all.View(states.Rows, 0, items.Rows, h), items)
		states = all
	}
	for t := range m.encoders {
		e, y := &m.encoders[t], &p.types[t]
		if y.at.IsZero() || q.Err() != nil {
			continue
		}
		dy := a.Matrix(q, y.y.Rows, h)
		if q.Err() != nil {
			return
		}
		q.Gather(dy, states, y.at)
		q.ReLUBackward(1, y.y, dy)
		q.ColumnSum(dy, e.bias.Grad)
		if e.weight != nil {
			q.Gemm(gpu.GemmOptions{TransA: true}, y.x, dy, e.weight.Grad)
		}
		for k, v := range e.vectors {
			q.ScatterAddRows(v.Grad, y.categories[k], dy)
			q.Fill(v.Grad.Head(1), 0)
		}
	}
}

// predict returns the answers of a batch, [seeds × outputs]. They are valid until the next call.
func (m *model) predict(ctx context.Context, b *batch) ([]float32, error) {
	p := m.forward(b, false)
	m.scores = resize(m.scores, len(b.Seeds)*m.kind.outputs())
	m.q.Download(blocks.Bytes(m.scores), p.scores)
	if err := errors.Join(m.q.Sync(ctx), m.arena.Reset()); err != nil {
		return nil, err
	}
	m.kind.answer(m.scores)
	return m.scores, nil
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
