package native

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// TestLinkBatches: what a loader of links hands out are the batches of link.Loader, which are training's: ends, relations, wrong
// answers, which of them are right, and neighbours.
func TestLinkBatches(t *testing.T) {
	h, st := openedStore(t)
	for _, fanouts := range []string{"[]", "[3]"} {
		cfg := link.Config{BatchSize: 90, Negatives: 7, Chunks: 3, DegreeShare: .3, Seed: 5, Plan: macro.Comet, Buffer: 6, Threads: 2}
		if fanouts != "[]" {
			cfg.Encoder, cfg.Fanouts = "sage", []int{3}
		}
		want, err := link.OpenLoader(t.Context(), st, cfg, link.LoaderOptions{Info: host.New(host.Options{}).Info(), Finish: nop})
		if err != nil {
			t.Fatal(err)
		}
		l := must(t, do(t, h, "links", fmt.Sprintf(`{"fanouts":%s,"batch_size":90,"negatives":7,"chunks":3,"degree_share":0.3,"seed":5,"plan":"comet","buffer":6,"threads":3}`, fanouts)), nil).Handle
		masked := 0
		for epoch := range 2 {
			if err := want.Start(epoch, progress.Place{}); err != nil {
				t.Fatal(err)
			}
			must(t, do(t, l, "start", fmt.Sprintf(`{"epoch":%d}`, epoch)), nil)
			for want.Next() {
				var info batchInfo
				got := batchArrays(t, must(t, do(t, l, "next", ""), &info), &info)
				b := want.Batch()
				e := link.EdgesOf(b)
				input := nodesOf(want.MacroBatch(), b.Input)
				for name, rows := range map[string][]uint32{"head": e.Heads, "tail": e.Tails, "relation": e.Relations, "negatives": slices.Concat(e.Negatives[0], e.Negatives[1]), "order": slices.Concat(e.Order[0], e.Order[1])} {
					expected := make([]int64, len(rows))
					widen(expected, rows)
					if !slices.Equal(ints(got[name]), expected) {
						t.Fatalf("%s %v, expected %v", name, ints(got[name]), rows)
					}
				}
				if !slices.Equal(ints(got["n_id"]), input) || !slices.Equal(ints(got["mask"]), e.Mask) || !slices.Equal(info.Chunks, slices.Concat(e.Ends[0], e.Ends[1])) || info.Next != want.Place() || info.BatchSize != len(e.Heads) {
					t.Fatalf("%+v, expected %+v with nodes %v", info, e, input)
				}
				// Of a mask's entry, the wrong answer is the right one.
				heads, tails, negatives, n, each := e.Heads, e.Tails, e.Negatives, len(e.Heads), cfg.Negatives
				for _, m := range e.Mask {
					masked++
					side, edge, k := int(m)/each/n, int(m)/each%n, int(m)%each
					chunk := slices.IndexFunc(e.Ends[side], func(end int) bool { return edge < end })
					if answer := [][]uint32{tails, heads}[side][e.Order[side][edge]]; negatives[side][chunk*each+k] != answer {
						t.Fatalf("mask %d: edge %d of side %d has answer %d, not %d", m, edge, side, answer, negatives[side][chunk*each+k])
					}
				}
				if len(b.Blocks) == 0 {
					continue
				}
				blk, pairs, types := &b.Blocks[0], ints(got["edge_index"]), ints(got["edge_type"])
				for d := range blk.NumDst {
					for at := blk.Indptr[d]; at < blk.Indptr[d+1]; at++ {
						if pairs[at] != int64(blk.Indices[at]) || pairs[len(blk.Indices)+int(at)] != int64(d) || types[at] != int64(blk.Relations[at]) {
							t.Fatalf("edge %d differs", at)
						}
					}
				}
			}
			var end batchInfo
			if must(t, do(t, l, "next", ""), &end); !end.End || want.Err() != nil {
				t.Fatalf("epoch %d has more batches than training, %v", epoch, want.Err())
			}
		}
		if masked == 0 {
			t.Error("no wrong answer was a right one")
		}
		if err := errors.Join(Drop(l), want.Close()); err != nil {
			t.Error(err)
		}
	}
}

// nop fills in a batch's edges.
var nop = func(*buffer.MacroBatch, *mini.Batch, *link.Edges) error { return nil }

