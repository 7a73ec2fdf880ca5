package predict

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	opts "github.com/gstore/gstore/gpu/options"
)

// The picture's sizes, and how much of an explanation it shows.
const (
	pictureWidth  = 1040
	pictureHeight = 560
	pictureEdges  = 24 // the largest shares
	pictureBars   = 16
	ringX, ringY  = 300, 300 // the node
	ringNear      = 112
	ringFar       = 195
)

// Colours that people who see red and green alike tell apart: what raises the prediction, what lowers it.
const (
	raises, lowers = "#2f6fde", "#d9822b"
	pictureInk     = "#1f2328"
	pictureFaint   = "#57606a"
	pictureLine    = "#d0d7de"
)

// spot is a node of the picture.
type spot struct {
	x, y, angle float64
	placed      bool
}

// asPicture draws the node with the edges of the largest shares, and bars of the features.
func (w *reasonWriter) asPicture(x *reasons) error {
	w.n++
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" font-family="system-ui, sans-serif" font-size="13">
<title>Why the model says what it says of %[3]s</title>
<rect x=".5" y=".5" width="%[4]d" height="%[5]d" rx="10" fill="#ffffff" stroke="%[6]s"/>
`, pictureWidth, pictureHeight, html.EscapeString(x.node), pictureWidth-1, pictureHeight-1, pictureLine)
	label(&b, 24, 34, "start", 17, pictureInk, fmt.Sprintf("%s: %s", short(x.node, 40), x.what()))
	label(&b, 24, 56, "start", 13, pictureFaint, fmt.Sprintf("its edges move it from %s, its features and its neighbours' from %s", shown(x.Alone), shown(x.Silent)))
	drawAround(&b, x)
	drawBars(&b, x)
	const legend = pictureHeight - 22
	fmt.Fprintf(&b, "<rect x=\"24\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n", legend-11, raises)
	label(&b, 42, legend, "start", 13, pictureFaint, "raises it")
	fmt.Fprintf(&b, "<rect x=\"116\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n", legend-11, lowers)
	label(&b, 134, legend, "start", 13, pictureFaint, "lowers it")
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w.to, b.String())
	return err
}

// drawAround draws the edges of the largest shares between the node in the middle, its neighbours, and theirs.
func drawAround(b *strings.Builder, x *reasons) {
	edges := x.edges[:min(len(x.edges), pictureEdges)]
	if len(edges) == 0 {
		label(b, ringX, ringY+40, "middle", 13, pictureFaint, "no edge moves it")
	}
	spots := place(x, edges)
	most := 0.
	for _, e := range edges {
		most = max(most, math.Abs(e.Edge.Share))
	}
	for i := len(edges) - 1; i >= 0; i-- { // the largest on top
		e := edges[i]
		from, to := spots[e.Src], spots[e.Dst]
		if !from.placed || !to.placed {
			continue
		}
		width := 1 + 6*math.Abs(e.Edge.Share)/most
		if e.Src == e.Dst {
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"14\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", from.x, from.y-18, colour(e.Edge.Share), width)
			continue
		}
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linecap=\"round\" opacity=\".85\"><title>%s</title></line>\n",
			from.x, from.y, to.x, to.y, colour(e.Edge.Share), width, html.EscapeString(fmt.Sprintf("%s → %s %s: %s", e.from, e.to, e.relation, signed(e.Edge.Share))))
	}
	for i := len(x.Nodes) - 1; i >= 0; i-- {
		s, ok := spots[i]
		if !ok || !s.placed {
			continue
		}
		r := 7.
		if i == 0 {
			r = 12
		}
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"2\"><title>%s</title></circle>\n",
			s.x, s.y, r, colour(x.ByNode[i]), html.EscapeString(fmt.Sprintf("%s: its features %s", x.ids[i], signed(x.ByNode[i]))))
		if i == 0 {
			label(b, s.x, s.y+28, "middle", 13, pictureInk, short(x.ids[i], 18))
			continue
		}
		anchor, dx := "start", 11.
		if math.Cos(s.angle) < 0 {
			anchor, dx = "end", -11
		}
		label(b, s.x+dx, s.y+4, anchor, 11, pictureInk, short(x.ids[i], 14))
	}
}

// place puts the ends of edges on rings around the node: those that lead to it near, others far, beside what they lead to.
func place(x *reasons, edges []edgeReason) map[int]*spot {
	spots := map[int]*spot{0: {x: ringX, y: ringY, placed: true}}
	var near, far []int
	to := map[int]int{} // of far ones, what they lead to
	for _, e := range edges {
		for _, v := range []int{e.Dst, e.Src} {
			if spots[v] == nil && (v == e.Dst || e.Dst == 0) {
				spots[v] = &spot{}
				near = append(near, v)
			}
		}
	}
	for _, e := range edges {
		if spots[e.Src] == nil {
			spots[e.Src] = &spot{}
			far, to[e.Src] = append(far, e.Src), e.Dst
		}
	}
	children := map[int][]int{}
	for _, v := range far {
		children[to[v]] = append(children[to[v]], v)
	}
	slots := 0
	for _, v := range near {
		slots += max(1, len(children[v]))
	}
	at := func(v int, angle, radius float64) {
		*spots[v] = spot{x: ringX + radius*math.Cos(angle), y: ringY + .92*radius*math.Sin(angle), angle: angle, placed: true}
	}
	k := 0
	for _, v := range near {
		n := max(1, len(children[v]))
		at(v, 2*math.Pi*(float64(k)+float64(n-1)/2)/float64(slots)-math.Pi/2, ringNear)
		for i, c := range children[v] {
			at(c, 2*math.Pi*float64(k+i)/float64(slots)-math.Pi/2, ringFar)
		}
		k += n
	}
	return spots
}

// drawBars draws the features of the largest shares.
func drawBars(b *strings.Builder, x *reasons) {
	const left, middle, top, step, half = 640, 890, 92, 26, 110
	label(b, left, top-14, "start", 13, pictureFaint, "features, of it and its neighbourhood")
	bars := x.features[:min(len(x.features), pictureBars)]
	most := 0.
	for _, f := range bars {
		most = max(most, math.Abs(f.Share()))
	}
	for i, f := range bars {
		y := float64(top + i*step)
		width := half * math.Abs(f.Share()) / most
		from := float64(middle)
		if f.Share() < 0 {
			from -= width
		}
		name := f.name
		if f.value != "" && math.Abs(f.Own) >= math.Abs(f.Others) { // else it is the neighbours' that moves
			name += " = " + f.value
		}
		label(b, middle-half-10, y+13, "end", 12, pictureInk, short(name, 26))
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\" rx=\"2\" fill=\"%s\"><title>%s</title></rect>\n", from, y, max(width, 1), colour(f.Share()),
			html.EscapeString(fmt.Sprintf("%s: %s", name, signed(f.Share()))))
		if f.Share() < 0 {
			label(b, middle+8, y+13, "start", 11, pictureFaint, signed(f.Share()))
		} else {
			label(b, middle-8, y+13, "end", 11, pictureFaint, signed(f.Share()))
		}
	}
	fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\"/>\n", middle, top-4, middle, top+len(bars)*step, pictureLine)
	if n := len(x.features) - len(bars); n > 0 {
		label(b, middle-half-10, float64(top+len(bars)*step+13), "end", 12, pictureFaint, opts.Count(n, "other"))
	}
}

// label writes text on a white shade, which keeps it apart from lines below.
func label(b *strings.Builder, x, y float64, anchor string, size int, colour, text string) {
	for _, paint := range []string{`fill="#ffffff" stroke="#ffffff" stroke-width="4" stroke-linejoin="round"`, `fill="` + colour + `"`} {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" %s>%s</text>\n", x, y, anchor, size, paint, html.EscapeString(text))
	}
}

func colour(share float64) string {
	if share < 0 {
		return lowers
	}
	return raises
}

// short is text cut to at most n characters.
func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
