package webpage

import (
	"html/template"
	"math"
)

// Dots is a map of points, whose axes mean nothing by themselves.
type Dots struct {
	Title, Note string
	Dots        []Dot
	Legend      []Key
	Says        string
}

// Dot is a point of a map, of a class of the style ("c0" to "c6", "other"); it leads to Link.
type Dot struct {
	X, Y               float64
	Class, Title, Link string
}

// HTML draws the map; it is empty of no dots.
func (m Dots) HTML() template.HTML {
	if len(m.Dots) == 0 {
		return ""
	}
	x, y := axis{lo: math.Inf(1), hi: math.Inf(-1)}, axis{lo: math.Inf(1), hi: math.Inf(-1)}
	for _, p := range m.Dots {
		x.lo, x.hi, y.lo, y.hi = min(x.lo, p.X), max(x.hi, p.X), min(y.lo, p.Y), max(y.hi, p.Y)
	}
	placed := make([]Dot, len(m.Dots))
	for i, p := range m.Dots {
		p.X, p.Y = 2+.96*x.place(p.X), 98-.96*y.place(p.Y)
		placed[i] = p
	}
	m.Dots = placed
	return execute("dots", m)
}
