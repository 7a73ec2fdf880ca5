package nn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/keyed"
)

// LinkConfig describes a model of link prediction.
type LinkConfig struct {
	Decoder string `json:"decoder" yaml:"decoder"`       // see [NewDecoder]
	Encoder string `json:"encoder" yaml:"encoder"`       // one of [Encoders]
	Heads   int    `json:"heads,omitempty" yaml:"heads"` // of gat, side by side; 0 means 4; divides Dim
	Dim     int    `json:"dim" yaml:"dim"`               // of embeddings, of relations and of the encoder's output
	// Layers of the encoder, a ReLU behind all but the last; 0: one, with tanh behind.
	Layers int `json:"layers,omitempty" yaml:"layers"`
	// Features are the columns of each table of features, which are projected to Dim and added to a node's embedding;
	// NoEmbeddings leaves that out.
	Features     []int               `json:"features,omitempty" yaml:"features"`
	NoEmbeddings bool                `json:"no_embeddings,omitempty" yaml:"no_embeddings"`
	Relations    int                 `json:"relations" yaml:"relations"`
	Loss         gpu.LinkLossOptions `json:"loss" yaml:"loss"`
	// N3 is λ of the penalty λ·Σ|x|³ of a query's loss, over its known end, its answer and its relation (of
	// rotate the ends alone), see [cubes].
	N3 float32 `json:"n3,omitempty" yaml:"n3"`
	// Dropout is the share of the numbers of ends, negatives and relations that [LinkModel.Loss] takes for 0, and scales the rest
	// by 1/(1 − Dropout), as LibKGE's embedders do (Ruffinelli et al., ICLR 2020, section 3).
	Dropout float32 `json:"dropout,omitempty" yaml:"dropout"`
	Seed    uint64  `json:"seed" yaml:"seed"`
}

// Validate says what is wrong with c's encoder; [NewDecoder] checks the decoder.
func (c *LinkConfig) Validate() error {
	switch {
	case !slices.Contains(Encoders(), c.Encoder):
		return fmt.Errorf("nn: encoder %q is not known (known: %s)", c.Encoder, strings.Join(Encoders(), ", "))
	case c.Heads < 0 || c.Heads > 0 && !c.kind().Heads:
		return fmt.Errorf("nn: %d heads for encoder %q: only %s has heads", c.Heads, c.Encoder,
			Only(func(k *Kind) bool { return k.encoder != nil && k.Heads }))
	case c.kind().Heads && c.Dim%c.heads() != 0:
		return fmt.Errorf("nn: %d dimensions do not divide among %d heads", c.Dim, c.heads())
	case c.Layers < 0 || c.Layers > layersMax || c.Layers > 0 && c.Encoder == "none":
		return fmt.Errorf("nn: %d layers of encoder %q: expected at most %d, and an encoder (%s)", c.Layers, c.Encoder, layersMax, strings.Join(Encoders()[1:], ", "))
	case len(c.Features) > 0 && (slices.Min(c.Features) < 1 || c.featureColumns() > columnsMax):
		return fmt.Errorf("nn: features of %v columns: expected 1 or more each, and at most %d together", c.Features, columnsMax)
	case c.NoEmbeddings && len(c.Features) == 0:
		return fmt.Errorf("nn: a model without embeddings and without features has no input")
	}
	return nil
}

// featureColumns is those of all features.
func (c *LinkConfig) featureColumns() (n int) {
	for _, cols := range c.Features {
		n += cols
	}
	return n
}

func (c *LinkConfig) heads() int {
	if c.Heads == 0 {
		return defaultHeads
	}
	return c.Heads
}

// Hops returns how many hops of neighbours the encoder reads.
func (c *LinkConfig) Hops() int {
	if c.Encoder == "none" {
		return 0
	}
	return max(1, c.Layers)
}

// Layer describes the encoder as a model of nodes, for what it takes to evaluate it.
func (c *LinkConfig) Layer() Config {
	l := Config{Model: c.Encoder, Layers: max(1, c.Layers), In: c.Dim, Hidden: c.Dim, Out: c.Dim}
	switch {
	case c.Encoder == "none":
		l.Model = kindOfMLP().Name
	case c.kind().Heads && c.Layers == 0:
		l.Heads, l.Out = c.heads(), c.Dim/c.heads()
	case c.kind().Heads:
		l.Heads = c.heads()
	}
	return l
}

