package main

// plans shows how a run chooses what is in memory when, and what each choice costs.
func plans() *canvas {
	c := &canvas{height: 470, title: "Which plan a run takes, by what fits the memory that --mem allows"}
	question := func(x, y, w int, words ...string) {
		c.rect(x, y, w, 26+18*len(words), style{fill: empty, stroke: line})
		for i, t := range words {
			c.text(x+w/2, y+26+18*i, style{anchor: "middle"}, t)
		}
	}
	answer := func(x, y int, name string, s style, words ...string) {
		c.rect(x, y, 270, 36+19*len(words), s)
		c.text(x+14, y+25, style{bold: true, size: 15, mono: true}, name)
		c.lines(x+14, y+47, style{size: 13}, words...)
	}
	const qx, ax = 30, 560
	question(qx, 28, 300, "Do graph, features and", "mini-batches fit in memory?")
	question(qx, 146, 300, "Do you classify nodes,", "or predict links?")
	question(qx, 264, 300, "Does the graph fit without features,", "and is the disk quick enough", "to read rows batch by batch?")

	c.link(332, 59, ax-2, 59, true, style{})
	c.text(348, 51, style{size: 13, fill: faint}, "yes, or no --mem is given")
	c.link(180, 92, 180, 144, true, style{})
	c.text(190, 122, style{size: 13, fill: faint}, "no")
	c.link(332, 177, ax-2, 177, true, style{})
	c.text(348, 169, style{size: 13, fill: faint}, "links")
	c.link(180, 210, 180, 262, true, style{})
	c.text(190, 240, style{size: 13, fill: faint}, "nodes")
	c.link(332, 302, ax-2, 302, true, style{})
	c.text(348, 294, style{size: 13, fill: faint}, "yes")
	c.link(180, 346, 180, 402, false, style{})
	c.link(180, 402, ax-2, 402, true, style{})
	c.text(190, 394, style{size: 13, fill: faint}, "no")

	plain := style{fill: sky, stroke: blue}
	answer(ax, 22, "memory", plain, "everything is read once")
	answer(ax, 130, "comet", plain, "pairs of partitions take turns;", "embeddings are written back")
	answer(ax, 252, "rows", plain, "the graph stays in memory, features", "are read as batches need them;", "the same result as in memory")
	answer(ax, 372, "hanoi", plain, "partitions take turns in memory;", "absent neighbours are estimated")
	return c
}
