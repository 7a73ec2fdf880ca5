package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/keyed"
)

// Init fills a new parameter: one value at a time, from a stream of its own.
type Init func(r *keyed.Rand) float32

// glorot draws uniformly from ±√(6/(fanIn+fanOut)) (Glorot and Bengio, 2010, eq. 16).
func glorot(fanIn, fanOut int) Init { return uniform(math.Sqrt(6 / float64(fanIn+fanOut))) }

// fanIn draws uniformly from ±1/√fanIn.
func fanIn(fanIn int) Init { return uniform(1 / math.Sqrt(float64(fanIn))) }

func uniform(bound float64) Init {
	return func(r *keyed.Rand) float32 { return float32(bound * (2*r.Float64() - 1)) }
}

// zero leaves a parameter at 0.
func zero(*keyed.Rand) float32 { return 0 }

// one sets a parameter to 1.
func one(*keyed.Rand) float32 { return 1 }

// Param is one parameter matrix and its gradient, views of a [Params].
type Param struct {
	Name        string // unique in the model, such as "0.neigh"
	Value, Grad gpu.Tensor
	// State is not trained but saved and kept with the model, such as running statistics.
	State bool
}

// Params is the parameters of a model, their gradients and Adam's moments:
// ranges of one device allocation, each parameter at the same place in
// every range, trained ones first.
type Params struct {
	list    []*Param
	specs   []spec
	rows    int // floats in a range
	trained int // of these, floats that optimisers step
	mem     gpu.Memory
	dev     gpu.Device
	sums    gpu.Memory // of gradients of several mini-batches; nil: see OpenSums
	average gpu.Memory // of values over steps; nil: see OpenAverage
	steps   int
	settled bool
}

type spec struct {
	rows, cols, at int
	init           Init
}

// padded is the floats that a parameter takes: whole 64-byte lines.
func (s spec) padded() int { return (s.rows*s.cols + 15) &^ 15 }

// Ranges of Params' memory.
const (
	rangeValue = iota
	rangeGrad
	rangeM
	rangeV
	rangeBest
	ranges
)

// NewParams returns an empty set for a device.
func NewParams(dev gpu.Device) *Params { return &Params{dev: dev} }

// Add declares a rows×cols parameter. Its tensors exist after [Params.Allocate].
func (p *Params) Add(name string, rows, cols int, init Init) *Param {
	return p.add(&Param{Name: name}, spec{rows: rows, cols: cols, init: init})
}

// AddState is Add for what no optimiser touches.
func (p *Params) AddState(name string, rows, cols int, init Init) *Param {
	return p.add(&Param{Name: name, State: true}, spec{rows: rows, cols: cols, init: init})
}

func (p *Params) add(q *Param, s spec) *Param {
	p.list, p.specs = append(p.list, q), append(p.specs, s)
	p.rows += s.padded()
	return q
}

// List returns the parameters in the order in which they were declared.
func (p *Params) List() []*Param { return p.list }

// Len returns the number of floats, padding included.
func (p *Params) Len() int { return p.rows }

// Bytes returns the device memory of the set.
func (p *Params) Bytes() int64 { return int64(ranges) * int64(p.rows) * 4 }

// saved returns how many floats Save writes; -1: more than limit, which no product of dimensions
// that are each at most 2^31 makes overflow.
func (p *Params) saved(limit int64) int64 {
	n := int64(0)
	for _, s := range p.specs {
		hi, size := bits.Mul64(uint64(s.rows), uint64(s.cols))
		if s.rows < 0 || s.cols < 0 || hi != 0 || size > uint64(limit-n) {
			return -1
		}
		n += int64(size)
	}
	return n
}

// Allocate gives the declared parameters memory and fills them: the same seed
// gives the same values on every device.
func (p *Params) Allocate(ctx context.Context, q *gpu.Queue, seed uint64) error {
	if p.settled {
		return errors.New("nn: parameters are allocated already")
	}
	mem, err := p.dev.Alloc(p.Bytes())
	if err != nil {
		return fmt.Errorf("nn: %d parameters: %w", p.rows, err)
	}
	p.mem, p.settled = mem, true
	p.place()
	q.Fill(p.whole(rangeValue), 0)
	host := make([]float32, min(p.rows, pieceFloats))
	key := keyed.New(seed).With(0x706172616d) // "param"
	for i, s := range p.specs {
		r := key.Rand(uint64(i))
		for at, end := s.at, s.at+s.rows*s.cols; at < end; at += len(host) {
			piece := host[:min(len(host), end-at)]
			for j := range piece {
				piece[j] = s.init(&r)
			}
			q.Upload(p.piece(at, len(piece)), blocks.Bytes(piece))
			if err := q.Sync(ctx); err != nil {
				return err
			}
		}
		p.list[i].Value = p.view(rangeValue, s)
		p.list[i].Grad = p.view(rangeGrad, s)
	}
	return q.Sync(ctx)
}

// pieceFloats of the values are on the host at a time where they need not be there all at once: they can be many.
const pieceFloats = 1 << 18

// piece is n of the values, from place at on.
func (p *Params) piece(at, n int) gpu.Tensor { return gpu.MatrixOf(p.mem, 4*int64(at), 1, n) }

// place decides where in a range each parameter lies: trained ones first.
func (p *Params) place() {
	at := 0
	for _, state := range []bool{false, true} {
		for i := range p.specs {
			if p.list[i].State == state {
				p.specs[i].at = at
				at += p.specs[i].padded()
			}
		}
		if !state {
			p.trained = at
		}
	}
}

