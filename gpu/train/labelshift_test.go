package train

import (
	"math"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestLabelShiftTrains: the correction changes what is learnt out of core and not a bit in memory; it survives
// a resumed run, and it is counted over the split that is trained.
func TestLabelShiftTrains(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	losses := func(c config.Config) (out []float64) {
		t.Helper()
		c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Threads = 8, 50, 2, "split", 1
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { out = append(out, e.Loss) }})
		if err != nil {
			t.Fatal(err)
		}
		if want := c.LabelShift; want == "" && cp.Config.LabelShift != config.ShiftAuto {
			t.Errorf("label shift %q by default, expected %q", cp.Config.LabelShift, config.ShiftAuto)
		}
		return out
	}
	if auto, off := losses(config.Config{Plan: "memory"}), losses(config.Config{Plan: "memory", LabelShift: config.ShiftOff}); auto[1] != off[1] {
		t.Errorf("in memory: loss %v with, %v without", auto, off)
	}
	if auto, off := losses(config.Config{Plan: "hanoi", Buffer: 2}), losses(config.Config{Plan: "hanoi", Buffer: 2, LabelShift: config.ShiftOff}); auto[0] == off[0] {
		t.Errorf("out of core: loss %v with and without", auto)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	labels, err := st.TrainingClasses(t.Context(), "split")
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, p := range trainingNodes(t, dir, "split") {
		want += int(p.Train)
	}
	l := feed.NewLabelShift(labels, uint64(want), st.Manifest().Schema.Classes)
	sum := 0.
	for _, x := range l.Graph {
		sum += math.Exp(x)
	}
	if l.Nodes != want || math.Abs(sum-1) > 1e-9 {
		t.Errorf("%d training nodes, shares add up to %v; expected %d and 1", l.Nodes, sum, want)
	}
	if err := (&config.Config{LabelShift: "on"}).Normalize(); err == nil {
		t.Error("label shift \"on\" is accepted")
	}
}
