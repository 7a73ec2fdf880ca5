package partitioner

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// WriteText prints the quality for people: figures, and a bar for every partition, or for every group of them
// when there are more than rows (default 16), with its mean label divergence.
func (q *Quality) WriteText(w io.Writer, rows int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %d  edges %d  partitions %d", q.Nodes, q.Edges, q.Partitions-q.Pinned)
	if q.Pinned > 0 {
		fmt.Fprintf(&b, " + %d pinned with %d nodes (%.1f %%)", q.Pinned, q.PinnedNode, 100*float64(q.PinnedNode)/float64(q.Nodes))
	}
	fmt.Fprintf(&b, "\ncut edges        %5.1f %%  (%d)\n", 100*q.CutRate, q.CutEdges)
	fmt.Fprintf(&b, "may be missed    %5.1f %%  (cut, and neither end pinned)\n", 100*q.LostRate)
	fmt.Fprintf(&b, "resident walks  ")
	for h, s := range q.ResidentShare {
		fmt.Fprintf(&b, "  %d hop %.1f %%", h+1, 100*s)
	}
	fmt.Fprintf(&b, "  (%d of %d partitions resident)\n", q.Resident, q.Partitions-q.Pinned)
	if q.Labels > 0 {
		fmt.Fprintf(&b, "label divergence  partition mean %.3f max %.3f, macro-batch mean %.3f max %.3f\n",
			q.PartitionLabels.Mean, q.PartitionLabels.Max, q.MacroBatchLabels.Mean, q.MacroBatchLabels.Max)
	}
	fmt.Fprintf(&b, "max / mean        nodes %.3f, neighbours %.3f, training nodes %.3f, bytes %.3f\n",
		q.NodeSpread.MaxOverMean, q.EntrySpread.MaxOverMean, q.TrainingSpread.MaxOverMean, q.ByteSpread.MaxOverMean)
	if rows <= 0 {
		rows = 16
	}
	n := len(q.KeptByPartition)
	step := max((n+rows-1)/rows, 1)
	b.WriteString("neighbours kept")
	if q.Labels > 0 {
		b.WriteString(", and label divergence")
	}
	b.WriteString(", by partition\n")
	for p := 0; p < n; p += step {
		end := min(p+step, n)
		kept := mean(q.KeptByPartition[p:end])
		name := fmt.Sprint(p)
		if end > p+1 {
			name = fmt.Sprintf("%d–%d", p, end-1)
		}
		bar := int(math.Round(40 * kept))
		fmt.Fprintf(&b, "%11s %s%s %5.1f %%", name, strings.Repeat("█", bar), strings.Repeat("·", 40-bar), 100*kept)
		if q.Labels > 0 {
			fmt.Fprintf(&b, "  %.3f", mean(q.PartitionLabels.Each[p:end]))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
