package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// prepareOutputs makes room for what the options ask for beside accuracy and loss, of Options.Nodes alone or of all nodes.
func (r *evaluation) prepareOutputs(ctx context.Context, model *nn.Model, few bool) error {
	e, c := r.Evaluator, model.Config()
	for _, s := range []**spill.Table{&e.classes, &e.probability, &e.probabilities, &e.embeddings} { // of the run before
		(*s).Close()
		*s = nil
	}
	nodes := r.src.Manifest().Nodes
	if e.keptOf = nil; few {
		e.keptOf, nodes = e.o.Nodes, uint64(len(e.o.Nodes))
	}
	table := func(wanted bool, to **spill.Table, columns int) (err error) {
		if wanted {
			*to, err = spill.New(nodes, 4*int64(columns), r.memory, r.src.ScratchDir())
		}
		return err
	}
	width := c.Out // of a single layer: the logits
	if model.Jumps() {
		width = model.JumpDim()
	}
	for _, err := range []error{table(r.o.Predictions, &e.classes, 1), table(r.o.Predictions, &e.probability, 1),
		table(r.o.Probabilities, &e.probabilities, c.Out),
		table(r.o.Embeddings && (model.Jumps() || len(model.Layers()) == 1), &e.embeddings, width)} {
		if err != nil {
			return err
		}
	}
	for i := range r.metrics {
		if r.confusion {
			r.metrics[i].Confusion = newConfusion(c.Out)
		}
		if r.ranks() {
			r.metrics[i].Ranking = newRanking()
		}
		if r.o.Calibration {
			r.metrics[i].Calibration = new(Calibration)
		}
	}
	if !r.o.AUC || len(r.splits) == 0 {
		return nil
	}
	counts, read, err := countSplits(ctx, r.src, r.Evaluator.split)
	r.Evaluator.read += read
	if err != nil {
		return err
	}
	for _, s := range r.splits {
		t, err := newScores(c.Out, counts[s], r.sets, r.memory, r.src.ScratchDir())
		if err != nil {
			return err
		}
		r.scores = append(r.scores, t)
	}
	return nil
}

// ranks reports whether margins are counted.
func (e *Evaluator) ranks() bool {
	c := &e.o.Model
	return e.o.Ranking && c.Out == 2 && c.Numbers == nil && !c.MultiLabel
}

// CountConfusion makes the runs that follow count labels against predictions, as [Options].Confusion does.
func (e *Evaluator) CountConfusion() {
	e.confusion = e.o.Model.Numbers == nil && !e.o.Model.MultiLabel
}

// MeasureAreas makes the runs that follow compute areas under curves of some splits, as [Options].AUC does, within memory bytes together with
// what that takes; 0: no bound. What earlier runs kept is given up. Where there is no room it changes nothing and returns false.
func (e *Evaluator) MeasureAreas(ctx context.Context, memory int64, splits []string) (bool, error) {
	bytes, err := AUCBytes(ctx, e.src, e.split, splits)
	if err != nil {
		return false, err
	}
	was := e.o.MemoryBytes
	e.o.AUC = true
	if memory > 0 {
		memory = max(memory-bytes, 1)
	}
	err = e.Rebound(memory)
	if errors.Is(err, store.ErrBudget) {
		e.o.AUC = false
		return false, e.Rebound(was)
	}
	return true, err
}

// chunkValues is a chunk's outputs on the host.
type chunkValues struct {
	logits, states, probability []float32
	classes                     []int32
}

