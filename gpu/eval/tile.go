package eval

import (
	"github.com/gstore/gstore/store"
)

// Tile is a run of consecutive partitions, and so of consecutive nodes: of a graph that has nodes at least one.
type Tile struct {
	Lo, Hi int    // partitions Lo ≤ p < Hi
	Base   uint64 // the first node
	Nodes  int
}

// tilesOf cuts the partitions into at most n runs of about equal numbers of nodes.
func tilesOf(parts []store.PartitionInfo, n int) (ts []Tile) {
	var total, done uint64
	for _, p := range parts {
		total += p.Nodes
	}
	for i := 0; i < len(parts); {
		t := Tile{Lo: i, Hi: i, Base: uint64(parts[i].First)}
		until := total * uint64(len(ts)+1) / uint64(n) // of the last one: all
		for t.Hi < len(parts) && (t.Nodes == 0 || parts[t.Hi].Nodes == 0 || done+parts[t.Hi].Nodes <= until) {
			t.Nodes += int(parts[t.Hi].Nodes)
			done += parts[t.Hi].Nodes
			t.Hi++
		}
		ts = append(ts, t)
		i = t.Hi
	}
	return ts
}
