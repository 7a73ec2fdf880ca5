package gpu

import (
	"context"
	"fmt"
)

// Device is one place where tensors live and operations run. Safe for
// concurrent use.
type Device interface {
	// Info describes the device.
	Info() Info
	// Alloc returns zeroed memory that owns itself until freed, aligned to at
	// least 64 bytes. Errors match [ErrMemory].
	Alloc(bytes int64) (Memory, error)
	// Map makes host memory readable and writable by the device in place. The bytes must
	// outlive the returned Memory, whose Free does not free them. Where
	// Info().InPlace is false, the device reads across a bus: right for
	// feature rows that are read once, wrong for what is read often.
	Map(b []byte) (Memory, error)
	// NewStream makes an ordered stream of operations.
	NewStream() (Stream, error)
	// Close frees what the device still holds.
	Close() error
}

// Info describes a device.
type Info struct {
	Name    string // "host", "cuda:0"
	Detail  string // what decides its speed, such as "avx512, 2 threads"
	InPlace bool   // Map costs nothing: the device's memory is the host's
	// MemoryBytes is how much may be allocated; 0 = as much as there is.
	MemoryBytes int64
	// Async says that operations run after they were issued. Its streams are [Follower]s, and [Stager]s: host arrays given
	// to an arena are copied in the call.
	Async bool
	// Samples says that its streams are [BlockSampler]s.
	Samples bool
	// Sparse says that its streams are [SparseStream]s.
	Sparse bool
}

// OwnMemory reports whether what is allocated lies in memory that is not the host's. Of a device that nobody has named it
// is not known, hence false.
func (i Info) OwnMemory() bool { return i.Name != "" && !i.InPlace }

// String returns the name and what decides its speed.
func (i Info) String() string {
	if i.Detail == "" {
		return i.Name
	}
	return i.Name + " (" + i.Detail + ")"
}

// Reduce says how messages of one destination are combined.
type Reduce uint8

// Reductions.
const (
	Sum  Reduce = iota // the sum of the messages
	Mean               // their mean; 0 where there is none
)

// String returns "sum" or "mean".
func (r Reduce) String() string {
	if r == Mean {
		return "mean"
	}
	return "sum"
}

// AggregateOptions configures [Queue.Aggregate].
type AggregateOptions struct {
	Reduce Reduce
	// Index maps the graph's sources to rows of the table: source s is row
	// Index[s]. None: source s is row s. Uint32[1×NumSrc].
	Index Tensor
	// Accumulate adds the messages to dst one by one instead of overwriting it (Sum only): edges that
	// come in several calls, in order, give the bits of one call.
	Accumulate bool
	// Weights multiplies the message of each edge: float32[edges×1], perhaps with gaps, or none (Sum only).
	Weights Tensor
}

// GemmOptions configures [Queue.Gemm].
type GemmOptions struct {
	TransA, TransB bool
	Accumulate     bool   // C += A·B instead of C = A·B
	Bias           Tensor // added to every row of C; float32[1×n] or none
	ReLU           bool   // C = max(0, …), last
}

// DropoutOptions names a dropout mask: the same seed and shape give the same mask
// on every device and for any number of threads.
type DropoutOptions struct {
	P    float32 // probability that an element is dropped, 0 ≤ P < 1; kept ones are scaled by 1/(1−P)
	Seed uint64  // keyed by run, epoch, step, batch and layer
	// Base, if not none, is added to Seed: [Scalars].Seed or Flipped, on devices that record.
	Base Tensor
}

// AdamOptions is one step of Adam (Kingma and Ba, 2015, Algorithm 1). The
// weight decay is added to the gradient, as in PyTorch's Adam.
type AdamOptions struct {
	LR, Beta1, Beta2, Epsilon float32
	WeightDecay               float32
	Step                      int // 1 for the first step
	// Rates, if not none, are those of the step, [Scalars].Rates, in place of LR and Step. Of [Queue.Adam] on devices that record.
	Rates Tensor
}

func (o AdamOptions) check() error {
	if o.Step < 1 {
		return fmt.Errorf("gpu: adam step %d, expected 1 or more", o.Step)
	}
	return nil
}

// Stream executes operations in the order in which they were issued. It is
// what a device implements; callers use [Queue], which has checked every
// argument before it gets here: shapes fit, views lie inside their memory,
// outputs overlap no input unless the operation is elementwise. Indices inside Index and Graph
// tensors are the only thing a stream must guard itself. Operations are documented at Queue's methods of the
// same name.
type Stream interface {
	Upload(dst Tensor, src []byte)
	Download(dst []byte, src Tensor)
	Copy(dst, src Tensor)
	Fill(dst Tensor, value float32)

	Gather(dst, table, index Tensor)
	CopyRows(dst, to, src, from Tensor)
	Aggregate(o AggregateOptions, g Graph, table, dst Tensor)
	AggregateBackward(r Reduce, g Graph, dDst, dSrc Tensor)
	Transpose(g Graph)
	DivideRows(t, divisors Tensor)

	Gemm(o GemmOptions, a, b, c Tensor)
	ColumnSum(src, dst Tensor)
	Axpy(alpha float32, x, y Tensor)

	Dropout(o DropoutOptions, t Tensor)
	ReLUBackward(scale float32, y, d Tensor)
	SoftmaxCrossEntropy(logits, labels, grad, stat Tensor)
	NumberLoss(o NumberLossOptions, outputs, labels, grad, stat Tensor)
	MultiLabelLoss(sets, logits, labels, grad, stat Tensor)
	Adam(o AdamOptions, param, grad, m, v Tensor)

	EdgeStream
	ModelStream
	LinkStream

	// Mark notes the place after everything issued so far.
	Mark() Mark
	// Sync waits until everything issued is done and returns the first error
	// since the last Sync.
	Sync(ctx context.Context) error
	Close() error
}
