package eval

import (
	"context"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
)

// Kinds of relations by how many heads a tail has in the mean, and tails a head: many from 1.5 on.
func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		edges, heads, tails int64
		want                string
	}{
		{0, 0, 0, "1-1"}, {1, 1, 1, "1-1"}, {10, 10, 10, "1-1"}, {14, 10, 10, "1-1"},
		{15, 10, 15, "1-n"}, {15, 15, 10, "n-1"}, {15, 10, 10, "n-n"}, {100, 3, 90, "1-n"}, {100, 90, 3, "n-1"}, {100, 7, 9, "n-n"},
	} {
		if got := kindOf(c.edges, c.heads, c.tails); got != c.want {
			t.Errorf("%d edges from %d heads to %d tails: %s, expected %s", c.edges, c.heads, c.tails, got, c.want)
		}
	}
}

func TestOnes(t *testing.T) {
	b, r := make([]uint64, 4), keyed.New(3).Rand(0)
	for i := range b {
		b[i] = r.Below(1 << 62)
	}
	for lo := 0; lo <= 256; lo++ {
		for hi := lo; hi <= 256; hi++ {
			want := int64(0)
			for i := lo; i < hi; i++ {
				want += int64(b[i/64] >> (i % 64) & 1)
			}
			if got := ones(b, lo, hi); got != want {
				t.Fatalf("%d ones from %d to %d, expected %d", got, lo, hi, want)
			}
		}
	}
}

// CountRelations counts edges, heads and tails of a ranker's relations in the room of so many words.
func CountRelations(ctx context.Context, v *Ranker, words int) (all [][3]int64, err error) {
	counts, err := v.countRelations(ctx, make([]uint64, words))
	for _, c := range counts {
		all = append(all, [3]int64{c.edges, c.heads, c.tails})
	}
	return all, err
}
