package webpage

import (
	"html/template"
	"math"
)

// Histogram is a chart of how many there are in each of some ranges.
type Histogram struct {
	Title, Note string
	X, Y        string
	Bins        []Bin
	LogX, LogY  bool
}

// Bin is a range [Lo, Hi) with how many are in it.
type Bin struct {
	Lo, Hi float64
	N      float64
}

// HTML draws the histogram; it is empty of no bins.
func (h Histogram) HTML() template.HTML {
	if len(h.Bins) == 0 {
		return ""
	}
	most := 0.
	for _, b := range h.Bins {
		most = max(most, b.N)
	}
	x, y := axis{lo: h.Bins[0].Lo, hi: h.Bins[len(h.Bins)-1].Hi, log: h.LogX}, around(0, max(most, 1), true)
	if h.LogY {
		y = axis{lo: .5, hi: math.Pow(10, math.Ceil(math.Log10(max(most, 2)))), log: true}
	}
	type drawn struct {
		X, W, Y, H float64
		Title      string
	}
	d := struct {
		Histogram
		Drawn  []drawn
		XS, YS []Tick
	}{Histogram: h, XS: x.ticks(false), YS: y.ticks(!h.LogY && most >= 1)}
	for _, b := range h.Bins {
		if b.N <= 0 {
			continue
		}
		lo, hi, top := x.place(b.Lo), x.place(b.Hi), y.place(b.N)
		title := numberText(b.Lo, "")
		if b.Hi-b.Lo > 1 || b.Lo != math.Trunc(b.Lo) {
			title += " to " + numberText(b.Hi, "")
		}
		d.Drawn = append(d.Drawn, drawn{lo + .15, max(hi-lo-.3, .2), 100 - top, top, h.X + " " + title + ": " + Count(b.N) + " " + h.Y})
	}
	return execute("histogram", d)
}
