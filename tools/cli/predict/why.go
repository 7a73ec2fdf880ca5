package predict

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/explain"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/tools/cli/command"
)

// explainSaid is --explain without a class: of the one that the model says.
const explainSaid = "predicted"

// reasons are why a model says something of a node, by names.
type reasons struct {
	*explain.Explanation
	node     string
	class    string   // "" of numbers
	ids      []string // of Nodes
	features []featureReason
	edges    []edgeReason
}

// featureReason is a feature's share.
type featureReason struct {
	name  string
	value string // of the node, as the user gave it; "": it has none
	*explain.Feature
}

// edgeReason is the share of an edge, or of several of the same ends and relation.
type edgeReason struct {
	from, to, relation string
	explain.SharedEdge
}

// what is said: the probability of a class or label, or a number.
func (w *reasons) what() string {
	if w.class == "" {
		return "predicted value " + shown(w.Says)
	}
	return fmt.Sprintf("probability of %s %s", w.class, shown(w.Says))
}

// why explains each of the nodes that are asked for, in their order.
func (p *prediction) why(ctx context.Context, cp *train.Checkpoint, q *questions, names *export.Names) error {
	class, err := p.classToExplain(cp)
	if err != nil {
		return err
	}
	if p.format == formatSVG && q.n != 1 {
		return command.Usagef("--out %s: a picture is of one node, %d are named", p.out, q.n)
	}
	out, err := p.openReasons()
	if err != nil {
		return err
	}
	err = q.each(questionsBatch, func(_ uint64, list []eval.Question) error {
		for _, k := range list {
			done := p.env.Working("following what the model says")
			x, err := explain.Explain(ctx, p.st, p.dev, cp, k.Node, explain.Options{Class: class, MemoryBytes: int64(p.mem), HeldBytes: p.heldBytes})
			done()
			if err != nil {
				return fmt.Errorf("node %s: %w", p.idOf(ctx, names, k.Node), err)
			}
			w, err := p.named(ctx, cp, x, names)
			if err != nil {
				return err
			}
			if err := out.write(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err = out.end(err); err != nil {
		return err
	}
	p.finish(out.n)
	return nil
}

// idOf is a node's external id, for messages.
func (p *prediction) idOf(ctx context.Context, names *export.Names, v store.NodeID) string {
	ints, texts, err := names.Of(ctx, []store.NodeID{v})
	switch {
	case err != nil:
		return fmt.Sprintf("number %d", v)
	case ints != nil:
		return strconv.FormatUint(ints[0], 10)
	}
	return string(texts[0])
}

// classToExplain is the number of the class or label that --explain names; −1: the predicted one.
func (p *prediction) classToExplain(cp *train.Checkpoint) (int, error) {
	known := cp.Classes(p.st.Manifest())
	if known == nil {
		for c := range cp.Model.Out {
			known = append(known, strconv.Itoa(c))
		}
	}
	c := slices.Index(known, p.explain)
	switch {
	case cp.Model.Numbers != nil && p.explain != explainSaid:
		return 0, command.Usagef("--explain=%s: the model says numbers, no classes", p.explain)
	case c >= 0 || p.explain == explainSaid:
		return c, nil
	}
	return 0, command.Usagef("--explain=%s: the model's classes are %s", p.explain, few(known))
}

// few lists names, the first ones of many.
func few(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// named gives an explanation the user's names, and puts the largest shares first.
func (p *prediction) named(ctx context.Context, cp *train.Checkpoint, x *explain.Explanation, names *export.Names) (*reasons, error) {
	m := p.st.Manifest()
	ints, texts, err := names.Of(ctx, x.Nodes)
	if err != nil {
		return nil, err
	}
	w := &reasons{Explanation: x, ids: make([]string, len(x.Nodes))}
	for i := range w.ids {
		if ints != nil {
			w.ids[i] = strconv.FormatUint(ints[i], 10)
		} else {
			w.ids[i] = string(texts[i])
		}
	}
	w.node = w.ids[0]
	if cp.Model.Numbers == nil {
		if w.class = strconv.Itoa(x.Class); cp.Classes(m) != nil {
			w.class = cp.Classes(m)[x.Class]
		}
	}
	part, err := m.Partition(x.Nodes[0])
	if err != nil {
		return nil, err
	}
	own := -1
	if t, known := m.TypeOf(part, uint64(x.Nodes[0]-m.Partitions[part].First)); known {
		own = t
	}
	features, edges := x.Shared()
	for _, f := range features {
		name, value := f.Text(m, own)
		w.features = append(w.features, featureReason{name, value, f})
	}
	for _, e := range edges {
		w.edges = append(w.edges, edgeReason{w.ids[e.Src], w.ids[e.Dst], e.RelationName(m), e})
	}
	return w, nil
}

// shown is a number as people read it.
func shown(v float64) string { return strconv.FormatFloat(v, 'f', digits(v), 64) }

// digits are so many that small numbers have four that count, and probabilities four behind the point.
func digits(v float64) int {
	if v = math.Abs(v); v < 10 {
		return 4
	}
	return max(0, 4-int(math.Log10(v)))
}

// signed is shown with a sign.
func signed(v float64) string {
	s := shown(v)
	if !strings.HasPrefix(s, "-") {
		return "+" + s
	}
	return s
}
