package nn

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu"
)

// typedRows are a matrix's rows by their node's type. The zero value is ready; memory is reused, so it serves one matrix at a time.
type typedRows struct {
	types         gpu.Tensor // Uint32[1×n], of each row
	order, ranks  gpu.Tensor // Uint32[1×n]: rows by type, and where each is among these; none of a single type
	bounds        []int      // those of type t are places bounds[t] … bounds[t+1]−1
	places, where []uint32
	none          []uint32 // zeros
}

// sort takes the first n of types of kinds kinds; nil: all nodes are of type 0. The slice must stay as it is while the pass lasts.
func (r *typedRows) sort(p *Pass, types []uint32, n, kinds int) {
	q := p.Queue
	if types == nil {
		r.none = append(r.none[:0], make([]uint32, n)...)
		types = r.none
	}
	if len(types) < n {
		q.Fail(fmt.Errorf("nn: types of %d nodes, expected %d: %w", len(types), n, gpu.ErrShape))
		return
	}
	types = types[:n]
	r.bounds = append(r.bounds[:0], make([]int, kinds+1)...)
	for _, t := range types {
		if int(t) >= kinds {
			q.Fail(fmt.Errorf("nn: a node of type %d, the model has %d: %w", t, kinds, gpu.ErrShape))
			return
		}
		r.bounds[t+1]++
	}
	for t := range kinds {
		r.bounds[t+1] += r.bounds[t]
	}
	r.types, r.order, r.ranks = p.Arena.Uint32s(q, types), gpu.Tensor{}, gpu.Tensor{}
	if kinds == 1 {
		return
	}
	next := slices.Clone(r.bounds)
	r.places, r.where = slices.Grow(r.places[:0], n)[:n], slices.Grow(r.where[:0], n)[:n]
	for i, t := range types {
		r.places[next[t]], r.where[i] = uint32(i), uint32(next[t])
		next[t]++
	}
	r.order, r.ranks = p.Arena.Uint32s(q, r.places), p.Arena.Uint32s(q, r.where)
}

// sorted returns x's rows by type.
func (r *typedRows) sorted(p *Pass, x gpu.Tensor) gpu.Tensor { return r.gather(p, x, r.order) }

// restored is the inverse of sorted.
func (r *typedRows) restored(p *Pass, x gpu.Tensor) gpu.Tensor { return r.gather(p, x, r.ranks) }

func (r *typedRows) gather(p *Pass, x, index gpu.Tensor) gpu.Tensor {
	if index.IsZero() {
		return x
	}
	y := p.Arena.Matrix(p.Queue, x.Rows, x.Cols)
	p.Queue.Gather(y, x, index)
	return y
}

// typedLinear is x·W_t + b_t with t the type of x's node.
type typedLinear struct {
	w, b    *Param
	in, out int
}

// newTypedLinear declares "name.weight" [types·in × out], the types' matrices one below the other, and "name.bias" [types × out].
func newTypedLinear(p *Params, name string, types, in, out int) typedLinear {
	return typedLinear{w: p.Add(name+".weight", types*in, out, fanIn(in)), b: p.Add(name+".bias", types, out, zero), in: in, out: out}
}

func (l *typedLinear) params() []*Param { return []*Param{l.w, l.b} }

// each calls do for every type that has rows: rows are its part of what lies by type, w and b those of parameters.
func (l *typedLinear) each(r *typedRows, do func(rows, w, b func(gpu.Tensor) gpu.Tensor)) {
	for t := range len(r.bounds) - 1 {
		lo, n := r.bounds[t], r.bounds[t+1]-r.bounds[t]
		if n == 0 {
			continue
		}
		do(func(x gpu.Tensor) gpu.Tensor { return x.View(lo, 0, n, x.Cols) },
			func(w gpu.Tensor) gpu.Tensor { return w.View(t*l.in, 0, l.in, l.out) },
			func(b gpu.Tensor) gpu.Tensor { return b.View(t, 0, 1, l.out) })
	}
}

// forward returns the products [n × out] of x, whose rows are by type, in the rows' own order.
func (l *typedLinear) forward(p *Pass, r *typedRows, x gpu.Tensor) gpu.Tensor {
	y := p.Arena.Matrix(p.Queue, x.Rows, l.out)
	if p.Queue.Err() != nil {
		return y
	}
	l.each(r, func(rows, w, b func(gpu.Tensor) gpu.Tensor) {
		p.Queue.Gemm(gpu.GemmOptions{Bias: b(l.b.Value)}, rows(x), w(l.w.Value), rows(y))
	})
	return r.restored(p, y)
}

// backward sets the parameters' gradients from that of forward's result, and returns that of x in the rows' own order, if needInput.
func (l *typedLinear) backward(p *Pass, r *typedRows, x, dy gpu.Tensor, needInput bool) (dx gpu.Tensor) {
	q := p.Queue
	dy = r.sorted(p, dy)
	if needInput {
		dx = p.Arena.Matrix(q, x.Rows, l.in)
	}
	q.Fill(l.w.Grad, 0)
	q.Fill(l.b.Grad, 0)
	if q.Err() != nil {
		return dx
	}
	l.each(r, func(rows, w, b func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{TransA: true}, rows(x), rows(dy), w(l.w.Grad))
		q.ColumnSum(rows(dy), b(l.b.Grad))
		if needInput {
			q.Gemm(gpu.GemmOptions{TransB: true}, rows(dy), w(l.w.Value), rows(dx))
		}
	})
	if needInput {
		dx = r.restored(p, dx)
	}
	return dx
}
