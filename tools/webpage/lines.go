package webpage

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// Series is a curve. Where points are missing it breaks: behind one that is more than three times as far from the next
// as is usual.
type Series struct {
	Name   string
	Color  int // of [Colors]
	Points []Point
}

// Lines is a chart of curves over a shared x axis.
type Lines struct {
	Title  string
	Note   string // what to know of it
	X, Y   string // units
	Whole  bool   // x counts
	Zero   bool   // the y axis begins at 0
	Top    float64
	Series []Series
	// Mark is an x that is marked, with what it is; nothing at 0.
	Mark     float64
	MarkName string
}

// pointsMost bounds the points of a curve that are drawn; of more, neighbours are averaged. marked is up to how many each
// has a dot.
const (
	pointsMost = 600
	marked     = 60
)

type drawnSeries struct {
	Series
	Path, Dots string
	Titles     []dot
	Last       string
}

type dot struct {
	At, Title string
}

// Empty reports whether there is nothing to draw.
func (l *Lines) Empty() bool {
	return !slices.ContainsFunc(l.Series, func(s Series) bool { return len(s.Points) > 0 })
}

// HTML draws the chart; it is empty of no points.
func (l Lines) HTML() template.HTML {
	x, y := axis{lo: math.Inf(1), hi: math.Inf(-1)}, axis{lo: math.Inf(1), hi: math.Inf(-1)}
	l.Series = slices.DeleteFunc(slices.Clone(l.Series), func(s Series) bool { return len(s.Points) == 0 })
	for i := range l.Series {
		l.Series[i].Points = thin(finite(l.Series[i].Points))
		for _, p := range l.Series[i].Points {
			x.lo, x.hi, y.lo, y.hi = min(x.lo, p.X), max(x.hi, p.X), min(y.lo, p.Y), max(y.hi, p.Y)
		}
	}
	if x.lo > x.hi {
		return ""
	}
	if l.Zero {
		y.lo = min(0, y.lo)
	}
	x, y = around(x.lo, x.hi, false), around(y.lo, y.hi, true)
	if l.Top > 0 {
		y.hi = min(y.hi, max(l.Top, y.lo))
	}
	d := struct {
		Lines
		Curves []drawnSeries
		XS, YS []Tick
		MarkAt float64
		Says   string
	}{Lines: l, XS: x.ticks(l.Whole), YS: y.ticks(false), MarkAt: -1}
	if l.Mark != 0 && l.Mark >= x.lo && l.Mark <= x.hi {
		d.MarkAt = x.place(l.Mark)
	}
	said := make([]string, 0, len(l.Series))
	for _, s := range l.Series {
		c := drawnSeries{Series: s}
		first, last := s.Points[0], s.Points[len(s.Points)-1]
		c.Last = numberText(last.Y, l.Y)
		said = append(said, fmt.Sprintf("%s from %s to %s", or(s.Name, l.Title), numberText(first.Y, l.Y), c.Last))
		for _, part := range unbroken(s.Points) {
			for i, p := range part {
				verb := "L"
				if i == 0 {
					verb = "M"
				}
				c.Path += verb + at(x.place(p.X)) + " " + at(100-y.place(p.Y))
			}
			if len(part) == 1 || len(s.Points) <= marked {
				for _, p := range part {
					c.Titles = append(c.Titles, dot{"M" + at(x.place(p.X)) + " " + at(100-y.place(p.Y)) + "h0",
						strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", l.X, numberText(p.X, ""), s.Name, numberText(p.Y, l.Y)))})
				}
			}
		}
		d.Curves = append(d.Curves, c)
	}
	d.Says = l.Title + ": " + strings.Join(said, "; ")
	return execute("lines", d)
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// numberText is a number as people read it, with its unit.
func numberText(v float64, unit string) string {
	text := fmt.Sprintf("%.4g", v)
	switch {
	case math.Abs(v) >= 1e4:
		text = Count(math.Round(v))
	case unit == "%":
		return fmt.Sprintf("%.2f %%", v)
	}
	if unit != "" {
		text += " " + unit
	}
	return text
}

func finite(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return math.IsNaN(p.X+p.Y) || math.IsInf(p.X+p.Y, 0)
	})
}

// thin averages neighbouring points of a long curve.
func thin(points []Point) []Point {
	group := (len(points) + pointsMost - 1) / pointsMost
	if group <= 1 {
		return points
	}
	var out []Point
	for part := range slices.Chunk(points, group) {
		var m Point
		for _, p := range part {
			m.X, m.Y = m.X+p.X/float64(len(part)), m.Y+p.Y/float64(len(part))
		}
		out = append(out, m)
	}
	return out
}

// unbroken cuts a curve where points are missing.
func unbroken(points []Point) (parts [][]Point) {
	var gaps []float64
	for i := 1; i < len(points); i++ {
		gaps = append(gaps, points[i].X-points[i-1].X)
	}
	if len(gaps) == 0 {
		return [][]Point{points}
	}
	usual := slices.Sorted(slices.Values(gaps))[len(gaps)/2]
	from := 0
	for i, gap := range gaps {
		if gap > 3*usual {
			parts, from = append(parts, points[from:i+1]), i+1
		}
	}
	return append(parts, points[from:])
}
