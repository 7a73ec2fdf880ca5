package link_test

import (
	"bytes"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
)

// TestAbsentShadow: with a shadow an encoder out of core samples as many neighbours as in memory, without it those that are
// resident, and results are the same for any number of threads.
func TestAbsentShadow(t *testing.T) {
	dir := tripleStore(t, 8)
	run := func(c link.Config) (*link.Result, []byte) {
		c.Fanouts, c.Epochs, c.EvalEvery, c.BatchSize = []int{-1}, 2, 2, 50
		hide := false
		c.RemoveBatchEdges = &hide
		r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return r, finalState(t, dir, "embeddings", store.Options{})
	}
	c := smallRun("comet", "sage")
	c.Absent = link.AbsentShadow
	shadow, bits := run(c)
	c.Threads = 3
	if _, again := run(c); !bytes.Equal(again, bits) {
		t.Error("another number of threads gives other bits")
	}
	c.Absent = link.AbsentIgnore
	ignore, _ := run(c)
	memory, _ := run(smallRun("memory", "sage"))
	edges := func(r *link.Result) float64 { return float64(r.Summary.SampledEdges) / float64(r.Summary.Batches) }
	// Batches of 50 edges and 80 negatives have about 130 different nodes of 160 in memory, all 80 of a macro-batch out of core.
	if edges(shadow) < 1.5*edges(ignore) || edges(memory) > 2.2*edges(shadow) || memory.Config.Absent != link.AbsentIgnore {
		t.Errorf("neighbours a batch: %.0f with a shadow, %.0f without, %.0f in memory (%s)", edges(shadow), edges(ignore), edges(memory), memory.Config.Absent)
	}
}

// TestAbsentWhere: a shadow is kept where it is asked for, a plan may leave neighbours out and an encoder looks at them; the account
// has it then, and a budget that is too small for it names one that works.
func TestAbsentWhere(t *testing.T) {
	for _, c := range []struct {
		cfg  link.Config
		want string
	}{
		{link.Config{Encoder: "sage", Plan: "comet", Buffer: 4}, link.AbsentIgnore},
		{link.Config{Encoder: "sage", Plan: "comet", Buffer: 4, Absent: link.AbsentAuto}, link.AbsentIgnore},
		{link.Config{Encoder: "sage", Absent: link.AbsentShadow}, link.AbsentIgnore},
		{link.Config{Encoder: "sage", Plan: "memory", Absent: link.AbsentShadow}, link.AbsentIgnore},
		{link.Config{Plan: "comet", Buffer: 4, Absent: link.AbsentShadow}, link.AbsentIgnore},
		{link.Config{Encoder: "gcn", Plan: "beta", Buffer: 4, Absent: link.AbsentShadow}, link.AbsentShadow},
		{link.Config{Encoder: "gat", MemoryBytes: 1 << 30, Absent: link.AbsentShadow}, link.AbsentShadow},
	} {
		got := c.cfg
		if err := got.Normalize(); err != nil || got.Absent != c.want {
			t.Errorf("encoder %s, plan %s, absent %q: %q, error %v, expected %q", got.Encoder, got.Plan, c.cfg.Absent, got.Absent, err, c.want)
		}
	}
	if err := (&link.Config{Absent: "halo"}).Normalize(); err == nil {
		t.Error("absent neighbours by halo are taken")
	}
	st, err := store.Open(tripleStore(t, 8), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c := link.Config{Encoder: "sage", Plan: "comet", Buffer: 4, Absent: link.AbsentShadow, MemoryBytes: 1 << 30}
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	y, err := link.OpenMemory(t.Context(), st, gpu.Info{InPlace: true}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if a, err := y.Account(c.MemoryBytes); err != nil || a.Of("absent neighbours") == 0 {
		t.Errorf("account %v, error %v, expected one with absent neighbours", &a, err)
	}
	_, err = y.Account(1 << 20)
	if a, err := y.Account(named(t, err)); err != nil || a.Of("absent neighbours") == 0 {
		t.Errorf("account %v of the smallest budget, error %v", &a, err)
	}
}
