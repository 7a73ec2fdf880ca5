package eval

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
)

// TestAnswerTypes: answers are of the types that are named, heads and tails apart, whichever types a store has besides.
func TestAnswerTypes(t *testing.T) {
	m := &store.Manifest{Schema: store.Schema{NodeTypes: []store.NodeType{{Name: "a", Count: 1}, {Name: "b", Count: 20}, {Name: "c", Count: 300}}}}
	a := &AnswerTypes{Tails: []bool{false, true, true}, Heads: []bool{false, false, true, false}}
	if tails, heads := a.Sizes(m); tails != 21 || heads != 20 || a.Nodes(m) != 21 {
		t.Errorf("%d tails and %d heads, expected 21 and 20", tails, heads)
	}
	for value := range uint32(6) { // 0: none, behind the last: types that came later
		if a.has(false, value) != (value == 1 || value == 2) || a.has(true, value) != (value == 2) {
			t.Errorf("value %d: a tail %v, a head %v", value, a.has(false, value), a.has(true, value))
		}
	}
}

// Nodes of a set are numbered in the order of their ids, whatever the partitions: of 1, 63, 64, 65 nodes, of none, and
// where the last word is full.
func TestNodeSet(t *testing.T) {
	for _, sizes := range [][]uint64{{1}, {64}, {63, 65}, {0, 1, 0, 64, 63}, {130, 0}, {5, 7, 11, 13, 200}} {
		var parts []store.PartitionInfo
		nodes := uint64(0)
		for _, n := range sizes {
			parts = append(parts, store.PartitionInfo{First: store.NodeID(nodes), Nodes: n})
			nodes += n
		}
		for name, in := range map[string]func(v uint64) bool{
			"none": func(uint64) bool { return false }, "all": func(uint64) bool { return true },
			"thirds": func(v uint64) bool { return v%3 == 0 }, "last": func(v uint64) bool { return v == nodes-1 },
		} {
			s, err := newNodeSet(parts, nodes)
			if err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for v := range nodes {
				if in(v) {
					s.add(v)
					want = append(want, v)
				}
			}
			s.seal()
			for v := range nodes {
				if s.has(v) != in(v) {
					t.Errorf("%v, %s: has node %d: %v", sizes, name, v, s.has(v))
				}
			}
			if s.len() != uint64(len(want)) {
				t.Errorf("%v, %s: %d nodes, expected %d", sizes, name, s.len(), len(want))
			}
			var got []uint64
			for p, part := range parts {
				rows, ids := make([]byte, part.Nodes), 0
				for i := range rows {
					rows[i] = byte(uint64(part.First) + uint64(i))
				}
				picked := s.pick(make([]byte, part.Nodes), rows, p, 1)
				s.each(p, func(i int) {
					v := uint64(part.First) + uint64(i)
					if !s.has(v) || s.number(v) != uint64(len(got)) || s.number(v) != s.first[p]+uint64(ids) || picked[ids] != byte(v) {
						t.Errorf("%v, %s: node %d is number %d of %d before it, and %d in its partition", sizes, name, v, s.number(v), len(got), ids)
					}
					got = append(got, v)
					ids++
				})
				if ids != s.in(p) || len(picked) != ids {
					t.Errorf("%v, %s: %d nodes in partition %d, expected %d, picked %d", sizes, name, ids, p, s.in(p), len(picked))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, %s: nodes %v, expected %v", sizes, name, got, want)
			}
			for _, n := range []int{1, 2, len(parts)} {
				covered := 0
				for _, tile := range s.tilesOf(n) {
					if tile != s.tile(tile.Lo, tile.Hi) {
						t.Errorf("%v, %s: tile %v, expected %v", sizes, name, tile, s.tile(tile.Lo, tile.Hi))
					}
					pieces := s.within(tile.Lo, tile.Hi, 20)
					for k, piece := range pieces {
						if piece != s.tile(piece.Lo, piece.Hi) || k > 0 && piece.Lo != pieces[k-1].Hi {
							t.Errorf("%v, %s: piece %v of %v", sizes, name, piece, tile)
						}
						covered += piece.Nodes
					}
				}
				if covered != len(want) {
					t.Errorf("%v, %s: %d tiles have %d nodes, expected %d", sizes, name, n, covered, len(want))
				}
			}
			s.free()
		}
	}
}
