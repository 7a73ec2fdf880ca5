package partitioner

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/partitioner/graph"
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

// fill stores the order's nodes in dst, one entry a node; scratch has room for a bit a node.
func (o Order) fill(g graph.RandomAccess, seed uint64, dst, scratch []uint32) {
	n := uint32(len(dst))
	switch o {
	case OrderRandom:
		p := graph.NewPermutation(uint64(n), seed)
		for i := range dst {
			dst[i] = uint32(p.At(uint64(i)))
		}
	case OrderBFS:
		_ = breadthFirst(context.Background(), g, dst, scratch, func([]uint32, *graph.Lists) {})
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

// bitWords is how many uint32 have a bit a node.
func bitWords(nodes int) int { return (nodes + 31) / 32 }

// breadthFirst calls visit for all nodes with their lists, some at a time, breadth-first from the lowest id of each component,
// and reads every list once. Nodes are stored in order as they are met; scratch has room for a bit a node. It stops when ctx
// is done.
func breadthFirst(ctx context.Context, g graph.RandomAccess, order, scratch []uint32, visit func(nodes []uint32, l *graph.Lists)) error {
	seen := scratch[:bitWords(len(order))]
	clear(seen)
	var l graph.Lists
	met := 0 // nodes in order, of which all before next were visited
	for root := range uint32(len(order)) {
		if seen[root/32]>>(root%32)&1 != 0 {
			continue
		}
		seen[root/32] |= 1 << (root % 32)
		order[met] = root
		met++
		for next := met - 1; next < met; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := g.ReadLists(&l, order[next:met])
			for _, u := range l.Entries {
				if seen[u/32]>>(u%32)&1 == 0 {
					seen[u/32] |= 1 << (u % 32)
					order[met] = u
					met++
				}
			}
			visit(order[next:next+n], &l)
			next += n
		}
	}
	return ctx.Err()
}

// inOrder calls visit for all nodes of order with their lists, some at a time. It stops when ctx is done.
func inOrder(ctx context.Context, g graph.RandomAccess, order []uint32, visit func(nodes []uint32, l *graph.Lists)) error {
	var l graph.Lists
	for next := 0; next < len(order); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := g.ReadLists(&l, order[next:])
		visit(order[next:next+n], &l)
		next += n
	}
	return ctx.Err()
}
