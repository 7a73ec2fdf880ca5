package replay

import (
	"errors"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/sampler/keyed"
)

// fake is a device whose streams say that they record: programs are counted.
type fake struct {
	gpu.Device
	fails                      int // of the next recordings
	recorded, replayed, closed int
}

type fakeStream struct {
	gpu.Stream
	d *fake
}

type fakeProgram struct{ d *fake }

func (d *fake) NewStream() (gpu.Stream, error) {
	s, err := d.Device.NewStream()
	return &fakeStream{s, d}, err
}

func (s *fakeStream) Record(issue func()) (gpu.Program, error) {
	issue()
	if s.d.fails > 0 {
		s.d.fails--
		return nil, gpu.ErrNotRecorded
	}
	s.d.recorded++
	return &fakeProgram{s.d}, nil
}

func (s *fakeStream) Replay(gpu.Program) { s.d.replayed++ }
func (p *fakeProgram) Close() error      { p.d.closed++; return nil }

func begin(t *testing.T) (*fake, *Steps, *gpu.Arena) {
	d := &fake{Device: host.New(host.Options{Threads: 1})}
	q, err := gpu.NewQueue(d)
	if err != nil {
		t.Fatal(err)
	}
	a := gpu.NewArena(d)
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), q.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d, New(q), a
}

// TestRun: the first mini-batch of a shape is issued, the second is recorded, the others are replayed as long as they lie where it did.
func TestRun(t *testing.T) {
	d, s, a := begin(t)
	m, err := d.Alloc(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	here, there := []gpu.Tensor{gpu.MatrixOf(m, 0, 4, 4)}, []gpu.Tensor{gpu.MatrixOf(m, 64, 4, 4)}
	x := s.Shape(Sizes{Nodes: []int{300, 100}, Edges: []int{500}})
	issued := 0
	for i, c := range []struct {
		key                        []gpu.Tensor
		fails                      int
		issued, recorded, replayed int
	}{
		{here, 0, 1, 0, 0},  // warm
		{here, 1, 3, 0, 0},  // a recording fails: what it issued is issued again
		{here, 0, 4, 1, 1},  // recorded
		{here, 0, 4, 1, 2},  // replayed
		{there, 0, 5, 2, 3}, // elsewhere: recorded again
		{there, 0, 5, 2, 4},
	} {
		d.fails = c.fails
		s.Run(x, a, c.key, func() { issued++ })
		if issued != c.issued || d.recorded != c.recorded || d.replayed != c.replayed {
			t.Errorf("run %d: issued %d, recorded %d, replayed %d times, expected %+v", i, issued, d.recorded, d.replayed, c)
		}
	}
	if d.closed != 0 {
		t.Error("a recording is freed while it may run")
	}
	if err := s.Settle(); err != nil || d.closed != 1 {
		t.Errorf("%v: %d recordings are freed, expected the first one's", err, d.closed)
	}
	if z := s.Stats(); z != (Stats{Shapes: 1, Recorded: 2, Replayed: 4, Failed: 1}) || !errors.Is(s.Err(), gpu.ErrNotRecorded) {
		t.Errorf("%+v, %v", z, s.Err())
	}
	y := s.Shape(Sizes{Nodes: []int{30, 10}, Edges: []int{50}}) // fails for good
	d.fails = 100
	for range 6 {
		s.Run(y, a, here, func() {})
	}
	if s.Stats().Failed != 1+attemptsMax {
		t.Errorf("%d recordings failed, expected %d attempts of a shape", s.Stats().Failed, attemptsMax)
	}
}

// TestShapes: mini-batches of about a size have one shape, larger or much smaller ones another, and the oldest one goes where there are
// too many.
func TestShapes(t *testing.T) {
	d, s, a := begin(t)
	of := func(n int) *Shape { return s.Shape(Sizes{Nodes: []int{n, 20}, Edges: []int{2 * n}}) }
	x := of(600)
	for _, n := range []int{590, 620, 639} {
		if of(n) != x {
			t.Errorf("%d nodes have another shape than 600: %v", n, x.Sizes)
		}
	}
	for _, n := range []int{300, 900} {
		if of(n) == x {
			t.Errorf("%d nodes have the shape of 600: %v", n, x.Sizes)
		}
	}
	if y := of(1023); y != nil {
		t.Errorf("1023 nodes have a shape of another class: %v", y.Sizes)
	}
	if y := of(1000); y == nil || y.Nodes[0] != 1023 {
		t.Errorf("1000 nodes have shape %v, expected the last of their class", y)
	}
	for range 2 {
		s.Run(x, a, nil, func() {})
	}
	for i := range shapesMax {
		of(2000 << i)
	}
	if n := s.Stats().Shapes; n != shapesMax || slices.Contains(s.shapes, x) {
		t.Errorf("%d shapes are left, the oldest among them: %v", n, slices.Contains(s.shapes, x))
	}
	if err := s.Settle(); err != nil || d.closed != 1 {
		t.Errorf("%v: %d recordings are freed", err, d.closed)
	}
}

// TestBlocks: what is added to a mini-batch's blocks is a graph of its own, in which no node has many edges.
func TestBlocks(t *testing.T) {
	_, s, _ := begin(t)
	r := keyed.New(1).Rand(0)
	for range 200 {
		dst := 1 + int(r.Below(900))
		src := dst + int(r.Below(900))
		indptr, indices := []int32{0}, []int32(nil)
		for range dst {
			for range r.Below(4) {
				indices = append(indices, int32(r.Below(uint64(src))))
			}
			indptr = append(indptr, int32(len(indices)))
		}
		x := s.Shape(Sizes{Nodes: []int{src, dst}, Edges: []int{len(indices)}})
		if x == nil {
			continue
		}
		p, k := s.Block(x, 0, src, indptr, indices)
		if len(p) != x.Nodes[1]+1 || len(k) != x.Edges[0] || int(p[len(p)-1]) != len(k) || !slices.IsSorted(p) {
			t.Fatalf("%d destinations, %d sources, %d edges: padded to %d and %d, shape %v", dst, src, len(indices), len(p)-1, len(k), x.Sizes)
		}
		if !slices.Equal(p[:dst+1], indptr) || !slices.Equal(k[:len(indices)], indices) {
			t.Fatal("padding changed a mini-batch")
		}
		added := x.Nodes[1] - dst
		for d := dst; d < len(p)-1; d++ {
			if int(p[d+1]-p[d]) > (len(k)-len(indices)+added-1)/added {
				t.Fatalf("added destination %d has %d of %d edges", d, p[d+1]-p[d], len(k)-len(indices))
			}
		}
		for _, v := range k[len(indices):] {
			if int(v) < src || int(v) >= x.Nodes[0] {
				t.Fatalf("an added edge comes from %d, expected one of the added sources %d to %d", v, src, x.Nodes[0])
			}
		}
	}
	x := s.Shape(Sizes{Nodes: []int{4, 2}, Edges: []int{1}})
	if l := s.Labels(x, []int32{4, 5}); len(l) != x.Nodes[1] || l[1] != 5 || l[2] != -1 {
		t.Errorf("labels %v", l)
	}
	if l := s.Rows(x, []uint32{9, 8, 7}); len(l) != x.Nodes[0] || l[2] != 7 || l[3] != 9 {
		t.Errorf("rows %v", l)
	}
	if l := s.Degrees(x, 0, []int32{2, 0, 3}); len(l) != x.Nodes[0] || l[1] != 0 || l[3] != 1 {
		t.Errorf("degrees %v", l)
	}
}
