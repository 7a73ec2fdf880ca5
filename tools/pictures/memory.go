package main

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// memory shows which partitions are in memory over two epochs of plan hanoi: eight of them, two at a time, beside one of hubs.
// The order is the planner's own.
func memory() *canvas {
	const parts, at, cell, high = 8, 2, 76, 27
	policy, err := macro.New(macro.Config{Policy: macro.Hanoi, Partitions: parts + 1, Pinned: []store.PartitionID{parts}, Capacity: at, Seed: 30})
	if err != nil {
		panic(err) // the constants above are a plan
	}
	var steps []buffer.Step
	perEpoch := 0
	for epoch := range 2 {
		plan := policy.Epoch(epoch)
		perEpoch = len(plan.Steps)
		steps = append(steps, plan.Steps...)
	}
	c := &canvas{height: 452, title: "Which partitions are in memory in each step of two epochs"}
	const left, top = 170, 84
	for epoch := range 2 {
		x := left + epoch*perEpoch*cell
		c.text(x+perEpoch*cell/2, 32, style{bold: true, anchor: "middle"}, fmt.Sprintf("epoch %d", epoch+1))
		c.link(x+6, 42, x+perEpoch*cell-10, 42, false, style{stroke: line})
	}
	for i := range steps {
		c.text(left+i*cell+cell/2-2, 66, style{size: 13, fill: faint, anchor: "middle"}, fmt.Sprintf("step %d", i%perEpoch+1))
	}
	for p := range parts {
		y := top + p*(high+4)
		c.text(left-16, y+19, style{anchor: "end"}, fmt.Sprintf("partition %d", p))
		for i, step := range steps {
			s := style{fill: empty, stroke: edge}
			in := slices.Contains(step.Resident, store.PartitionID(p))
			next := i+1 < len(steps) && slices.Contains(steps[i+1].Resident, store.PartitionID(p))
			switch {
			case in:
				s = style{fill: blue, stroke: blue}
			case next:
				s = style{fill: "url(#stripes)", stroke: amber}
			}
			c.rect(left+i*cell, y, cell-4, high, s)
			if in {
				c.text(left+i*cell+cell/2-2, y+19, style{size: 13, fill: "#ffffff", anchor: "middle"}, "trains")
			}
		}
	}
	y := top + parts*(high+4) + 6
	c.text(left-16, y+19, style{anchor: "end"}, "hubs")
	c.rect(left, y, len(steps)*cell-4, high, style{fill: lilac, stroke: purple})
	c.text(left+len(steps)*cell/2, y+19, style{size: 13, fill: purple, anchor: "middle"}, "pinned: read once, in memory for the whole run")
	y += high + 26
	c.link(left, y, left+len(steps)*cell-4, y, true, style{})
	c.text(left-16, y+5, style{size: 13, fill: faint, anchor: "end"}, "time")
	y += 36
	x := c.key(left, y, style{fill: blue, stroke: blue}, "in memory, trains")
	x = c.key(x, y, style{fill: "url(#stripes)", stroke: amber}, "being read for the next step")
	c.key(x, y, style{fill: empty, stroke: edge}, "on disk only")
	return c
}
