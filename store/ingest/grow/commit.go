package grow

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/store"
)

// commit makes the new manifest the store's next version.
func (a *appender) commit(ctx context.Context) error {
	known := map[string]bool{}
	for _, f := range a.w.Base().Files {
		known[f.Name] = true
	}
	dropUnused(a.m)
	for _, f := range a.m.Files {
		if !known[f.Name] {
			a.rep.BytesWritten += f.Size
		}
	}
	a.rep.Manifest = a.m
	if a.o.DryRun {
		a.m.Version = a.w.Version()
		return nil
	}
	if err := a.w.Commit(ctx, a.m); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// dropDerived leaves out columns that were computed from the graph before.
func (a *appender) dropDerived() {
	a.m.Columns = slices.DeleteFunc(a.m.Columns, func(c store.ColumnInfo) bool {
		if c.Derived == "" {
			return false
		}
		a.rep.Dropped = append(a.rep.Dropped, c.Name)
		return true
	})
}

// dropUnused removes files that a manifest lists and no longer uses.
func dropUnused(m *store.Manifest) {
	used := map[string]bool{m.IDs.Map: true}
	keep := func(names ...string) {
		for _, n := range names {
			used[n] = true
		}
	}
	keep(m.Topology...)
	keep(m.IDs.External...)
	keep(m.IDs.Maps...)
	for _, c := range m.Columns {
		keep(c.Files...)
	}
	for _, l := range m.EdgeLists {
		keep(l.File)
	}
	m.Files = slices.DeleteFunc(m.Files, func(f store.FileRef) bool { return !used[f.Name] })
}
