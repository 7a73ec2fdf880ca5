package native

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/train/config"
	nodes "github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

func planted(list []int) int { return list[7] }

// TestPanicsAreErrors: a method that panics, and a loader whose sampling goroutine does, fail with an internal error that
// has the stack; other calls go on.
func TestPanicsAreErrors(t *testing.T) {
	internal := func(what string, r *Reply) {
		t.Helper()
		if Kind(r.Err) != KindInternal || !strings.Contains(r.Err.Error(), "index out of range [7]") || !strings.Contains(r.Err.Error(), "native.planted") {
			t.Errorf("%s panicked and answered %v", what, r.Err)
		}
	}
	methods["planted"] = method{0, func(_ context.Context, c *call) error { return c.answer(planted(nil)) }}
	defer delete(methods, "planted")
	internal("a method", do(t, 0, "planted", ""))

	_, s := openedStore(t)
	for _, plan := range []string{"memory", "hanoi", "rows"} {
		dev := host.New(host.Options{})
		cfg := config.Config{Fanouts: []int{3, 2}, BatchSize: 20, Plan: plan, Threads: 3}
		if plan == "hanoi" {
			cfg.Buffer = 4
		}
		finish := func(_ *buffer.MacroBatch, b *mini.Batch) error {
			if b.Key.Batch == 2 {
				planted(nil)
			}
			b.Extra = &packed{}
			return nil
		}
		l, err := nodes.Open(t.Context(), s, cfg, nodes.Options{Info: dev.Info(), Finish: finish})
		if err != nil {
			t.Fatal(err)
		}
		o := &loader{mu: new(sync.Mutex), l: l, of: s, room: &room{}, cancel: func() {}, packed: func(b *mini.Batch) (*packed, error) { return b.Extra.(*packed), nil }}
		h := all.add(o)
		must(t, do(t, h, "start", "{}"), nil)
		r := do(t, h, "next", "")
		for n := 0; r.Err == nil && n < 1000; n++ {
			r = do(t, h, "next", "")
		}
		internal("a loader of plan "+plan, r)
		if err := Drop(h); err != nil {
			t.Errorf("closing a loader of plan %s that had panicked: %v", plan, err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
	must(t, do(t, 0, "counts", ""), nil)
}

// TestRelationsOfNone: relations are refused of a store whose edges are of one kind, and not looked for in its blocks.
func TestRelationsOfNone(t *testing.T) {
	h, _ := openedStoreOf(t, 1)
	r := do(t, h, "loader", `{"fanouts":[5],"batch_size":20,"relations":true}`)
	if Kind(r.Err) != KindInvalid || !strings.Contains(r.Err.Error(), "edges here are of one kind") {
		t.Errorf("relations of a store without: %v", r.Err)
	}
}
