package main

import (
	"fmt"
	"io"
)

// node is the machine of the tables: eight processors as clouds count them, 64 GiB, one NVMe disk. Its figures are those that such machines are
// sold with, and prices those of late 2025; every one is a flag.
func node() *machine {
	return &machine{
		cores: 8, memory: 64 << 30,
		disk: way{1.4e9, 100e-6, 32}, diskWrites: 1.1e9, diskBytes: 1.875e12,
		server: way{.6e9, 30e-3, 16}, network: way{.6e9, 100e-6, 1},
		dollars: .69, get: .4e-6, keep: .023,
	}
}

// machineCounts are the columns of the question.
var machineCounts = []int{1, 2, 4, 8, 16, 32, 64}

// tables prints, for each graph, what its store is and what an epoch costs by so many machines, in Markdown.
func tables(w io.Writer, m *machine) error {
	fmt.Fprintf(w, "| graph | nodes | edges | a row, bytes | store, GB | stored, $ a month | ingest here, CPU h | mini-batches an epoch | ms of one, on %g cores |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n", m.cores)
	for i := range graphs {
		g := &graphs[i]
		fmt.Fprintf(w, "| %s | %s | %s | %.0f | %s | %.0f | %.1f | %s | %.1f |\n", g.name, count(g.nodes), count(g.edges), g.rowBytes(), number(g.stored()/1e9), g.stored()/1e9*m.keep, g.ingest()/3600, count(g.batches()), 1e3*g.batchSeconds(m))
	}
	for i := range graphs {
		g := &graphs[i]
		fmt.Fprintf(w, "\n%s:\n\n| machines | plan | memory each, GiB | first epoch | GB sent, requests | its $ | later epochs | of that waiting for reads | GB read | $ |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n", g.name)
		for _, n := range machineCounts {
			if g.links && n > 1 {
				break // ranks do not share a table of vectors yet
			}
			es, err := plans(g, m, n)
			if err != nil {
				return err
			}
			for _, e := range es {
				fmt.Fprintf(w, "| %d | %s | %.0f | %s | %s, %s | %s | %s | %.0f %% | %s | %s |\n", n, e.plan, e.memory/(1<<30), clock(e.first.seconds), number(e.first.served/1e9), count(e.first.requests), dollars(e.first, m, n),
					clock(e.next.seconds), 100*e.next.waiting/e.next.seconds, number(e.next.read/1e9), dollars(e.next, m, n))
			}
		}
	}
	return nil
}

// dollars are those of machines for an epoch, and of what they ask of the object store.
func dollars(t timeline, m *machine, machines int) string {
	d := float64(machines)*m.dollars*t.seconds/3600 + t.requests*m.get
	if d < 1 {
		return fmt.Sprintf("%.2f", d)
	}
	return number(d)
}

// What an ingest takes of a processor, as measured at 11 M nodes and 162 M edges with communities and hop, and at 10^9 edges without
// (docs/benchmarks.md, "A graph's whole life, size by size" and "A billion edges"), in seconds.
const (
	ingestLaid  = 222. / 162e6 // an edge
	ingestPlain = 124. / 1e9
)

// ingest are the CPU seconds of making the store.
func (g *graph) ingest() float64 {
	if g.links {
		return ingestPlain * g.edges
	}
	return ingestLaid * g.edges
}

// clock is a time as people say it.
func clock(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 72*3600:
		return fmt.Sprintf("%.1f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f d", seconds/86400)
}

// count is a number with its thousands as letters.
func count(x float64) string {
	switch {
	case x >= 1e9:
		return fmt.Sprintf("%.3g B", x/1e9)
	case x >= 1e6:
		return fmt.Sprintf("%.3g M", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.3g k", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

// number is a number of three digits at least.
func number(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
