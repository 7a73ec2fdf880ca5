package link

import (
	"context"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// admitRows makes a mini-batch's rows those of tables that the device reads: the macro-batch's, or what it keeps of them.
func (t *trainer) admitRows(x *minibatch) (tables []gpu.Tensor, err error) {
	tables, x.index, _ = t.rows.Admit(t.queue, t.pipe.Arena(), t.all(x.e), x.rows, nil)
	if tables == nil { // a run has embeddings, or features
		err = t.queue.Sync(context.Background())
	}
	return tables, err
}

// featured is the input of a run whose nodes have no learned vectors.
type featured struct{ t *trainer }

func (s *featured) admit(x *minibatch) (err error) {
	x.in.Tables, err = s.t.admitRows(x)
	x.in.Index = x.index
	return err
}

// learned are vectors that are learned, and features beside them.
type learned struct{ t *trainer }

func (s *learned) admit(x *minibatch) error {
	tables, err := s.t.admitRows(x)
	if tables == nil {
		return err
	}
	states := len(x.e.state)
	x.e = &embeddings{value: tables[0], state: tables[1:][:states]}
	x.in = nn.Input{Tables: append([]gpu.Tensor{x.e.value}, tables[1+states:]...), Index: x.index}
	return nil
}

// shadowed are learned vectors, those of absent nodes as they were last.
type shadowed struct {
	learned
	absent *absent
}

func (s *shadowed) admit(x *minibatch) error {
	x.rows = x.extra.resident
	if err := s.learned.admit(x); err != nil {
		return err
	}
	x.in = s.absent.input(s.t.queue, s.t.pipe.Arena(), x.e.value, x.index, x.extra.absent)
	return nil
}

// encoded places a mini-batch's blocks on the device, input first; none without an encoder.
type encoded struct {
	t       *trainer
	degrees *degrees // nil: the encoder reads none
}

// degrees are those of a mini-batch's sources. A degree counts the edges of both directions, a self loop twice.
type degrees struct{ of []int32 }

func (s *encoded) place(x *minibatch) []gpu.Graph {
	if len(x.Blocks) == 0 {
		return nil
	}
	q, a, from := s.t.queue, s.t.pipe.Arena(), s.t.batches.graph
	if d := s.degrees; d != nil {
		d.of = resize(d.of, len(x.Input))
		for i, row := range x.Input {
			d.of[i] = int32(from.In.Degree(row) + from.Out.Degree(row))
		}
	}
	graphs := make([]gpu.Graph, len(x.Blocks))
	for i := range x.Blocks {
		k := &x.Blocks[i]
		g := gpu.Graph{NumDst: k.NumDst, NumSrc: k.NumSrc, Indptr: a.Int32s(q, k.Indptr), Indices: a.Int32s(q, k.Indices)}
		if s.degrees != nil { // a block's sources are the first of the input
			g.SrcDegrees, g.DstDegrees = a.Int32s(q, s.degrees.of[:k.NumSrc]), a.Int32s(q, k.Degrees)
		}
		graphs[i] = g
	}
	return graphs
}

// newUpdater is the updater of a run of c.
func newUpdater(c *Config, params *nn.Params) updater {
	var u updater = &byAdagrad{params, c.DenseRate}
	if c.Optimizer == adam {
		u = &byAdam{params, c.DenseRate}
	}
	if c.NoEmbeddings {
		return u
	}
	return &stepRows{u, params, c.Optimizer}
}

// byAdagrad steps the parameters by Adagrad, at a share of the learning rate.
type byAdagrad struct {
	params *nn.Params
	rate   float64
}

func (u *byAdagrad) step(q *gpu.Queue, x *minibatch) {
	u.params.Adagrad(q, RowStep{LR: float32(u.rate * float64(x.lr))}.adagrad())
}

// byAdam does by Adam.
type byAdam struct {
	params *nn.Params
	rate   float64
}

func (u *byAdam) step(q *gpu.Queue, x *minibatch) {
	u.params.Adam(q, u.params.Step(RowStep{LR: float32(u.rate * float64(x.lr))}.adam()))
}

// stepRows steps the rows of learned vectors behind the parameters.
type stepRows struct {
	updater
	params    *nn.Params
	optimizer string
}

func (u *stepRows) step(q *gpu.Queue, x *minibatch) {
	u.updater.step(q, x)
	RowStep{Optimizer: u.optimizer, LR: x.lr, Step: u.params.Steps()}.Rows(q, x.e.value, x.index, x.d, x.e.state...)
	// The rows as they are now: one that is no number makes its column's sum none. They may leave memory, unseen by
	// any later loss, before the run is over.
	x.columns = make([]float32, x.sums.Cols)
	q.Gather(x.d, x.e.value, x.index)
	q.ColumnSum(x.d, x.sums)
	q.Download(floatBytes(x.columns), x.sums)
}
