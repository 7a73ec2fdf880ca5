package main

import "fmt"

// evaluation shows how one layer's states of all nodes are computed a tile at a time, with all neighbours.
func evaluation() *canvas {
	c := &canvas{height: 382, title: "Evaluation computes one layer of all nodes at a time, a tile after the other, reading in order"}
	const top, high, tiles = 92, 48, 4
	column := func(x, w int, head, below string, mark func(i int) (style, string)) {
		c.text(x+w/2, 38, style{bold: true, anchor: "middle"}, head)
		c.text(x+w/2, 60, style{size: 13, fill: faint, anchor: "middle"}, below)
		for i := range tiles {
			s, words := mark(i)
			c.rect(x, top+i*(high+6), w, high, s)
			c.text(x+w/2, top+i*(high+6)+29, style{size: 13, anchor: "middle", fill: or(s.dashedInk(), ink)}, words)
		}
	}
	disk := style{fill: empty, stroke: edge}
	column(30, 180, "layer 1's states", "of all nodes, on disk", func(i int) (style, string) {
		return disk, fmt.Sprintf("nodes of tile %d", i+1)
	})
	column(650, 180, "layer 2's states", "of all nodes, on disk", func(i int) (style, string) {
		switch {
		case i < 1:
			return disk, fmt.Sprintf("tile %d: written", i+1)
		case i == 1:
			return style{fill: "#fdeccb", stroke: amber}, "tile 2: being written"
		}
		return style{fill: "#ffffff", stroke: edge, dashed: true}, fmt.Sprintf("tile %d: to come", i+1)
	})
	const mx, mw, my = 330, 200, 150
	c.text(mx+mw/2, 38, style{bold: true, anchor: "middle"}, "in memory")
	c.text(mx+mw/2, 60, style{size: 13, fill: faint, anchor: "middle"}, "one tile, within --mem")
	c.rect(mx, my, mw, 96, style{fill: sky, stroke: blue})
	c.lines(mx+mw/2, my+36, style{anchor: "middle"}, "sums over all neighbours", "of the nodes of tile 2")
	c.text(mx+mw/2, my+78, style{anchor: "middle", size: 13, fill: faint}, "then × weights")
	for i := range tiles {
		c.link(212, top+i*(high+6)+high/2, mx-4, my+20+i*19, true, style{})
	}
	c.link(mx+mw+2, my+48, 646, top+high+6+high/2, true, style{})
	y := top + tiles*(high+6) + 30
	c.lines(30, y, style{size: 13, fill: faint},
		"For each destination tile the states of the layer below are read from beginning to end, in order, so every neighbour counts.",
		"With all tiles written the next layer begins. Nothing is sampled and no node is looked up on its own.")
	return c
}

// dashedInk is the colour of the text in a dashed box; "" in others.
func (s style) dashedInk() string {
	if s.dashed {
		return faint
	}
	return ""
}
