package native

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// checkUnion compares a union of edges with the blocks: by node ids, every node that is met before the last hop has the
// edges of the block of that hop, once; nodes are in order of hops, and none is there that no edge leads from.
func checkUnion(t *testing.T, blks []mini.Block, input, ids []int64, got map[string][]byte, info *batchInfo, relations bool) {
	t.Helper()
	at := map[int64]int{} // node → position in the input
	for i, v := range input {
		at[v] = i
	}
	pairs := ints(got["edge_index"])
	edges := len(pairs) / 2
	e, begin, end, used := 0, 0, info.Nodes[0], map[int64]bool{}
	for h := range blks {
		blk := &blks[len(blks)-1-h]
		first := e
		for d := begin; d < end; d++ {
			u := at[ids[d]]
			for k := blk.Indptr[u]; k < blk.Indptr[u+1]; k, e = k+1, e+1 {
				if ids[pairs[e]] != input[blk.Indices[k]] || pairs[edges+e] != int64(d) {
					t.Fatalf("hop %d: edge %d is %d → %d, expected %d → %d", h, e, ids[pairs[e]], pairs[edges+e], input[blk.Indices[k]], d)
				}
				if relations && ints(got["edge_type"])[e] != int64(blk.Relations[k]) {
					t.Fatalf("hop %d: the relation of edge %d differs", h, e)
				}
				used[pairs[e]] = true
			}
		}
		if e-first != info.Edges[h] {
			t.Fatalf("hop %d has %d edges, it says %d", h, e-first, info.Edges[h])
		}
		begin, end = end, end+info.Nodes[h+1]
	}
	if e != edges || end != len(ids) {
		t.Fatalf("%d edges of %d, %d nodes of %d", e, edges, end, len(ids))
	}
	for i := info.Nodes[0]; i < len(ids); i++ {
		if !used[int64(i)] {
			t.Fatalf("node %d leads nowhere", i)
		}
	}
}

// TestHandles: what is closed, dropped or never was is an error, and so is memory of the wrong size.
func TestHandles(t *testing.T) {
	h, _ := openedStore(t)
	if r := do(t, h, "nothing", ""); Kind(r.Err) != KindInvalid {
		t.Errorf("an unknown method: %v", r.Err)
	}
	if r := do(t, h+1000, "column", "{}", nil); Kind(r.Err) != KindClosed {
		t.Errorf("an unknown handle: %v", r.Err)
	}
	if r := do(t, h, "next", ""); Kind(r.Err) != KindInvalid {
		t.Errorf("a store's next batch: %v", r.Err)
	}
	if r := do(t, h, "features", `{"column":"x"}`, nil); Kind(r.Err) != KindInvalid {
		t.Errorf("features without room: %v", r.Err)
	}
	if r := do(t, h, "features", `{"column":"x"}`, make([]byte, 8), make([]byte, 5)); Kind(r.Err) != KindInvalid {
		t.Errorf("features into 5 bytes: %v", r.Err)
	}
	if r := do(t, h, "loader", `{"fanout":[2]}`); Kind(r.Err) != KindInvalid {
		t.Errorf("a misspelt option: %v", r.Err)
	}
	if r := do(t, h, "loader", `{"fanouts":[2],"sampler":"best"}`); r.Err == nil || !strings.Contains(r.Err.Error(), "best") {
		t.Errorf("an unknown sampler: %v", r.Err)
	}
	l := must(t, do(t, h, "loader", `{"fanouts":[2],"sampler":"labor"}`), nil).Handle
	if r := do(t, l, "next", ""); Kind(r.Err) != KindClosed {
		t.Errorf("next before start: %v", r.Err)
	}
	if err := Drop(l); err != nil || Drop(l) != nil {
		t.Error(err)
	}
	if r := do(t, l, "start", ""); Kind(r.Err) != KindClosed {
		t.Errorf("a dropped loader: %v", r.Err)
	}
	if r := Wait(1<<40, time.Millisecond); r == nil || Kind(r.Err) != KindNotFound {
		t.Error("an unknown operation")
	}
}

// TestBudget: what batches take beside the partition buffer is bounded.
func TestBudget(t *testing.T) {
	r := &room{bound: 1 << 20}
	if _, err := r.alloc(500 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := r.alloc(500 << 10); Kind(err) != KindBudget {
		t.Errorf("beyond the bound: %v", err)
	}
	r.free()
	if _, err := r.alloc(1); Kind(err) != KindClosed {
		t.Errorf("after free: %v", err)
	}
}

// TestIngestCancelled: a cancelled ingest ends with that error, and what it left is no store.
func TestIngestCancelled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	ends := make([]uint64, 200_000)
	for i := range ends {
		ends[i] = uint64(i*7919) % 50_000
	}
	request := fmt.Sprintf(`{"path":%q,"partitioner":"fennel","partitions":8,"arrays":[{"use":"src"},{"use":"dst"}]}`, dir)
	op := Start(0, "ingest", []byte(request), [][]byte{blocks.Bytes(ends), blocks.Bytes(ends)})
	Cancel(op)
	r := Wait(op, time.Minute)
	if r == nil || r.Err != nil && Kind(r.Err) != KindCancelled {
		t.Fatalf("a cancelled ingest: %v", r)
	}
	Release(op)
	if r.Err != nil {
		if _, err := os.Stat(dir); err == nil {
			if _, err := store.Open(dir, store.Options{}); err == nil {
				t.Error("a cancelled ingest left a store")
			}
		}
	}
}

// TestKinds: errors keep their kinds through wrapping.
func TestKinds(t *testing.T) {
	for err, want := range map[error]int{nil: KindNone, context.Canceled: KindCancelled, store.ErrBudget: KindBudget, &blocks.CorruptError{}: KindCorrupt,
		ingest.Inputf("a", "b"): KindInput, os.ErrPermission: KindFailed, store.ErrNoVersion: KindNotFound} {
		if err != nil {
			err = fmt.Errorf("x: %w", err)
		}
		if got := Kind(err); got != want {
			t.Errorf("%v is of kind %d, expected %d", err, got, want)
		}
	}
}
