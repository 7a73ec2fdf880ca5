package train

import (
	"math"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// TestLabelShift: by hand. Of the graph's 40 training nodes 10 are of class 0, 30 of class 1 and none of class 2.
func TestLabelShift(t *testing.T) {
	logShare := func(n float64) float64 { return math.Log((n + .5) / 41.5) }
	l := &labelShift{graph: []float64{logShare(10), logShare(30), logShare(0)}, nodes: 40, counts: make([]float64, 3)}
	mb := &buffer.MacroBatch{Labels: []int32{0, 0, 0, 1, -1, 7}, Seeds: []uint32{0, 1, 2, 3, 4, 5}}
	l.enter(mb)
	if len(l.logits) != 3 {
		t.Fatalf("%d logits, expected one a class", len(l.logits))
	}
	for c, share := range []float64{.75, .25, 0} { // of the seeds whose class is known
		want := math.Log(.9*share+.1*math.Exp(l.graph[c])) - l.graph[c]
		if got := float64(l.logits[c]); math.Abs(got-want) > 1e-6 {
			t.Errorf("class %d: logit %v, expected %v", c, got, want)
		}
	}
	// A class that is as frequent in the step as in the graph is hardly moved, a rarer one loses, an absent one loses most.
	if l.logits[0] <= 0 || l.logits[1] >= 0 || l.logits[2] >= l.logits[1] {
		t.Errorf("logits %v for shares of 75, 25 and 0 %% where the graph has 25, 75 and 0", l.logits)
	}
	mb.Seeds = make([]uint32, 40)
	if l.enter(mb); len(l.logits) != 0 {
		t.Errorf("a step with all training nodes is shifted by %v", l.logits)
	}
	mb.Seeds = []uint32{4}
	if l.enter(mb); len(l.logits) != 0 {
		t.Errorf("a step without a known class is shifted by %v", l.logits)
	}
}

// TestLabelShiftTrains: the correction changes what is learnt out of core and not a bit in memory; it survives
// a resumed run, and it is counted over the split that is trained.
func TestLabelShiftTrains(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	losses := func(c Config) (out []float64) {
		t.Helper()
		c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Threads = 8, 50, 2, "split", 1
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { out = append(out, e.Loss) }})
		if err != nil {
			t.Fatal(err)
		}
		if want := c.LabelShift; want == "" && cp.Config.LabelShift != ShiftAuto {
			t.Errorf("label shift %q by default, expected %q", cp.Config.LabelShift, ShiftAuto)
		}
		return out
	}
	if auto, off := losses(Config{Plan: "memory"}), losses(Config{Plan: "memory", LabelShift: ShiftOff}); auto[1] != off[1] {
		t.Errorf("in memory: loss %v with, %v without", auto, off)
	}
	if auto, off := losses(Config{Plan: "hanoi", Buffer: 2}), losses(Config{Plan: "hanoi", Buffer: 2, LabelShift: ShiftOff}); auto[0] == off[0] {
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
	l := newLabelShift(labels, uint64(want), st.Manifest().Schema.Classes)
	sum := 0.
	for _, x := range l.graph {
		sum += math.Exp(x)
	}
	if l.nodes != want || math.Abs(sum-1) > 1e-9 {
		t.Errorf("%d training nodes, shares add up to %v; expected %d and 1", l.nodes, sum, want)
	}
	if err := (&Config{LabelShift: "on"}).Normalize(); err == nil {
		t.Error("label shift \"on\" is accepted")
	}
}
