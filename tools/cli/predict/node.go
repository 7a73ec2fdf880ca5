package predict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
)

// nodes predicts nodes' classes, or finds similar ones, by a model of node classification.
func (p *prediction) nodes(ctx context.Context) (err error) {
	path, which, err := models.Find(ctx, p.st, p.checkpoint)
	if slices.Contains(p.changed, "filter") && (err != nil || !targets.IsFile(path)) {
		return command.Usagef("--filter is for link prediction and recommendations; the store's task is node classification")
	}
	if err != nil {
		return err
	}
	p.which = which
	if p.explain != "" && (temporal.IsFile(path) || targets.IsFile(path)) {
		return command.Usagef("--explain is for models of nodes' classes and numbers (gstore train), which %s is not", path)
	}
	if temporal.IsFile(path) {
		return p.moments(ctx, path)
	}
	if targets.IsFile(path) {
		return p.entities(ctx, path)
	}
	if p.at != "" || p.rows != "" {
		return command.Usagef("--at and --entities are for models of targets of rows (gstore train --targets), which %s is not", path)
	}
	if p.nearest == "" && p.explain == "" && slices.Contains(p.changed, "top") {
		return command.Usagef("--top is for links and with --nearest and --explain; every node has all its probabilities")
	}
	cp, err := models.Load(p.env, p.st.Manifest(), path)
	if err != nil {
		return err
	}
	var q *questions // nil: all nodes
	if len(p.args) > 0 || p.input != "" || p.nearest != "" {
		if q, err = p.readQuestions(ctx, false); err != nil {
			return err
		}
		defer q.close()
	}
	names, holders, err := p.names()
	if err != nil {
		return err
	}
	defer names.Close()
	if p.explain != "" {
		return p.why(ctx, cp, q, names)
	}
	if p.nearest != "" {
		least, err := eval.SimilarBytes(p.st, cp.Model.StateDim(), p.top)
		if err != nil {
			return err
		}
		holders = append(holders, budget.Holder{Name: "answers", Bytes: least})
	}
	nodes, err := p.few(q)
	if err != nil {
		return err
	}
	holders = append(holders, budget.Holder{Name: "asked nodes", Bytes: int64(len(nodes)) * 8})
	done := p.env.Working("computing nodes' states")
	r, err := cp.Evaluate(ctx, p.st, p.dev, train.EvaluateOptions{MemoryBytes: int64(p.mem), Held: holders, Nodes: nodes,
		Predictions: p.nearest == "", Probabilities: p.nearest == "", Embeddings: p.nearest != ""})
	done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	p.read = r.BytesRead()
	held, err := r.Trim()
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // the evaluation's heap: what follows has its memory
	switch {
	case p.nearest != "":
		return p.similar(ctx, q, r.Embeddings(), names, held)
	case q == nil:
		return p.allClasses(ctx, cp, r, held)
	}
	return p.classes(ctx, cp, q, r, names)
}

// few are the nodes that are asked for, ascending and each once; nil where that is any, or too many for it to matter which.
func (p *prediction) few(q *questions) ([]store.NodeID, error) {
	if q == nil || p.nearest != "" || q.n > p.st.Manifest().Nodes/4 {
		return nil, nil
	}
	nodes := make([]store.NodeID, 0, q.n)
	err := q.each(questionsBatch, func(_ uint64, list []eval.Question) error {
		for _, k := range list {
			nodes = append(nodes, k.Node)
		}
		return nil
	})
	slices.Sort(nodes)
	return slices.Compact(nodes), err
}

// similar finds the nodes most similar to those asked for by rows of values.
func (p *prediction) similar(ctx context.Context, q *questions, values *eval.NodeValues, names *export.Names, held int64) (err error) {
	o := eval.RankerOptions{Threads: p.threads, Top: p.top, MemoryBytes: budget.Beside(int64(p.mem), held+p.heldBytes)}
	f, err := eval.OpenSimilar(ctx, p.st, p.dev, values, p.nearest, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return p.answer(ctx, q, f.Finder, names)
}

// classWriter writes rows of classes.
type classWriter struct {
	*rows
	numbers bool     // no classes: a number a node
	several bool     // any number of labels a node
	names   []string // of classes; nil: their numbers
	classes int
	values  []any
}

// openClasses begins the output: node, class, its probability, and that of every class.
func (p *prediction) openClasses(cp *train.Checkpoint) (*classWriter, error) {
	w := &classWriter{classes: cp.Model.Out, names: cp.Classes(p.st.Manifest()), several: cp.Model.MultiLabel}
	if cp.Model.Numbers != nil {
		w.numbers, w.classes = true, 0
	}
	columns := []column{{"node", integers, 10}, {"class", integers, 5}, {"probability", numbers, 11}}
	first := len(columns)
	switch {
	case w.numbers:
		columns = []column{{"node", integers, 10}, {"value", numbers, 11}}
	case w.several:
		columns, first = []column{{"node", integers, 10}, {"labels", words, 24}}, 2
	}
	if p.st.Manifest().IDs.Kind == store.IDsStrings {
		columns[0].kind, columns[0].wide = words, 16
	}
	if w.names != nil && !w.numbers && !w.several {
		columns[1].kind = words
		for _, name := range w.names {
			columns[1].wide = max(columns[1].wide, len([]rune(name)))
		}
	}
	width := 0
	for c := range w.classes {
		columns = append(columns, column{"p_" + text(w.class(c)), numbers, 8})
	}
	for _, c := range columns {
		width += 2 + max(c.wide, len([]rune(c.name)))
	}
	if p.out == "" && width > command.Width(p.env.Stdout) { // a table is for people: other formats have all of them
		for c := range w.classes {
			columns[first+c].wide = 0
		}
	}
	w.values = make([]any, len(columns))
	var err error
	w.rows, err = p.open(columns)
	return w, err
}

// class is a class as the user knows it.
func (w *classWriter) class(c int) any {
	if w.names != nil {
		return w.names[c]
	}
	return uint64(c)
}

// write writes a node: its class, and float32 probabilities; or its number alone, which is float32.
func (w *classWriter) write(node any, class uint32, probabilities []byte) error {
	of := func(c int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(probabilities[4*c:])) }
	if w.numbers {
		w.values[0], w.values[1] = node, of(0)
		return w.add(w.values...)
	}
	if w.several {
		w.values[0], w.values[1] = node, w.said(of)
		for c := range w.classes {
			w.values[2+c] = of(c)
		}
		return w.add(w.values...)
	}
	w.values[0], w.values[1], w.values[2] = node, w.class(int(class)), of(int(class))
	for c := range w.classes {
		w.values[3+c] = of(c)
	}
	return w.add(w.values...)
}

