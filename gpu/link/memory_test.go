package link_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
)

// named is the budget that a refusal names as the smallest that works.
func named(t *testing.T, err error) int64 {
	t.Helper()
	m := regexp.MustCompile(`the smallest that works is (\d+)MiB`).FindStringSubmatch(fmt.Sprint(err))
	if !errors.Is(err, store.ErrBudget) || m == nil {
		t.Fatalf("error %v, expected ErrBudget and the smallest budget", err)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 20
}

// TestSmallestBudgetWorks: the budget that a refusal names works to the end, and so do those above it; what is
// refused is refused before the embeddings of the run before are replaced.
func TestSmallestBudgetWorks(t *testing.T) {
	race.SkipArithmetic(t)
	for k, c := range []link.Config{
		{Dim: 64, BatchSize: 500, Negatives: 200},
		{Dim: 64, BatchSize: 3000, Negatives: 10, Chunks: 1, EvalEvery: -1},
		{Encoder: "gat", Heads: 4, Dim: 400, BatchSize: 10, Negatives: 1, Chunks: 1},
		{Encoder: "gat", Heads: 4, Dim: 400, BatchSize: 100, Negatives: 50, Plan: "comet", Absent: link.AbsentShadow},
		{Encoder: "sage", Dim: 256, BatchSize: 400, Negatives: 100, Plan: "comet", Optimizer: "adam"},
		{Encoder: "gcn", Dim: 256, BatchSize: 400, Negatives: 100, Fanouts: []int{-1}},
		{Encoder: "gat", Layers: 2, Dim: 256, BatchSize: 100, Negatives: 20, Fanouts: []int{3, -1}, Features: []string{"x"}},
		{Encoder: "sage", Dim: 256, BatchSize: 100, Negatives: 20, Features: []string{"x"}, NoEmbeddings: true, Plan: "comet"},
	} {
		if k%race.Sample(2, 3) != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/dim=%d", c.Encoder, c.Plan, c.Dim), func(t *testing.T) {
			dir := tripleStore(t, 8)
			if len(c.Features) > 0 {
				addFeatures(t, dir, 160, 4000)
			}
			c.Epochs, c.Threads = 1, 2
			run := func(memory int64) error {
				c.MemoryBytes = memory
				_, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{})
				return err
			}
			if err := run(0); err != nil {
				t.Fatal(err)
			}
			before := finalState(t, dir, "embeddings", store.Options{})
			least := named(t, run(1<<20))
			err := run(least - 1<<20)
			var bound *gpu.BoundError
			if n := named(t, err); n != least || errors.As(err, &bound) {
				t.Errorf("within %d MiB: %v, expected to be refused at the start with %d MiB", least>>20-1, err, least>>20)
			}
			if !bytes.Equal(finalState(t, dir, "embeddings", store.Options{}), before) {
				t.Error("a run that was refused replaced the embeddings of the run before")
			}
			for _, more := range []int64{0, 256 << 10, 1 << 20, 3 << 20} {
				if err := run(least + more); err != nil {
					t.Errorf("within %d bytes, %d MiB is named: %v", least+more, least>>20, err)
				}
			}
		})
	}
}
