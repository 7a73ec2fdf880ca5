package macro_test

import (
	"errors"
	"testing"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// A forecast is what the iterator predicts, which is what it reads, epoch after epoch; the least
// budget is accepted and one byte less refused.
func TestForecast(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 6000, Partitions: 9, Dim: 33}))
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := buffer.Options{Features: []string{"x"}, Labels: true}
	f, err := buffer.OpenForecaster(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, cfg := range []macro.Config{
		{Policy: macro.Memory}, {Policy: macro.Hanoi, Capacity: 3}, {Policy: macro.Comet, Capacity: 4}, {Policy: macro.Beta, Capacity: 2},
	} {
		cfg.Partitions = 9
		policy, err := macro.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		least, err := f.LeastBytes(cfg.Capacity)
		if err != nil {
			t.Fatal(err)
		}
		plans := []buffer.Plan{policy.Epoch(0), policy.Epoch(1), policy.Epoch(2)}
		bytes, epochs, err := f.Epochs(cfg.Capacity, 0, least, plans...)
		if err != nil || bytes != least {
			t.Fatalf("%s: buffer of %d bytes within %d: %v", cfg.Policy, bytes, least, err)
		}
		if _, _, err := f.Epochs(cfg.Capacity, 0, least-1, plans...); !errors.Is(err, store.ErrBudget) {
			t.Errorf("%s: a byte less than the least: %v, want ErrBudget", cfg.Policy, err)
		}
		o.Capacity, o.MemoryBytes = cfg.Capacity, least
		it, err := buffer.Open(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		for k, plan := range plans {
			total := epochs[k].Total
			if want := it.PredictBytes(plan); total.Bytes() != want {
				t.Errorf("%s epoch %d: forecast of %d bytes, the iterator predicts %d", cfg.Policy, k, total.Bytes(), want)
			}
			if err := it.Start(plan); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			after := it.Stats()
			if got := after.BytesRead; got != total.Bytes() {
				t.Errorf("%s epoch %d: %d bytes read, forecast %d", cfg.Policy, k, got, total.Bytes())
			}
			if got := int(after.Requests); got != total.Requests {
				t.Errorf("%s epoch %d: %d requests made, forecast %d", cfg.Policy, k, got, total.Requests)
			}
			if total.NeededBytes > total.TopologyBytes {
				t.Errorf("%s epoch %d: %d bytes needed, %d read", cfg.Policy, k, total.NeededBytes, total.TopologyBytes)
			}
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Choose finds the capacity that a run without a plan of its own finds.
func TestChooseAgreesWithStore(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 6000, Partitions: 20, Dim: 33}))
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := buffer.Options{Features: []string{"x"}, Labels: true}
	f, err := buffer.OpenForecaster(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.LeastBytes(0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for budget := all / 20; budget <= all+all/10; budget += all / 20 {
		o.MemoryBytes = budget
		want, wantErr := buffer.MaxCapacity(t.Context(), s, o)
		c, err := macro.Choose(macro.Tuning{Config: macro.Config{Partitions: 20}, MemoryBytes: budget, LeastBytes: f.LeastBytes, DoubleBytes: f.DoubleBytes})
		if errors.Is(err, store.ErrBudget) != errors.Is(wantErr, store.ErrBudget) {
			t.Fatalf("budget %d: %v, the store says %v", budget, err, wantErr)
		}
		if err == nil && c.Capacity != want {
			t.Errorf("budget %d: %d partitions at a time, the store says %d", budget, c.Capacity, want)
		}
		seen[c.Capacity] = true
	}
	if len(seen) < 4 {
		t.Errorf("only capacities %v were tried", seen)
	}
}
