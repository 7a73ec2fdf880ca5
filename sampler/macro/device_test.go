package macro

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/store/buffer"
)

// TestCountTouched: a step's touched rows are those that its batches read, once each; the untaken among them are those that
// none has read since they came into memory, by this step or an earlier one.
func TestCountTouched(t *testing.T) {
	at := func(parts ...buffer.ResidentPartition) []buffer.ResidentPartition { return parts }
	a, b := buffer.ResidentPartition{ID: 0, Base: 0, Nodes: 4}, buffer.ResidentPartition{ID: 1, Base: 4, Nodes: 4}
	c := buffer.ResidentPartition{ID: 2, Base: 4, Nodes: 3}
	var r DeviceRecord
	r.Step(8, at(a, b))
	r.Batch([]uint32{0, 5}, 10)
	r.Batch([]uint32{5, 6}, 10)
	r.Step(8, at(a, c)) // c takes b's place
	r.Batch([]uint32{0, 1, 5}, 10)
	r.Step(8, at(a, c))
	r.Batch([]uint32{0, 1, 6}, 10)
	r.CountTouched()
	type row struct{ first, rows, sent, touched, untaken uint64 }
	var got []row
	for _, s := range r.Steps {
		got = append(got, row{uint64(s.First), s.Rows, s.Sent, s.Touched, s.Untaken})
	}
	if want := []row{{0, 8, 8, 3, 3}, {2, 7, 3, 3, 2}, {3, 7, 0, 3, 1}}; !slices.Equal(got, want) {
		t.Errorf("steps %v, expected %v", got, want)
	}
	if r.Inputs() != 10 || r.BlockBytes != 40 {
		t.Errorf("%d inputs, %d bytes of blocks", r.Inputs(), r.BlockBytes)
	}
	r.CountTouched()
	if r.Steps[2].Untaken != 1 || r.Steps[0].Touched != 3 {
		t.Errorf("counted again: %+v", r.Steps)
	}
}

// TestRowsWithoutBudget: plan rows is refused where its budget is too small, and not where there is none.
func TestRowsWithoutBudget(t *testing.T) {
	for memory, ok := range map[int64]bool{0: true, 100: true, 99: false} {
		y := Tuning{Config: Config{Partitions: 4}, MemoryBytes: memory, Rows: &RowsTuning{LeastBytes: 100}}
		if err := y.checkRows(new(Choice), false); (err == nil) != ok {
			t.Errorf("a budget of %d for 100: %v", memory, err)
		}
	}
	y := Tuning{Config: Config{Partitions: 4}}
	if y.checkRows(new(Choice), false) == nil {
		t.Error("rows where it is not for the run")
	}
	if y.Rows = new(RowsTuning); y.checkRows(new(Choice), true) == nil {
		t.Error("rows with room for some partitions only")
	}
}
