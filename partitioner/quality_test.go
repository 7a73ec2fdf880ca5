package partitioner

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// TestLabelDivergenceByHand: six nodes on a path in three partitions. Labels a, a | b, – | –, – are ⅔ a and ⅓ b in all, so partition
// 0 diverges by ⅓, 1 by ⅔, 2 has none, and two partitions at a time by 0, ⅓ or ⅔. JSON and chart say it of each.
func TestLabelDivergenceByHand(t *testing.T) {
	g, err := graph.NewCSR([]uint64{0, 1, 3, 5, 7, 9, 10}, []uint32{1, 0, 2, 1, 3, 2, 4, 3, 5, 4})
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewRange(6, 3)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Measure(context.Background(), g, a, QualityOptions{Classes: []uint16{1, 1, 2, 0, 0, 0}, Resident: 2})
	if err != nil {
		t.Fatal(err)
	}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-12 }
	if each := q.PartitionLabels.Each; !slices.EqualFunc(each, []float64{1. / 3, 2. / 3, 0}, near) || !near(q.PartitionLabels.Mean, 4./9) || !near(q.PartitionLabels.Max, 2./3) {
		t.Errorf("partitions diverge by %+v", q.PartitionLabels)
	}
	batches := q.MacroBatchLabels
	found := map[int]int{} // by thirds
	for _, d := range batches.Each {
		found[int(math.Round(3*d))]++
		if !near(3*d, math.Round(3*d)) {
			t.Errorf("a macro-batch diverges by %v", d)
		}
	}
	if len(batches.Each) != macroBatchDraws || len(found) != 3 || found[0] == 0 || found[1] == 0 || found[2] == 0 || !near(batches.Mean, mean(batches.Each)) {
		t.Errorf("macro-batches diverge by %+v", batches)
	}
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := q.WriteText(&text, 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"and label divergence, by partition", "0–1 ", "%  0.500\n", "%  0.000\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the chart has no %q:\n%s", want, text.String())
		}
	}
	var read struct {
		Partitions struct{ Each []float64 } `json:"partition_label_divergence"`
		Batches    struct{ Each []float64 } `json:"macrobatch_label_divergence"`
	}
	if err := json.Unmarshal(b, &read); err != nil || !slices.Equal(read.Partitions.Each, q.PartitionLabels.Each) || !slices.Equal(read.Batches.Each, batches.Each) {
		t.Errorf("JSON (%v):\n%s", err, b)
	}
	unlabelled, err := Measure(context.Background(), g, a, QualityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text.Reset()
	if err := unlabelled.WriteText(&text, 0); err != nil || strings.Contains(text.String(), "label") {
		t.Errorf("a graph without labels (%v):\n%s", err, text.String())
	}
}

// TestResidentShareByHand: walks a → b → c → d through four partitions, and from a pinned node to b → c, three partitions in memory beside
// the pinned one: those of a are its own and two of the other three, those of a pinned node any three of four.
func TestResidentShareByHand(t *testing.T) {
	g, err := graph.NewCSR([]uint64{0, 1, 2, 3, 4, 5}, []uint32{1, 2, 3, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAssignment([]blocks.PartitionID{0, 1, 2, 3, 4}, 5, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		classes []uint16
		want    []float64
	}{
		{"from a", []uint16{1, 0, 0, 0, 0}, []float64{2. / 3, 1. / 3, 0}},
		{"from a pinned node", []uint16{0, 0, 0, 0, 1}, []float64{3. / 4, 1. / 2, 1. / 4}},
	} {
		q, err := Measure(t.Context(), g, a, QualityOptions{Classes: c.classes, Resident: 3, Hops: 3})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(q.ResidentShare, c.want, func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }) {
			t.Errorf("%s: %v of walks of 1, 2, 3 steps stay, expected %v", c.name, q.ResidentShare, c.want)
		}
	}
}
