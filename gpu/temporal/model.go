package temporal

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
	"github.com/gstore/gstore/sampler/mini"
)

// recencyHidden is the width of the layer that scores recency.
const recencyHidden = 16

// model scores candidates. With x[v] = e[v] + Σ_c P_c·f_c[v], a learned vector for candidates and a projection of every feature
// column (rows of other types of nodes are 0: each type has its own), a node u at a moment is
//
//	h = W₂·relu(W₁·[x[u], mean x[v], mean φ(age)] + b₁) + b₂
//
// over its sampled edges, and candidate c scores h·x[c] + r₂·relu(R₁·n(u, c) + s₁), n what [recency] says.
type model struct {
	cfg      *Config
	q        *gpu.Queue
	arena    *gpu.Arena
	params   *nn.Params
	vectors  *nn.Param // e [rows × dim], stepped by rows
	project  []*nn.Param
	w1, b1   *nn.Param
	w2, b2   *nn.Param
	r1, s1   *nn.Param
	r2       *nn.Param
	moments  gpu.Memory // of vectors: Adam's
	m, v     gpu.Tensor
	features []gpu.Tensor
	unmap    []func() // releases features
	stat     gpu.Memory
	adam     gpu.AdamOptions
	ages     *ageEncoder // nil: ages are not encoded
	// Of learned ages: the logarithms of the frequencies, and columns and derivatives of a batch's edges.
	frequencies     *nn.Param
	encoded, slopes []float32
}

func uniform(in int) nn.Init {
	bound := 1 / math.Sqrt(float64(in))
	return func(r *keyed.Rand) float32 { return float32(bound * (2*r.Float64() - 1)) }
}

func newModel(ctx context.Context, dev gpu.Device, cfg *Config, d *data) (_ *model, err error) {
	m := &model{cfg: cfg, arena: gpu.NewArena(dev), params: nn.NewParams(dev), adam: gpu.AdamOptions{LR: float32(cfg.LR), Beta1: .9, Beta2: .999, Epsilon: 1e-8}}
	if m.q, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = m.close()
		}
	}()
	dim, zero := cfg.Dim, func(*keyed.Rand) float32 { return 0 }
	small := func(r *keyed.Rand) float32 { return float32(.1 * r.Normal()) }
	for i := range d.mb.Features {
		c := &d.mb.Features[i]
		if err := nn.CheckFeature(c.Name, c.Type); err != nil {
			return nil, err
		}
		m.project = append(m.project, m.params.Add("project."+c.Name, c.Dim, dim, uniform(c.Dim)))
	}
	m.ages = cfg.ageEncoder()
	in := 2*dim + m.ages.columns()
	m.w1, m.b1 = m.params.Add("hidden.weight", in, dim, uniform(in)), m.params.Add("hidden.bias", 1, dim, zero)
	m.w2, m.b2 = m.params.Add("state.weight", dim, dim, uniform(dim)), m.params.Add("state.bias", 1, dim, zero)
	if !cfg.NoRecency {
		m.r1, m.s1 = m.params.Add("recency.weight", recencyDim, recencyHidden, uniform(recencyDim)), m.params.Add("recency.bias", 1, recencyHidden, uniform(recencyDim))
		m.r2 = m.params.Add("recency.score", recencyHidden, 1, uniform(recencyHidden))
	}
	if cfg.TimeEncoding == TimeLearned {
		m.frequencies = m.params.Add("time.log_frequencies", 1, frequencies, startLogFrequencies())
	}
	m.vectors = m.params.AddState("vectors", d.mb.Rows, dim, small)
	if err := m.params.Allocate(ctx, m.q, cfg.Seed); err != nil {
		return nil, err
	}
	if m.moments, err = dev.Alloc(2 * 4 * int64(d.mb.Rows) * int64(dim)); err != nil {
		return nil, err
	}
	m.m, m.v = gpu.MatrixOf(m.moments, 0, d.mb.Rows, dim), gpu.MatrixOf(m.moments, 4*int64(d.mb.Rows)*int64(dim), d.mb.Rows, dim)
	m.q.Fill(m.m, 0)
	m.q.Fill(m.v, 0)
	if m.stat, err = dev.Alloc(16); err != nil {
		return nil, err
	}
	return m, m.mapFeatures(d)
}

