package buffer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks"
)

func TestMergeSpans(t *testing.T) {
	const k = 4096
	for _, c := range []struct {
		name         string
		need         []byteSpan
		granule, gap int64
		length       int64
		want         []byteSpan
	}{
		{"nothing", nil, k, 0, 100 * k, nil},
		{"an empty range is not read", []byteSpan{{from: 5, to: 5}}, k, 0, 100 * k, nil},
		{"rounded outward", []byteSpan{{from: 5000, to: 5001}}, k, 0, 100 * k, []byteSpan{{from: k, to: 2 * k}}},
		{"neighbours join", []byteSpan{{from: 0, to: 10}, {from: k, to: k + 1}}, k, 0, 100 * k, []byteSpan{{from: 0, to: 2 * k}}},
		{"a gap is read through", []byteSpan{{from: 0, to: 10}, {from: 3 * k, to: 3*k + 1}}, k, 2 * k, 100 * k, []byteSpan{{from: 0, to: 4 * k}}},
		{"a larger gap is not", []byteSpan{{from: 0, to: 10}, {from: 4 * k, to: 4*k + 1}}, k, 2 * k, 100 * k, []byteSpan{{from: 0, to: k}, {from: 4 * k, to: 5 * k}}},
		{"not beyond the extent's last page", []byteSpan{{from: 70000, to: 70001}}, 16 * k, 0, 70001, []byteSpan{{from: 16 * k, to: blocks.AlignUp(70001)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mergeSpans(nil, c.need, c.granule, c.gap, c.length); !slices.Equal(got, c.want) {
				t.Errorf("got %v, expected %v", got, c.want)
			}
		})
	}
}

// Whatever is needed is covered; spans are aligned, ascend, are farther apart
// than the gap, and no page is read that is not needed or part of such a gap.
func TestMergeSpansCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		granule := int64(4096) << rapid.IntRange(0, 4).Draw(t, "granule")
		gap := rapid.Int64Range(0, 1<<18).Draw(t, "gap")
		var need []byteSpan
		at := int64(0)
		for range rng.IntN(30) {
			at += rng.Int64N(200000)
			n := byteSpan{from: at, to: at + rng.Int64N(50000)}
			need, at = append(need, n), n.to
		}
		length := at + rng.Int64N(10000)
		got := mergeSpans(nil, need, granule, gap, length)
		for i, s := range got {
			if s.from%granule != 0 || s.to%4096 != 0 || s.to > blocks.AlignUp(length) || s.from >= s.to {
				t.Fatalf("span %v of an extent of %d bytes", s, length)
			}
			if i > 0 && s.from-got[i-1].to <= gap {
				t.Fatalf("spans %v and %v could be one", got[i-1], s)
			}
		}
		for _, n := range need {
			if n.from < n.to && !slices.ContainsFunc(got, func(s byteSpan) bool { return s.from <= n.from && n.to <= s.to }) {
				t.Fatalf("%v is not covered by %v", n, got)
			}
		}
		if gap == 0 {
			for _, s := range got {
				for page := s.from; page < s.to; page += granule {
					if !slices.ContainsFunc(need, func(n byteSpan) bool { return n.from < page+granule && n.to > page && n.from < n.to }) {
						t.Fatalf("%d of %v is read for nothing", page, s)
					}
				}
			}
		}
	})
}