func (p *Params) view(r int, s spec) gpu.Tensor {
	return gpu.MatrixOf(p.mem, int64(r*p.rows+s.at)*4, s.rows, s.cols)
}

func (p *Params) whole(r int) gpu.Tensor {
	return gpu.MatrixOf(p.mem, int64(r*p.rows)*4, 1, p.rows)
}

// stepped is what an optimiser steps of a range.
func (p *Params) stepped(r int) gpu.Tensor { return p.whole(r).View(0, 0, 1, p.trained) }

// ZeroGrads clears all gradients. Layers overwrite theirs, so that only
// layers that share parameters need it.
func (p *Params) ZeroGrads(q *gpu.Queue) { q.Fill(p.whole(rangeGrad), 0) }

// Step counts an optimiser step, of which o becomes.
func (p *Params) Step(o gpu.AdamOptions) gpu.AdamOptions {
	p.steps++
	o.Step = p.steps
	return o
}

// Adam takes one optimiser step on all parameters, o of [Params.Step].
func (p *Params) Adam(q *gpu.Queue, o gpu.AdamOptions) {
	q.Adam(o, p.stepped(rangeValue), p.stepped(rangeGrad), p.stepped(rangeM), p.stepped(rangeV))
}

// Steps is the number of steps that [Params.Step] has counted.
func (p *Params) Steps() int { return p.steps }

// Adagrad takes one optimiser step on all parameters; the sums of squares lie where
// Adam keeps its second moments, so that a set is stepped by one of the two.
func (p *Params) Adagrad(q *gpu.Queue, o gpu.AdagradOptions) {
	q.Adagrad(o, p.stepped(rangeValue), p.stepped(rangeGrad), p.stepped(rangeV))
}

// Keep remembers the values as the best so far.
func (p *Params) Keep(q *gpu.Queue) { q.Copy(p.whole(rangeBest), p.whole(rangeValue)) }

// Restore returns to the values last kept.
func (p *Params) Restore(q *gpu.Queue) { q.Copy(p.whole(rangeValue), p.whole(rangeBest)) }

// Finite reports whether all values are numbers and none is infinite.
func (p *Params) Finite(ctx context.Context, q *gpu.Queue) (bool, error) {
	host := make([]float32, min(p.rows, pieceFloats))
	for at := 0; at < p.rows; at += len(host) {
		piece := host[:min(len(host), p.rows-at)]
		q.Download(blocks.Bytes(piece), p.piece(at, len(piece)))
		if err := q.Sync(ctx); err != nil {
			return false, fmt.Errorf("nn: read parameters: %w", err)
		}
		if slices.ContainsFunc(piece, func(v float32) bool { return v-v != 0 }) { // NaN − NaN and ∞ − ∞ are NaN
			return false, nil
		}
	}
	return true, nil
}

// Save returns the values as little-endian float32 in the order of List,
// without padding.
func (p *Params) Save(ctx context.Context, q *gpu.Queue) ([]byte, error) {
	out := make([]byte, 4*p.saved(math.MaxInt64/4))
	at := 0
	for _, s := range p.specs {
		n := 4 * s.rows * s.cols
		q.Download(out[at:at+n], p.view(rangeValue, s))
		at += n
	}
	if err := q.Sync(ctx); err != nil {
		return nil, fmt.Errorf("nn: save parameters: %w", err)
	}
	return out, nil
}

// Load is the inverse of Save for a set of the same shapes.
func (p *Params) Load(ctx context.Context, q *gpu.Queue, b []byte) error {
	n := 0
	for _, s := range p.specs {
		n += s.rows * s.cols
	}
	if len(b) != 4*n {
		return fmt.Errorf("nn: load parameters: %d bytes, expected %d for %d parameters: the model has other shapes", len(b), 4*n, n)
	}
	q.Fill(p.whole(rangeValue), 0)
	for _, s := range p.specs {
		n := 4 * s.rows * s.cols
		q.Upload(p.view(rangeValue, s), b[:n])
		b = b[n:]
	}
	return q.Sync(ctx)
}

// OpenSums makes room for sums of gradients, so that several mini-batches make a step.
func (p *Params) OpenSums() (err error) {
	p.sums, err = p.dev.Alloc(max(4*int64(p.trained), 4))
	return err
}

func (p *Params) sum() gpu.Tensor { return gpu.MatrixOf(p.sums, 0, 1, p.trained) }

// AddGrads adds the gradients to the sums, times a weight, such as the examples that they are means of. first begins them anew.
func (p *Params) AddGrads(q *gpu.Queue, weight float32, first bool) {
	if first {
		q.Fill(p.sum(), 0)
	}
	q.Axpy(weight, p.stepped(rangeGrad), p.sum())
}

// MeanGrads makes the gradients the sums over the weights' total.
func (p *Params) MeanGrads(q *gpu.Queue, total float32) {
	q.Fill(p.stepped(rangeGrad), 0)
	q.Axpy(1/total, p.sum(), p.stepped(rangeGrad))
}

// Close frees the set's memory.
func (p *Params) Close() (err error) {
	for _, m := range []*gpu.Memory{&p.mem, &p.sums, &p.average} {
		if *m != nil {
			err = errors.Join(err, (*m).Free())
			*m = nil
		}
	}
	return err
}
