package tables

import (
	"context"
	"errors"
	"strconv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// sampledEdges is how many edges, the first ones, say of which types the ends of all are.
const sampledEdges = 1000

var errSampled = errors.New("enough edges were read")

// endsByRows finds the types of edges' ends whose columns are not called by one: those whose tables have rows for the most of the first
// edges' ends. "" where the columns say it, where several tables have as many, or none has any: then it is as [table.EndTypes] says.
func endsByRows(ctx context.Context, edges parts.Edges, ends [2]string, tables []*nodeTable, types []string) (found [2]string, err error) {
	if len(types) < 2 || table.CalledByTypes(ends, types) {
		return found, nil
	}
	sample, err := sampleEnds(ctx, edges)
	if err != nil {
		return found, err
	}
	rows := map[string]*[2]int{}
	for _, t := range types {
		rows[t] = &[2]int{}
	}
	for _, n := range tables {
		if err := n.countRows(ctx, sample, rows[n.kind]); err != nil {
			return found, err
		}
	}
	for end := range found {
		most, of := 0, 0
		for _, t := range types {
			switch k := rows[t][end]; {
			case k > most:
				found[end], most, of = t, k, 1
			case k == most:
				of++
			}
		}
		if of != 1 {
			found[end] = ""
		}
	}
	return found, nil
}

// sampleEnds are the first edges' different ends: sources and destinations.
func sampleEnds(ctx context.Context, edges parts.Edges) (sample [2]map[string]bool, err error) {
	sample = [2]map[string]bool{{}, {}}
	n := 0
	err = edges(ctx, ingest.Env{Threads: 1, MemoryBytes: 32 << 20}, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			sample[0][idText(&b.Src, i)], sample[1][idText(&b.Dst, i)] = true, true
			if n++; n == sampledEdges {
				return errSampled
			}
		}
		return nil
	})
	if errors.Is(err, errSampled) {
		err = nil
	}
	return sample, err
}

// countRows adds to rows how many ids of each sample the table has a row for.
func (n *nodeTable) countRows(ctx context.Context, sample [2]map[string]bool, rows *[2]int) error {
	id := []table.Want{{At: n.id, Elem: blocks.Invalid}}
	n.Use(id)
	return n.Read(ctx, ingest.Env{Threads: 1, MemoryBytes: 32 << 20}, id, func(b *table.Batch) error {
		var room ingest.IDs
		ids := b.IDs(0, &room)
		for i := range b.Rows {
			for end := range sample {
				if sample[end][idText(ids, i)] {
					rows[end]++
				}
			}
		}
		return ctx.Err()
	})
}

// idText is an id as text, as [table.WithType] has it.
func idText(ids *ingest.IDs, i int) string {
	if ids.Ends != nil {
		return string(ids.At(i))
	}
	return strconv.FormatUint(ids.Ints[i], 10)
}
