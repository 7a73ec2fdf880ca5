package link_test

import (
	"bytes"
	"strings"
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
	shadow, bits := run(c)
	if shadow.Config.Absent != link.AbsentShadow {
		t.Fatalf("absent neighbours out of core: %q by default, expected %q", shadow.Config.Absent, link.AbsentShadow)
	}
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

// TestComplete: a shadow is kept where an encoder's plan leaves neighbours out and the budget has room, and the account has it then.
func TestComplete(t *testing.T) {
	dir := tripleStore(t, 8)
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	info := gpu.Info{InPlace: true}
	for _, c := range []struct {
		name string
		cfg  link.Config
		want string
	}{
		{"in memory", link.Config{Encoder: "sage"}, link.AbsentIgnore},
		{"plan memory", link.Config{Encoder: "sage", Plan: "memory", Absent: link.AbsentShadow}, link.AbsentIgnore},
		{"no encoder", link.Config{Plan: "comet", Buffer: 4}, link.AbsentIgnore},
		{"asked not to", link.Config{Encoder: "gat", Plan: "comet", Buffer: 4, Absent: link.AbsentIgnore}, link.AbsentIgnore},
		{"out of core", link.Config{Encoder: "gcn", Plan: "comet", Buffer: 4}, link.AbsentShadow},
		{"beta", link.Config{Encoder: "gcn", Plan: "beta", Buffer: 4}, link.AbsentShadow},
		{"all fits", link.Config{Encoder: "sage", MemoryBytes: 4 << 30}, link.AbsentIgnore},
		{"room", link.Config{Encoder: "sage", Plan: "comet", Buffer: 4, MemoryBytes: 4 << 30}, link.AbsentShadow},
		{"too small for anything", link.Config{Encoder: "sage", Plan: "comet", Buffer: 4, MemoryBytes: 1 << 20}, link.AbsentIgnore},
	} {
		if err := c.cfg.Normalize(); err != nil {
			t.Fatal(err)
		}
		why, err := c.cfg.Complete(t.Context(), st, info)
		if err != nil || c.cfg.Absent != c.want || (why != "") != (c.want == link.AbsentShadow) {
			t.Errorf("%s: absent %s, error %v, because %q; expected %s", c.name, c.cfg.Absent, err, why, c.want)
		}
		if c.name != "room" {
			continue
		}
		y, err := link.OpenMemory(t.Context(), st, info, c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := y.Account(c.cfg.MemoryBytes); err != nil || a.Of("absent neighbours") == 0 || !strings.Contains(a.String(), "absent neighbours") {
			t.Errorf("account %v, error %v, expected one with absent neighbours", &a, err)
		}
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := (&link.Config{Absent: "halo"}).Normalize(); err == nil {
		t.Error("absent neighbours by halo are taken")
	}
}
