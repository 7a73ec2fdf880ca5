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
	if !m1.Passed() {
		b.Error("the first mark was waited for, and is not passed")
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
	last := b.q.Mark() // Sync waits for it
	if err := b.q.Sync(b.Context()); !errors.Is(err, gpu.ErrShape) {
		b.Errorf("a gather without an index: %v", err)
	}
	if !last.Passed() {
		b.Error("Sync is over, and a mark before it is not passed")
	}
	b.q.Fill(x, 1)
	soon := b.q.Mark()
	for !soon.Passed() { // asking is enough: nobody waits
		time.Sleep(time.Microsecond)
	}
	if err := soon.Wait(b.Context()); err != nil {
		b.Error(err)
	}
}

// follow: of two queues one fills memory and the other reads it, by turns, and the host waits for nothing before the end.
func follow(b *bench) {
	fills, err := gpu.NewQueue(b.dev)
	if err != nil {
		b.Fatal(err)
	}
	x := b.a.Matrix(b.q, 40, 7)
	in, out := make([][]float32, 20), make([][]float32, 20)
	for i := range in {
		in[i], out[i] = make([]float32, 40*7), make([]float32, 40*7)
		for k := range in[i] {
			in[i][k] = float32(b.r.Normal())
		}
		fills.Follow(b.q)
		fills.Upload(x, bytesOf(in[i]))
		b.q.Follow(fills)
		b.q.Download(bytesOf(out[i]), x)
	}
	mark := fills.Mark()
	b.sync()
	if err := mark.Wait(b.Context()); err != nil || mark.Took() <= 0 {
		b.Errorf("the mark behind all that was filled: %v, the device took %v", err, mark.Took())
	}
	for i := range in {
		if !slices.Equal(in[i], out[i]) {
			b.Fatalf("round %d read what was filled in another", i)
		}
	}
	if err := fills.Close(); err != nil {
		b.Error(err)
	}
	b.q.Follow(fills)
	if err := b.q.Sync(b.Context()); !errors.Is(err, gpu.ErrClosed) {
		b.Errorf("following a closed queue: %v", err)
	}
}
