package main

// miniBatch shows two layers of sampled neighbours, and the arrays that a mini-batch is.
func miniBatch() *canvas {
	c := &canvas{height: 474, title: "A mini-batch: two seeds, the neighbours sampled for two layers, and the arrays made of them"}
	const x2, x1, x0 = 640, 385, 120 // seeds, the first hop, the second hop
	for _, head := range []struct {
		x           int
		name, below string
	}{{x0, "second hop", "1 neighbour of each"}, {x1, "first hop", "2 neighbours of each seed"}, {x2, "seeds", "nodes with a label"}} {
		c.text(head.x, 34, style{bold: true, anchor: "middle"}, head.name)
		c.text(head.x, 54, style{size: 13, fill: faint, anchor: "middle"}, head.below)
	}
	// The first hop has the seeds too: a layer reads a node's own state beside its neighbours'.
	own := []int{144, 288}
	hop1 := []int{96, 192, 240, 336}
	hop2 := []int{96, 156, 216, 276, 336}
	arrow := func(xa, ya, xb, yb int, s style) { c.link(xa+14, ya, xb-15, yb, true, s) }
	for i, from := range []int{0, 1, 2, 2, 3, 4} { // of each node of the middle column, from top to bottom
		arrow(x0, hop2[from], x1, []int{96, 144, 192, 240, 288, 336}[i], style{})
	}
	for i, y := range hop1 {
		arrow(x1, y, x2, own[i/2], style{})
	}
	for _, y := range own {
		arrow(x1, y, x2, y, style{dashed: true})
	}
	for _, y := range hop2 {
		c.circle(x0, y, 13, style{fill: empty, stroke: line})
	}
	for _, y := range hop1 {
		c.circle(x1, y, 13, style{fill: sky, stroke: blue})
	}
	for _, y := range own {
		c.circle(x1, y, 13, style{fill: blue, stroke: blue})
		c.circle(x2, y, 13, style{fill: blue, stroke: blue})
	}
	c.lines(x2+34, own[0]-4, style{size: 13, fill: faint}, "a batch has --batch-size", "of them, here 2")
	c.lines(x2+34, own[1]-4, style{size: 13, fill: faint}, "dashed: a node's own", "state")

	const ay = 410
	box := func(x, w int, s style, name, what string) {
		c.rect(x, ay-24, w, 50, s)
		c.text(x+w/2, ay-4, style{size: 13, bold: true, anchor: "middle"}, name)
		c.text(x+w/2, ay+14, style{size: 12, fill: faint, anchor: "middle"}, what)
	}
	box(30, 180, style{fill: empty, stroke: line}, "input rows", "11 nodes × features")
	box(258, 170, style{fill: sky, stroke: blue}, "block of layer 1", "6 edges → 6 states")
	box(476, 170, style{fill: sky, stroke: blue}, "block of layer 2", "4 edges → 2 states")
	box(694, 136, style{fill: "#ffffff", stroke: line}, "loss", "2 labels")
	for _, x := range []int{212, 430, 648} {
		c.link(x, ay, x+44, ay, true, style{})
	}
	c.text(30, ay+48, style{size: 13, fill: faint}, "Layers compute from left to right, a block each. Features are gathered for the input rows alone.")
	return c
}