// mapFeatures makes the macro-batch's features tables of the device.
func (m *model) mapFeatures(d *data) error {
	for _, c := range d.mb.Features {
		t, release, err := nn.MapTable(m.q.Device(), c.Name, c.Data, d.mb.Rows, c.Dim, c.Stride, c.Type, c.Scale)
		if err != nil {
			return err
		}
		m.features, m.unmap = append(m.features, t), append(m.unmap, release)
	}
	return nil
}

func (m *model) close() error {
	var errs []error
	for _, release := range m.unmap {
		release()
	}
	for _, mem := range []gpu.Memory{m.stat, m.moments} {
		if mem != nil {
			errs = append(errs, mem.Free())
		}
	}
	return errors.Join(append(errs, m.params.Close(), m.arena.Close(), m.q.Close())...)
}

// pass is what a batch's backward pass needs of its forward pass.
type pass struct {
	rows             gpu.Tensor   // of the macro-batch, uint32
	known            []gpu.Tensor // features of rows, by column
	x                gpu.Tensor   // [rows × dim]
	self             gpu.Tensor   // uint32
	g                gpu.Graph    // from rows to queries
	in, hidden, h    gpu.Tensor   // [queries × …]
	slopes           gpu.Tensor   // [queries × …], of ages by learned frequencies
	numbers, recent  gpu.Tensor   // [scores × …]
	vectors, queries int
}

// forward returns the queries' states in its pass, and what gradients need if train.
func (m *model) forward(ctx context.Context, b *mini.Batch, x *extra, train bool) *pass {
	q, a, dim, k := m.q, m.arena, m.cfg.Dim, &b.Blocks[0]
	n := k.NumDst
	p := &pass{rows: a.Uint32s(q, x.rows), self: a.Uint32s(q, x.self), vectors: x.vectors, queries: n}
	p.x = a.Matrix(q, len(x.rows), dim)
	q.Fill(p.x, 0)
	q.Gather(p.x.Head(x.vectors), m.vectors.Value, p.rows.View(0, 0, 1, x.vectors))
	for i, t := range m.features {
		known := a.Matrix(q, len(x.rows), t.Cols)
		q.Gather(known, t, p.rows)
		q.Gemm(gpu.GemmOptions{Accumulate: true}, known, m.project[i].Value, p.x)
		p.known = append(p.known, known)
	}
	p.g = gpu.Graph{NumDst: n, NumSrc: len(x.rows), Indptr: a.Int32s(q, k.Indptr), Indices: a.Int32s(q, x.sources)}
	columns := m.ages.columns()
	p.in = a.Matrix(q, n, 2*dim+columns)
	q.Gather(p.in.View(0, 0, n, dim), p.x, p.self)
	q.Aggregate(gpu.AggregateOptions{Reduce: gpu.Mean}, p.g, p.x, p.in.View(0, dim, n, dim))
	if columns > 0 {
		// Ages are rows of their own, one an edge.
		edge := resize(k.Indices, len(k.Indices)) // an edge's place in the block is its row of ages
		for i := range edge {
			edge[i] = int32(i)
		}
		g := gpu.Graph{NumDst: n, NumSrc: len(edge), Indptr: p.g.Indptr, Indices: a.Int32s(q, edge)}
		if ages := p.in.View(0, 2*dim, n, columns); m.frequencies != nil {
			p.slopes = m.learnedAges(ctx, b, g, ages, train)
		} else {
			m.meanOfEdges(g, x.ages[:len(edge)*columns], ages)
		}
	}
	p.hidden, p.h = a.Matrix(q, n, dim), a.Matrix(q, n, dim)
	q.Gemm(gpu.GemmOptions{Bias: m.b1.Value, ReLU: true}, p.in, m.w1.Value, p.hidden)
	q.Gemm(gpu.GemmOptions{Bias: m.b2.Value}, p.hidden, m.w2.Value, p.h)
	return p
}

