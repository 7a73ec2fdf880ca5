package kernels

import "math"

// columnReduce computes for each of a number of rows a contribution to sums of cols
// columns, in pieces of 512 rows that are added pairwise. add adds row i to sum.
func columnReduce(p *Pool, rows, cols int, dst []float32, add func(sum []float32, i int)) {
	clear(dst)
	if rows == 0 || cols == 0 {
		return
	}
	k := p.kernels()
	parts := (rows-1)/columnSumRows + 1
	buf := p.floats(parts * cols)
	defer p.putFloats(buf)
	part := func(i int) []float32 { return buf[i*cols : (i+1)*cols] }
	p.For(rows, columnSumRows, func(lo, hi int) {
		sum := part(lo / columnSumRows)
		clear(sum)
		for i := lo; i < hi; i++ {
			add(sum, i)
		}
	})
	for step := 1; step < parts; step *= 2 {
		for i := 0; i+step < parts; i += 2 * step {
			k.add(part(i), part(i+step))
		}
	}
	copy(dst, part(0))
}

func rstd(variance, epsilon float64) float32 { return float32(1 / math.Sqrt(variance+epsilon)) }

// LayerNorm sets y = xhat·gamma + beta with xhat the rows of x, shifted and
// scaled to mean 0 and variance 1 (Ba et al., 2016). xhat and rstds (1/√(variance+epsilon), one a
// row) are what [LayerNormBackward] needs. xhat may be x, y may not be xhat.
func LayerNorm(p *Pool, epsilon float32, x Matrix, gamma, beta []float32, xhat, y Matrix, rstds []float32) {
	x.check("x")
	xhat.checkShape("xhat", x.Rows, x.Cols)
	y.checkShape("y", x.Rows, x.Cols)
	checkLen("gamma", len(gamma), x.Cols)
	checkLen("beta", len(beta), x.Cols)
	checkLen("rstds", len(rstds), x.Rows)
	k, n := p.kernels(), float32(max(x.Cols, 1))
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := x.Row(i)
			mean := k.laneSum(row) / n
			rstds[i] = rstd(float64(k.squaredDeviation(row, mean)/n), float64(epsilon))
			k.normalize(xhat.Row(i), row, mean, rstds[i])
			k.scaleShift(y.Row(i), xhat.Row(i), gamma, beta)
		}
	})
}

// LayerNormBackward turns the gradient d of y into that of x, in place, and
// adds the gradients of gamma and beta to dGamma and dBeta.
func LayerNormBackward(p *Pool, gamma []float32, xhat Matrix, rstds []float32, d Matrix, dGamma, dBeta []float32) {
	normParameters(p, xhat, d, dGamma, dBeta)
	checkLen("gamma", len(gamma), d.Cols)
	checkLen("rstds", len(rstds), d.Rows)
	k, n := p.kernels(), float32(max(d.Cols, 1))
	p.For(d.Rows, rowGrain(d.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, h := d.Row(i), xhat.Row(i)
			k.mul(row, gamma)
			k.normalizeBackward(row, h, k.laneSum(row)/n, k.dot(row, h)/n, rstds[i])
		}
	})
}

// normParameters adds Σ d·xhat to dGamma and Σ d to dBeta.
func normParameters(p *Pool, xhat, d Matrix, dGamma, dBeta []float32) {
	d.check("d")
	xhat.checkShape("xhat", d.Rows, d.Cols)
	checkLen("dGamma", len(dGamma), d.Cols)
	checkLen("dBeta", len(dBeta), d.Cols)
	k := p.kernels()
	sum := p.floats(d.Cols)
	defer p.putFloats(sum)
	columnReduce(p, d.Rows, d.Cols, sum, func(s []float32, i int) { k.mulAdd(s, d.Row(i), xhat.Row(i)) })
	k.add(dGamma, sum)
	ColumnSum(p, d, sum)
	k.add(dBeta, sum)
}

// BatchNormOptions configures [BatchNorm].
type BatchNormOptions struct {
	Epsilon float32 // added to the variance
	// Momentum is the weight of the batch in the running mean and (unbiased)
	// variance.
	Momentum float32
	// Inference normalises by the running statistics and leaves them alone.
	Inference bool
}

// BatchNorm sets y = xhat·gamma + beta with xhat the columns of x, shifted and
// scaled to mean 0 and variance 1 over the rows (Ioffe and Szegedy, 2015,
// Algorithm 1). xhat and rstds (one a column) are what [BatchNormBackward] needs;
// xhat may be x.
func BatchNorm(p *Pool, o BatchNormOptions, x Matrix, gamma, beta, runningMean, runningVar []float32, xhat, y Matrix, rstds []float32) {
	x.check("x")
	xhat.checkShape("xhat", x.Rows, x.Cols)
	y.checkShape("y", x.Rows, x.Cols)
	for _, v := range []struct {
		name string
		x    []float32
	}{{"gamma", gamma}, {"beta", beta}, {"runningMean", runningMean}, {"runningVar", runningVar}, {"rstds", rstds}} {
		checkLen(v.name, len(v.x), x.Cols)
	}
	if x.Rows == 0 {
		return
	}
	k := p.kernels()
	mean := p.floats(x.Cols)
	defer p.putFloats(mean)
	if o.Inference {
		copy(mean, runningMean)
		for j, v := range runningVar {
			rstds[j] = rstd(float64(v), float64(o.Epsilon))
		}
	} else {
		n := float32(x.Rows)
		ColumnSum(p, x, mean)
		for j := range mean {
			mean[j] /= n
		}
		columnReduce(p, x.Rows, x.Cols, rstds, func(s []float32, i int) { k.addSquares(s, x.Row(i), mean) })
		for j, v := range rstds {
			runningMean[j] += float32(o.Momentum * (mean[j] - runningMean[j]))
			runningVar[j] += float32(o.Momentum * (v/max(n-1, 1) - runningVar[j]))
			rstds[j] = rstd(float64(v/n), float64(o.Epsilon))
		}
	}
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k.normalizeColumns(xhat.Row(i), x.Row(i), mean, rstds)
			k.scaleShift(y.Row(i), xhat.Row(i), gamma, beta)
		}
	})
}

// BatchNormBackward turns the gradient d of y (computed with batch statistics)
// into that of x, in place, and adds the gradients of gamma and beta to dGamma and dBeta.
func BatchNormBackward(p *Pool, gamma []float32, xhat Matrix, rstds []float32, d Matrix, dGamma, dBeta []float32) {
	checkLen("gamma", len(gamma), d.Cols)
	checkLen("rstds", len(rstds), d.Cols)
	n := d.Cols
	buf := p.floats(3 * n)
	defer p.putFloats(buf)
	a, b, c := buf[:n], buf[n:2*n], buf[2*n:]
	clear(buf)
	normParameters(p, xhat, d, b, a)
	k := p.kernels()
	k.add(dGamma, b)
	k.add(dBeta, a)
	for j := range c {
		a[j] /= float32(d.Rows)
		b[j] /= float32(d.Rows)
		c[j] = gamma[j] * rstds[j]
	}
	p.For(d.Rows, rowGrain(n), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k.normalizeColumnsBackward(d.Row(i), xhat.Row(i), a, b, c)
		}
	})
}
