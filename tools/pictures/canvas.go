package main

import (
	"fmt"
	"html"
	"strings"
)

// The colours of all pictures. They are told apart by people who see red and green alike.
const (
	ink    = "#1f2328" // text
	faint  = "#57606a" // text of less weight
	line   = "#8c959f" // arrows and frames
	empty  = "#f3f5f7" // what stays on disk
	edge   = "#d0d7de" // its frame
	blue   = "#2f6fde" // what trains
	sky    = "#cfe1fb" // what is in memory
	amber  = "#f5a623" // what is being read
	purple = "#7a5cc7" // what stays in memory for the whole run
	lilac  = "#e3dbf7"
)

// width of every picture, in the units of its coordinates.
const width = 860

// style is how a shape or a text is drawn.
type style struct {
	fill, stroke string
	dashed       bool
	size         int    // of text, 14 by default
	anchor       string // of text: start (the default), middle or end
	bold, mono   bool
}

// canvas is a picture under way.
type canvas struct {
	height int
	title  string // what the picture shows, for who cannot see it
	body   strings.Builder
}

// String is the picture as an SVG file.
func (c *canvas) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
<title>%[3]s</title>
<defs>
<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="%[4]s"/></marker>
<pattern id="stripes" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="8" height="8" fill="#fdeccb"/><rect width="3" height="8" fill="%[5]s"/></pattern>
</defs>
<rect x="1" y="1" width="%[6]d" height="%[7]d" rx="10" fill="#ffffff" stroke="%[8]s"/>
%[9]s</svg>
`, width, c.height, html.EscapeString(c.title), line, amber, width-2, c.height-2, edge, c.body.String())
}

// rect draws a box with slightly round corners.
func (c *canvas) rect(x, y, w, h int, s style) {
	dash := ""
	if s.dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(&c.body, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"%s\"%s/>\n",
		x, y, w, h, or(s.fill, "none"), or(s.stroke, "none"), dash)
}

// circle draws a node of a graph.
func (c *canvas) circle(x, y, r int, s style) {
	dash := ""
	if s.dashed {
		dash = ` stroke-dasharray="4 3"`
	}
	fmt.Fprintf(&c.body, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"%s/>\n",
		x, y, r, or(s.fill, "none"), or(s.stroke, "none"), dash)
}

// text writes one line; y is its baseline.
func (c *canvas) text(x, y int, s style, words string) {
	family := "-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
	if s.mono {
		family = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
	}
	weight := "400"
	if s.bold {
		weight = "600"
	}
	if s.size == 0 {
		s.size = 14
	}
	fmt.Fprintf(&c.body, "<text x=\"%d\" y=\"%d\" font-family=\"%s\" font-size=\"%d\" font-weight=\"%s\" fill=\"%s\" text-anchor=\"%s\" xml:space=\"preserve\">%s</text>\n",
		x, y, family, s.size, weight, or(s.fill, ink), or(s.anchor, "start"), html.EscapeString(words))
}

// lines writes several lines, one below the other.
func (c *canvas) lines(x, y int, s style, words ...string) {
	for i, w := range words {
		step := 18
		if s.size != 0 {
			step = s.size + 5
		}
		c.text(x, y+i*step, s, w)
	}
}

// link draws a straight line; an arrow has a tip at its end.
func (c *canvas) link(x1, y1, x2, y2 int, arrow bool, s style) {
	tip, dash := "", ""
	if arrow {
		tip = ` marker-end="url(#tip)"`
	}
	if s.dashed {
		dash = ` stroke-dasharray="4 4"`
	}
	fmt.Fprintf(&c.body, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"1.5\"%s%s/>\n",
		x1, y1, x2, y2, or(s.stroke, line), tip, dash)
}

// area fills a polygon, such as what leads from a part to its enlargement.
func (c *canvas) area(fill string, points ...int) {
	var at strings.Builder
	for i := 0; i < len(points); i += 2 {
		fmt.Fprintf(&at, "%d,%d ", points[i], points[i+1])
	}
	fmt.Fprintf(&c.body, "<polygon points=\"%s\" fill=\"%s\"/>\n", strings.TrimSpace(at.String()), fill)
}

// key is one entry of a legend, at a place; it returns where the next one begins.
func (c *canvas) key(x, y int, s style, words string) int {
	c.rect(x, y-12, 18, 14, s)
	c.text(x+25, y, style{size: 13, fill: faint}, words)
	return x + 25 + 7*len(words) + 26
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