// said lists the labels that are likelier than not, with | between them, as ingest takes them.
func (w *classWriter) said(of func(c int) float32) string {
	var list []string
	for c := range w.classes {
		if of(c) > .5 {
			list = append(list, text(w.class(c)))
		}
	}
	return strings.Join(list, "|")
}

// classesOf reads every node's class; of a model that has none, its numbers or probabilities, so that callers read rows of one form.
func classesOf(r *train.Evaluation) *eval.NodeValues {
	if classes, _ := r.Predictions(); classes != nil {
		return classes
	}
	return r.Probabilities()
}

// allClasses writes every node.
func (p *prediction) allClasses(ctx context.Context, cp *train.Checkpoint, r *train.Evaluation, held int64) error {
	w, err := p.openClasses(cp)
	if err != nil {
		return err
	}
	all := r.Probabilities()
	classes := classesOf(r)
	filter, err := p.filterNodes()
	if err != nil {
		return err
	}
	columns := []export.NodeColumn{{Name: "class", Elem: classes.Elem, Dim: classes.Dim, Read: classes.Read}, {Name: "probabilities", Elem: all.Elem, Dim: all.Dim, Read: all.Read}}
	columns = append(columns, filter.columns...)
	bar := p.progress(int64(p.st.Manifest().Nodes), "nodes")
	err = export.Nodes(ctx, p.st, columns, export.Options{MemoryBytes: int64(p.mem), HeldBytes: held}, func(n *export.NodeRows) error {
		for i := range n.N {
			if !filter.takes(n.Rows[2:], i) {
				continue
			}
			var id any
			if n.Ints != nil {
				id = n.Ints[i]
			} else {
				id = string(n.Text(i))
			}
			if err := w.write(id, binary.LittleEndian.Uint32(n.Rows[0][4*classes.Dim*i:]), n.Rows[1][4*all.Dim*i:4*all.Dim*(i+1)]); err != nil {
				return err
			}
		}
		return bar.Add(n.N)
	})
	_ = bar.Finish()
	if err = w.end(err); err != nil {
		return err
	}
	p.finish(w.n)
	return nil
}

// classes writes the nodes that are asked for, in their order.
func (p *prediction) classes(ctx context.Context, cp *train.Checkpoint, q *questions, r *train.Evaluation, names *export.Names) error {
	w, err := p.openClasses(cp)
	if err != nil {
		return err
	}
	m := p.st.Manifest()
	classes := classesOf(r)
	all := r.Probabilities()
	class, row := make([]byte, 4*classes.Dim), make([]byte, 4*all.Dim)
	err = q.each(questionsBatch, func(_ uint64, list []eval.Question) error {
		nodes := make([]store.NodeID, len(list))
		for i, k := range list {
			nodes[i] = k.Node
		}
		ints, text, err := names.Of(ctx, nodes)
		if err != nil {
			return err
		}
		for i, n := range nodes {
			part, err := m.Partition(n)
			if err != nil {
				return err
			}
			at := uint64(n - m.Partitions[part].First)
			if err := errors.Join(classes.Read(ctx, part, at, class), all.Read(ctx, part, at, row)); err != nil {
				return fmt.Errorf("node %d: %w", n, err)
			}
			var id any
			if ints != nil {
				id = ints[i]
			} else {
				id = string(text[i])
			}
			if err := w.write(id, binary.LittleEndian.Uint32(class), row); err != nil {
				return err
			}
		}
		return nil
	})
	if err = w.end(err); err != nil {
		return err
	}
	p.finish(w.n)
	return nil
}
