package partitioner

import (
	"context"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// hierarchy is a graph's clusters of clusters within partitions, for gap: kept as an order of the nodes in
// which the groups of every level are runs, so that the classes of a group are its members'. A pass
// over any level reads all neighbour lists.
//
// Groups grow by size-constrained label propagation (Meyerhenke, Sanders,
// Schulz, SEA 2014): each group joins the neighbouring cluster with the most edges per node.
type hierarchy struct {
	g     graph.RandomAccess
	order []uint32
	level []byte // level[i]: the highest level at which a group begins at position i
	top   int

	spareOrder []uint32
	spareLevel []byte
	label      []uint32 // by node: the cluster, while one level grows
	weight     []uint32 // by cluster: nodes
	near       []uint32 // by cluster: edges to the current group; zero between groups. In spareOrder's memory, while a level grows
	touched    []uint32 // clusters with near > 0
}

// What newHierarchy takes: bytes a node, and once for touched, which is bounded by the
// clusters around one group.
const (
	hierarchyNodeBytes = 18
	hierarchyBytes     = 4 << 20
)

// newHierarchy takes the order of level 0, which has room for one entry more.
func newHierarchy(a *graph.Arrays, g graph.RandomAccess, order []uint32) *hierarchy {
	n := int(g.Nodes())
	return &hierarchy{
		g: g, order: order, level: a.Bytes(int64(n)),
		spareOrder: withSpare(a, n), spareLevel: a.Bytes(int64(n)),
		label: a.Uint32s(n), weight: a.Uint32s(n + 1),
	}
}

// withSpare is n entries with memory for one more, near's.
func withSpare(a *graph.Arrays, n int) []uint32 {
	x := a.Uint32s(n + 1)
	if x == nil {
		return nil
	}
	return x[:n]
}

// groups calls visit for every group of a level, in order; more than a group's
// members are never read at once. It stops when ctx is done.
func (h *hierarchy) groups(ctx context.Context, level int, visit func(members []uint32)) error {
	const checkEvery = 1 << 12
	n, countdown := len(h.order), checkEvery
	for i := 0; i < n; {
		j := i + 1
		for j < n && int(h.level[j]) < level {
			j++
		}
		visit(h.order[i:j])
		if countdown -= j - i; countdown < 0 {
			countdown = checkEvery
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		i = j
	}
	return ctx.Err()
}

// grow joins the top level's groups into a new level's, each of at most limit
// nodes and, with part, within one partition. It returns the number of groups.
func (h *hierarchy) grow(ctx context.Context, limit uint32, part []blocks.PartitionID) (int, error) {
	const roundsMax, settled = 4, 200 // a round that moves under 1/200 of the nodes is the last
	clusters := uint32(0)
	h.near = h.spareOrder[:len(h.order)+1]
	clear(h.near)
	err := h.groups(ctx, h.top, func(members []uint32) {
		for _, v := range members {
			h.label[v] = clusters
		}
		h.weight[clusters] = uint32(len(members))
		clusters++
	})
	for round := 0; round < roundsMax && err == nil; round++ {
		moved := 0
		err = h.groups(ctx, h.top, func(members []uint32) {
			if h.join(members, limit, part) {
				moved += len(members)
			}
		})
		if moved <= len(h.order)/settled {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	return h.sortByLabel(int(clusters)), nil
}

// join moves one group to the best cluster around it.
func (h *hierarchy) join(members []uint32, limit uint32, part []blocks.PartitionID) bool {
	none := uint32(len(h.order)) // a label nobody has: edges inside the group pull nowhere
	own, size := h.label[members[0]], uint32(len(members))
	for _, v := range members {
		h.label[v] = none
	}
	h.touched = h.touched[:0]
	for _, v := range members {
		for _, u := range h.g.Neighbours(v) {
			if part != nil && part[u] != part[v] {
				continue
			}
			l := h.label[u]
			if h.near[l] == 0 {
				h.touched = append(h.touched, l)
			}
			h.near[l]++
		}
	}
	h.weight[own] -= size
	best, score := own, float64(h.near[own])/float64(h.weight[own]+1)
	for _, l := range h.touched {
		if l == none || l == own || h.weight[l]+size > limit {
			continue
		}
		x := float64(h.near[l]) / float64(h.weight[l]+1)
		// Ties are broken by a hash: by id, early clusters would swallow the rest.
		if x > score || x == score && best != own && graph.Mix(uint64(l)) < graph.Mix(uint64(best)) {
			best, score = l, x
		}
	}
	for _, l := range h.touched {
		h.near[l] = 0
	}
	h.weight[best] += size
	for _, v := range members {
		h.label[v] = best
	}
	return best != own
}

// sortByLabel makes each label's nodes a run, the new top level's group, without changing
// the order within it, so that the lower levels' groups stay runs.
func (h *hierarchy) sortByLabel(clusters int) (groups int) {
	h.top++
	at, sum := h.weight, uint32(0) // by cluster: where its next node goes
	for l := range clusters {
		w := at[l]
		at[l] = sum
		sum += w
	}
	for i, v := range h.order {
		l := h.label[v]
		p := at[l]
		at[l]++
		h.spareOrder[p], h.spareLevel[p] = v, h.level[i]
	}
	begin := uint32(0)
	for l := range clusters { // at[l] is now where l's run ends
		if at[l] > begin {
			h.spareLevel[begin] = byte(h.top)
			groups++
		}
		begin = at[l]
	}
	h.near = nil
	h.order, h.spareOrder = h.spareOrder, h.order
	h.level, h.spareLevel = h.spareLevel, h.level
	return groups
}
