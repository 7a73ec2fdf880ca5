package gputest

import (
	"errors"
	"slices"
	"time"

	"github.com/gstore/gstore/gpu"
)

// marks: a mark waits for what was issued before it, with its downloads and errors, and for nothing after it.
func marks(b *bench) {
	x, want := b.matrix(40, 7, 0)
	first, second := make([]float32, 40*7), make([]float32, 40*7)
	b.q.Download(bytesOf(first), x)
	m1 := b.q.Mark()
	b.q.Fill(x, 7)
	b.q.Download(bytesOf(second), x)
	m2 := b.q.Mark()
	nothing := b.q.Mark()
	y := b.a.Matrix(b.q, 2, 7)
	b.q.Gather(y, x, b.a.Uint32s(b.q, []uint32{3, 40}))
	bad := b.q.Mark()
	if err := m1.Wait(b.Context()); err != nil || !slices.Equal(first, want) {
		b.Errorf("the first mark: %v, downloaded %v, expected %v", err, first, want)
	}
	if m1.Took() <= 0 || m1.Took() > time.Hour {
		b.Errorf("until the first mark the device took %v", m1.Took())
	}
	for i := range want {
		want[i] = 7
	}
	if err := m2.Wait(b.Context()); err != nil || !slices.Equal(second, want) {
		b.Errorf("the second mark: %v, downloaded %v, expected %v", err, second, want)
	}
	if err := nothing.Wait(b.Context()); err != nil || nothing.Took() != 0 {
		b.Errorf("a mark right after another: %v, %v", err, nothing.Took())
	}
	if err := bad.Wait(b.Context()); err == nil {
		b.Error("row 40 of 40: no error at the mark")
	}
	if err := b.q.Sync(b.Context()); err == nil {
		b.Error("row 40 of 40: the error was forgotten before Sync")
	}
	b.q.Fill(y, 1)
	if err := b.q.Mark().Wait(b.Context()); err != nil {
		b.Errorf("after Sync: %v", err)
	}
	b.q.Gather(y, x, gpu.Tensor{})
	b.q.Mark() // Sync waits for it
	if err := b.q.Sync(b.Context()); !errors.Is(err, gpu.ErrShape) {
		b.Errorf("a gather without an index: %v", err)
	}
}
