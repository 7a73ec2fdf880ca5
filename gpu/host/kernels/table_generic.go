package kernels

// genericTable is the portable reference.
func genericTable() *table {
	return &table{
		gemm:      gemmKernel{mr: 4, nr: 8, run: gemmGeneric},
		maxUint32: maxUint32Generic,
		gather: [numRowTypes]func([]float32, int, int, []uint32, []byte, int, float32){
			gatherGeneric[float32Row], gatherGeneric[float16Row], gatherGeneric[bfloat16Row], gatherGeneric[int8Row],
		},
		sum: [numRowTypes]func([]float32, []uint32, int, []byte, int, float32){
			sumGeneric[float32Row], sumGeneric[float16Row], sumGeneric[bfloat16Row], sumGeneric[int8Row],
		},
		sumWeighted: [numRowTypes]func([]float32, []uint32, int, []byte, int, float32, []float32, int){
			sumWeightedGeneric[float32Row], sumWeightedGeneric[float16Row], sumWeightedGeneric[bfloat16Row], sumWeightedGeneric[int8Row],
		},
		add: addGeneric, axpy: axpyGeneric, scale: scaleGeneric,
		biasReLU: biasReLUGeneric, relu: reluGeneric, reluBackward: reluBackwardGeneric,
		maskBits: maskBitsGeneric, maskScale: maskScaleGeneric, columnSum: columnSumGeneric,
		rowMax: rowMaxGeneric, expSum: expSumGeneric,
		adam: adamGeneric, adagrad: adagradGeneric, sgd: sgdGeneric, sgdMomentum: sgdMomentumGeneric,
	}
}
