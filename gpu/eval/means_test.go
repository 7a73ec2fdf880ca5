package eval

import (
	"testing"

	"github.com/gstore/gstore/store"
)

// TestHopKinds: a column is taken for what it was computed as, and for nothing else of the same name.
func TestHopKinds(t *testing.T) {
	mean, weighted, gcn := HopKind{}, HopKind{EdgeWeights: true}, HopKind{Sum: "gcn"}
	for _, c := range []struct {
		derived string
		kind    HopKind
		want    bool
	}{
		{mean.Derived("x"), mean, true}, {mean.Derived("x"), weighted, false}, {weighted.Derived("x"), weighted, true}, {weighted.Derived("x"), mean, false},
		{gcn.Derived("x"), gcn, true}, {gcn.Derived("x"), HopKind{Sum: "gcn", EdgeWeights: true}, false}, {"", gcn, true},
		{DerivedRelationMean("x", "gcn", false), gcn, false}, {HopKind{Sum: "gin"}.Derived("x"), gcn, false},
	} {
		column := &store.ColumnInfo{Name: "x.hop1", Derived: c.derived}
		if got, err := c.kind.Holds(column), c.kind.Check(column); got != c.want || (err == nil) != c.want {
			t.Errorf("%q as %+v: %v, %v; expected %v", c.derived, c.kind, got, err, c.want)
		}
	}
}
