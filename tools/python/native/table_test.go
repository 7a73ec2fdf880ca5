package native

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// TestTable: a table begins with training's rows, a frame for one of 12 partitions gives the bits that twelve give, and what a
// step refuses changes nothing.
func TestTable(t *testing.T) {
	h, st := openedStore(t)
	const dim = 5
	nodes := allNodes(900)
	slices.Reverse(nodes)
	want := make([]float32, 900*dim)
	link.InitRows(7, dim, .5)(0, want)
	var results [][]float32
	for _, bytes := range []int64{0, 3 * blocks.Alignment} {
		e := must(t, do(t, h, "table", fmt.Sprintf(`{"create":true,"name":"t","dim":%d,"optimizer":"adam","lr":0.5,"seed":7,"scale":0.5,"memory_bytes":%d,"replace":true}`, dim, bytes)), nil).Handle
		rows := make([]float32, 900*dim)
		read := func() {
			t.Helper()
			must(t, do(t, e, "rows", "", blocks.Bytes(nodes), blocks.Bytes(rows)), nil)
		}
		read()
		for i, v := range nodes {
			if !slices.Equal(rows[i*dim:][:dim], want[int(v)*dim:][:dim]) {
				t.Fatalf("node %d begins as %v, expected %v", v, rows[i*dim:][:dim], want[int(v)*dim:][:dim])
			}
		}
		begun := slices.Clone(rows)
		for _, ids := range [][]store.NodeID{{3, 900}, {3}, {3, 4, 5}} { // no such node; too few gradients; too many nodes
			if r := do(t, e, "step", `{"lr":0.5}`, blocks.Bytes(ids), blocks.Bytes(make([]float32, 2*dim))); r.Err == nil {
				t.Fatalf("stepped nodes %v of 900 with two gradients", ids)
			}
		}
		if read(); !slices.Equal(rows, begun) {
			t.Fatal("a step that was refused changed rows")
		}
		for k := range 4 {
			grads := make([]float32, len(nodes)*dim)
			for i := range grads {
				grads[i] = float32((i*(k+3))%17) - 8
			}
			must(t, do(t, e, "step", `{"lr":0.5}`, blocks.Bytes(nodes), blocks.Bytes(grads)), nil)
		}
		read()
		results = append(results, rows)
		if slices.Equal(rows, begun) {
			t.Fatal("four steps changed nothing")
		}
		if err := Drop(e); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(results[0], results[1]) {
		t.Error("rows depend on the memory that they are in")
	}
	other, err := table.Create(t.Context(), st, table.Options{Name: "other", Dim: 3, States: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if r := do(t, h, "table", `{"name":"other"}`); !errors.Is(r.Err, store.ErrInvalid) {
		t.Errorf("opened a table of another program: %v", r.Err)
	}
}
