package zoo

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// model is an exported model, as docs/models.md has it.
type model struct {
	Task     string        `json:"task"`
	Model    string        `json:"model"`
	Encoder  string        `json:"encoder"`
	Features []modelColumn `json:"features"`
	Edges    []modelColumn `json:"edge_features"`
	Layers   []layer       `json:"layers"`
	Jumping  string        `json:"jumping"`

	Numbers *struct {
		Mean      float64 `json:"mean"`
		Deviation float64 `json:"deviation"`
	} `json:"numbers"`
	Several bool `json:"multi_label"`

	Undirected bool     `json:"undirected"`
	Relations  []string `json:"relations"`
	Inverse    int      `json:"inverse_relations_from"`

	tensors map[string]matrix
}

type modelColumn struct {
	Column    string    `json:"column"`
	Columns   int       `json:"columns"`
	Mean      []float64 `json:"mean"`
	Deviation []float64 `json:"deviation"`
}

type layer struct {
	Kind       string `json:"kind"`
	In         int    `json:"in"`
	Out        int    `json:"out"`
	Heads      int    `json:"heads"`
	MeanHeads  bool   `json:"mean_heads"`
	Bases      int    `json:"bases"`
	Categories []int  `json:"categories"`
	NodeTypes  int    `json:"node_types"`
	Weighted   bool   `json:"edge_weights"`
	EdgeDim    int    `json:"edge_dim"`
	Norm       string `json:"norm"`
	Residual   bool   `json:"residual"`
	Activation string `json:"activation"`
}

// matrix is row-major.
type matrix struct {
	rows, cols int
	x          []float64
}

func (m matrix) row(i int) []float64 { return m.x[i*m.cols : (i+1)*m.cols] }

func newMatrix(rows, cols int) matrix { return matrix{rows, cols, make([]float64, rows*cols)} }

// readModel reads what gstore export --what model wrote.
func readModel(dir string) (*model, error) {
	m := &model{tensors: map[string]matrix{}}
	b, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err == nil {
		err = json.Unmarshal(b, m)
	}
	if err != nil {
		return nil, err
	}
	if b, err = os.ReadFile(filepath.Join(dir, "model.safetensors")); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(b)
	var head map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &head); err != nil {
		return nil, err
	}
	for name, raw := range head {
		var t struct {
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		if name == "__metadata__" {
			continue
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, err
		}
		x := newMatrix(t.Shape[0], t.Shape[1])
		for i := range x.x {
			x.x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[8+int(n)+t.Offsets[0]+4*i:])))
		}
		m.tensors[name] = x
	}
	return m, nil
}

// neighbour is an edge into a node, from u.
type neighbour struct {
	u, relation int
	weight      float64
	features    []float64
}

// plain is a store's content as numbers: what forward passes in plain loops read.
type plain struct {
	ids    []string
	number map[string]int
	rows   []*Row
	edges  []plainEdge
}

type plainEdge struct {
	src, dst, relation int
	weight             float64
	features           []float64
}

// plain numbers the content's nodes, in an order of its own.
func (r *run) plain(c *Content, relations []string) (*plain, error) {
	p := &plain{number: map[string]int{}}
	for id := range c.Nodes {
		p.ids = append(p.ids, id)
	}
	slices.Sort(p.ids)
	for i, id := range p.ids {
		p.number[id] = i
		p.rows = append(p.rows, c.Nodes[id])
	}
	for _, line := range c.Edges {
		f := strings.Split(line, "\t")
		e := plainEdge{src: p.number[f[0]], dst: p.number[f[1]], weight: 1}
		f = f[2:]
		if c.Relation {
			if e.relation, f = slices.Index(relations, f[0]), f[1:]; e.relation < 0 {
				return nil, errorf("the model has no relation of edge %q", line)
			}
		}
		if r.g.Weights {
			w, err := strconv.ParseFloat(f[0], 64)
			if err != nil {
				return nil, err
			}
			e.weight, f = w, f[1:]
		}
		if r.g.Times {
			f = f[1:]
		}
		for _, text := range f {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			e.features = append(e.features, x)
		}
		p.edges = append(p.edges, e)
	}
	return p, nil
}

