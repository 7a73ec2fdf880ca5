package partitioner

import (
	"fmt"
	"slices"
)

// Order is the order in which nodes are visited: "natural", "random", "bfs" or "degree".
type Order string

// The orders.
const (
	OrderNatural Order = "natural"
	OrderRandom  Order = "random" // by the seed
	OrderBFS     Order = "bfs"    // breadth-first, from the lowest id of each component
	OrderDegree  Order = "degree" // most neighbours first, then by id
)

// ParseOrder checks an order's name; "" is left to the method.
func ParseOrder(name string) (Order, error) {
	switch o := Order(name); o {
	case "", OrderNatural, OrderRandom, OrderBFS, OrderDegree:
		return o, nil
	}
	return "", fmt.Errorf("%w: unknown order %q (known: natural, random, bfs, degree)", ErrOption, name)
}

// fill stores the order's nodes in dst, one entry a node; scratch is as long.
func (o Order) fill(g RandomAccess, seed uint64, dst, scratch []uint32) {
	n := uint32(len(dst))
	switch o {
	case OrderRandom:
		p := newPermutation(uint64(n), seed)
		for i := range dst {
			dst[i] = uint32(p.at(uint64(i)))
		}
	case OrderBFS:
		clear(scratch) // 1 = seen
		end := 0
		for root := range n {
			if scratch[root] != 0 {
				continue
			}
			scratch[root] = 1
			dst[end] = root
			end++
			for i := end - 1; i < end; i++ {
				for _, u := range g.Neighbours(dst[i]) {
					if scratch[u] == 0 {
						scratch[u] = 1
						dst[end] = u
						end++
					}
				}
			}
		}
		clear(scratch)
	case OrderDegree:
		for i := range dst {
			dst[i] = uint32(i)
		}
		slices.SortFunc(dst, func(a, b uint32) int {
			if d := g.Degree(b) - g.Degree(a); d != 0 {
				return d
			}
			return int(int64(a) - int64(b))
		})
	default:
		for i := range dst {
			dst[i] = uint32(i)
		}
	}
}
