package gpu

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/gstore/gstore/blocks"
)

// Recorder is a [Stream] that takes operations down and runs all of them again by one call: what a step costs the host then does not
// depend on how many they are.
type Recorder interface {
	// Record takes down what issue issues, which does not run. Sizes, addresses and options are as they are now. What
	// uploads, downloads, allocates or waits cannot be taken down: it is an error, as is all that Record itself finds,
	// and nothing of it stays the stream's.
	Record(issue func()) (Program, error)
	// Replay runs a program of this stream, in the order of its operations.
	Replay(p Program)
}

// Program is what a [Recorder] took down. It reads and writes the same memory each time; the stream frees it at the latest.
type Program interface {
	// Close waits for the stream and frees the program.
	Close() error
}

// ErrNotRecorded marks operations that cannot be taken down.
var ErrNotRecorded = errors.New("cannot be recorded")

// Records reports whether q's stream is a [Recorder].
func (q *Queue) Records() bool { return q.recorder() != nil }

func (q *Queue) recorder() Recorder {
	r, _ := q.stream.(Recorder)
	return r
}

// Record is [Recorder.Record], checks included, of operations whose tensors come from a. What cannot be recorded is an error
// of this recording alone, after which a has what it had before.
func (q *Queue) Record(a *Arena, issue func()) (Program, error) {
	r := q.recorder()
	if r == nil {
		return nil, fmt.Errorf("gpu: %s: steps %w", q.dev.Info().Name, ErrNotRecorded)
	}
	if !q.ok() {
		return nil, q.err
	}
	used := a.fix()
	p, err := r.Record(issue)
	if q.err != nil { // checks failed; the stream has nothing of what followed
		failed := q.err
		q.err = nil
		if err == nil {
			err = p.Close()
		}
		err = errors.Join(failed, err)
	}
	a.free(used, err == nil)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Replay is [Recorder.Replay] of a program that q recorded.
func (q *Queue) Replay(p Program) {
	if q.ok() {
		q.recorder().Replay(p)
	}
}

// SizeClass is the least power of two above n. What a device cuts sums by depends on the class of a number of rows alone, so that rows of
// zeros behind the others, as long as the class stays, change no bit of a result.
func SizeClass(n int) int { return 1 << bits.Len(uint(n)) }

// Scalars are the numbers of a training step that differ from those of the step before. On the device, at one place for all steps,
// they are read by operations that are recorded.
type Scalars struct {
	Seed    Tensor // uint64[1×1]: [DropoutOptions].Base
	Flipped Tensor // its complement
	Rates   Tensor // float32[1×2]: [AdamOptions].Rates
}

// Scalars makes a step's numbers readable by the device until Reset.
func (a *Arena) Scalars(q *Queue, seed uint64, o AdamOptions) Scalars {
	lr, inv2 := o.StepRates()
	words := [6]uint32{uint32(seed), uint32(seed >> 32), uint32(^seed), uint32(^seed >> 32), math.Float32bits(lr), math.Float32bits(inv2)}
	t := a.Uint32s(q, words[:])
	at := func(word, n int, elem blocks.ElemType) Tensor {
		return VectorOf(t.Mem, t.Offset+int64(word)*int64(unsafe.Sizeof(words[0])), n, elem)
	}
	return Scalars{Seed: at(0, 1, blocks.Uint64), Flipped: at(2, 1, blocks.Uint64), Rates: at(4, 2, blocks.Float32)}
}

// scalar checks n numbers of a step that an operation reads on the device, which only a Recorder does.
func (q *Queue) scalar(op string, t Tensor, n int, elem blocks.ElemType) error {
	if t.IsZero() {
		return nil
	}
	if !q.Records() {
		return shapef(op, "numbers of a step lie on a device that does not record")
	}
	return vector(op, "scalars", t, elem, n)
}

// StepRates are what a step of Adam multiplies by, derived in float64: the learning rate over 1−Beta1^Step, and 1/√(1−Beta2^Step).
func (o AdamOptions) StepRates() (lr, inv2 float32) {
	step := float64(max(o.Step, 1))
	return float32(float64(o.LR) / (1 - math.Pow(float64(o.Beta1), step))), float32(1 / math.Sqrt(1-math.Pow(float64(o.Beta2), step)))
}
