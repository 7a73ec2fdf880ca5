package zoo

import "math"

// transform is a layer hgt of docs/models.md; types are the nodes', nil: all are of type 0.
func (m *model) transform(l *layer, at string, h matrix, types []int, in [][]neighbour) matrix {
	t := func(name string) matrix { return m.tensors[at+name] }
	of := func(v int) int {
		if types == nil {
			return 0
		}
		return types[v]
	}
	sources, queries := typed(h, t("source.weight"), t("source.bias"), of), typed(h, t("query.weight"), t("query.bias"), of)
	width := queries.cols
	each := width / l.Heads
	key, message, prior := t("key"), t("message"), t("prior")
	active := newMatrix(h.rows, width)
	for v, edges := range in {
		for k := 0; k < l.Heads && len(edges) > 0; k++ {
			lo := k * each
			scores, sent := make([]float64, len(edges)), newMatrix(len(edges), each)
			most := math.Inf(-1)
			for i, e := range edges {
				keys := make([]float64, each)
				for j := range each {
					row := e.relation*width + lo + j
					add(keys, key.row(row), sources.row(e.u)[lo+j])
					add(sent.row(i), message.row(row), sources.row(e.u)[width+lo+j])
				}
				scores[i] = dot(keys, queries.row(v)[lo:lo+each]) * prior.row(e.relation)[k] / math.Sqrt(float64(each))
				most = math.Max(most, scores[i])
			}
			total := 0.
			for i := range scores {
				scores[i] = math.Exp(scores[i] - most)
				total += scores[i]
			}
			for i := range edges {
				add(active.row(v)[lo:lo+each], sent.row(i), scores[i]/total)
			}
		}
	}
	for i, x := range active.x {
		active.x[i] = x * (1 + math.Erf(x/math.Sqrt2)) / 2
	}
	y := typed(active, t("output.weight"), t("output.bias"), of)
	if skip, ok := m.tensors[at+"skip"]; ok {
		for v := range y.rows {
			gate := 1 / (1 + math.Exp(-skip.x[of(v)]))
			for j, x := range y.row(v) {
				y.row(v)[j] = gate*x + (1-gate)*h.row(v)[j]
			}
		}
	}
	if logits, ok := m.tensors[at+"logits.weight"]; ok {
		y = bias(multiply(y, logits), t("logits.bias"))
	}
	return y
}

// typed multiplies each row by the matrix of its type, of those one below the other.
func typed(x, weights, biases matrix, of func(int) int) matrix {
	y := newMatrix(x.rows, weights.cols)
	for v := range x.rows {
		add(y.row(v), biases.row(of(v)), 1)
		for j, a := range x.row(v) {
			add(y.row(v), weights.row(of(v)*x.cols+j), a)
		}
	}
	return y
}
