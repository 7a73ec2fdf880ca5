package budget

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/store"
)

// unaskedShare of the memory that a process may have is what a run takes unasked: the rest is for other processes and for the kernel.
const unaskedShare = .75

const (
	// fixedBytes is more than a run takes that does not grow with the graph.
	fixedBytes = 5 << 28
	// Evaluation without a bound keeps states of stateBytes a node in memory up to statesMost, and in files beyond.
	stateBytes = 2 * 4 * 256
	statesMost = 4 << 30
)

// UnaskedBytes is what a run takes at most which was given no budget, if it works within it.
func UnaskedBytes() int64 {
	n, _ := usage.AllowedBytes()
	return shareOf(n)
}

func shareOf(allowed int64) int64 { return int64(unaskedShare * float64(allowed)) }

// MostBytes is the most that a run takes unasked which needs more than [UnaskedBytes]: all but a little of what there is.
func MostBytes() int64 {
	n, _ := usage.AllowedBytes()
	return n - n/20
}

// Unasked is the budget of a run that was given none on a store, and why it has one, in a sentence: none, 0, where the whole graph with
// all that a run makes of it, perNode bytes of vectors that a node learns among it, certainly fits what the process may have, so that small graphs are
// treated alike on all machines; else [UnaskedBytes].
func Unasked(m *store.Manifest, perNode int64) (bytes int64, why string) {
	n, limited := usage.AllowedBytes()
	return unasked(m, perNode, n, limited)
}

func unasked(m *store.Manifest, perNode, allowed int64, limited bool) (bytes int64, why string) {
	most := shareOf(allowed)
	if wholeBytes(m, perNode) <= most {
		return 0, ""
	}
	whose := "of the machine's memory"
	if limited {
		whose = "of what this process's cgroup allows"
	}
	return most, fmt.Sprintf("memory: at most %s, three quarters %s (--mem says otherwise)", blocks.SizeText(most), whose)
}

// LearnedBytes is what a vector of so many numbers takes that a node learns: with its gradient and the two moments of Adam.
func LearnedBytes(dim int) int64 { return 4 * 4 * int64(dim) }

// wholeBytes bounds from above what a run on all of a graph at once has in memory: an edge in both directions, with its relation, weight,
// time and what sorting it takes, and rows of all columns.
func wholeBytes(m *store.Manifest, perNode int64) int64 {
	const edge, node = 2 * 24, 64
	n := fixedBytes + int64(m.Edges)*edge + int64(m.Nodes)*(node+perNode) + min(int64(m.Nodes)*stateBytes, statesMost)
	for _, c := range m.Columns {
		rows := int64(m.Nodes)
		if c.Role.OnEdges() {
			rows = 2 * int64(m.Edges)
		}
		n += rows * int64(c.Dim) * int64(max(c.Elem.Size(), 2))
	}
	return n
}
