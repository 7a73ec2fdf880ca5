package kernels

// genericTable is the portable reference.
func genericTable() *table {
	return &table{
		gemm:      gemmKernel{mr: 4, nr: 8, run: gemmGeneric},
		maxUint32: maxUint32Generic,
		gather: [numRowTypes]gatherKernel{
			gatherGeneric[float32Row], gatherGeneric[float16Row], gatherGeneric[bfloat16Row], gatherGeneric[int8Row],
		},
		sum: [numRowTypes]sumKernel{
			sumGeneric[float32Row], sumGeneric[float16Row], sumGeneric[bfloat16Row], sumGeneric[int8Row],
		},
		sumFused: sumWeightedGeneric[float32Row],
		sumWeighted: [numRowTypes]sumWeightedKernel{
			sumWeightedGeneric[float32Row], sumWeightedGeneric[float16Row], sumWeightedGeneric[bfloat16Row], sumWeightedGeneric[int8Row],
		},
		add: addGeneric, mul: mulGeneric, mulAdd: mulAddGeneric, axpy: axpyGeneric, tanhBackward: tanhBackwardGeneric, scale: scaleGeneric,
		biasReLU: biasReLUGeneric, relu: reluGeneric, reluBackward: reluBackwardGeneric,
		leakyReLU: leakyReLUGeneric, leakyReLUBackward: leakyReLUBackwardGeneric,
		maskBits: maskBitsGeneric, maskScale: maskScaleGeneric,
		laneSum: laneSumGeneric, dot: dotGeneric, squaredDistance: squaredDistanceGeneric,
		squaredDeviation: squaredDeviationGeneric,
		normalize:        normalizeGeneric, normalizeColumns: normalizeColumnsGeneric, addSquares: addSquaresGeneric, scaleShift: scaleShiftGeneric,
		normalizeBackward: normalizeBackwardGeneric, normalizeColumnsBackward: normalizeColumnsBackwardGeneric,
		exp: expGeneric, sigmoid: sigmoidGeneric, tanh: tanhGeneric,
		maxInto: maxIntoGeneric, addWhere: addWhereGeneric,
		rowMax: rowMaxGeneric, expSum: expSumGeneric,
		adam: adamGeneric, adagrad: adagradGeneric, sgd: sgdGeneric, sgdMomentum: sgdMomentumGeneric,
	}
}
