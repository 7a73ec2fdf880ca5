package eval

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
)

// residentModels are those whose states, edges or both may stay on a device.
var residentModels = map[string]nn.Config{
	"sage": {Model: "sage"}, "gcn, layer norm, residual": {Model: "gcn", Norm: "layer", Residual: true}, "gin": {Model: "gin"}, "mlp": {Model: "mlp"},
	"sage max": {Model: "sage", Aggregator: "max"}, "sage, edge weights": {Model: "sage", EdgeWeights: true}, "gcn, edge weights": {Model: "gcn", EdgeWeights: true},
	"gat": {Model: "gat", Heads: 4}, "rgcn": {Model: "rgcn", Bases: 3}, "rsage": {Model: "rsage"}, "hgt": {Model: "hgt", Heads: 2},
	"sage of 3 layers": {Model: "sage", Layers: 3}, "sage of 1 layer": {Model: "sage", Layers: 1},
}

// TestResident: with states, features and edges on a device of its own memory an evaluation has the bits of one on the host, however many
// tiles the host's memory allows; and the second run reads nothing of the store but labels and splits, and nothing across the bus.
func TestResident(t *testing.T) {
	for name, model := range residentModels {
		for _, undirected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/undirected=%v", name, undirected), func(t *testing.T) {
				g := evaltest.Random(t, 1500, 7, undirected)
				model := model
				model.In, model.Hidden, model.Out, model.Seed = g.Dim, 12, g.M.Schema.Classes, 2
				if model.Layers == 0 {
					model.Layers = 2
				}
				if model.Kind().Relations {
					model.Relations = evaltest.Relations
					if !undirected {
						model.Relations *= 2
					}
				}
				inner, q, m := untrained(t, 2, model)
				want := residentRun(t, g, inner, q, m, 0, 0, "")
				for _, memory := range []int64{0, leastResident(t, g, model)} {
					dev := gputest.NewCounting(inner, 1<<30)
					own, err := gpu.NewQueue(dev)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = own.Close() }()
					residentRun(t, g, dev, own, m, memory, 1<<30, want)
				}
			})
		}
	}
}

