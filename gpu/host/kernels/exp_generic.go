package kernels

import "math"

// Constants of exp: e^x = 2^n·e^r with n = round(x/ln 2) and r = x − n·ln 2 in two
// parts (Cody and Waite), e^r by a polynomial of degree 6 on |r| ≤ ln 2 / 2 (the
// coefficients of Cephes expf). Below expMin the result is 0, above expMax +Inf.
const (
	expMax   = 88.72283
	expMin   = -87.33654
	log2e    = 1.44269504088896341
	ln2High  = 0.693359375
	ln2Low   = -2.12194440e-4
	expC0    = 1.9875691500e-4
	expC1    = 1.3981999507e-3
	expC2    = 8.3334519073e-3
	expC3    = 4.1665795894e-2
	expC4    = 1.6666665459e-1
	expC5    = 5.0000001201e-1
	expMagic = 12582912 // 1.5·2²³: adding it rounds to an integer, ties to even
)

// exp32 is the exponential that every instruction set computes alike; error below 2 ulp.
func exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > expMax:
		return float32(math.Inf(1))
	case x < expMin:
		return 0
	}
	t := float32(x*log2e) + expMagic
	n := t - expMagic
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	y := float32(float32(expC0)*r) + expC1
	y = float32(y*r) + expC2
	y = float32(y*r) + expC3
	y = float32(y*r) + expC4
	y = float32(y*r) + expC5
	y = float32(y*float32(r*r)) + r
	y++
	// 2ⁿ in two factors: n = 128 happens just below expMax.
	i := int32(n)
	h := i >> 1
	y *= math.Float32frombits(uint32(h+127) << 23)
	return y * math.Float32frombits(uint32(i-h+127)<<23)
}

func expSumGeneric(dst, x []float32, shift float32) float32 {
	var s [16]float32
	for i, v := range x {
		e := exp32(v - shift)
		dst[i] = e
		s[i%16] += e
	}
	return laneSum(&s)
}

func rowMaxGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	nan := float32(0)
	for _, v := range x {
		if v != v {
			nan = v
		} else if v > m {
			m = v
		}
	}
	if nan != nan {
		return float32(math.NaN())
	}
	return m
}

func expGeneric(y, x []float32) {
	for i, v := range x {
		y[i] = exp32(v)
	}
}

func sigmoidGeneric(y, x []float32) {
	for i, v := range x {
		y[i] = 1 / (1 + exp32(0-v))
	}
}

// tanh32 is a polynomial (Cephes tanhf) where 1 − 2/(e^2x + 1) would cancel.
func tanh32(x float32) float32 {
	if !(x < .625 && x > -.625) {
		return 1 - 2/(exp32(x+x)+1)
	}
	z := float32(x * x)
	y := float32(-5.70498872745e-3*z) + 2.06390887954e-2
	y = float32(y*z) - 5.37397155531e-2
	y = float32(y*z) + 1.33314422036e-1
	y = float32(y*z) - 3.33332819422e-1
	return float32(float32(y*z)*x) + x
}

func tanhGeneric(y, x []float32) {
	for i, v := range x {
		y[i] = tanh32(v)
	}
}
