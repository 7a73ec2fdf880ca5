package link_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// A run that begins with a table ends with the same bits whole, and broken off and resumed, for which
// the table that it began with is not asked for; a shadow of absent neighbours begins with its rows too. Without that table it is refused.
func TestBegin(t *testing.T) {
	dir := tripleStore(t, 8)
	st, dev := storetest.Open(t, dir, store.Options{}), host.New(host.Options{Threads: 1})
	t.Cleanup(func() { _ = dev.Close() })
	train := func(ctx context.Context, c link.Config, table string, h link.Hooks) error {
		c.Table = table
		_, err := link.Train(ctx, st, dev, c, h)
		return err
	}
	for _, encoder := range []string{"none", "sage"} {
		first := smallRun("memory", encoder)
		if err := train(t.Context(), first, "first-"+encoder, link.Hooks{}); err != nil {
			t.Fatal(err)
		}
		b, err := link.OpenBegin(t.Context(), st, "first-"+encoder)
		if err != nil {
			t.Fatal(err)
		}
		c := smallRun("comet", encoder)
		c.Epochs, c.Seed, c.CheckpointEvery = 2, 9, "5steps"
		if encoder == "sage" {
			c.Absent = link.AbsentShadow
		}
		c.BeginWith(b)
		c.Given = []string{"epochs", "seed"}
		if err := train(t.Context(), c, "whole", link.Hooks{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := 17
		err = train(ctx, c, "broken", link.Hooks{Batch: func(int, int64) {
			if left--; left == 0 {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		c.Begin, c.Resume = nil, true
		if err := train(t.Context(), c, "broken", link.Hooks{}); err != nil {
			t.Fatal(err)
		}
		want := finalModel(t, dir, "whole", store.Options{})
		if !bytes.Equal(finalModel(t, dir, "broken", store.Options{}), want) {
			t.Errorf("encoder %s: broken off, the run ends with other bits", encoder)
		}
		c.Resume = false
		if err := train(t.Context(), c, "none", link.Hooks{}); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "not there") {
			t.Errorf("without the table: %v", err)
		}
		c.From = ""
		if err := train(t.Context(), c, "other", link.Hooks{}); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(finalModel(t, dir, "other", store.Options{}), want) {
			t.Errorf("encoder %s: a run that begins with a model is one that does not", encoder)
		}
	}
}