// leastResident is a bound that makes the host build edges in several tiles, where tiles change no bit, else none.
func leastResident(t *testing.T, g *evaltest.Graph, model nn.Config) int64 {
	t.Helper()
	e, err := New(g, nil, Options{Features: []string{"x"}, Model: model, Predictions: true}, model.Hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if !e.cheapTiles() {
		return 0
	}
	return e.LeastBytes() * 5 / 4
}

// residentRun evaluates twice and returns what came out, which is to be want unless that is "".
func residentRun(t *testing.T, g *evaltest.Graph, dev gpu.Device, q *gpu.Queue, m *nn.Model, memory, onDevice int64, want string) (got string) {
	t.Helper()
	e, err := New(g, dev, Options{Features: []string{"x"}, Model: m.Config(), Predictions: true, MemoryBytes: memory}, m.Config().Hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	e.KeepOnDevice(onDevice)
	counting, own := dev.(*gputest.Counting)
	for run := range 2 {
		read, moved := e.BytesRead(), int64(0)
		if own {
			moved = counting.RowBytes()
		}
		metrics, err := e.Run(t.Context(), q, m, "valid", "test")
		if err != nil {
			t.Fatal(err)
		}
		got = ""
		for _, x := range metrics {
			got += fmt.Sprintf("%x %d ", x.Loss, x.Correct)
		}
		classes, _ := e.Predictions()
		b := make([]byte, 4*g.M.Nodes)
		if err := classes.table.Read(b, 0); err != nil {
			t.Fatal(err)
		}
		if got += fmt.Sprintf("%x", b); want != "" && got != want {
			t.Errorf("run %d within %d bytes: %.80s…, on the host %.80s…", run, memory, got, want)
		}
		if !own {
			continue
		}
		if e.on == nil {
			t.Fatalf("within %d bytes nothing is on the device", memory)
		}
		c := m.Config() // of whose wide input narrow products are added up: one tile has room for them
		if tiles := len(e.on.tiles); memory > 0 && c.Model == "sage" && !c.StreamsProducts() && tiles < 2 {
			t.Errorf("within %d bytes edges are built in %d tile, expected several", memory, tiles)
		}
		if n := e.BytesRead() - read; run > 0 && e.on.keeps && n > int64(5*g.M.Nodes) {
			t.Errorf("the second run reads %d bytes of the store, expected labels and split of %d nodes", n, g.M.Nodes)
		}
		if n := counting.RowBytes() - moved; run > 0 && e.on.keeps && n > int64(8*g.M.Nodes) {
			t.Errorf("%d bytes of rows cross the bus in the second run, expected masked labels alone", n)
		}
	}
	return got
}

// full is a device of its own memory that refuses demand number at, counted from 0.
type full struct {
	*gputest.Counting
	at, demands int
}

func (d *full) Alloc(bytes int64) (gpu.Memory, error) {
	if d.demands++; d.demands-1 == d.at {
		return nil, fmt.Errorf("%w: the test's", gpu.ErrMemory)
	}
	return d.Counting.Alloc(bytes)
}

// TestResidentGivesWay: where a device has no room, by its account or because others have filled it, nothing stays on it, nothing is left
// allocated, and the bits are the same.
func TestResidentGivesWay(t *testing.T) {
	g := evaltest.Random(t, 1500, 7, true)
	model := nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 12, Out: g.M.Schema.Classes, Seed: 2}
	inner, q, m := untrained(t, 2, model)
	want := residentRun(t, g, inner, q, m, 0, 0, "")
	for _, c := range []struct {
		bytes int64
		at    int // of the column and the states of two layers
	}{{1 << 10, -1}, {1 << 30, 0}, {1 << 30, 1}, {1 << 30, 2}} {
		dev := &full{Counting: gputest.NewCounting(inner, 1<<30), at: c.at}
		e, err := New(g, dev, Options{Features: []string{"x"}, Model: model, Predictions: true}, model.Hidden)
		if err != nil {
			t.Fatal(err)
		}
		e.KeepOnDevice(c.bytes)
		before, _ := inner.(*host.Device).AllocatedBytes()
		if on, err := e.openResident(); on != nil || err != nil {
			t.Fatalf("%+v: %v, %v", c, on, err)
		}
		if now, _ := inner.(*host.Device).AllocatedBytes(); now != before {
			t.Errorf("%+v: %d bytes are left allocated", c, now-before)
		}
		own, err := gpu.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := e.Run(t.Context(), own, m, "valid", "test")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, x := range metrics {
			got += fmt.Sprintf("%x %d ", x.Loss, x.Correct)
		}
		if e.on != nil || got != want[:len(got)] {
			t.Errorf("%+v: %s, expected %s", c, got, want[:len(got)])
		}
		if err := errors.Join(own.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestResidentLeaves: where a device runs out of memory in a run, at whatever demand, what stays there is given up and the run has the same bits.
func TestResidentLeaves(t *testing.T) {
	g := evaltest.Random(t, 1501, 7, false)
	model := nn.Config{Model: "gcn", Layers: 2, In: g.Dim, Hidden: 12, Out: g.M.Schema.Classes, Seed: 2}
	inner, _, m := untrained(t, 2, model)
	run := func(at int) (got string, e *Evaluator) {
		dev := &full{Counting: gputest.NewCounting(inner, 1<<30), at: at}
		q, err := gpu.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = New(g, dev, Options{Features: []string{"x"}, Model: model}, model.Hidden); err != nil {
			t.Fatal(err)
		}
		e.KeepOnDevice(1 << 30)
		metrics, err := e.Run(t.Context(), q, m, "train", "test")
		if err != nil {
			t.Fatalf("demand %d: %v", at, err)
		}
		for _, x := range metrics {
			got += fmt.Sprintf("%x %d ", x.Loss, x.Correct)
		}
		left := e.on == nil
		if at >= 0 && left != (dev.demands > at) {
			t.Errorf("demand %d of %d was refused; on the device: %v", at, dev.demands, !left)
		}
		if err := errors.Join(q.Close(), e.Close()); err != nil {
			t.Error(err)
		}
		return got, e
	}
	want, _ := run(-1)
	refused := 0
	for at := 0; ; at++ {
		got, e := run(at)
		if got != want {
			t.Errorf("demand %d is refused: %s, expected %s", at, got, want)
		}
		if e.deviceBytes > 0 { // there was no such demand
			break
		}
		refused++
	}
	if refused < 6 {
		t.Errorf("%d demands, expected the column, two states, sums, edges and tensors", refused)
	}
}
