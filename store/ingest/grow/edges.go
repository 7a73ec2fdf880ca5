package grow

import (
	"context"
	"errors"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// addEdges sorts the source's edges and writes the rows that they touch, merged with what is
// there, and those of new partitions.
func (a *appender) addEdges(ctx context.Context) (err error) {
	r, rules := a.edges, a.rules()
	s, err := r.NewScatter(rules, r.Budget.Edges*3/8)
	if err != nil {
		return err
	}
	sh := s.Shards
	defer func() { err = errors.Join(err, sh.Close()) }()
	s.Old = edges.NewOld(ctx, a.base, rules, a.o.Change.equal(), r.Budget.Edges/8)
	defer func() { err = errors.Join(err, s.Old.Close()) }()
	if err := a.readEdges(ctx, s); err != nil {
		return err
	}
	sh.Finish()
	a.rep.EdgesRead, a.rep.SelfLoops = uint64(s.Read.Load())+a.rep.EdgesMissing, uint64(s.Loops.Load())
	a.rep.BytesSpilled = sh.Spilled.Load()
	total := int64(0)
	for k := range sh.Lists {
		total += sh.Lists[k].Records
	}
	if total == 0 && a.newNodes == 0 {
		return nil
	}
	f, names, err := r.CreateEdgeFiles(rules)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			for _, w := range f.All() {
				_ = w.Abort()
			}
		}
	}()
	r.Phase("merge edges", "edges", total)
	counts, err := s.Write(ctx, f, max(r.Budget.Edges/2-sh.ResidentBytes(), ingest.EdgesMin/4), r.Options.Threads, r.Tick)
	if err != nil {
		return err
	}
	return a.keepEdges(f, names, counts)
}

// readEdges scatters the source's edges, with relations and columns in the store's order.
func (a *appender) readEdges(ctx context.Context, s *edges.Scatter) error {
	r := a.edges
	order := make([]int, len(r.Desc.EdgeColumns)) // of the source, by the store's
	for k, c := range r.Desc.EdgeColumns {
		order[k] = slices.IndexFunc(a.desc.EdgeColumns, func(x source.ColumnSpec) bool { return x.Name == c.Name })
	}
	var numbers []uint32 // the store's relations by the source's
	for _, name := range a.desc.Relations {
		numbers = append(numbers, r.RelationIndex[name])
	}
	scratch := make([]struct {
		relations []uint32
		columns   [][]byte
		taken     taken
		_         [64]byte
	}, r.Options.Threads)
	r.Phase("read edges", "edges", a.desc.Edges)
	err := r.DenseEdges(ctx, func(worker int, b *source.EdgeBatch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, out := &scratch[worker], *b
		if a.o.Change != Delete {
			if len(b.Columns) != len(order) {
				return source.Inputf(b.At.Of(0), "%d edge columns, expected %d", len(b.Columns), len(order))
			}
			w.columns = w.columns[:0]
			for _, k := range order {
				w.columns = append(w.columns, b.Columns[k])
			}
			out.Columns = w.columns
		}
		if numbers != nil && r.Desc.HasRelation {
			w.relations = w.relations[:0]
			for i, rel := range b.Relations {
				if int(rel) >= len(numbers) {
					return source.Inputf(b.At.Of(i), "relation %d, expected less than %d", rel, len(numbers))
				}
				w.relations = append(w.relations, numbers[rel])
			}
			out.Relations = w.relations
		} else if a.relation >= 0 {
			for len(w.relations) < b.Len() {
				w.relations = append(w.relations, uint32(a.relation))
			}
			out.Relations = w.relations[:b.Len()]
		}
		if a.o.Change == Delete {
			return s.Add(worker, w.taken.there(a, &out))
		}
		if a.rows != nil {
			b, err := w.taken.known(a, &out)
			if err != nil {
				return err
			}
			return s.Add(worker, b)
		}
		return s.Add(worker, &out)
	})
	for k := range scratch {
		if n := scratch[k].taken.missing; a.o.Change == Delete {
			a.rep.EdgesMissing += n
		} else {
			a.rep.EdgesDangling += n
		}
	}
	if err == nil && a.edges.Options.SelfLoops == ingest.SelfLoopsAdd {
		err = s.AddLoops(ctx)
	}
	return err
}

// keepEdges closes the edge files and enters them in the manifest.
func (a *appender) keepEdges(f *edges.Files, names []string, counts *edges.Counts) error {
	m := a.m
	for i, w := range f.All() {
		info, err := w.Close()
		if err != nil {
			return err
		}
		m.Files = append(m.Files, store.Ref(names[i], info))
	}
	m.Topology = append(m.Topology, names[0])
	for i, w := range f.All()[1:] {
		c, err := m.Column(w.Header().Name)
		if err != nil {
			return err
		}
		c.Files = append(c.Files, names[1+i])
	}
	before := m.Edges
	m.Edges = 0
	for p := range m.Partitions {
		if counts.Written[p] {
			m.Partitions[p].Edges = counts.Rows[p]
		}
		m.Edges += m.Partitions[p].Edges
	}
	for k := range m.Schema.Relations {
		m.Schema.Relations[k].Count += counts.Relations[k] - counts.RelationsGone[k]
	}
	a.rep.EdgesGone, a.rep.Duplicates = counts.Gone, counts.Duplicates
	switch a.o.Change {
	case Add:
		a.rep.EdgesAdded = m.Edges - before
	case Update:
		a.rep.EdgesAdded = counts.Unmatched
	case Delete:
		a.rep.EdgesMissing += counts.Unmatched
	}
	for p := range a.base.Manifest().Partitions {
		if counts.Written[p] {
			a.rep.StripesRewritten++
		}
	}
	return nil
}
