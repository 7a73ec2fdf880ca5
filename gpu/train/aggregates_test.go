package train

import (
	"errors"
	"testing"

	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestAggregateErrors: all neighbours give what all neighbours give; a hop mends the first layer, a history the last one where the first is
// exact; sampled and absent neighbours do not.
func TestAggregateErrors(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Edges: 4000, Partitions: 7}))
	for _, model := range []string{"", "gcn", "gin"} {
		if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{Model: model}); err != nil {
			t.Fatal(err)
		}
	}
	st := storetest.Open(t, dir, store.Options{})
	errorsOf := func(c config.Config) []float64 {
		t.Helper()
		c.Layers, c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Absent, c.Threads = 2, 8, 40, 2, "split", config.AbsentIgnore, 2
		if c.Plan = "memory"; c.Buffer > 0 {
			c.Plan = "hanoi"
		}
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := cp.AggregateErrors(t.Context(), st, hostDevice(t))
		if err != nil || len(e) != 2 {
			t.Fatalf("%v, %v", e, err)
		}
		return e
	}
	all, some := []int{-1, -1}, []int{3, 3}
	const rounding = 1e-4
	for _, model := range []string{"sage", "gcn", "gin", "gat"} {
		if e := errorsOf(config.Config{Model: model, Fanouts: all}); max(e[0], e[1]) > rounding {
			t.Errorf("%s, all neighbours: %v, expected 0", model, e)
		}
		if e := errorsOf(config.Config{Model: model, Fanouts: some}); min(e[0], e[1]) < .01 {
			t.Errorf("%s, sampled: %v, expected more", model, e)
		}
		absent := errorsOf(config.Config{Model: model, Fanouts: all, Buffer: 2})
		if min(absent[0], absent[1]) < .01 {
			t.Errorf("%s, 2 of 7 partitions: %v, expected more", model, absent)
		}
		if e := errorsOf(config.Config{Model: model, Fanouts: all, Buffer: 2, History: true}); e[1] > .8*absent[1] {
			t.Errorf("%s, 2 of 7 partitions and a history: %v, without %v", model, e, absent)
		}
		if model == "gat" {
			continue
		}
		if e := errorsOf(config.Config{Model: model, Fanouts: all, Buffer: 2, PrecomputedHop: true}); e[0] > rounding || e[1] < .01 {
			t.Errorf("%s, 2 of 7 partitions and the hop: %v, expected the first layer's to be 0", model, e)
		}
		if e := errorsOf(config.Config{Model: model, Fanouts: all, Buffer: 2, PrecomputedHop: true, History: true}); max(e[0], e[1]) > rounding {
			t.Errorf("%s, 2 of 7 partitions, hop and history: %v, expected 0", model, e)
		}
	}
	mlp := &Checkpoint{Config: config.Config{Model: "mlp"}}
	mlp.Model.Model = "mlp"
	if _, err := mlp.AggregateErrors(t.Context(), st, hostDevice(t)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("error %v of a model that reads no neighbours", err)
	}
}