// column views a contiguous matrix as one column.
func column(t gpu.Tensor) gpu.Tensor { return gpu.MatrixOf(t.Mem, t.Offset, t.Len(), 1) }

// recall adds to scores what numbers, recencyDim for each, say.
func (m *model) recall(p *pass, numbers []float32, scores gpu.Tensor) {
	q, a := m.q, m.arena
	n := scores.Len()
	p.numbers, p.recent = a.Matrix(q, n, recencyDim), a.Matrix(q, n, recencyHidden)
	bonus := a.Matrix(q, n, 1)
	if q.Err() != nil {
		return
	}
	q.Upload(p.numbers, blocks.Bytes(numbers[:n*recencyDim]))
	q.Gemm(gpu.GemmOptions{Bias: m.s1.Value, ReLU: true}, p.numbers, m.r1.Value, p.recent)
	q.Gemm(gpu.GemmOptions{}, p.recent, m.r2.Value, bonus)
	q.Axpy(1, bonus, column(scores))
}

// step trains one batch and returns its loss, summed over queries.
func (m *model) step(ctx context.Context, b *mini.Batch) (float64, error) {
	return m.batch(ctx, b, func(p *pass, dx gpu.Tensor) {
		q := m.q
		m.params.Adam(q, m.params.Step(m.adam))
		o := m.adam
		o.Step = m.params.Steps()
		q.AdamRows(o, m.vectors.Value, p.rows.View(0, 0, 1, p.vectors), dx.Head(p.vectors), m.m, m.v)
	})
}

// batch returns a batch's loss, summed over queries, and calls step once the parameters' gradients are set, with that of the batch's rows.
func (m *model) batch(ctx context.Context, b *mini.Batch, step func(p *pass, dx gpu.Tensor)) (float64, error) {
	q, a, x, dim := m.q, m.arena, b.Extra.(*extra), m.cfg.Dim
	p := m.forward(ctx, b, x, true)
	n, wrong := p.queries, len(x.wrong)
	right, others := a.Matrix(q, n, dim), a.Matrix(q, wrong, dim)
	answers, draws := a.Uint32s(q, x.answers), a.Uint32s(q, x.wrong)
	scores := a.Matrix(q, n, 1+wrong)
	if q.Err() == nil {
		q.Gather(right, p.x, answers)
		q.Gather(others, p.x, draws)
		q.RowDot(p.h, right, scores.View(0, 0, n, 1))
		q.Gemm(gpu.GemmOptions{TransB: true}, p.h, others, scores.View(0, 1, n, wrong))
		if !m.cfg.NoRecency {
			m.recall(p, x.numbers, scores)
		}
		if len(x.mask) > 0 {
			q.SetElements(scores, a.Uint32s(q, x.mask), gpu.Masked)
		}
		q.LinkLoss(gpu.LinkLossOptions{}, scores, scores, gpu.VectorOf(m.stat, 0, 2, blocks.Float64)) // scores are gradients now
		m.gradients(p, scores, right, others, answers, draws, step)
	}
	var stat [2]float64
	q.Download(blocks.Bytes(stat[:]), gpu.VectorOf(m.stat, 0, 2, blocks.Float64))
	if err := errors.Join(q.Sync(context.WithoutCancel(ctx)), a.Reset()); err != nil {
		return 0, err
	}
	if math.IsNaN(stat[0]) || math.IsInf(stat[0], 0) {
		return 0, fmt.Errorf("the loss is not a finite number: %w: use a smaller learning rate than %v", run.ErrDiverged, m.cfg.LR)
	}
	return stat[0], nil
}

