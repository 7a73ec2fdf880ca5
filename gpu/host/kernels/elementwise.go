package kernels

import "fmt"

// elementGrain is how many elements of an elementwise loop make a piece of work.
const elementGrain = 1 << 15

// Add sets dst += x.
func Add(p *Pool, dst, x []float32) {
	checkLen("x", len(x), len(dst))
	k := p.kernels()
	p.For(len(dst), elementGrain, func(lo, hi int) { k.add(dst[lo:hi], x[lo:hi]) })
}

// Axpy sets y += alpha·x.
func Axpy(p *Pool, alpha float32, x, y []float32) {
	checkLen("x", len(x), len(y))
	k := p.kernels()
	p.For(len(y), elementGrain, func(lo, hi int) { k.axpy(y[lo:hi], x[lo:hi], alpha) })
}

// Scale sets x *= alpha.
func Scale(p *Pool, alpha float32, x []float32) {
	k := p.kernels()
	p.For(len(x), elementGrain, func(lo, hi int) { k.scale(x[lo:hi], alpha) })
}

// ReLU sets x = max(0, x); NaN stays NaN.
func ReLU(p *Pool, x []float32) {
	k := p.kernels()
	p.For(len(x), elementGrain, func(lo, hi int) { k.relu(x[lo:hi]) })
}

// ReLUBackward sets d = 0 where y ≤ 0 and scale·d elsewhere: the gradient of
// y = max(0, x), and with scale 1/(1−rate) of [ReLU] followed by [Dropout],
// whose mask shows in y.
func ReLUBackward(p *Pool, scale float32, y, d []float32) {
	checkLen("y", len(y), len(d))
	k := p.kernels()
	p.For(len(d), elementGrain, func(lo, hi int) { k.reluBackward(d[lo:hi], y[lo:hi], scale) })
}

// BiasReLU sets every row of x to max(0, row+bias). bias has x.Cols elements, or none.
func BiasReLU(p *Pool, x Matrix, bias []float32) {
	x.check("x")
	if bias != nil {
		checkLen("bias", len(bias), x.Cols)
	}
	k := p.kernels()
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if bias == nil {
				k.relu(x.Row(i))
			} else {
				k.biasReLU(x.Row(i), bias)
			}
		}
	})
}

// columnSumRows is the number of rows whose sum is one partial of [ColumnSum].
const columnSumRows = 512

// ColumnSum sets dst[j] to the sum of column j of x: sums of 512 rows each,
// added pairwise, so that the error grows with the logarithm of the rows.
func ColumnSum(p *Pool, x Matrix, dst []float32) {
	x.check("x")
	checkLen("dst", len(dst), x.Cols)
	k := p.kernels()
	columnReduce(p, x.Rows, x.Cols, dst, func(sum []float32, i int) { k.add(sum, x.Row(i)) })
}

// Dropout sets each element of x to 0 with probability rate and to x/(1−rate)
// otherwise, 0 ≤ rate < 1. The mask is a function of seed and the element's position
// only ([maskBits]); applied to a gradient it is the backward pass.
func Dropout(p *Pool, rate float32, seed uint64, x []float32) {
	threshold, scale := dropoutConstants(rate)
	if threshold == 0 {
		return
	}
	if int64(len(x))/maskGroup > 1<<28 {
		panic(fmt.Sprintf("kernels: dropout over %d elements, at most %d", len(x), int64(maskGroup)<<28))
	}
	k := p.kernels()
	const grain = 64 * maskGroup // 8192 elements, 1 KiB of mask
	p.For(len(x), grain, func(lo, hi int) {
		words := p.uints(grain / 32)
		defer p.putUints(words)
		bits := asBytes(words)[:(hi-lo+maskGroup-1)/maskGroup*(maskGroup/8)]
		k.maskBits(bits, uint32(lo/maskGroup), uint32(seed), uint32(seed>>32), threshold)
		k.maskScale(x[lo:hi], bits, scale)
	})
}

// dropoutConstants returns the 16-bit threshold below which an element is
// dropped (the rate in steps of 2⁻¹⁶) and the factor of the kept ones.
func dropoutConstants(rate float32) (threshold uint32, scale float32) {
	if !(rate >= 0 && rate < 1) {
		panic(fmt.Sprintf("kernels: dropout rate %v, expected 0 ≤ rate < 1", rate))
	}
	return uint32(rate*65536 + .5), 1 / (1 - rate)
}

// LeakyReLU sets x = slope·x where x < 0.
func LeakyReLU(p *Pool, slope float32, x []float32) {
	k := p.kernels()
	p.For(len(x), elementGrain, func(lo, hi int) { k.leakyReLU(x[lo:hi], slope) })
}

// LeakyReLUBackward sets d = slope·d where y < 0, y being [LeakyReLU]'s input
// or, for a positive slope, its output.
func LeakyReLUBackward(p *Pool, slope float32, y, d []float32) {
	checkLen("y", len(y), len(d))
	k := p.kernels()
	p.For(len(d), elementGrain, func(lo, hi int) { k.leakyReLUBackward(d[lo:hi], y[lo:hi], slope) })
}

// Exp sets y = e^x; error below 2 ulp. y may be x.
func Exp(p *Pool, y, x []float32) { mapElements(p, p.kernels().exp, y, x) }

// Sigmoid sets y = 1/(1+e^−x). y may be x.
func Sigmoid(p *Pool, y, x []float32) { mapElements(p, p.kernels().sigmoid, y, x) }

// Tanh sets y = tanh x. y may be x.
func Tanh(p *Pool, y, x []float32) { mapElements(p, p.kernels().tanh, y, x) }

// TanhBackward turns the gradient d of y = tanh x into that of x, in place: d −= y²·d.
func TanhBackward(p *Pool, y, d []float32) {
	checkLen("d", len(d), len(y))
	k := p.kernels()
	p.For(len(d), elementGrain, func(lo, hi int) { k.tanhBackward(d[lo:hi], y[lo:hi]) })
}

func mapElements(p *Pool, f func(y, x []float32), y, x []float32) {
	checkLen("x", len(x), len(y))
	p.For(len(y), elementGrain/4, func(lo, hi int) { f(y[lo:hi], x[lo:hi]) })
}
