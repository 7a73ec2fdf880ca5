//go:build cuda

package cuda

// operation numbers the operations of a stream, for kernels to note where an index was bad.
type operation uint32

const (
	_ operation = iota // nothing was found
	opUpload
	opDownload
	opCopy
	opFill
	opGather
	opAggregate
	opGatherAggregate
	opAggregateBackward
	opTranspose
	opDivideRows
	opGemm
	opColumnSum
	opAxpy
	opDropout
	opReLUBackward
	opSoftmaxCrossEntropy
	opAdam
	opSelfLoops
	opTransposeEdges
	opEdgeWeights
	opEdgeAdd
	opEdgeDot
	opEdgeSoftmax
	opEdgeSoftmaxBackward
	opEdgeSum
	opAggregateHeads
	opAggregateHeadsBackward
	opOnlineAttention
	opLeakyReLUBackward
	opAddBias
	opLayerNorm
	opLayerNormBackward
	opSegmentMax
	opSegmentMaxBackward
	opBatchNorm
	opBatchNormBackward
	opMul
	opMulAdd
	opComplexMulAdd
	opRowDot
	opScaleRowsAdd
	opSquaredDistances
	opSetElements
	opTanh
	opTanhBackward
	opScatterAdd
	opAdagrad
	opAdagradRows
	opAdamRows
	opLinkLoss
	opCopyRows
	opRecorded
	opSampleBlocks
	opPadBlock
	opPadNumbers
	opNumberLoss
	opMultiLabelLoss
)

// names are the host's names of the same operations.
var names = [...]string{
	opUpload: "upload", opDownload: "download", opCopy: "copy", opFill: "fill", opGather: "gather", opAggregate: "aggregate",
	opGatherAggregate: "gather-aggregate", opAggregateBackward: "aggregate backward", opTranspose: "transpose", opDivideRows: "divide rows",
	opGemm: "gemm", opColumnSum: "column sum", opAxpy: "axpy", opDropout: "dropout", opReLUBackward: "relu backward",
	opSoftmaxCrossEntropy: "softmax cross-entropy", opAdam: "adam", opSelfLoops: "self loops", opTransposeEdges: "transpose edges",
	opEdgeWeights: "edge weights", opEdgeAdd: "edge add", opEdgeDot: "edge dot", opEdgeSoftmax: "edge softmax",
	opEdgeSoftmaxBackward: "edge softmax backward", opEdgeSum: "edge sum", opAggregateHeads: "aggregate heads",
	opAggregateHeadsBackward: "aggregate heads backward", opOnlineAttention: "online attention", opLeakyReLUBackward: "leaky relu backward",
	opAddBias: "add bias", opLayerNorm: "layer norm", opLayerNormBackward: "layer norm backward", opSegmentMax: "segment max",
	opSegmentMaxBackward: "segment max backward", opBatchNorm: "batch norm", opBatchNormBackward: "batch norm backward", opMul: "mul",
	opMulAdd: "mul add", opComplexMulAdd: "complex mul add", opRowDot: "row dot", opScaleRowsAdd: "scale rows add",
	opSquaredDistances: "squared distances", opSetElements: "set elements", opTanh: "tanh", opTanhBackward: "tanh backward",
	opScatterAdd: "scatter add", opAdagrad: "adagrad", opAdagradRows: "adagrad rows", opAdamRows: "adam rows", opLinkLoss: "link loss", opNumberLoss: "number loss", opMultiLabelLoss: "multi-label loss", opCopyRows: "copy rows", opRecorded: "recorded step",
	opSampleBlocks: "sample blocks", opPadBlock: "pad block", opPadNumbers: "pad numbers",
}

func (o operation) String() string { return names[o] }

// guard packs what a kernel needs to note a bad index.
func (s *stream) guard(a *args, op operation) *args { return a.U32(uint32(op)).Ptr(s.status) }
