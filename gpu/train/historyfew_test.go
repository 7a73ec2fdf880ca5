package train

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/store"
)

// TestHistoryOfFew: where few nodes train, states that no training node misses are not computed, and rows are the same to the bit as
// where all are: with and without a validation beside them, in one tile and in several, and of a plan that leaves nothing out.
func TestHistoryOfFew(t *testing.T) {
	const hidden, layers = 12, 3
	for _, undirected := range []bool{true, false} {
		for _, kind := range []string{"sage", "gcn", "gin", "gat"} {
			for _, c := range []struct{ parts, tiles int }{{1, 1}, {7, 1}, {7, 2}} {
				t.Run(fmt.Sprintf("%s/undirected=%v/parts=%d/tiles=%d", kind, undirected, c.parts, c.tiles), func(t *testing.T) {
					g := evaltest.Random(t, 2400, c.parts, undirected)
					for v := range g.Split {
						switch g.Split[v] = store.SplitNone; v % 400 {
						case 7:
							g.Split[v] = store.SplitTrain
						case 150:
							g.Split[v] = store.SplitValue("valid")
						}
					}
					dev := host.New(host.Options{Threads: 2})
					defer func() { _ = dev.Close() }()
					q, err := gpu.NewQueue(dev)
					if err != nil {
						t.Fatal(err)
					}
					m, err := nn.New(t.Context(), q, nn.Config{Model: kind, Layers: layers, In: g.Dim, Hidden: hidden, Out: 5, Seed: 2})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = m.Close() }()
					h, err := history.New(t.Context(), g, dev, nil, history.Options{Layer: layers - 1, Dim: hidden, Attention: kind == "gat"})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = h.Close() }()
					e := evaluatorOf(t, g, dev, hidden, c.tiles)
					defer func() { _ = e.Close() }()
					fill := func(sink eval.Sink, splits ...string) ([]byte, int64) {
						before := e.Computed()
						if err := h.Begin(historyPlan(c.parts)); err != nil {
							t.Fatal(err)
						}
						if _, err := e.RunInto(t.Context(), q, m, sink, splits...); err != nil {
							t.Fatal(err)
						}
						rows := make([]byte, h.Len()*h.RowBytes())
						if err := h.Rows.Read(rows, 0); err != nil {
							t.Fatal(err)
						}
						return rows, e.Computed() - before
					}
					want, all := fill(struct{ eval.Sink }{h}) // which chooses nothing
					if all != (layers-1)*int64(g.M.Nodes) {
						t.Fatalf("%d rows for the history of %d nodes", all, g.M.Nodes)
					}
					for _, splits := range [][]string{nil, {"valid"}, nil} {
						got, few := fill(h, splits...)
						if few >= all/2 {
							t.Errorf("splits %q: %d rows are computed of %d", splits, few, all)
						}
						if !bytes.Equal(got, want) {
							t.Errorf("splits %q: the history has other bits than with all states", splits)
						}
					}
				})
			}
		}
	}
}
