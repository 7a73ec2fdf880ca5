package meter

import (
	"context"
	"time"

	"github.com/gstore/gstore/gpu"
)

// stream does nothing.
type stream struct{}

func (stream) Sync(context.Context) error { return nil }
func (stream) Close() error               { return nil }
func (stream) Mark() gpu.Mark             { return mark{} }

// mark is of no time.
type mark struct{}

func (mark) Wait(context.Context) error { return nil }
func (mark) Passed() bool               { return true }
func (mark) Took() time.Duration        { return 0 }

func (stream) Upload(gpu.Tensor, []byte)                                          {}
func (stream) Download([]byte, gpu.Tensor)                                        {}
func (stream) Copy(gpu.Tensor, gpu.Tensor)                                        {}
func (stream) Fill(gpu.Tensor, float32)                                           {}
func (stream) CopyRows(gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor)            {}
func (stream) Gather(gpu.Tensor, gpu.Tensor, gpu.Tensor)                          {}
func (stream) Aggregate(gpu.AggregateOptions, gpu.Graph, gpu.Tensor, gpu.Tensor)  {}
func (stream) AggregateBackward(gpu.Reduce, gpu.Graph, gpu.Tensor, gpu.Tensor)    {}
func (stream) Transpose(gpu.Graph)                                                {}
func (stream) DivideRows(gpu.Tensor, gpu.Tensor)                                  {}
func (stream) Gemm(gpu.GemmOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor)           {}
func (stream) SparseGemm(bool, gpu.Sparse, gpu.Tensor, gpu.Tensor)                {}
func (stream) ColumnSum(gpu.Tensor, gpu.Tensor)                                   {}
func (stream) Axpy(float32, gpu.Tensor, gpu.Tensor)                               {}
func (stream) Dropout(gpu.DropoutOptions, gpu.Tensor)                             {}
func (stream) ReLUBackward(float32, gpu.Tensor, gpu.Tensor)                       {}
func (stream) SoftmaxCrossEntropy(gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {}
func (stream) NumberLoss(gpu.NumberLossOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {
}
func (stream) MultiLabelLoss(gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor)  {}
func (stream) Adam(gpu.AdamOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor)       {}
func (stream) SelfLoops(gpu.Graph, gpu.Graph)                                             {}
func (stream) TransposeEdges(gpu.Graph)                                                   {}
func (stream) EdgeWeights(gpu.EdgeWeightOptions, gpu.Graph, gpu.Tensor)                   {}
func (stream) EdgeAdd(float32, gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {}
func (stream) EdgeDot(int, gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor)                 {}
func (stream) EdgeSoftmax(int, gpu.Graph, gpu.Tensor)                                     {}
func (stream) EdgeSoftmaxBackward(int, gpu.Graph, gpu.Tensor, gpu.Tensor)                 {}
func (stream) EdgeSum(bool, gpu.Graph, gpu.Tensor, gpu.Tensor)                            {}
func (stream) AggregateHeads(int, gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor)          {}
func (stream) AggregateHeadsBackward(int, gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor)  {}
func (stream) OnlineAttention(int, float32, gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.AttentionSums) {
}
func (stream) LeakyReLUBackward(float32, gpu.Tensor, gpu.Tensor)                              {}
func (stream) AddBias(bool, gpu.Tensor, gpu.Tensor)                                           {}
func (stream) LayerNorm(gpu.LayerNormOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {}
func (stream) LayerNormBackward(gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {
}
func (stream) SegmentMax(gpu.MaxOptions, gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor)       {}
func (stream) SegmentMaxBackward(gpu.Graph, gpu.Tensor, gpu.Tensor, gpu.Tensor)               {}
func (stream) BatchNorm(gpu.BatchNormOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {}
func (stream) BatchNormBackward(gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {
}
func (stream) Mul(gpu.Tensor, gpu.Tensor)                                                           {}
func (stream) MulAdd(gpu.Tensor, gpu.Tensor, gpu.Tensor)                                            {}
func (stream) ComplexMulAdd(bool, gpu.Tensor, gpu.Tensor, gpu.Tensor)                               {}
func (stream) RowDot(gpu.Tensor, gpu.Tensor, gpu.Tensor)                                            {}
func (stream) ScaleRowsAdd(float32, gpu.Tensor, gpu.Tensor, gpu.Tensor)                             {}
func (stream) SquaredDistances(float32, gpu.Tensor, gpu.Tensor, gpu.Tensor)                         {}
func (stream) SetElements(gpu.Tensor, gpu.Tensor, float32)                                          {}
func (stream) Tanh(gpu.Tensor)                                                                      {}
func (stream) TanhBackward(gpu.Tensor, gpu.Tensor)                                                  {}
func (stream) ScatterAddRows(gpu.Tensor, gpu.Tensor, gpu.Tensor)                                    {}
func (stream) Adagrad(gpu.AdagradOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor)                       {}
func (stream) AdagradRows(gpu.AdagradOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor)       {}
func (stream) AdamRows(gpu.AdamOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor, gpu.Tensor) {}
func (stream) LinkLoss(gpu.LinkLossOptions, gpu.Tensor, gpu.Tensor, gpu.Tensor)                     {}
