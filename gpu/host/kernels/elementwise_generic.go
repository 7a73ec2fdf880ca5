package kernels

// Products are converted to float32 explicitly where a sum follows: it forbids
// the compiler to fuse them (on arm64 it would), so that all platforms round alike.

func addGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] += x[i]
	}
}

func axpyGeneric(dst, x []float32, a float32) {
	for i := range dst {
		dst[i] += float32(a * x[i])
	}
}

func tanhBackwardGeneric(d, y []float32) {
	for i, v := range y {
		d[i] -= float32(float32(v*v) * d[i])
	}
}

func scaleGeneric(dst []float32, a float32) {
	for i := range dst {
		dst[i] *= a
	}
}

func reluGeneric(x []float32) {
	for i, v := range x {
		if v < 0 {
			x[i] = 0
		}
	}
}

func biasReLUGeneric(x, bias []float32) {
	for i := range x {
		v := x[i] + bias[i]
		if v < 0 {
			v = 0
		}
		x[i] = v
	}
}

func reluBackwardGeneric(d, y []float32, scale float32) {
	for i := range d {
		if y[i] <= 0 {
			d[i] = 0
		} else {
			d[i] *= scale
		}
	}
}

func maskScaleGeneric(x []float32, bits []byte, scale float32) {
	for i := range x {
		if bits[i/8]>>(i%8)&1 == 1 {
			x[i] *= scale
		} else {
			x[i] = 0
		}
	}
}

func mulGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] *= x[i]
	}
}

func mulAddGeneric(dst, x, y []float32) {
	for i := range dst {
		dst[i] += float32(x[i] * y[i])
	}
}

func leakyReLUGeneric(x []float32, slope float32) { leakyReLUBackwardGeneric(x, x, slope) }

func leakyReLUBackwardGeneric(d, y []float32, slope float32) {
	for i := range d {
		if y[i] < 0 {
			d[i] *= slope
		}
	}
}

func laneSumGeneric(x []float32) float32 {
	var s [16]float32
	for i, v := range x {
		s[i%16] += v
	}
	return laneSum(&s)
}

func dotGeneric(x, y []float32) float32 {
	var s [16]float32
	for i, v := range x {
		s[i%16] += float32(v * y[i])
	}
	return laneSum(&s)
}

func squaredDistanceGeneric(x, y []float32) float32 {
	var s [16]float32
	for i, v := range x {
		d := v - y[i]
		s[i%16] += float32(d * d)
	}
	return laneSum(&s)
}
