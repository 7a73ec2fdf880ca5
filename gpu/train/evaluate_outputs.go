package train

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// prepareOutputs makes room for what the options ask for beside accuracy and loss.
func (r *evaluation) prepareOutputs(ctx context.Context, model *nn.Model) error {
	e, c := r.Evaluator, model.Config()
	for _, s := range []**states{&e.classes, &e.probabilities, &e.embeddings} { // of the run before
		(*s).close()
		*s = nil
	}
	nodes := r.src.Manifest().Nodes
	table := func(wanted bool, to **states, columns int) (err error) {
		if wanted {
			*to, err = newStates(nodes, 4*int64(columns), r.memory, r.o.TempDir)
		}
		return err
	}
	width := c.Out // of a single layer: the logits
	if model.Jumps() {
		width = model.JumpDim()
	}
	for _, err := range []error{table(r.o.Predictions, &e.classes, 1), table(r.o.Predictions, &e.probabilities, 1),
		table(r.o.Embeddings && (model.Jumps() || c.Layers == 1), &e.embeddings, width)} {
		if err != nil {
			return err
		}
	}
	for i := range r.metrics {
		if r.o.Confusion {
			r.metrics[i].Confusion = newConfusion(c.Out)
		}
	}
	if !r.o.AUC || len(r.splits) == 0 {
		return nil
	}
	counts, err := r.countSplits(ctx)
	if err != nil {
		return err
	}
	for _, s := range r.splits {
		if need := 16 * int64(counts[s]); r.o.MemoryBytes > 0 && need > r.o.MemoryBytes {
			return fmt.Errorf("%w: the area under the ROC curve takes %d bytes for a split of %d nodes: leave it out", store.ErrBudget, need, counts[s])
		}
		t, err := newScores(c.Out, counts[s], r.memory, r.o.TempDir)
		if err != nil {
			return err
		}
		r.scores = append(r.scores, t)
	}
	return nil
}

// chunkValues is a chunk's outputs on the host.
type chunkValues struct {
	logits, states, probabilities []float32
	classes                       []int32
}