// neighbours are the edges into each node. both: against their direction too, as relation + inverse.
func (p *plain) neighbours(undirected, both bool, inverse int) [][]neighbour {
	in := make([][]neighbour, len(p.ids))
	for _, e := range p.edges {
		in[e.dst] = append(in[e.dst], neighbour{e.src, e.relation, e.weight, e.features})
		switch {
		case undirected && e.src != e.dst:
			in[e.src] = append(in[e.src], neighbour{e.dst, e.relation, e.weight, e.features})
		case both && !undirected:
			in[e.src] = append(in[e.src], neighbour{e.dst, e.relation + inverse, e.weight, e.features})
		}
	}
	return in
}

// inputs are the model's features of each node, standardised as the model's were, and its categories behind them.
func (m *model) inputs(p *plain) (h matrix, categories [][]int, err error) {
	cols, numbers := 0, m.Features
	if len(m.Layers) > 0 && m.Layers[0].Kind == "input" {
		numbers = m.Features[:len(m.Features)-len(m.Layers[0].Categories)]
		for _, c := range m.Features[len(numbers):] {
			var of []int
			for i, row := range p.rows {
				x, ok := row.Columns[c.Column]
				if !ok {
					return h, nil, errorf("node %q has no %s", p.ids[i], c.Column)
				}
				of = append(of, int(x[0]))
			}
			categories = append(categories, of)
		}
	}
	for _, c := range numbers {
		cols += c.Columns
	}
	h = newMatrix(len(p.ids), cols)
	for i, row := range p.rows {
		at := h.row(i)[:0]
		for _, c := range numbers {
			x, ok := row.Columns[c.Column]
			if !ok || len(x) != c.Columns {
				return h, nil, errorf("node %q has %d numbers of %s, expected %d", p.ids[i], len(x), c.Column, c.Columns)
			}
			for k, v := range x {
				y := float64(v)
				if c.Mean != nil {
					y = (y - c.Mean[k]) / c.Deviation[k]
				}
				at = append(at, y)
			}
		}
	}
	return h, categories, nil
}

// forward computes the layers' states of all nodes with all neighbours, and the logits of those that jump.
func (m *model) forward(h matrix, categories [][]int, in [][]neighbour) (matrix, error) {
	var states []matrix
	n := 0
	for _, l := range m.Layers {
		if l.Kind == "input" {
			y := newMatrix(h.rows, l.Out)
			if w, ok := m.tensors["input.weight"]; ok {
				y = multiply(h, w)
			}
			for k, of := range categories {
				vectors := m.tensors["input."+strconv.Itoa(k)+".vectors"]
				for v := range h.rows {
					add(y.row(v), vectors.row(of[v]), 1)
				}
			}
			h = y
			continue
		}
		var types []int
		if l.NodeTypes > 0 {
			types = categories[l.NodeTypes-1]
		}
		y, err := m.layer(&l, strconv.Itoa(n)+".", h, types, in)
		if err != nil {
			return h, err
		}
		h = y
		states = append(states, h)
		n++
	}
	jump, ok := m.tensors["jump.weight"]
	if !ok {
		return h, nil
	}
	cols := 0
	for _, s := range states {
		cols += s.cols
	}
	if m.Jumping == "max" {
		cols = states[0].cols
	}
	all := newMatrix(h.rows, cols)
	for v := range h.rows {
		row := all.row(v)[:0]
		for k, s := range states {
			if m.Jumping == "max" && k > 0 {
				for j, x := range s.row(v) {
					row[j] = math.Max(row[j], x)
				}
				continue
			}
			row = append(row, s.row(v)...)
		}
	}
	return bias(multiply(all, jump), m.tensors["jump.bias"]), nil
}

