package main

import (
	"fmt"
	"io"
	"strings"
)

// table is what the phases of one size took.
type table struct {
	part, nodes, edges, mem int64
	disk                    float64
	rows                    []row
}

type row struct {
	name  string
	cost  cost
	bytes int64 // to move at least
	said  string
}

// ratio is how many times the disk's time for the bytes that have to move the phase took, 0 where none have.
func (t *table) ratio(r row) float64 {
	if r.bytes == 0 || t.disk == 0 {
		return 0
	}
	return r.cost.seconds / (float64(r.bytes) / t.disk)
}

// print writes the table in Markdown.
func (t *table) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## 1/%d of papers100M: %d nodes, %d edges, --mem %d MiB; the disk reads %.2f GB/s\n\n", t.part, t.nodes, t.edges, t.mem>>20, t.disk/1e9)
	b.WriteString("| phase | s | CPU s | GB read | GB written | peak MiB | disk's time, s | ratio | |\n|---|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, r := range t.rows {
		limit, ratio := "", ""
		if x := t.ratio(r); x > 0 {
			limit, ratio = fmt.Sprintf("%.2f", float64(r.bytes)/t.disk), fmt.Sprintf("%.1f", x)
		}
		c := r.cost
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.3f | %.3f | %.0f | %s | %s | %s |\n", r.name, c.seconds, c.cpu,
			float64(c.read)/1e9, float64(c.written)/1e9, float64(c.peak)/(1<<20), limit, ratio, r.said)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// growth writes what an edge costs at each size, as a multiple of its cost at the size before.
func growth(w io.Writer, tables []*table) error {
	if len(tables) < 2 {
		return nil
	}
	var b strings.Builder
	b.WriteString("\n## CPU time of an edge, as a multiple of the size before\n\n| phase |")
	for _, t := range tables[1:] {
		fmt.Fprintf(&b, " 1/%d |", t.part)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(tables)-1) + "\n")
	for i, r := range tables[0].rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		for k, t := range tables[1:] {
			before := tables[k]
			fmt.Fprintf(&b, " %.2f |", t.rows[i].cost.cpu/float64(t.edges)/(before.rows[i].cost.cpu/float64(before.edges)))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