// gradients sets those of all parameters and calls step with that of x. d is the gradient of the scores.
func (m *model) gradients(p *pass, d, right, others, answers, draws gpu.Tensor, step func(p *pass, dx gpu.Tensor)) {
	q, a, dim, n := m.q, m.arena, m.cfg.Dim, p.queries
	positive, negative := d.View(0, 0, n, 1), d.View(0, 1, n, d.Cols-1)
	if !m.cfg.NoRecency {
		flat, dRecent := column(d), a.Matrix(q, d.Len(), recencyHidden)
		if q.Err() != nil {
			return
		}
		q.Gemm(gpu.GemmOptions{TransA: true}, p.recent, flat, m.r2.Grad)
		q.Gemm(gpu.GemmOptions{TransB: true}, flat, m.r2.Value, dRecent)
		q.ReLUBackward(1, p.recent, dRecent)
		q.ColumnSum(dRecent, m.s1.Grad)
		q.Gemm(gpu.GemmOptions{TransA: true}, p.numbers, dRecent, m.r1.Grad)
	}
	dh, dRight, dOthers := a.Matrix(q, n, dim), a.Matrix(q, n, dim), a.Matrix(q, others.Rows, dim)
	dHidden, dIn, dx := a.Matrix(q, n, dim), a.Matrix(q, n, p.in.Cols), a.Matrix(q, p.x.Rows, dim)
	if q.Err() != nil {
		return
	}
	q.Gemm(gpu.GemmOptions{}, negative, others, dh)
	q.ScaleRowsAdd(1, positive, right, dh)
	q.Fill(dRight, 0)
	q.ScaleRowsAdd(1, positive, p.h, dRight)
	q.Gemm(gpu.GemmOptions{TransA: true}, negative, p.h, dOthers)
	q.Fill(dx, 0)
	q.ScatterAddRows(dx, answers, dRight)
	q.ScatterAddRows(dx, draws, dOthers)
	// The state's two layers.
	q.ColumnSum(dh, m.b2.Grad)
	q.Gemm(gpu.GemmOptions{TransA: true}, p.hidden, dh, m.w2.Grad)
	q.Gemm(gpu.GemmOptions{TransB: true}, dh, m.w2.Value, dHidden)
	q.ReLUBackward(1, p.hidden, dHidden)
	q.ColumnSum(dHidden, m.b1.Grad)
	q.Gemm(gpu.GemmOptions{TransA: true}, p.in, dHidden, m.w1.Grad)
	q.Gemm(gpu.GemmOptions{TransB: true}, dHidden, m.w1.Value, dIn)
	if m.frequencies != nil {
		m.ageGradient(p.slopes, dIn.View(0, 2*dim, n, m.ages.columns()))
	}
	// The node itself and the mean over its edges.
	q.ScatterAddRows(dx, p.self, dIn.View(0, 0, n, dim))
	q.Transpose(a, &p.g)
	if q.Err() != nil {
		return
	}
	q.AggregateBackward(gpu.Mean, p.g, dIn.View(0, dim, n, dim), dx)
	for i, known := range p.known {
		q.Gemm(gpu.GemmOptions{TransA: true}, known, dx, m.project[i].Grad)
	}
	step(p, dx)
}

// score returns, by query and candidate, the scores of an evaluation's batch, whose wrong answers are all candidates; numbers are those of
// [recency], nil without.
func (m *model) score(ctx context.Context, b *mini.Batch, numbers, out []float32) ([]float32, error) {
	q, a, x := m.q, m.arena, b.Extra.(*extra)
	p := m.forward(ctx, b, x, false)
	candidates := len(x.wrong) // the first rows of x
	scores := a.Matrix(q, p.queries, candidates)
	if q.Err() == nil {
		q.Gemm(gpu.GemmOptions{TransB: true}, p.h, p.x.Head(candidates), scores)
		if numbers != nil {
			m.recall(p, numbers, scores)
		}
	}
	out = resize(out, p.queries*candidates)
	q.Download(blocks.Bytes(out), scores)
	return out, errors.Join(q.Sync(ctx), a.Reset())
}
