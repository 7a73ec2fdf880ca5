package partitioner

import (
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// TestStreamerPlaces: a node, or a group, is priced where it is as if it were not there, and goes to the partition
// with the fewest of its class if nothing holds it.
func TestStreamerPlaces(t *testing.T) {
	for _, c := range []struct {
		name    string
		part    []blocks.PartitionID
		classes []uint16
		members []uint32
		want    blocks.PartitionID
	}{
		{"nothing holds it", []blocks.PartitionID{0, 0, 0, 1}, nil, []uint32{0}, 1},
		{"as few there as here without it", []blocks.PartitionID{0, 0, 1}, nil, []uint32{0}, 0},
		{"a group that nothing holds", []blocks.PartitionID{0, 0, 0, 0, 1}, nil, []uint32{0, 1}, 1},
		{"a group of two classes, fewer here without it", []blocks.PartitionID{0, 0, 1, 1, 0}, []uint16{1, 2, 1, 2, 1}, []uint32{0, 1}, 0},
		{"a group of two classes, fewer there", []blocks.PartitionID{0, 0, 0, 0, 1}, []uint16{1, 2, 1, 2, 1}, []uint32{0, 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := len(c.part)
			count := []uint64{uint64(n)}
			if c.classes != nil {
				count = classCounts(c.classes)
			}
			g, err := graph.NewCSR(make([]uint64, n+1), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close() //nolint:errcheck // test
			s := newStreamer(c.part, 2, c.classes, count, uint32(n), 1)
			s.setWeight(1)
			s.placeGroup(g, c.members)
			for _, v := range c.members {
				if c.part[v] != c.want {
					t.Errorf("node %d is in partition %d, expected %d", v, c.part[v], c.want)
				}
			}
		})
	}
}

// TestGroupsKeepTheirLimit: no group of the hierarchy outgrows what was asked for, in a clique that would be one.
func TestGroupsKeepTheirLimit(t *testing.T) {
	const n, limit = 40, 7
	var indices []uint32
	indptr := []uint64{0}
	for v := range uint32(n) {
		for u := range uint32(n) {
			if u != v {
				indices = append(indices, u)
			}
		}
		indptr = append(indptr, uint64(len(indices)))
	}
	g, err := graph.NewCSR(indptr, indices)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	var a graph.Arrays
	defer a.Free()
	order := withSpare(&a, n)
	h := newHierarchy(&a, g, order)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	OrderNatural.fill(g, 0, order, h.spareOrder)
	groups, err := h.grow(t.Context(), limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen, largest := 0, 0
	if err := h.groups(t.Context(), h.top, func(members []uint32) { seen, largest = seen+1, max(largest, len(members)) }); err != nil {
		t.Fatal(err)
	}
	if seen != groups || largest > limit || largest < 2 {
		t.Errorf("%d groups, said to be %d, of up to %d nodes; expected groups of at most %d", seen, groups, largest, limit)
	}
}

// TestHDRAlternatingDegrees: groups of many and of few neighbours in turn, which a partition after the other would divide as
// badly as can be.
func TestHDRAlternatingDegrees(t *testing.T) {
	const batch = 4
	n := 2 * 64 * batch
	indptr := []uint64{0}
	for v := range n {
		degree := uint64(1)
		if v/batch%2 == 0 {
			degree = 9
		}
		indptr = append(indptr, indptr[v]+degree)
	}
	g, err := graph.NewCSR(indptr, make([]uint32, indptr[n]))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	// No room between partitions would not let degrees decide.
	a, err := Partition(t.Context(), g, Options{Method: MethodHDR, Partitions: 2, Slack: 1, HubFraction: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	load := make([]int, 2)
	for v, p := range Materialize(a).Part() {
		load[p] += g.Degree(uint32(v))
	}
	if d := load[0] - load[1]; d > 9*batch || d < -9*batch {
		t.Errorf("degrees sum up to %v, expected no further apart than a group", load)
	}
}
