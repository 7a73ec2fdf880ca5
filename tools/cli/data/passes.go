package data

import (
	"fmt"
	"time"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/tools/cli/command"
)

// passReport tells how good the partitions are after each pass of a partitioner, in ingest as in partition.
type passReport struct {
	e    *command.Env
	last time.Time // when the pass before ended
}

// tell writes a pass's event, and returns what a bar says of it.
func (r *passReport) tell(p partitioner.Pass) string {
	seconds := time.Since(r.last).Seconds()
	r.last = time.Now()
	r.e.Event("pass", map[string]any{
		"seconds": seconds, "edges_per_second": float64(p.Edges) / max(seconds, 1e-9),
		"method": p.Method, "pass": p.Pass, "level": p.Level, "cycle": p.Cycle,
		"moved": p.Moved, "cut_rate": p.CutRate, "largest_over_mean": p.Largest,
	})
	return passText(p)
}

func passText(p partitioner.Pass) string {
	if p.Largest == 0 {
		return fmt.Sprintf("pass %d: nodes join groups, %d of them moved", p.Pass, p.Moved)
	}
	cut := ""
	if p.CutRate >= 0 {
		cut = fmt.Sprintf("%.1f %% of edges cut, ", 100*p.CutRate)
	}
	return fmt.Sprintf("pass %d, level %d: %slargest partition %.3f of the mean, %d nodes moved", p.Pass, p.Level, cut, p.Largest, p.Moved)
}