// layer computes one layer, whose tensors' names begin with at. types are the nodes', of layers that read them.
func (m *model) layer(l *layer, at string, h matrix, types []int, in [][]neighbour) (y matrix, err error) {
	t := func(name string) matrix { return m.tensors[at+name] }
	switch l.Kind {
	case "sage", "sage-max":
		y = bias(multiply(beside(h, means(h, in, l.Weighted, l.Kind == "sage-max")), t("weight")), t("bias"))
	case "gcn":
		y = bias(multiply(gcnSums(h, in, l.Weighted), t("weight")), t("bias"))
	case "gin":
		y = bias(multiply(sums(h, in), t("0.weight")), t("0.bias"))
		y = activate(normalise(y, t("gamma"), t("beta")))
		y = bias(multiply(y, t("1.weight")), t("1.bias"))
	case "mlp":
		y = bias(multiply(h, t("weight")), t("bias"))
	case "gat":
		y = bias(attend(multiply(h, t("weight")), t("src"), t("dst"), l, in, true, t("edge_weight"), t("edge")), t("bias"))
	case "rgcn":
		y = bias(multiply(rgcnSums(h, in, t("coef")), t("weight")), t("bias"))
	case "hgt":
		y = m.transform(l, at, h, types, in)
	case "rsage", "rgat":
		y = bias(multiply(h, t("weight")), t("bias"))
		w := t("relations")
		for r := range w.rows / h.cols {
			part := matrix{h.cols, w.cols, w.x[r*h.cols*w.cols : (r+1)*h.cols*w.cols]}
			of := ofRelation(in, r)
			z := matrix{}
			if l.Kind == "rsage" {
				z = multiply(means(h, of, false, false), part)
			} else {
				src, dst := t("src"), t("dst")
				each := src.rows / (w.rows / h.cols)
				z = attend(multiply(h, part), matrix{each, 1, src.x[r*each : (r+1)*each]}, matrix{each, 1, dst.x[r*each : (r+1)*each]}, l, of, false, matrix{}, matrix{})
			}
			for i, x := range z.x {
				y.x[i] += x
			}
		}
	default:
		return y, errorf("no layer %s in plain loops", l.Kind)
	}
	switch l.Norm {
	case "layer":
		y = normalise(y, t("norm.gamma"), t("norm.beta"))
	case "batch":
		mean, variance, gamma, beta := t("norm.mean"), t("norm.variance"), t("norm.gamma"), t("norm.beta")
		for v := range y.rows {
			for k, x := range y.row(v) {
				y.row(v)[k] = (x-mean.x[k])/math.Sqrt(variance.x[k]+1e-5)*gamma.x[k] + beta.x[k]
			}
		}
	}
	if l.Residual {
		z := h
		if w, ok := m.tensors[at+"residual"]; ok {
			z = multiply(h, w)
		}
		for i, x := range z.x {
			y.x[i] += x
		}
	}
	switch l.Activation {
	case "relu":
		y = activate(y)
	case "tanh":
		for i, x := range y.x {
			y.x[i] = math.Tanh(x)
		}
	case "none":
	default:
		return y, errorf("no activation %s in plain loops", l.Activation)
	}
	return y, nil
}

func multiply(a, b matrix) matrix {
	y := newMatrix(a.rows, b.cols)
	for v := range a.rows {
		for k, x := range a.row(v) {
			add(y.row(v), b.row(k), x)
		}
	}
	return y
}

// add adds x times b to a.
func add(a, b []float64, x float64) {
	for j, w := range b {
		a[j] += x * w
	}
}

func bias(y, b matrix) matrix {
	for v := range y.rows {
		add(y.row(v), b.x, 1)
	}
	return y
}

func activate(y matrix) matrix {
	for i, x := range y.x {
		y.x[i] = math.Max(0, x)
	}
	return y
}

func normalise(y, gamma, beta matrix) matrix {
	for v := range y.rows {
		mean, variance := 0., 0.
		for _, x := range y.row(v) {
			mean += x / float64(y.cols)
		}
		for _, x := range y.row(v) {
			variance += (x - mean) * (x - mean) / float64(y.cols)
		}
		for k, x := range y.row(v) {
			y.row(v)[k] = (x-mean)/math.Sqrt(variance+1e-5)*gamma.x[k] + beta.x[k]
		}
	}
	return y
}

func beside(a, b matrix) matrix {
	y := newMatrix(a.rows, a.cols+b.cols)
	for v := range a.rows {
		copy(y.row(v), a.row(v))
		copy(y.row(v)[a.cols:], b.row(v))
	}
	return y
}

// means are the means of neighbours' states, or their elementwise maxima; 0 without any.
func means(h matrix, in [][]neighbour, weighted, most bool) matrix {
	y := newMatrix(h.rows, h.cols)
	for v, edges := range in {
		total := 0.
		for i, e := range edges {
			w := 1.
			if weighted {
				w = math.Max(0, e.weight)
			}
			total += w
			if !most {
				add(y.row(v), h.row(e.u), w)
				continue
			}
			for k, x := range h.row(e.u) {
				if i == 0 || x > y.row(v)[k] {
					y.row(v)[k] = x
				}
			}
		}
		for k := range y.row(v) {
			if total > 0 && !most {
				y.row(v)[k] /= total
			}
		}
	}
	return y
}

