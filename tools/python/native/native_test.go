package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	nodes "github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// do calls a method, waits, and releases the operation when the test ends.
func do(t *testing.T, handle int64, name, request string, arrays ...[]byte) *Reply {
	t.Helper()
	op := Start(handle, name, []byte(request), arrays)
	t.Cleanup(func() { Release(op) })
	for range 100 {
		if r := Wait(op, time.Second); r != nil {
			return r
		}
	}
	t.Fatalf("%s takes more than 100 s", name)
	return nil
}

func must(t *testing.T, r *Reply, to any) *Reply {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if to != nil {
		if err := json.Unmarshal(r.Text, to); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// openedStore is a store of 900 nodes in 12 partitions, its handle, and the store.
func openedStore(t *testing.T) (int64, *store.Store) {
	t.Helper()
	return openedStoreOf(t, 3)
}

// openedStoreOf is openedStore with so many relations.
func openedStoreOf(t *testing.T, relations int) (int64, *store.Store) {
	t.Helper()
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 900, Partitions: 12, Relations: relations, Seed: 3}))
	r := must(t, do(t, 0, "open", fmt.Sprintf(`{"path":%q}`, dir)), nil)
	t.Cleanup(func() {
		if err := Drop(r.Handle); err != nil {
			t.Error(err)
		}
	})
	return r.Handle, storetest.Open(t, dir, store.Options{})
}

// nodesOf translates rows of a macro-batch.
func nodesOf(mb *buffer.MacroBatch, rows []uint32) (nodes []int64) {
	for _, r := range rows {
		for _, p := range mb.Partitions {
			if r >= p.Base && r < p.Base+p.Nodes {
				nodes = append(nodes, int64(p.First)+int64(r-p.Base))
			}
		}
	}
	return nodes
}

