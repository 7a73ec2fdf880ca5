package nn

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// savedRanges are what a run goes on from; gradients are made anew.
var savedRanges = [...]int{rangeValue, rangeM, rangeV, rangeBest}

// SaveState returns everything that training goes on from: values, the
// optimiser's moments, the values last kept and the number of steps. It is
// little-endian: u64 steps, u64 floats a range, then the ranges.
func (p *Params) SaveState(ctx context.Context, q *gpu.Queue) ([]byte, error) {
	host := make([]float32, p.rows)
	out := make([]byte, 0, 16+4*len(savedRanges)*p.rows)
	out = binary.LittleEndian.AppendUint64(out, uint64(p.steps))
	out = binary.LittleEndian.AppendUint64(out, uint64(p.rows))
	for _, r := range savedRanges {
		q.Download(blocks.Bytes(host), p.whole(r))
		if err := q.Sync(ctx); err != nil {
			return nil, fmt.Errorf("nn: save the state of parameters: %w", err)
		}
		for _, v := range host {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out, nil
}

// LoadState is the inverse of SaveState for a set of the same shapes.
func (p *Params) LoadState(ctx context.Context, q *gpu.Queue, b []byte) error {
	if want := 16 + 4*len(savedRanges)*p.rows; len(b) != want || binary.LittleEndian.Uint64(b[8:]) != uint64(p.rows) {
		return fmt.Errorf("nn: load the state of parameters: %d bytes, expected %d: the model has other shapes", len(b), want)
	}
	p.steps = int(binary.LittleEndian.Uint64(b))
	b = b[16:]
	host := make([]float32, p.rows)
	for _, r := range savedRanges {
		for i := range host {
			host[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		b = b[4*len(host):]
		q.Upload(p.whole(r), blocks.Bytes(host))
		if err := q.Sync(ctx); err != nil {
			return fmt.Errorf("nn: load the state of parameters: %w", err)
		}
	}
	return nil
}
