package mini

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// TestCutsAreSearches: lists end where a search by halves says, whatever their times' law, far apart, tied or all the same, and whether
// the chunk before was interpolated or not.
func TestCutsAreSearches(t *testing.T) {
	r := keyed.New(1).Rand(0)
	laws := map[string]func() int64{
		"even":    func() int64 { return int64(r.Below(1 << 40)) },
		"far":     func() int64 { return int64(r.Uint64()) },
		"ends":    func() int64 { return []int64{math.MinInt64, 0, math.MaxInt64}[r.Below(3)] },
		"ties":    func() int64 { return int64(r.Below(5)) },
		"uneven":  func() int64 { return int64(math.Exp(40 * r.Float64())) },
		"grouped": func() int64 { return int64(r.Below(4))<<40 + int64(r.Below(50)) },
		"same":    func() int64 { return 7 },
	}
	s, err := New(Config{Fanouts: []int{1}, Sampler: Latest})
	if err != nil {
		t.Fatal(err)
	}
	for name, law := range laws {
		paused := 0
		for range 40 {
			var times, moments []int64
			var spans []buffer.Span
			for range chunkNodes {
				begin := len(times)
				for range r.Below(1 << r.Below(10)) {
					times = append(times, law())
				}
				slices.Sort(times[begin:])
				moment := law()
				switch {
				case r.Below(4) == 0 && begin < len(times):
					moment = times[begin+int(r.Below(uint64(len(times)-begin)))]
				case r.Below(10) == 0:
					moment = []int64{math.MinInt64, math.MaxInt64}[r.Below(2)]
				}
				spans, moments = append(spans, buffer.Span{Begin: int64(begin), End: int64(len(times))}), append(moments, moment)
			}
			cut := slices.Clone(spans)
			s.cut(times, cut, moments)
			for i, span := range spans {
				past, _ := slices.BinarySearch(times[span.Begin:span.End], moments[i])
				if want := (buffer.Span{Begin: span.Begin, End: span.Begin + int64(past)}); cut[i] != want {
					t.Fatalf("%s: the edges before %d of %v are %v, expected %v", name, moments[i], span, cut[i], want)
				}
			}
			if s.cutPause > 0 {
				paused++
			}
		}
		if even := name == "even"; even && paused > cutPause || name == "uneven" && paused < 30 {
			t.Errorf("%s: %d of 40 chunks were not interpolated", name, paused)
		}
	}
}