// keep takes what was asked for from a chunk of logits; see score.
func (r *evaluation) keep(ctx context.Context, logits, states gpu.Tensor, lo int, first uint64) error {
	tables := r.embeddings != nil && (r.jumps || r.in == nil)
	if !tables && !r.confusion && !r.ranks() && !r.o.Calibration && !r.o.AUC && !r.o.Predictions && !r.o.Probabilities {
		return nil
	}
	q, n := r.queue, logits.Rows
	b := &r.chunk
	b.logits = slices.Grow(b.logits[:0], logits.Len())[:logits.Len()]
	q.Download(blocks.Bytes(b.logits), logits)
	if tables {
		b.states = slices.Grow(b.states[:0], states.Len())[:states.Len()]
		q.Download(blocks.Bytes(b.states), states)
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	if tables {
		if err := r.embeddings.Write(blocks.Bytes(b.states), first); err != nil {
			return err
		}
	}
	if r.o.Predictions {
		b.classes, b.probability = slices.Grow(b.classes[:0], n)[:n], slices.Grow(b.probability[:0], n)[:n]
		for i := range n {
			b.classes[i], b.probability[i] = predict(b.logits[i*logits.Cols : (i+1)*logits.Cols])
		}
		if err := r.classes.Write(blocks.Bytes(b.classes), first); err != nil {
			return err
		}
		if err := r.probability.Write(blocks.Bytes(b.probability), first); err != nil {
			return err
		}
	}
	for i, split := range r.splits {
		labels := asInt32(r.labels)[lo : lo+n]
		r.masked = r.masked[:0]
		for k, l := range labels {
			if r.split[lo+k] != split {
				l = -1
			}
			if l >= 0 && r.confusion {
				r.metrics[i].Confusion.Counts[int(l)*logits.Cols+int(likeliest(b.logits[k*logits.Cols:(k+1)*logits.Cols]))]++
			}
			if rank := r.metrics[i].Ranking; l >= 0 && rank != nil {
				rank.add(l, b.logits[2*k+1]-b.logits[2*k])
			}
			r.calibrate(i, b.logits[k*logits.Cols:(k+1)*logits.Cols], l)
			r.masked = append(r.masked, l)
		}
		if r.o.AUC {
			if err := r.scores[i].add(b.logits, r.masked); err != nil {
				return err
			}
		}
	}
	if !r.o.Probabilities {
		return nil
	}
	for i := range n { // in place: the logits are of no further use
		switch row := b.logits[i*logits.Cols : (i+1)*logits.Cols]; {
		case r.scale != nil:
			row[0] = r.scale.Of(row[0])
		case r.o.Model.MultiLabel:
			Sigmoid(row)
		default:
			Softmax(row)
		}
	}
	return r.probabilities.Write(blocks.Bytes(b.logits), first)
}

// Softmax turns logits into probabilities.
func Softmax(logits []float32) {
	top, sum := float64(slices.Max(logits)), 0.
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	for c, v := range logits {
		logits[c] = float32(math.Exp(float64(v)-top) / sum)
	}
}

// likeliest is the class of the largest logit, the first of equals.
func likeliest(logits []float32) (class int32) {
	for c, v := range logits {
		if v > logits[class] {
			class = int32(c)
		}
	}
	return class
}

// predict returns the likeliest class and its probability under the softmax.
func predict(logits []float32) (class int32, probability float32) {
	class = likeliest(logits)
	sum := 0.
	for _, v := range logits {
		sum += math.Exp(float64(v - logits[class]))
	}
	return class, float32(1 / sum)
}

// NodeValues are values of every node, by internal id, or of [Options].Nodes.
type NodeValues struct {
	Elem  blocks.ElemType
	Dim   int
	table *spill.Table
	parts []store.PartitionInfo
	of    []store.NodeID // nil: all
}

// Read fills rows with those of partition p's nodes from its first-th on. Of a node that was not asked for it fails with [store.ErrNotFound].
func (v *NodeValues) Read(_ context.Context, p store.PartitionID, first uint64, rows []byte) error {
	node := uint64(v.parts[p].First) + first
	if v.of == nil {
		return v.table.Read(rows, node)
	}
	for ; len(rows) > 0; rows, node = rows[v.table.RowBytes:], node+1 {
		k, ok := slices.BinarySearch(v.of, store.NodeID(node))
		if !ok {
			return fmt.Errorf("%w: values of node %d, which was not asked for", store.ErrNotFound, node)
		}
		if err := v.table.Read(rows[:v.table.RowBytes], uint64(k)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Evaluator) values(t *spill.Table, elem blocks.ElemType) *NodeValues {
	if t == nil {
		return nil
	}
	return &NodeValues{Elem: elem, Dim: int(t.RowBytes / 4), table: t, parts: e.src.Manifest().Partitions, of: e.keptOf}
}

// Predictions returns every node's class, int32, and its probability, float32; nil unless the
// last run was asked for them. They are valid until the next run or Close.
func (e *Evaluator) Predictions() (classes, probability *NodeValues) {
	return e.values(e.classes, blocks.Int32), e.values(e.probability, blocks.Float32)
}

// Probabilities returns every node's probability of every class, float32. Like Predictions.
func (e *Evaluator) Probabilities() *NodeValues { return e.values(e.probabilities, blocks.Float32) }

// Embeddings returns every node's exact state below the model's last product, float32: the last
// hidden layer's, what jumping combines, or, of a single layer, the logits. Like Predictions.
func (e *Evaluator) Embeddings() *NodeValues { return e.values(e.embeddings, blocks.Float32) }

// Trim frees everything but what the last run kept of every node, and returns the bytes of memory
// that this takes: what does not lie in a file. The evaluator is of no further use.
func (e *Evaluator) Trim() (int64, error) {
	tables := []**spill.Table{&e.classes, &e.probability, &e.probabilities, &e.embeddings}
	held := make([]*spill.Table, len(tables))
	var bytes int64
	for i, t := range tables {
		held[i], *t = *t, nil
		bytes += held[i].Memory()
	}
	err := e.Close()
	for i, t := range tables {
		*t = held[i]
	}
	return bytes, err
}
