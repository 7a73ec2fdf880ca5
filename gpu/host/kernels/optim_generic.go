package kernels

import "math"

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func adamGeneric(w, g, m, v []float32, c adamConstants) {
	for i := range w {
		d := g[i] + float32(c.decay*w[i])
		m[i] = float32(c.beta1*m[i]) + float32(c.rest1*d)
		v[i] = float32(c.beta2*v[i]) + float32(c.rest2*float32(d*d))
		w[i] -= float32(c.lr*m[i]) / (float32(sqrt32(v[i])*c.inv2) + c.eps)
	}
}

func adagradGeneric(w, g, s []float32, lr, eps, decay float32) {
	for i := range w {
		d := g[i] + float32(decay*w[i])
		s[i] += float32(d * d)
		w[i] -= float32(lr*d) / (sqrt32(s[i]) + eps)
	}
}

func sgdGeneric(w, g []float32, lr, decay float32) {
	for i := range w {
		w[i] -= float32(lr * (g[i] + float32(decay*w[i])))
	}
}

func sgdMomentumGeneric(w, g, m []float32, lr, decay, momentum float32) {
	for i := range w {
		m[i] = float32(momentum*m[i]) + (g[i] + float32(decay*w[i]))
		w[i] -= float32(lr * m[i])
	}
}
