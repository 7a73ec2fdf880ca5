package tables

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// byEnds is how many times as many of the first edges' ends another column of ids must have than the one that is called so, which then is
// not what edges mean: MUSAE's tables of Twitch have Twitch's own id, and new_id of the edges.
const byEnds = 10

// enoughIDs of the column that is called so settle it: large tables are not read to their end.
const enoughIDs = 10

// idsByEnds opens tables of nodes anew whose ids, by the edges' ends, stand in another column than the one that is called so.
func idsByEnds(ctx context.Context, fs vfs.FS, edges parts.Edges, named []Named, tables []*nodeTable, o table.Options) error {
	var ends map[string]bool
	for k, n := range tables {
		of := named[k].options(o)
		if of.NodeColumns != nil || n.kind != "" {
			continue
		}
		columns := []int{n.id}
		for c, col := range n.Columns() {
			if c != n.id && col.Dim == 1 && col.Strange == "" && !col.Date && table.IsID(col.Name) {
				columns = append(columns, c)
			}
		}
		if len(columns) == 1 {
			continue
		}
		if ends == nil {
			sample, err := sampleEnds(ctx, edges)
			if err != nil {
				return err
			}
			ends = sample[0]
			for id := range sample[1] {
				ends[id] = true
			}
		}
		rows, err := n.matches(ctx, ends, columns)
		if err != nil {
			return err
		}
		best := 0
		for i := range columns {
			if rows[i] > rows[best] {
				best = i
			}
		}
		if best == 0 || rows[0] >= enoughIDs || rows[best] <= byEnds*rows[0] {
			continue
		}
		was := n.Columns()[n.id].Name
		of.ID, of.Lists = n.Columns()[columns[best]].Name, true
		t, err := OpenTable(fs, named[k].Path, of)
		if err != nil {
			return err
		}
		if tables[k], err = openNodeTable(ctx, t, "", &of); err != nil {
			return err
		}
		tables[k].note = fmt.Sprintf("%s: %s holds the ids of the edges' nodes, %s those of %d of the first edges' %d", named[k].Path, of.ID, was, rows[0], len(ends))
	}
	return nil
}

// matches counts for each column in how many rows it holds one of the ids, until the first one has [enoughIDs].
func (n *nodeTable) matches(ctx context.Context, ids map[string]bool, columns []int) ([]int, error) {
	want := make([]table.Want, len(columns))
	for i, c := range columns {
		want[i] = table.Want{At: c, Elem: blocks.Invalid}
	}
	rows := make([]int, len(columns))
	err := table.ReadSome(ctx, n, want, func(b *table.Batch) error {
		var room ingest.IDs
		for i := range columns {
			of := b.IDs(i, &room)
			for r := range b.Rows {
				if ids[idText(of, r)] {
					rows[i]++
				}
			}
		}
		if rows[0] >= enoughIDs {
			return table.ErrEnough
		}
		return ctx.Err()
	})
	return rows, err
}
