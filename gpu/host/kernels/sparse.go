package kernels

// Steps on some rows of an embedding table. Rows are independent, so their
// order does not matter once each occurs once: [ScatterAddRows] sees to that.

// ScatterAddRows adds row i of src to row index[i] of dst; rows that occur
// several times are summed in ascending i, whatever the number of threads. It takes
// time and 4 bytes of scratch for every row of dst: dst is a compact table, such as a batch's
// unique nodes.
func ScatterAddRows(p *Pool, dst Matrix, index []uint32, src Matrix) {
	dst.check("dst")
	src.checkShape("src", len(index), dst.Cols)
	checkIndices(p, "index", index, dst.Rows)
	if len(index) == 0 || dst.Cols == 0 {
		return
	}
	words := p.uints(dst.Rows + 1 + len(index))
	defer p.putUints(words)
	starts, order := words[:dst.Rows+1], words[dst.Rows+1:]
	clear(starts)
	for _, r := range index {
		starts[r+1]++
	}
	for r := range dst.Rows {
		starts[r+1] += starts[r]
	}
	for i, r := range index { // starts[r] moves to its end …
		order[starts[r]] = uint32(i)
		starts[r]++
	}
	copy(starts[1:], starts) // … which is the next one's start
	starts[0] = 0
	t := CSR{Indptr: asInt32(starts), Indices: asInt32(order)}
	aggregate(p, AggregateOptions{addOnce: true}, t, nil, src.AsRows(), dst, 1)
}

// AdamRows takes a step of [Adam] on the rows index of param, m and v, all of one
// shape, with the rows of grad. index holds no row twice. The decay of the moments of
// other rows is left out ("lazy" or sparse Adam).
func AdamRows(p *Pool, o AdamOptions, index []uint32, param, grad, m, v Matrix) {
	checkRowStep(p, index, param, grad, m, v)
	k, c := p.kernels(), o.constants()
	p.For(len(index), rowGrain(grad.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			r := int(index[i])
			k.adam(param.Row(r), m.Row(r), v.Row(r), grad.Row(i), c.beta1, c.rest1, c.beta2, c.rest2, c.decay, c.lr, c.inv2, c.eps)
		}
	})
}

// AdagradRows takes a step of [Adagrad] on the rows index of param and sum with the rows of
// grad. index holds no row twice.
func AdagradRows(p *Pool, o AdagradOptions, index []uint32, param, grad, sum Matrix) {
	checkRowStep(p, index, param, grad, sum)
	k := p.kernels()
	p.For(len(index), rowGrain(grad.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			r := int(index[i])
			k.adagrad(param.Row(r), sum.Row(r), grad.Row(i), o.LR, o.Epsilon, o.WeightDecay)
		}
	})
}

func checkRowStep(p *Pool, index []uint32, param, grad Matrix, state ...Matrix) {
	param.check("param")
	grad.checkShape("grad", len(index), param.Cols)
	for _, s := range state {
		s.checkShape("state", param.Rows, param.Cols)
	}
	checkIndices(p, "index", index, param.Rows)
}
