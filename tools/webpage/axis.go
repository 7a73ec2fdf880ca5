package webpage

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Tick is a mark on an axis: At in per cent of its length.
type Tick struct {
	At   float64
	Text string
}

// axis is the range of a chart's numbers, and where its ticks are.
type axis struct {
	lo, hi float64
	log    bool // of ten
}

// place is where a value lies, in per cent of the axis.
func (a axis) place(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(v)
	}
	if hi <= lo {
		return 50
	}
	return max(0, min(100, 100*(v-lo)/(hi-lo)))
}

// about is how many ticks an axis has, about.
const about = 5

// nice is a step of 1, 2 or 5 times a power of ten that divides a range into about as many parts (Heckbert, "Nice
// numbers for graph labels", Graphics Gems, 1990).
func nice(span float64, parts int) float64 {
	rough := span / float64(parts)
	tens := math.Pow(10, math.Floor(math.Log10(rough)))
	switch f := rough / tens; {
	case f < 1.5:
		return tens
	case f < 3.5:
		return 2 * tens
	case f < 7.5:
		return 5 * tens
	}
	return 10 * tens
}

// around is an axis from lo to hi, widened to whole steps where it is loose.
func around(lo, hi float64, loose bool) axis {
	if !(hi > lo) {
		pad := max(math.Abs(lo)/10, 1e-9)
		if lo == math.Trunc(lo) && math.Abs(lo) < 1e15 {
			pad = 1
		}
		lo, hi = lo-pad, hi+pad
	}
	if loose {
		step := nice(hi-lo, about)
		lo, hi = step*math.Floor(lo/step+1e-9), step*math.Ceil(hi/step-1e-9)
	}
	return axis{lo: lo, hi: hi}
}

// ticks are the axis's, whole: at integers alone.
func (a axis) ticks(whole bool) (list []Tick) {
	if a.log {
		for e := math.Ceil(math.Log10(a.lo) - 1e-9); e <= math.Log10(a.hi)+1e-9; e++ {
			v := math.Pow(10, e)
			list = append(list, Tick{a.place(v), short(v)})
		}
		for len(list) > about+2 { // every other one
			kept := list[:0]
			for i := 0; i < len(list); i += 2 {
				kept = append(kept, list[i])
			}
			list = kept
		}
		return list
	}
	step := nice(a.hi-a.lo, about)
	if whole {
		step = max(1, step)
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for k := math.Ceil(a.lo/step - 1e-9); k*step <= a.hi+step*1e-9; k++ {
		v := k*step + 0 // not −0
		text := strconv.FormatFloat(v, 'f', digits, 64)
		if math.Abs(v) >= 1e4 {
			text = short(v)
		}
		if digits > 4 {
			text = fmt.Sprintf("%.3g", v)
		}
		list = append(list, Tick{a.place(v), text})
	}
	return list
}

// short is a large number in few letters.
func short(v float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.of {
			return strings.TrimSuffix(strconv.FormatFloat(v/u.of, 'f', -1, 64), ".0") + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
