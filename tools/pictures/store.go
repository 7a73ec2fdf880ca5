package main

import "fmt"

// storeOnDisk shows the folder that a store is, how edges become buckets, and how buckets lie in the file of the topology.
func storeOnDisk() *canvas {
	c := &canvas{height: 496, title: "The files of a store, the edge buckets of its partitions, and the layout of two files"}
	c.text(30, 38, style{bold: true}, "A store is a folder")
	rows := [][2]string{
		{"packages.gstore/", ""},
		{"├─ meta/", "which version has which files"},
		{"├─ data/", ""},
		{"│  ├─ topology-000001.gsb", "edges, bucket by bucket"},
		{"│  ├─ column-x-000001.gsb", "features, row by row"},
		{"│  ├─ column-label-000001.gsb", "labels"},
		{"│  └─ external-000001.gsb", "the ids of your data"},
		{"├─ runs/", "trained models"},
		{"└─ LOCK", "one writer, any number of readers"},
	}
	for i, r := range rows {
		c.text(30, 66+i*21, style{mono: true, size: 13}, r[0])
		c.text(290, 66+i*21, style{size: 13, fill: faint}, r[1])
	}

	// The grid of buckets.
	const gx, gy, cell = 604, 66, 44
	c.text(gx-44, 38, style{bold: true}, "Edges lie in buckets")
	for p := range 4 {
		c.text(gx+p*cell+cell/2-2, gy-8, style{size: 13, fill: faint, anchor: "middle"}, fmt.Sprint(p))
		c.text(gx-14, gy+p*cell+27, style{size: 13, fill: faint, anchor: "middle"}, fmt.Sprint(p))
		for q := range 4 {
			s := style{fill: empty, stroke: edge}
			if q == 2 {
				s = style{fill: sky, stroke: blue}
			}
			c.rect(gx+q*cell, gy+p*cell, cell-4, cell-4, s)
		}
	}
	c.text(gx+2*cell+cell/2-2, gy+1*cell+26, style{size: 13, fill: blue, anchor: "middle"}, "1→2")
	c.lines(gx-44, gy+4*cell+18, style{size: 13, fill: faint}, "row: partition of the source", "column: partition of the destination")

	// The file of the topology.
	const fy = 318
	c.text(30, fy-14, style{bold: true}, "topology-000001.gsb")
	c.text(218, fy-14, style{size: 13, fill: faint}, "a column of buckets is one stripe, read in one go")
	x := 30
	stripe := 0
	for i, part := range []struct {
		name string
		w    int
	}{{"header", 80}, {"stripe 0", 135}, {"stripe 1", 150}, {"stripe 2", 140}, {"stripe 3", 125}, {"checksums", 150}} {
		s := style{fill: empty, stroke: edge}
		if i == 3 {
			s, stripe = style{fill: sky, stroke: blue}, x
		}
		c.rect(x, fy, part.w, 34, s)
		c.text(x+part.w/2, fy+22, style{size: 13, anchor: "middle"}, part.name)
		x += part.w + 4
	}
	for i := range 4 { // the stripe enlarged
		bx := stripe - 92 + i*80
		if i == 0 {
			c.area("#eaf2fd", stripe, fy+34, stripe+140, fy+34, bx+4*80-6, fy+56, bx, fy+56)
		}
		c.rect(bx, fy+56, 74, 30, style{fill: sky, stroke: blue})
		c.text(bx+37, fy+76, style{size: 13, anchor: "middle"}, fmt.Sprintf("%d→2", i))
	}

	// The file of the features.
	const xy = 446
	c.text(30, xy-12, style{bold: true}, "column-x-000001.gsb")
	c.text(222, xy-12, style{size: 13, fill: faint}, "a partition's rows lie together, read in one go")
	x = 30
	for _, part := range []struct {
		name string
		w    int
	}{{"header", 80}, {"rows of partition 0", 142}, {"rows of partition 1", 142}, {"rows of partition 2", 142}, {"rows of partition 3", 142}, {"checksums", 132}} {
		c.rect(x, xy, part.w, 30, style{fill: empty, stroke: edge})
		c.text(x+part.w/2, xy+20, style{size: 13, anchor: "middle"}, part.name)
		x += part.w + 4
	}
	return c
}