// TestHeldRows: rows that a loader holds, a quarter of the partitions at a time, come to the bits that the table's own memory
// comes to by the same steps; others are read as they are; a step on them is refused; a checkpoint and closing keep them.
func TestHeldRows(t *testing.T) {
	h, _ := openedStore(t)
	const dim = 5
	made := func(name string) int64 {
		return must(t, do(t, h, "table", fmt.Sprintf(`{"create":true,"name":%q,"dim":%d,"lr":0.5,"seed":7,"scale":0.5}`, name, dim)), nil).Handle
	}
	held, own := made("held"), made("own")
	l := must(t, do(t, h, "links", fmt.Sprintf(`{"batch_size":200,"negatives":7,"chunks":2,"seed":5,"plan":"comet","buffer":4,"table":%d}`, held)), nil).Handle
	if r := do(t, h, "links", fmt.Sprintf(`{"table":%d}`, held)); Kind(r.Err) != KindLocked {
		t.Errorf("a second loader of the table's rows: %v", r.Err)
	}
	everything := func(table int64) []float32 {
		t.Helper()
		rows := make([]float32, 900*dim)
		must(t, do(t, table, "rows", "", blocks.Bytes(allNodes(900)), blocks.Bytes(rows)), nil)
		return rows
	}
	refused := false
	for epoch := range 2 {
		must(t, do(t, l, "start", fmt.Sprintf(`{"epoch":%d}`, epoch)), nil)
		for k := 0; ; k++ {
			var info batchInfo
			r := must(t, do(t, l, "next", ""), &info)
			if info.End {
				break
			}
			var nodes []store.NodeID
			for _, v := range ints(batchArrays(t, r, &info)["n_id"]) {
				nodes = append(nodes, store.NodeID(v))
			}
			grads := make([]float32, len(nodes)*dim)
			for i := range grads {
				grads[i] = float32((i*(k+3))%17) - 8
			}
			rows, expected := make([]float32, len(grads)), make([]float32, len(grads))
			must(t, do(t, held, "rows", "", blocks.Bytes(nodes), blocks.Bytes(rows)), nil)
			must(t, do(t, own, "rows", "", blocks.Bytes(nodes), blocks.Bytes(expected)), nil)
			if !slices.Equal(rows, expected) {
				t.Fatalf("epoch %d, batch %d: rows differ", epoch, k)
			}
			for _, table := range []int64{held, own} {
				must(t, do(t, table, "step", `{"lr":0.5}`, blocks.Bytes(nodes), blocks.Bytes(grads)), nil)
			}
			if r := do(t, held, "step", `{"lr":0.5}`, blocks.Bytes(allNodes(900)), blocks.Bytes(make([]float32, 900*dim))); Kind(r.Err) != KindInvalid {
				t.Fatalf("a step on all nodes, a third of which are in memory: %v", r.Err)
			}
			refused = true
			if k%5 == 0 && !slices.Equal(everything(held), everything(own)) {
				t.Fatalf("epoch %d, batch %d: rows that are not in memory differ", epoch, k)
			}
			if k == 7 {
				must(t, do(t, held, "checkpoint", "", nil), nil)
			}
			if epoch == 1 && k == 9 {
				break // an epoch that is left
			}
		}
	}
	if !refused || !slices.Equal(everything(held), everything(own)) {
		t.Error("rows differ in the end")
	}
	must(t, do(t, l, "start", `{"epoch":2}`), nil)
	if !slices.Equal(everything(held), everything(own)) {
		t.Error("an epoch that was left lost steps")
	}
	if err := Drop(l); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(everything(held), everything(own)) {
		t.Error("closing the loader lost steps")
	}
	must(t, do(t, held, "checkpoint", "", nil), nil)
	want := everything(held)
	if err := Drop(held); err != nil {
		t.Fatal(err)
	}
	again := must(t, do(t, h, "table", `{"name":"held"}`), nil).Handle
	if !slices.Equal(everything(again), want) {
		t.Error("the checkpoint has other rows")
	}
	// A table that is closed first ends its loader.
	l = must(t, do(t, h, "links", fmt.Sprintf(`{"batch_size":200,"plan":"comet","buffer":4,"table":%d}`, again)), nil).Handle
	must(t, do(t, l, "start", ""), nil)
	if err := errors.Join(Drop(again), Drop(own)); err != nil {
		t.Fatal(err)
	}
	if r := do(t, l, "next", ""); Kind(r.Err) != KindClosed {
		t.Errorf("a loader whose table is closed: %v", r.Err)
	}
	if err := Drop(l); err != nil {
		t.Error(err)
	}
}