// encoder declares the encoder's parameters in p; nil: none.
func (c *LinkConfig) encoder(p *Params) (layers []Layer) {
	if c.Layers > 0 {
		model := c.Layer()
		for i := range c.Layers {
			layers = append(layers, c.kind().layer(&model, p, slot{i, c.Dim, c.Dim, i == c.Layers-1, Activation{ReLU: i < c.Layers-1}, 0}))
		}
		return layers
	}
	if c.Encoder == "none" {
		return nil
	}
	return []Layer{c.kind().encoder(c, p)}
}

// kind is the encoder's; the zero Kind of none.
func (c *LinkConfig) kind() Kind {
	if c.Encoder == "" {
		return Kind{}
	}
	return KindNamed(c.Encoder)
}

// LinkModel scores edges between nodes. A node's input is a learned embedding, a projection of its features, or their sum; its state
// is that of an encoder over neighbours, or the input itself. Beside it are a vector for each relation and for each inverse
// relation, and a [Decoder]. Embeddings are its caller's; everything else is in Params.
type LinkModel struct {
	cfg       LinkConfig
	params    *Params
	encoder   []Layer // none: a node's state is its input
	decoder   *Decoder
	relations *Param // [2·Relations × Dim]: inverse relations from row Relations on; nil without
	project   *Param // [all features' columns × Dim]; nil without features
	stat      gpu.Memory

	known gpu.Tensor // features [n × columns], of the pass between Encode and EncodeBackward
}

// relationsParam is the name of the relations' vectors.
const relationsParam = "relations"

// normal draws from N(0, 1): how relations start (docs/design/gpu.md, "gpu/nn").
func normal(r *keyed.Rand) float32 { return float32(r.Normal()) }

// NewLink builds a model and fills its parameters from cfg.Seed.
func NewLink(ctx context.Context, q *gpu.Queue, cfg LinkConfig) (_ *LinkModel, err error) {
	m, err := cfg.declare(q.Device())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	if m.stat, err = q.Device().Alloc(16); err != nil {
		return nil, err
	}
	if err = m.params.Allocate(ctx, q, cfg.Seed); err != nil {
		return nil, err
	}
	return m, m.settle(ctx, q)
}

