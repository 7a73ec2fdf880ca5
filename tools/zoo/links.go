package zoo

import (
	"math"
	"path/filepath"
	"slices"
)

// links compares the ranks that eval reports with those of a full sort of plain scores.
func (r *run) links(o *Outcome, m *model, summary map[string]any) error {
	if r.c.Is("lists", "given", "shared") || r.c.Is("format", "triples") && m.Encoder != "none" {
		return nil
	}
	return r.checked("ranks", o.Args, r.ranks(m, summary))
}

// asked is an edge of a list.
type asked struct{ src, relation, dst int }

func (r *run) ranks(m *model, summary map[string]any) error {
	dir := r.at("model")
	vectors := &Content{Nodes: map[string]*Row{}}
	if err := vectors.readNodes(filepath.Join(dir, "nodes.tsv")); err != nil {
		return err
	}
	c := *r.content
	if len(c.Nodes) == 0 {
		c.Nodes = vectors.Nodes
	}
	p, err := r.plain(&c, m.Relations)
	if err != nil {
		return err
	}
	states, err := m.linkStates(p, vectors)
	if err != nil {
		return err
	}
	relations := max(len(m.Relations), 1)
	known := map[asked]bool{}
	for _, e := range p.edges {
		known[asked{e.src, e.relation, e.dst}] = true
	}
	lists := map[string][]asked{}
	for _, l := range r.g.Lists {
		for _, e := range l.Edges {
			q := asked{p.number[r.g.Nodes[e.Src].ID], 0, p.number[r.g.Nodes[e.Dst].ID]}
			if len(r.g.Relations) > 1 || r.c.Is("format", "triples") {
				q.relation = slices.Index(m.Relations, r.g.Relations[e.Relation].Name)
			}
			if q.relation < 0 {
				return errorf("the model has no relation %s", r.g.Relations[e.Relation].Name)
			}
			lists[l.Name] = append(lists[l.Name], q)
			known[q] = true
		}
	}
	for name, list := range lists {
		if len(list) == 0 {
			continue
		}
		low, high := 0., 0.
		for _, q := range list {
			for _, tails := range []bool{true, false} {
				a, answer, vector := q.src, q.dst, q.relation
				if !tails {
					a, answer, vector = q.dst, q.src, q.relation+relations
				}
				scores := make([]float64, len(p.ids))
				for b := range scores {
					scores[b] = m.score(states.row(a), states.row(b), vector)
				}
				// Numbers of 32 bits may take nearly equal ones for equal: the rank lies between two.
				eps := 1e-4 * (1e-3 + math.Abs(scores[answer]))
				above, near := 0., 0.
				for b, s := range scores {
					other := asked{a, q.relation, b}
					if !tails {
						other = asked{b, q.relation, a}
					}
					switch {
					case b == answer || known[other]:
					case s > scores[answer]+eps:
						above++
					case s >= scores[answer]-eps:
						near++
					}
				}
				high += 1 / (1 + above)
				low += 1 / (1 + above + near)
			}
		}
		n := float64(2 * len(list))
		if got := number(summary[name+"_queries"]); got != n {
			return errorf("%s has %v questions, expected %v", name, got, n)
		}
		if got := number(summary[name+"_mrr"]); !(got >= low/n-1e-6 && got <= high/n+1e-6) {
			return errorf("MRR of %s is %v, by a full sort between %v and %v", name, got, low/n, high/n)
		}
	}
	return nil
}

// linkStates are what scores are of: embeddings, or an encoder's states of them.
func (m *model) linkStates(p *plain, vectors *Content) (matrix, error) {
	var h matrix
	for v, id := range p.ids {
		x := vectors.Nodes[id].Columns["embedding"]
		if h.x == nil {
			h = newMatrix(len(p.ids), len(x))
		}
		for k, y := range x {
			h.row(v)[k] = float64(y)
		}
	}
	if w, ok := m.tensors["input.weight"]; ok {
		features, _, err := m.inputs(p)
		if err != nil {
			return h, err
		}
		z := multiply(features, w)
		if len(h.x) == 0 {
			h = newMatrix(z.rows, z.cols)
		}
		for i, x := range z.x {
			h.x[i] += x
		}
	}
	if len(m.Layers) == 0 {
		return h, nil
	}
	layers := *m
	layers.Layers = slices.DeleteFunc(slices.Clone(m.Layers), func(l layer) bool { return l.Kind == "input" })
	return layers.forward(h, nil, p.neighbours(m.Undirected, true, 0))
}

// score is of a known end a, the r-th relation's vector and a candidate b.
func (m *model) score(a, b []float64, r int) (s float64) {
	if m.Model == "dot" {
		return dot(a, b)
	}
	v := m.tensors["relations"].row(r)
	switch n := len(a) / 2; m.Model {
	case "distmult":
		for k := range a {
			s += a[k] * v[k] * b[k]
		}
	case "complex", "rotate":
		for k := range n {
			re, im := a[k]*v[k]-a[k+n]*v[k+n], a[k]*v[k+n]+a[k+n]*v[k]
			if m.Model == "complex" {
				s += re*b[k] + im*b[k+n]
			} else {
				s -= (re-b[k])*(re-b[k]) + (im-b[k+n])*(im-b[k+n])
			}
		}
	case "transe":
		for k := range a {
			d := a[k] + v[k] - b[k]
			s -= d * d
		}
	default:
		return math.NaN()
	}
	return s
}
