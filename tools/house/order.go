package main

import (
	"cmp"
	"slices"
)

// arrow leads from a file to one whose names it uses.
type arrow struct{ from, to string }

func compareArrows(a, b arrow) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
}

// graph is a package's files and arrows: uses[v][w] tells whether file v uses file w.
type graph struct{ uses [][]bool }

func newGraph(files []string, arrows map[arrow]map[string]bool) graph {
	index := map[string]int{}
	g := graph{uses: make([][]bool, len(files))}
	for i, f := range files {
		index[f], g.uses[i] = i, make([]bool, len(files))
	}
	for a := range arrows {
		g.uses[index[a.from]][index[a.to]] = true
	}
	return g
}

// against counts the arrows from a file to one after it.
func (g graph) against(order []int) (n int) {
	for i, v := range order {
		for _, w := range order[i+1:] {
			if g.uses[v][w] {
				n++
			}
		}
	}
	return n
}

// order returns an order of the files with few arrows against it. It is the greedy one of Eades, Lin and Smyth ("A fast
// and effective heuristic for the feedback arc set problem", 1993), improved by moving single files while that helps.
func (g graph) order() []int {
	order := g.greedy()
	for best := g.against(order); best > 0; {
		improved := false
		for i := range order {
			for j := range order {
				moved := slices.Insert(slices.Delete(slices.Clone(order), i, i+1), j, order[i])
				if n := g.against(moved); n < best {
					order, best, improved = moved, n, true
				}
			}
		}
		if !improved {
			break
		}
	}
	return order
}

// greedy takes a file that uses no other of the rest as the next one, else a file that no other uses as the last one,
// else the one that is used most above what it uses as the next one.
func (g graph) greedy() []int {
	var first, last, rest []int
	for v := range g.uses {
		rest = append(rest, v)
	}
	for len(rest) > 0 {
		pick, atEnd, bestGain := -1, false, 0
		for i, v := range rest {
			out, in := 0, 0
			for _, w := range rest {
				if g.uses[v][w] {
					out++
				}
				if g.uses[w][v] {
					in++
				}
			}
			gain, end := in-out, false
			switch {
			case out == 0:
				gain = 2 * len(g.uses)
			case in == 0:
				gain, end = len(g.uses), true
			}
			if pick < 0 || gain > bestGain {
				pick, bestGain, atEnd = i, gain, end
			}
		}
		if atEnd {
			last = append(last, rest[pick])
		} else {
			first = append(first, rest[pick])
		}
		rest = slices.Delete(rest, pick, pick+1)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// knot returns the number of files in the largest circle: files that all reach one another.
func (g graph) knot() (most int) {
	reach := make([][]bool, len(g.uses))
	for v := range reach {
		reach[v] = slices.Clone(g.uses[v])
	}
	for k := range reach {
		for v := range reach {
			for w := range reach {
				reach[v][w] = reach[v][w] || reach[v][k] && reach[k][w]
			}
		}
	}
	for v := range reach {
		n := 0
		for w := range reach {
			if reach[v][w] && reach[w][v] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