// settle makes new relations what the decoder asks of them, some at a time.
func (m *LinkModel) settle(ctx context.Context, q *gpu.Queue) error {
	if m.cfg.Decoder != RotatE {
		return nil
	}
	r, dim := m.relations.Value, m.cfg.Dim
	host := make([]float32, min(r.Rows, max(1, pieceFloats/dim))*dim)
	for lo := 0; lo < r.Rows; lo += len(host) / dim {
		part := r.View(lo, 0, min(len(host)/dim, r.Rows-lo), dim)
		piece := host[:part.Rows*dim]
		q.Download(blocks.Bytes(piece), part)
		if err := q.Sync(ctx); err != nil {
			return err
		}
		for i := range part.Rows {
			m.decoder.settle(piece[i*dim : (i+1)*dim])
		}
		q.Upload(part, blocks.Bytes(piece))
		if err := q.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Constrain follows an optimiser's step: relations become what the decoder asks of them, see [Decoder.Constrain].
func (m *LinkModel) Constrain(p *Pass) {
	if m.relations != nil {
		m.decoder.Constrain(p, m.relations.Value)
	}
}

// declare checks the description and declares the parameters, which have no memory.
func (c *LinkConfig) declare(dev gpu.Device) (_ *LinkModel, err error) {
	m := &LinkModel{cfg: *c, params: NewParams(dev)}
	if m.decoder, err = NewDecoder(c.Decoder, c.Dim); err != nil {
		return nil, err
	}
	if c.Relations < 1 {
		return nil, fmt.Errorf("nn: a model of %d relations, expected 1 or more", c.Relations)
	}
	if err = c.Validate(); err != nil {
		return nil, err
	}
	m.encoder = c.encoder(m.params)
	if m.decoder.Relations() {
		m.relations = m.params.Add(relationsParam, 2*c.Relations, c.Dim, normal)
	}
	if columns := c.featureColumns(); columns > 0 {
		m.project = m.params.Add("input.weight", columns, c.Dim, fanIn(columns))
	}
	return m, nil
}

// Config returns what the model was built from.
func (m *LinkModel) Config() LinkConfig { return m.cfg }

// Params returns the parameters of encoder and relations.
func (m *LinkModel) Params() *Params { return m.params }

// Hops returns how many hops of neighbours the encoder reads.
func (m *LinkModel) Hops() int { return m.cfg.Hops() }

// Streamers returns the encoder's layers for whole graphs that are streamed, the first of which reads nodes' inputs.
func (m *LinkModel) Streamers() (layers []Streamer) {
	for _, l := range m.encoder {
		layers = append(layers, l.(Streamer)) // every layer of an encoder is one
	}
	return layers
}

// ReadsDegrees reports whether the graphs given to Encode must have their degrees.
func (m *LinkModel) ReadsDegrees() bool {
	return slices.ContainsFunc(m.encoder, func(l Layer) bool {
		d, ok := l.(DegreeReader)
		return ok && d.ReadsDegrees()
	})
}

// Stat returns float64[1×2]: of the last Loss, the sum of the losses and how many
// positives came first.
func (m *LinkModel) Stat() gpu.Tensor { return gpu.VectorOf(m.stat, 0, 2, blocks.Float64) }

// Close frees the model's memory.
func (m *LinkModel) Close() error {
	err := m.params.Close()
	if m.stat != nil {
		if e := m.stat.Free(); err == nil {
			err = e
		}
		m.stat = nil
	}
	return err
}

// Encode returns the states [n×Dim] of a batch's nodes: with an encoder those of the last graph's destinations, for one layer of
// sage with tanh
//
//	tanh(W_self·e[v] + W_neigh·mean(e[u] : u ~ v) + b),
//
// without one what [LinkModel.Inputs] makes of in. graphs are one a layer, input first, and not looked at then.
func (m *LinkModel) Encode(p *Pass, graphs []gpu.Graph, in Input) gpu.Tensor {
	q := p.Queue
	if len(graphs) != len(m.encoder) {
		q.Fail(fmt.Errorf("nn: %d blocks for an encoder of %d layers: %w", len(graphs), len(m.encoder), gpu.ErrShape))
	}
	if m.project != nil || len(m.encoder) == 0 {
		in = Dense(m.Inputs(p, in.Index.Cols, in))
	}
	for i, l := range m.encoder {
		if q.Err() != nil {
			return gpu.Tensor{}
		}
		in = Dense(l.Forward(p, &graphs[i], in))
	}
	return in.Tables[0]
}

// Inputs returns the inputs [n×Dim] of n nodes: of in's tables the first has their embeddings, unless the model has none, the
// others their features, of any type, in the order of [LinkConfig].Features.
func (m *LinkModel) Inputs(p *Pass, n int, in Input) gpu.Tensor {
	q, dim := p.Queue, m.cfg.Dim
	x := p.Arena.Matrix(q, n, dim)
	if q.Err() != nil {
		return x
	}
	if m.cfg.NoEmbeddings {
		q.Fill(x, 0)
	} else {
		if !states(p, "embeddings", n, in.only(0, min(1, len(in.Tables))), x) {
			return x
		}
		in = in.only(1, len(in.Tables))
	}
	if m.project == nil {
		return x
	}
	m.known = p.Arena.Matrix(q, n, m.project.Value.Rows)
	if q.Err() == nil && states(p, "features", n, in, m.known) {
		q.Gemm(gpu.GemmOptions{Accumulate: true}, m.known, m.project.Value, x)
	}
	return x
}

// EncodeBackward takes the gradient of Encode's result, which it may overwrite, sets the gradients of encoder and projection and
// returns the gradient of the embeddings in Encode's input, row by row of its index.
func (m *LinkModel) EncodeBackward(p *Pass, d gpu.Tensor) gpu.Tensor {
	q := p.Queue
	for i := len(m.encoder) - 1; i >= 0 && q.Err() == nil; i-- {
		d = m.encoder[i].Backward(p, d, true)
	}
	if m.project != nil && q.Err() == nil {
		q.Gemm(gpu.GemmOptions{TransA: true}, m.known, d, m.project.Grad)
	}
	return d
}

// LinkBatch is the queries of a mini-batch: for n queries the ends that are
// known, the true answers and the wrong ones, by rows of Encode's result.
type LinkBatch struct {
	// Rows lists the n known ends, the n answers and the negatives of all
	// chunks: uint32[1×(2n+len(Chunks)·Negatives)].
	Rows gpu.Tensor
	// Relations are rows of the relations' vectors: relation r, or Relations+r
	// where the head is asked for. uint32[1×n].
	Relations gpu.Tensor
	// Chunks are the ends of consecutive runs of queries; each run shares Negatives negatives.
	Chunks    []int
	Negatives int
	// Corrections, by chunk, are added to the scores of its negatives; nil: none. The log of candidates / Negatives, where these are
	// a uniform sample of the candidates, makes the sum of their exponentials an estimate of that over all (log-Q; Bengio and
	// Senécal, IEEE Transactions on Neural Networks 19, 2008, section III).
	Corrections []float32
	// Mask lists the scores that count for nothing, elements of the matrix
	// [n×(1+Negatives)] whose column 0 is the answers: uint32[1×k] or none.
	Mask gpu.Tensor
}

// Loss scores a batch over states (Encode's result), sets the relations' gradients and
// returns the gradient of the sum of the queries' losses with respect to states. Stat holds
// the loss.
func (m *LinkModel) Loss(p *Pass, b LinkBatch, states gpu.Tensor) gpu.Tensor {
	q, a, dim := p.Queue, p.Arena, m.cfg.Dim
	n := b.Chunks[len(b.Chunks)-1]
	x, dx := a.Matrix(q, b.Rows.Cols, dim), a.Matrix(q, b.Rows.Cols, dim)
	scores := a.Matrix(q, n, 1+b.Negatives)
	var r, dr gpu.Tensor
	if m.relations != nil {
		r, dr = a.Matrix(q, n, dim), a.Matrix(q, n, dim)
	}
	if want := 2*n + len(b.Chunks)*b.Negatives; b.Rows.Cols != want {
		q.Fail(fmt.Errorf("nn: link batch of %d rows, expected %d: %w", b.Rows.Cols, want, gpu.ErrShape))
	}
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	part := func(t gpu.Tensor, lo, hi int) gpu.Tensor { return t.View(lo, 0, hi-lo, t.Cols) }
	q.Gather(x, states, b.Rows)
	known, answers, negatives := part(x, 0, n), part(x, n, 2*n), part(x, 2*n, x.Rows)
	dKnown, dAnswers, dNegatives := part(dx, 0, n), part(dx, n, 2*n), part(dx, 2*n, x.Rows)
	if m.relations != nil {
		q.Gather(r, m.relations.Value, b.Relations)
		q.Fill(dr, 0)
	}
	m.drop(p, x, r)
	query := m.decoder.Query(p, known, r)
	m.decoder.Pairs(p, query, answers, scores.View(0, 0, n, 1))
	// chunks calls f with the queries, their scores and the negatives of each chunk that has queries.
	chunks := func(f func(c, lo, hi int, s, e gpu.Tensor)) {
		lo := 0
		for c, hi := range b.Chunks {
			if hi > lo {
				f(c, lo, hi, scores.View(lo, 1, hi-lo, b.Negatives), part(negatives, c*b.Negatives, (c+1)*b.Negatives))
			}
			lo = hi
		}
	}
	bias := a.Matrix(q, 1, b.Negatives)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	chunks(func(c, lo, hi int, s, e gpu.Tensor) {
		m.decoder.Scores(p, part(query, lo, hi), e, s)
		if b.Corrections != nil {
			q.Fill(bias, b.Corrections[c])
			q.AddBias(false, bias, s)
		}
	})
	if !b.Mask.IsZero() {
		q.SetElements(scores, b.Mask, gpu.Masked)
	}
	q.LinkLoss(m.cfg.Loss, scores, scores, m.Stat()) // scores hold their gradients from here on

	dQuery := a.Matrix(q, n, dim)
	dStates := a.Matrix(q, states.Rows, dim)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Fill(dQuery, 0)
	q.Fill(part(dx, 0, 2*n), 0)
	for c, hi := range b.Chunks {
		if hi == 0 || c > 0 && hi == b.Chunks[c-1] { // no query: ScoresBackward does not set these
			q.Fill(part(dNegatives, c*b.Negatives, (c+1)*b.Negatives), 0)
		}
	}
	m.decoder.PairsBackward(p, query, answers, scores.View(0, 0, n, 1), dQuery, dAnswers)
	chunks(func(c, lo, hi int, s, e gpu.Tensor) {
		m.decoder.ScoresBackward(p, part(query, lo, hi), e, s, part(dQuery, lo, hi), part(dNegatives, c*b.Negatives, (c+1)*b.Negatives))
	})
	m.decoder.QueryBackward(p, known, r, dQuery, dKnown, dr)
	if m.cfg.N3 > 0 {
		cubes(p, m.cfg.N3, part(x, 0, 2*n), part(dx, 0, 2*n))
		if m.regular() {
			cubes(p, m.cfg.N3, r, dr)
		}
	}
	m.drop(p, dx, dr)
	if m.relations != nil {
		q.Fill(m.relations.Grad, 0)
		q.ScatterAddRows(m.relations.Grad, b.Relations, dr)
	}
	q.Fill(dStates, 0)
	q.ScatterAddRows(dStates, b.Rows, dx)
	return dStates
}

// drop drops numbers of a batch's rows and relations, or those of their gradients.
func (m *LinkModel) drop(p *Pass, x, r gpu.Tensor) {
	if m.cfg.Dropout == 0 || !p.Train {
		return
	}
	p.Queue.Dropout(p.mask(m.cfg.Dropout, 0), x)
	if m.relations != nil {
		p.Queue.Dropout(p.mask(m.cfg.Dropout, 1), r)
	}
}

// regular reports whether the regulariser is of relations too: those of rotate have their modulus anyway.
func (m *LinkModel) regular() bool { return m.relations != nil && m.cfg.Decoder != RotatE }

// LossBytes bounds the arena's memory for Encode without an encoder and Loss, for a batch of so many
// queries in chunks of negatives each.
func (c *LinkConfig) LossBytes(queries, chunks, negatives int) int64 {
	n, m := int64(queries), int64(chunks)*int64(negatives)
	rows, dim := 2*n+m, int64(c.Dim)
	// States, their gradient, x and dx; queries and their gradient; scores and their correction.
	elements, tensors := 4*rows*dim+2*n*dim+n*int64(1+negatives)+int64(negatives), int64(8)
	if c.Decoder != Dot { // relations and their gradient
		elements += 2 * n * dim
		tensors += 2
	}
	if c.Decoder == TransE || c.Decoder == RotatE { // differences there and back; sums, ones and mixed rows of a chunk's two sides
		elements += 4*n*dim + (n+m)*(2+dim)
		tensors += 4 + 6*int64(chunks)
	}
	if c.Decoder == RotatE { // see Constrain
		elements += 4 * int64(c.Relations) * dim
		tensors += 4
	}
	if c.N3 > 0 { // see cubes
		elements += 4 * n * dim
		tensors += 2
		if c.Decoder != Dot && c.Decoder != RotatE {
			elements += 2 * n * dim
			tensors += 2
		}
	}
	return 4*elements + tensors*gpu.ArenaAlign
}

// Query returns the queries [n×Dim] of known ends [n×Dim] and rows of
// relations (as in LinkBatch), in p's arena.
func (m *LinkModel) Query(p *Pass, known, relations gpu.Tensor) gpu.Tensor {
	var r gpu.Tensor
	if m.relations != nil {
		r = p.Arena.Matrix(p.Queue, known.Rows, m.cfg.Dim)
		if p.Queue.Err() != nil {
			return r
		}
		p.Queue.Gather(r, m.relations.Value, relations)
	}
	return m.decoder.Query(p, known, r)
}

// Score sets out [n×m] to the scores of n queries with candidates [m×Dim]. A score
// depends on its query and candidate alone, not on what else is scored.
func (m *LinkModel) Score(p *Pass, query, candidates, out gpu.Tensor) {
	m.decoder.Scores(p, query, candidates, out)
}
