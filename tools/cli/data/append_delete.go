package data

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/tools/cli/command"
)

// deleteNodes takes the nodes that tables name out of a store.
func (o *appendOptions) deleteNodes(ctx context.Context, e *command.Env, dir string, src ingest.Source, in ingest.Options) (err error) {
	begin := time.Now()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	gone, unknown, err := nodesOf(ctx, s, src, in)
	if err != nil {
		return err
	}
	n := gone.GetCardinality()
	switch {
	case n == 0:
		return fmt.Errorf("%w: the store has none of the nodes of %s, such as %q", store.ErrNotFound, strings.Join(o.input.nodes, ", "), unknown.some)
	case n == m.Nodes:
		return command.Usagef("--delete: the tables name all of the store's %d nodes", n)
	}
	f := map[string]any{"store": dir, "version": m.Version + 1, "dry_run": o.dryRun, "nodes": m.Nodes - n, "nodes_gone": n, "nodes_missing": unknown.n, "partitions": len(m.Partitions)}
	var notes []string
	if !o.dryRun {
		bars := ingestProgress{e: e}
		in.Progress = bars.tell
		rep, err := repartition.Without(ctx, s, gone, o.keep, in)
		bars.close()
		if err != nil {
			return err
		}
		f["version"], f["edges"], f["edges_gone"], notes = rep.Manifest.Version, rep.Manifest.Edges, m.Edges-rep.Manifest.Edges, rep.Notes
	}
	f["seconds"], f["cpu_seconds"], f["peak_rss_bytes"] = time.Since(begin).Seconds(), usage.CPUSeconds(), usage.PeakRSSBytes()
	e.Event("summary", f)
	if unknown.n > 0 {
		e.Warn(fmt.Sprintf("%d rows are left out: the store has no nodes such as %q", unknown.n, unknown.some))
	}
	if e.JSON || e.Quiet {
		return nil
	}
	if o.dryRun {
		fmt.Fprintf(e.Stdout, "--dry-run: the store is as it was; the next version would have %d nodes (%d deleted, with their edges), and all of it would be written anew\n", m.Nodes-n, n)
		return nil
	}
	fmt.Fprintf(e.Stdout, "%s: version %d, %d nodes (%d deleted), %d edges (%d deleted), in %.1f s, peak %s\n", dir, f["version"], f["nodes"], n, f["edges"], f["edges_gone"],
		time.Since(begin).Seconds(), command.FormatSize(usage.PeakRSSBytes()))
	for _, note := range notes {
		fmt.Fprintln(e.Stdout, note)
	}
	if o.keep > 1 {
		fmt.Fprintf(e.Stdout, "version %d still has them: gstore prune %s --keep 1 removes it\n", m.Version, dir)
	}
	return nil
}

// missing are ids that a store does not have.
type missing struct {
	n    int64
	some []string
}

// nodesOf are the nodes of a store that the tables of a source name.
func nodesOf(ctx context.Context, s *store.Store, src ingest.Source, in ingest.Options) (gone *roaring64.Bitmap, unknown missing, err error) {
	gone = roaring64.New()
	keyed, ok := src.(ingest.KeyedSource)
	if !ok || !src.Describe().Keyed {
		return nil, unknown, command.Usagef("--delete: the tables name no nodes")
	}
	var found []store.NodeID
	var names []string
	err = keyed.NodeIDs(ctx, ingest.Env{Threads: 1, MemoryBytes: in.MemoryBytes / 4}, func(ids *ingest.IDs, _ ingest.Position) error {
		found = append(found[:0], make([]store.NodeID, ids.Len())...)
		names = names[:0]
		if ids.Ends == nil {
			for _, x := range ids.Ints {
				names = append(names, fmt.Sprint(x))
			}
			if err := s.LookupInts(ctx, ids.Ints, found); err != nil {
				return err
			}
		} else {
			for i := range ids.Len() {
				names = append(names, string(ids.At(i)))
			}
			if err := s.LookupNames(ctx, names, found); err != nil {
				return err
			}
		}
		for i, v := range found {
			if v != store.NoNode {
				gone.Add(uint64(v))
				continue
			}
			if unknown.n++; len(unknown.some) < 3 {
				unknown.some = append(unknown.some, names[i])
			}
		}
		return ctx.Err()
	})
	return gone, unknown, err
}
