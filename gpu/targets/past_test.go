package targets

import (
	"errors"
	"math"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// TestPastIsKnown: of an entity's earlier targets those count whose windows have ended by the moment, and no other entity's.
func TestPastIsKnown(t *testing.T) {
	k := kind{name: database.Binary, past: 1}
	train := []example{{row: 5, moment: 200, target: 1}, {row: 9, moment: 50, target: 1}, {row: 5, moment: 100, target: 0}}
	p := k.newPast(30, nil, train, []example{{row: 5, moment: 300, target: 1}})
	columns := pastColumns(k.past)
	for _, c := range []struct {
		row    uint32
		moment int64
		n      int
		last   float32
	}{{5, 99, 0, 0}, {5, 100, 0, 0}, {5, 129, 0, 0}, {5, 130, 1, -1}, {5, 229, 1, -1}, {5, 230, 2, 1}, {5, 1 << 40, 3, 1}, {9, 79, 0, 0}, {9, 80, 1, 1}, {4, 1000, 0, 0}, {10, 1000, 0, 0}} {
		got := p.append([]float32{7}, c.row, c.moment)
		if len(got) != 1+columns || got[0] != 7 {
			t.Fatalf("row %d at %d: %v, expected 7 and %d columns", c.row, c.moment, got, columns)
		}
		has := float32(min(c.n, 1))
		if got = got[1:]; got[0] != has || math.Abs(float64(got[1])-math.Log1p(float64(c.n))/4) > 1e-6 || got[pastFirst] != c.last {
			t.Errorf("row %d at %d: %v, expected %d targets, the last %v", c.row, c.moment, got, c.n, c.last)
		}
		if c.n == 0 {
			for _, x := range got {
				if x != 0 {
					t.Errorf("row %d at %d: %v, expected zeros", c.row, c.moment, got)
				}
			}
		}
	}
	if got := p.append(nil, 5, 400); got[pastFirst+1] != float32(1./3) || got[pastFirst+2] != float32(1./3) {
		t.Errorf("means of the last 3 and 10 are %v, expected a third", got[pastFirst:])
	}
	if got := p.appendNone(nil); len(got) != columns || got[0] != 0 {
		t.Errorf("of no targets: %v", got)
	}
	if got := (*past)(nil).append(nil, 5, 400); len(got) != 0 {
		t.Errorf("of a model that reads none: %v", got)
	}
}

// TestPastDamaged: what a model's file says of its earlier targets and does not hold is refused.
func TestPastDamaged(t *testing.T) {
	k := kind{name: database.Binary, past: 1}
	whole := []byte{1, 'a', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 63, 0} // one target of entity a, and padding
	for name, c := range map[string]Checkpoint{
		"more targets than there are": {PastRows: 2},
		"fewer than there are":        {},
		"a negative number":           {PastRows: -1},
		"no window":                   {PastRows: 1, Task: database.Task{Window: -5}},
	} {
		if c.Task.Window == 0 {
			c.Task.Window = 30
		}
		if _, err := c.readPast(t.Context(), nil, nil, &k, whole); !errors.Is(err, gpu.ErrShape) {
			t.Errorf("%s: %v, expected ErrShape", name, err)
		}
	}
	for cut := range 14 {
		c := Checkpoint{PastRows: 1, Task: database.Task{Window: 30}}
		if _, err := c.readPast(t.Context(), nil, nil, &k, whole[:cut]); !errors.Is(err, gpu.ErrShape) {
			t.Errorf("cut to %d bytes: %v, expected ErrShape", cut, err)
		}
	}
}

// TestPastValues: a target is a standardised number, a side of a coin, or its classes.
func TestPastValues(t *testing.T) {
	lists := [][]uint32{{}, {0, 2}}
	for _, c := range []struct {
		k    kind
		e    example
		want []float32
	}{
		{kind{name: database.Binary, past: 1}, example{target: 0}, []float32{-1}},
		{kind{name: database.Regression, past: 1, mean: 4, spread: 2}, example{target: 5}, []float32{.5}},
		{kind{name: database.Multiclass, past: 3}, example{target: 1}, []float32{0, 1, 0}},
		{kind{name: database.Multilabel, past: 3}, example{list: 1}, []float32{1, 0, 1}},
		{kind{name: database.Multilabel, past: 3}, example{list: 0}, []float32{0, 0, 0}},
	} {
		got := c.k.pastValues(nil, c.e, lists)
		for j := range c.want {
			if len(got) != len(c.want) || got[j] != c.want[j] {
				t.Errorf("%s: %v, expected %v", c.k.name, got, c.want)
				break
			}
		}
	}
	for classes, want := range map[int]int{0: 1, 2: 2, pastWidthMost: pastWidthMost, pastWidthMost + 1: 0} {
		if got := pastWidth(&database.Task{Classes: make([]string, classes)}); got != want {
			t.Errorf("%d classes: %d numbers, expected %d", classes, got, want)
		}
	}
	if got := pastWidth(&database.Task{Kind: database.Recommendation}); got != 0 {
		t.Errorf("a recommendation: %d numbers, expected none", got)
	}
}
