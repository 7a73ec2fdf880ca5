package kernels

func squaredDeviationGeneric(x []float32, mean float32) float32 {
	var s [16]float32
	for i, v := range x {
		d := v - mean
		s[i%16] += float32(d * d)
	}
	return laneSum(&s)
}

func normalizeGeneric(y, x []float32, mean, rstd float32) {
	for i := range y {
		y[i] = (x[i] - mean) * rstd
	}
}

func normalizeColumnsGeneric(y, x, mean, rstd []float32) {
	for i := range y {
		y[i] = (x[i] - mean[i]) * rstd[i]
	}
}

func addSquaresGeneric(dst, x, mean []float32) {
	for i := range dst {
		d := x[i] - mean[i]
		dst[i] += float32(d * d)
	}
}

func scaleShiftGeneric(y, x, gamma, beta []float32) {
	for i := range y {
		y[i] = float32(x[i]*gamma[i]) + beta[i]
	}
}

func normalizeBackwardGeneric(d, xhat []float32, a, b, c float32) {
	for i := range d {
		d[i] = (d[i] - a - float32(b*xhat[i])) * c
	}
}

func normalizeColumnsBackwardGeneric(d, xhat, a, b, c []float32) {
	for i := range d {
		d[i] = (d[i] - a[i] - float32(b[i]*xhat[i])) * c[i]
	}
}