// keep takes what was asked for from a chunk of logits; see score.
func (r *evaluation) keep(ctx context.Context, logits, states gpu.Tensor, lo int, first uint64) error {
	tables := r.embeddings != nil && (r.jumps || r.in == nil)
	if !tables && !r.o.Confusion && !r.o.AUC && !r.o.Predictions {
		return nil
	}
	q, n := r.queue, logits.Rows
	b := &r.chunk
	b.logits = resize(b.logits, logits.Len())
	q.Download(blocks.Bytes(b.logits), logits)
	if tables {
		b.states = resize(b.states, states.Len())
		q.Download(blocks.Bytes(b.states), states)
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	if tables {
		if err := r.embeddings.write(blocks.Bytes(b.states), first); err != nil {
			return err
		}
	}
	b.classes, b.probabilities = resize(b.classes, n), resize(b.probabilities, n)
	for i := range n {
		b.classes[i], b.probabilities[i] = predict(b.logits[i*logits.Cols : (i+1)*logits.Cols])
	}
	if r.o.Predictions {
		if err := r.classes.write(blocks.Bytes(b.classes), first); err != nil {
			return err
		}
		if err := r.probabilities.write(blocks.Bytes(b.probabilities), first); err != nil {
			return err
		}
	}
	labels := asInt32(r.labels)[lo : lo+n]
	for i, split := range r.splits {
		r.masked = r.masked[:0]
		for k, l := range labels {
			if r.split[lo+k] != split {
				l = -1
			}
			if l >= 0 && r.o.Confusion {
				r.metrics[i].Confusion.Counts[int(l)*logits.Cols+int(b.classes[k])]++
			}
			r.masked = append(r.masked, l)
		}
		if r.o.AUC {
			if err := r.scores[i].add(b.logits, r.masked); err != nil {
				return err
			}
		}
	}
	return nil
}

// predict returns the class of the largest logit, the first of equals, and its probability under the softmax.
func predict(logits []float32) (class int32, probability float32) {
	for c, v := range logits {
		if v > logits[class] {
			class = int32(c)
		}
	}
	sum := 0.
	for _, v := range logits {
		sum += math.Exp(float64(v - logits[class]))
	}
	return class, float32(1 / sum)
}

// NodeValues are values of every node, by internal id.
type NodeValues struct {
	Elem  blocks.ElemType
	Dim   int
	table *states
	parts []store.PartitionInfo
}

// Read fills rows with those of partition p's nodes from its first-th on.
func (v *NodeValues) Read(_ context.Context, p store.PartitionID, first uint64, rows []byte) error {
	return v.table.read(rows, uint64(v.parts[p].First)+first)
}

func (e *Evaluator) values(t *states, elem blocks.ElemType) *NodeValues {
	if t == nil {
		return nil
	}
	return &NodeValues{Elem: elem, Dim: int(t.rowBytes / 4), table: t, parts: e.src.Manifest().Partitions}
}

// Predictions returns every node's class, int32, and its probability, float32; nil unless the
// last run was asked for them. They are valid until the next run or Close.
func (e *Evaluator) Predictions() (classes, probabilities *NodeValues) {
	return e.values(e.classes, blocks.Int32), e.values(e.probabilities, blocks.Float32)
}

// Embeddings returns every node's exact state below the model's last product, float32: the last
// hidden layer's, what jumping combines, or, of a single layer, the logits. Like Predictions.
func (e *Evaluator) Embeddings() *NodeValues { return e.values(e.embeddings, blocks.Float32) }

// Trim frees everything but what the last run kept of every node, and returns the bytes of memory
// that this takes: what does not lie in a file. The evaluator is of no further use.
func (e *Evaluator) Trim() (int64, error) {
	tables := []**states{&e.classes, &e.probabilities, &e.embeddings}
	held := make([]*states, len(tables))
	var bytes int64
	for i, t := range tables {
		held[i], *t = *t, nil
		bytes += held[i].memory()
	}
	err := e.Close()
	for i, t := range tables {
		*t = held[i]
	}
	return bytes, err
}

// EvaluateOptions says what [Checkpoint.Evaluate] computes and may use.
type EvaluateOptions struct {
	Threads     int      // 0: all processors
	MemoryBytes int64    // of the whole run; 0: no bound
	TempDir     string   // for what does not fit; "": the system's
	Splits      []string // whose metrics: "train", "valid", "test"

	Confusion, AUC, Predictions, Embeddings bool // see [EvaluatorOptions]
}

// Evaluation is a model's exact outputs on a store: metrics of the splits asked for, in their order,
// and what the options keep of every node. Close frees it.
type Evaluation struct {
	*Evaluator
	Metrics []Metrics
	dev     gpu.Device
}

// Close frees what the evaluation kept.
func (e *Evaluation) Close() error { return firstError(e.Evaluator.Close(), e.dev.Close()) }

// Evaluate computes the exact outputs of a checkpoint's model on a store, which stays open
// as long as the result.
func (c *Checkpoint) Evaluate(ctx context.Context, st *store.Store, o EvaluateOptions) (_ *Evaluation, err error) {
	m := st.Manifest()
	if m.Schema.Classes != c.Model.Out {
		return nil, fmt.Errorf("train: the model has %d classes, the store %d", c.Model.Out, m.Schema.Classes)
	}
	dev := host.New(host.Options{Threads: o.Threads})
	defer func() {
		if err != nil {
			err = firstError(err, dev.Close())
		}
	}()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, q.Close()) }()
	model, err := nn.New(ctx, q, c.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, model.Close()) }()
	if err := model.Params().Load(ctx, q, c.Params); err != nil {
		return nil, err
	}
	memory := o.MemoryBytes
	if memory > 0 {
		memory = max(memory-programBytes, 1)
	}
	e, err := NewEvaluator(st, dev, EvaluatorOptions{Features: c.Config.Features, Split: c.Config.Split, MemoryBytes: memory, TempDir: o.TempDir, Model: c.Model,
		Confusion: o.Confusion, AUC: o.AUC, Predictions: o.Predictions, Embeddings: o.Embeddings}, max(c.Model.Hidden, c.Model.Out))
	if err != nil {
		return nil, err
	}
	metrics, err := e.Run(ctx, q, model, o.Splits...)
	if err != nil {
		return nil, firstError(err, e.Close())
	}
	return &Evaluation{Evaluator: e, Metrics: metrics, dev: dev}, nil
}
