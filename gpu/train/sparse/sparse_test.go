package sparse

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// words makes all but about one in every elements 0, of which some are −0.
func words(g *storetest.Graph, every int) {
	for i := range g.Features {
		if i%every != 5 {
			g.Features[i] = 0
		} else if i%3 == 0 {
			g.Features[i] = float32(math.Copysign(0, -1))
		}
	}
}

func open(t *testing.T, o storetest.Options, every int) (*storetest.Graph, *store.Store, *store.ColumnInfo) {
	g := storetest.Random(o)
	words(g, every)
	st := storetest.Open(t, storetest.Create(t, g), store.Options{})
	c, err := st.Manifest().Column("x")
	if err != nil {
		t.Fatal(err)
	}
	return g, st, c
}

// Rows of a table are those of the store, zeros or not, and no element is forgotten.
func TestTable(t *testing.T) {
	g, st, c := open(t, storetest.Options{Nodes: 901, Partitions: 7, Dim: 70}, 37)
	some, err := Sampled(t.Context(), st, c)
	if err != nil || !some.Few() || some.Rows >= 901 {
		t.Fatalf("of some rows: %+v, %v", some, err)
	}
	of, err := Count(t.Context(), st, c)
	if err != nil {
		t.Fatal(err)
	}
	if about := some.Of(901); about < of.Bytes()*3/4 || about > of.Bytes()*4/3 {
		t.Errorf("about %d bytes by some rows, %d are", about, of.Bytes())
	}
	want := Counts{Rows: 901, Cols: 70}
	for row := range slices.Chunk(g.Features, 70) {
		n := 0
		for _, x := range row {
			if math.Float32bits(x) != 0 {
				n++
			}
		}
		want.Elements, want.Most = want.Elements+int64(n), max(want.Most, n)
	}
	if of != want || !of.Few() || want.Most < 2 || of.Within(3) != 3*int64(of.Most) || of.Within(901) != of.Elements {
		t.Fatalf("counted %+v, expected %+v", of, want)
	}
	dev := host.New(host.Options{})
	defer func() { _ = dev.Close() }()
	table, err := Open(t.Context(), st, dev, c, of, 2)
	if err != nil {
		t.Fatal(err)
	}
	if table.Bytes() != of.Bytes() {
		t.Errorf("the table takes %d bytes, %d were counted", table.Bytes(), of.Bytes())
	}
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	a := gpu.NewArena(dev)
	index := []uint32{900, 0, 5, 5}
	unit := a.Matrix(q, 70, 70)
	one := make([]float32, 70*70)
	for i := range 70 {
		one[71*i] = 1
	}
	q.Upload(unit, blocks.Bytes(one))
	got, out := make([]float32, 4*70), a.Matrix(q, 4, 70)
	q.SparseGemm(false, table.Rows(a.Uint32s(q, index)), unit, out)
	q.Download(blocks.Bytes(got), out)
	if err := q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, row := range index {
		if !slices.Equal(got[70*i:][:70], g.Features[70*row:][:70]) {
			t.Errorf("row %d differs", row)
		}
	}
	for _, wrong := range []Counts{{Rows: 901, Cols: 70, Elements: of.Elements - 1}, {Rows: 901, Cols: 70, Elements: of.Elements + 1}, {Rows: 902, Cols: 70, Elements: of.Elements}} {
		if _, err := Open(t.Context(), st, dev, c, wrong, 1); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("a column that changed: %v", err)
		}
	}
	for _, err := range []error{a.Close(), q.Close(), table.Close(), table.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// What is dense, narrow or of another type is read as it is.
func TestNone(t *testing.T) {
	_, st, c := open(t, storetest.Options{Dim: 70}, 7)
	if some, err := Sampled(t.Context(), st, c); err != nil || some.Few() {
		t.Errorf("a seventh is not 0: %+v, %v", some, err)
	}
	if !Fits(c) {
		t.Error("a column of 70 float32 does not fit")
	}
	for _, bad := range []store.ColumnInfo{{Elem: blocks.Float32, Dim: ColumnsMin - 1}, {Elem: blocks.Float16, Dim: 70}, {Elem: blocks.Float32, Dim: 70, NodeType: "paper"}, {Elem: blocks.Float32, Dim: 70, Runs: true}} {
		if Fits(&bad) {
			t.Errorf("%+v fits", bad)
		}
	}
	if (Counts{Rows: 1 << 30, Cols: 1 << 20, Elements: math.MaxInt32 + 1}).Few() {
		t.Error("more elements than 32 bits number are few")
	}
	_, st, c = open(t, storetest.Options{Nodes: 1, Edges: 1, Partitions: 1, Dim: 64}, 1000)
	of, err := Count(t.Context(), st, c)
	if some, e := Sampled(t.Context(), st, c); err != nil || e != nil || some.Counts != of || of.Rows != 1 || of.Elements > 1 {
		t.Errorf("a node: %+v, %+v, %v, %v", some, of, err, e)
	}
}