func sums(h matrix, in [][]neighbour) matrix {
	y := newMatrix(h.rows, h.cols)
	for v, edges := range in {
		add(y.row(v), h.row(v), 1)
		for _, e := range edges {
			add(y.row(v), h.row(e.u), 1)
		}
	}
	return y
}

func gcnSums(h matrix, in [][]neighbour, weighted bool) matrix {
	degree := make([]float64, h.rows)
	weight := func(e neighbour) float64 {
		if weighted {
			return math.Max(0, e.weight)
		}
		return 1
	}
	for v, edges := range in {
		degree[v] = 1
		for _, e := range edges {
			degree[v] += weight(e)
		}
	}
	y := newMatrix(h.rows, h.cols)
	for v, edges := range in {
		add(y.row(v), h.row(v), 1/degree[v])
		for _, e := range edges {
			add(y.row(v), h.row(e.u), weight(e)/math.Sqrt(degree[v]*degree[e.u]))
		}
	}
	return y
}

// rgcnSums are the states beside the bases' sums of means by relation.
func rgcnSums(h matrix, in [][]neighbour, coef matrix) matrix {
	y := h
	for b := range coef.cols {
		z := newMatrix(h.rows, h.cols)
		for r := range coef.rows {
			mean := means(h, ofRelation(in, r), false, false)
			for i, x := range mean.x {
				z.x[i] += coef.row(r)[b] * x
			}
		}
		y = beside(y, z)
	}
	return y
}

func ofRelation(in [][]neighbour, r int) [][]neighbour {
	out := make([][]neighbour, len(in))
	for v, edges := range in {
		for _, e := range edges {
			if e.relation == r {
				out[v] = append(out[v], e)
			}
		}
	}
	return out
}

// attend sums t of neighbours, of self too, by the softmax of their scores, head by head.
func attend(t, src, dst matrix, l *layer, in [][]neighbour, self bool, edgeWeight, edge matrix) matrix {
	heads := max(l.Heads, 1)
	each := t.cols / heads
	out := newMatrix(t.rows, t.cols)
	for v, edges := range in {
		if self {
			mean := make([]float64, l.EdgeDim)
			for _, e := range edges {
				if l.EdgeDim > 0 {
					add(mean, e.features, 1/float64(len(edges)))
				}
			}
			edges = append(slices.Clone(edges), neighbour{u: v, features: mean})
		}
		if len(edges) == 0 {
			continue
		}
		for k := range heads {
			lo, hi := k*each, (k+1)*each
			scores, most := make([]float64, len(edges)), math.Inf(-1)
			for i, e := range edges {
				s := dot(t.row(e.u)[lo:hi], src.x[lo:hi]) + dot(t.row(v)[lo:hi], dst.x[lo:hi])
				if l.EdgeDim > 0 {
					z := multiply(matrix{1, l.EdgeDim, e.features}, edgeWeight)
					s += dot(z.x[lo:hi], edge.x[lo:hi])
				}
				if s < 0 {
					s *= .2
				}
				scores[i], most = s, math.Max(most, s)
			}
			total := 0.
			for i, s := range scores {
				scores[i] = math.Exp(s - most)
				total += scores[i]
			}
			for i, e := range edges {
				add(out.row(v)[lo:hi], t.row(e.u)[lo:hi], scores[i]/total)
			}
		}
	}
	if !l.MeanHeads {
		return out
	}
	y := newMatrix(t.rows, each)
	for v := range t.rows {
		for k := range heads {
			add(y.row(v), out.row(v)[k*each:(k+1)*each], 1/float64(heads))
		}
	}
	return y
}

func dot(a, b []float64) (s float64) {
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

// softmax makes probabilities of a row of logits, whose logarithms are the logits less logTotal, or fails where one is not a number.
func softmax(row []float64) (logTotal float64, err error) {
	most, total := math.Inf(-1), 0.
	for _, x := range row {
		most = math.Max(most, x)
	}
	if math.IsNaN(most) || math.IsInf(most, 0) {
		return 0, errors.New("logits are not finite")
	}
	for k, x := range row {
		row[k] = math.Exp(x - most)
		total += row[k]
	}
	for k := range row {
		row[k] /= total
	}
	return most + math.Log(total), nil
}
