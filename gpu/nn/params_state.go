package nn

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// savedRanges are what a run goes on from; gradients are made anew.
var savedRanges = [...]int{rangeValue, rangeM, rangeV, rangeBest}

// stateHead is what SaveState writes before the ranges.
const stateHead = 16

// SaveState returns everything that training goes on from: values, the
// optimiser's moments, the values last kept, averages if there are some, and
// the number of steps. It is little-endian: u64 steps, u64 floats a range, then
// the ranges.
func (p *Params) SaveState(ctx context.Context, q *gpu.Queue) ([]byte, error) {
	return p.SaveStateInto(ctx, q, nil)
}

// SaveStateInto is SaveState into the memory of out, where that is enough: garbage of one state is not collected before the next is made.
func (p *Params) SaveStateInto(ctx context.Context, q *gpu.Queue, out []byte) ([]byte, error) {
	if n := int(p.stateBytes()); cap(out) >= n {
		out = out[:n]
	} else {
		out = make([]byte, n)
	}
	binary.LittleEndian.PutUint64(out, uint64(p.steps))
	binary.LittleEndian.PutUint64(out[8:], uint64(p.rows))
	for i, t := range p.saving() {
		q.Download(out[stateHead+4*i*p.rows:][:4*p.rows], t)
	}
	if err := q.Sync(ctx); err != nil {
		return nil, fmt.Errorf("nn: save the state of parameters: %w", err)
	}
	return out, nil
}

// LoadState is the inverse of SaveState for a set of the same shapes.
func (p *Params) LoadState(ctx context.Context, q *gpu.Queue, b []byte) error {
	if want := p.stateBytes(); int64(len(b)) != want || binary.LittleEndian.Uint64(b[8:]) != uint64(p.rows) {
		return fmt.Errorf("nn: load the state of parameters: %d bytes, expected %d: the model has other shapes", len(b), want)
	}
	p.steps = int(binary.LittleEndian.Uint64(b))
	for i, t := range p.saving() {
		q.Upload(t, b[stateHead+4*i*p.rows:][:4*p.rows])
	}
	if err := q.Sync(ctx); err != nil {
		return fmt.Errorf("nn: load the state of parameters: %w", err)
	}
	return nil
}

// saving is what a state holds, in its order.
func (p *Params) saving() (list []gpu.Tensor) {
	for _, r := range savedRanges {
		list = append(list, p.whole(r))
	}
	if p.average != nil {
		list = append(list, p.averages())
	}
	return list
}

// stateBytes is the size of what SaveState writes.
func (p *Params) stateBytes() int64 { return stateHead + 4*int64(len(p.saving()))*int64(p.rows) }

// Shape is the name and shape of a parameter, as model files say it.
type Shape struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	Cols int    `json:"cols"`
}

// Shapes are those of the parameters that are trained, in their order.
func (p *Params) Shapes() (list []Shape) {
	for _, x := range p.list {
		if !x.State {
			list = append(list, Shape{x.Name, x.Value.Rows, x.Value.Cols})
		}
	}
	return list
}
