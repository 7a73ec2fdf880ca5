package kernels

import "math"

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func adamGeneric(w, m, v, g []float32, beta1, rest1, beta2, rest2, decay, lr, inv2, eps float32) {
	for i := range w {
		d := g[i] + float32(decay*w[i])
		m[i] = float32(beta1*m[i]) + float32(rest1*d)
		v[i] = float32(beta2*v[i]) + float32(rest2*float32(d*d))
		w[i] -= float32(lr*m[i]) / (float32(sqrt32(v[i])*inv2) + eps)
	}
}

func adagradGeneric(w, s, g []float32, lr, eps, decay float32) {
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

func sgdMomentumGeneric(w, m, g []float32, lr, decay, momentum float32) {
	for i := range w {
		m[i] = float32(momentum*m[i]) + (g[i] + float32(decay*w[i]))
		w[i] -= float32(lr * m[i])
	}
}