// TestBatchesAreTrainings: what a loader hands out are the batches of train.Loader, which are training's: seeds, inputs, rows,
// labels and every block's edges; and the union of one edge list has of each node the edges of the hop that it is met at.
func TestBatchesAreTrainings(t *testing.T) {
	h, st := openedStore(t)
	x, err := st.Features(t.Context(), "x", allNodes(900), nil)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := st.Features(t.Context(), "label", allNodes(900), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, plan := range []string{macro.Hanoi, macro.Rows} {
		for k := range 4 {
			layers, relations := k&1 > 0, k&2 > 0
			cfg := config.Config{Fanouts: []int{3, 2, 2}, BatchSize: 20, Seed: 5, Plan: plan, Threads: 2}
			if plan == macro.Hanoi {
				cfg.Buffer, cfg.Reuse = 4, 1
			}
			if relations {
				cfg.Model = "rgcn"
			}
			want, err := nodes.Open(t.Context(), st, cfg, nodes.Options{Info: host.New(host.Options{}).Info()})
			if err != nil {
				t.Fatal(err)
			}
			l := must(t, do(t, h, "loader", fmt.Sprintf(`{"fanouts":[3,2,2],"batch_size":20,"seed":5,"plan":%q,"buffer":%d,"reuse":%d,"threads":3,"shuffle":true,"layers":%t,"relations":%t,"inverse":true}`, plan, cfg.Buffer, cfg.Reuse, layers, relations)), nil).Handle
			for epoch := range 2 {
				if err := want.Start(epoch, progress.Place{}); err != nil {
					t.Fatal(err)
				}
				must(t, do(t, l, "start", fmt.Sprintf(`{"epoch":%d}`, epoch)), nil)
				for want.Next() {
					var info batchInfo
					got := batchArrays(t, must(t, do(t, l, "next", ""), &info), &info)
					b, ids := want.Batch(), ints(got["n_id"])
					input := nodesOf(want.MacroBatch(), b.Input)
					if info.BatchSize != len(b.Seeds) || !slices.Equal(ids[:len(b.Seeds)], input[:len(b.Seeds)]) || info.Next != want.Place() {
						t.Fatalf("seeds %v, next %+v: expected %v, %+v", ids[:info.BatchSize], info.Next, input[:len(b.Seeds)], want.Place())
					}
					for i, v := range ids {
						if string(got["feature:x"][i*32:][:32]) != string(x[v*32:][:32]) || ints(got["y"])[i] != int64(int32At(labels, v)) {
							t.Fatalf("node %d has rows of another", v)
						}
					}
					if layers {
						if !slices.Equal(ids, input) {
							t.Fatalf("inputs %v, expected %v", ids, input)
						}
						for k, blk := range b.Blocks {
							pairs, indptr := ints(got[fmt.Sprintf("edge_index:%d", k)]), ints(got[fmt.Sprintf("indptr:%d", k)])
							for d := range blk.NumDst {
								for e := blk.Indptr[d]; e < blk.Indptr[d+1]; e++ {
									if indptr[d] != int64(blk.Indptr[d]) || pairs[e] != int64(blk.Indices[e]) || pairs[len(blk.Indices)+int(e)] != int64(d) {
										t.Fatalf("layer %d: edge %d differs", k, e)
									}
									if relations && ints(got[fmt.Sprintf("edge_type:%d", k)])[e] != int64(blk.Relations[e]) {
										t.Fatalf("layer %d: the relation of edge %d differs", k, e)
									}
								}
							}
						}
						continue
					}
					checkUnion(t, b.Blocks, input, ids, got, &info, relations)
				}
				var end batchInfo
				if must(t, do(t, l, "next", ""), &end); !end.End || want.Err() != nil {
					t.Fatalf("epoch %d has more batches than training, %v", epoch, want.Err())
				}
			}
			if err := errors.Join(Drop(l), want.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAhead: what a reply has of the batch after is what that has when it is in hand, in memory of the loader's slabs.
func TestAhead(t *testing.T) {
	h, _ := openedStore(t)
	for method, request := range map[string]string{
		"loader": `{"fanouts":[3,2],"batch_size":20,"plan":"hanoi","buffer":4,"threads":2,"layers":true}`,
		"links":  `{"batch_size":90,"negatives":7,"chunks":3,"plan":"comet","buffer":6,"threads":2}`,
	} {
		l := must(t, do(t, h, method, request), nil).Handle
		for epoch, told := 0, 0; told == 0 && epoch < 50; epoch++ { // nothing is told of what is not sampled yet
			must(t, do(t, l, "start", fmt.Sprintf(`{"epoch":%d}`, epoch)), nil)
			var ahead, copied [][]byte
			for {
				var info batchInfo
				r := must(t, do(t, l, "next", `{"ahead":true}`), &info)
				if info.End {
					break
				}
				n := len(info.Arrays)
				for i, a := range ahead {
					if unsafe.SliceData(a) != unsafe.SliceData(r.Arrays[i]) || !slices.Equal(copied[i], r.Arrays[i]) {
						t.Fatalf("%s: %s is not what it was ahead", method, info.Arrays[i].Name)
					}
				}
				ahead, copied = r.Arrays[n:], nil
				if len(ahead) != len(info.Ahead) {
					t.Fatalf("%s: %d arrays ahead, %d are described", method, len(ahead), len(info.Ahead))
				}
				for _, a := range ahead {
					copied, told = append(copied, slices.Clone(a)), told+1
				}
				slabs := must(t, do(t, l, "slabs", ""), nil).Arrays
				for _, a := range r.Arrays {
					if at := unsafe.SliceData(a); len(a) > 0 && !slices.ContainsFunc(slabs, func(s []byte) bool {
						offset := uintptr(unsafe.Pointer(at)) - uintptr(unsafe.Pointer(unsafe.SliceData(s)))
						return offset+uintptr(len(a)) <= uintptr(len(s))
					}) {
						t.Fatalf("%s: an array of %d bytes lies in no slab", method, len(a))
					}
				}
			}
			if epoch == 49 && told == 0 {
				t.Errorf("%s: nothing was ready ahead in 50 epochs", method)
			}
		}
		if err := Drop(l); err != nil {
			t.Error(err)
		}
	}
	if r := do(t, h, "slabs", ""); Kind(r.Err) != KindInvalid {
		t.Errorf("slabs of a store: %v", r.Err)
	}
}

func allNodes(n int) (nodes []store.NodeID) {
	for v := range n {
		nodes = append(nodes, store.NodeID(v))
	}
	return nodes
}

func int32At(b []byte, i int64) int32 {
	v, _ := blocks.View[int32](b[4*i : 4*i+4])
	return v[0]
}

func batchArrays(t *testing.T, r *Reply, info *batchInfo) map[string][]byte {
	t.Helper()
	if len(r.Arrays) != len(info.Arrays) {
		t.Fatalf("%d arrays, %d are described", len(r.Arrays), len(info.Arrays))
	}
	found := map[string][]byte{}
	for i, a := range info.Arrays {
		found[a.Name] = r.Arrays[i]
	}
	return found
}

// TestAllNeighbours: fanouts of −1 are all neighbours, or refused: a part of the graph at a time is not all, unless that is asked for.
func TestAllNeighbours(t *testing.T) {
	h, _ := openedStore(t)
	for _, c := range []struct {
		request string
		taken   bool
	}{
		{`"fanouts":[-1],"plan":"memory"`, true}, {`"fanouts":[3,-1],"plan":"rows"`, true}, {`"fanouts":[-1]`, true},
		{`"fanouts":[-1],"plan":"hanoi","buffer":4`, false}, {`"fanouts":[4,-1],"plan":"trainnodes","buffer":4`, false},
		{`"fanouts":[4],"relation_fanouts":"0=4;1=-1;2=4","relations":true,"plan":"hanoi","buffer":4`, false},
		{`"fanouts":[-1],"plan":"hanoi","buffer":4,"absent":"ignore"`, true}, {`"fanouts":[4,3],"plan":"hanoi","buffer":4`, true},
		{`"fanouts":[-1],"absent":"zero"`, false},
	} {
		r := do(t, h, "loader", `{"batch_size":20,"shuffle":true,`+c.request+`}`)
		if c.taken != (r.Err == nil) || r.Err != nil && !errors.Is(r.Err, store.ErrInvalid) {
			t.Errorf("%s: %v, expected it taken: %t", c.request, r.Err, c.taken)
		}
		if r.Err == nil {
			if err := Drop(r.Handle); err != nil {
				t.Error(err)
			}
		}
	}
}
