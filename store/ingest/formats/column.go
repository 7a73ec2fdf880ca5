package formats

import (
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/tables"
)

// OpenColumn opens a .npy array [N] or [N, D] as a source of one node column
// of the given name and role and no edges, for grow.AppendColumns. fs nil is the real file system.
func OpenColumn(fs vfs.FS, path, name string, role store.Role) (ingest.Source, error) {
	if fs == nil {
		fs = vfs.Default
	}
	watched := &watchedFS{FS: fs}
	a, err := numpy.OpenArray(watched, path)
	if bad := watched.verdict(err); bad != nil {
		return nil, bad
	}
	if a.Dim() == 0 {
		return nil, ingest.Inputf(path, "shape %v: rows are empty", a.Shape)
	}
	rows := a.Rows()
	return &watchedSource{&columnSource{a: a, desc: ingest.Description{
		Format: "npy", Input: path, Files: []string{path}, IDs: store.IDsDense, Nodes: rows,
		NodeTypes:   []ingest.NodeType{{Name: "node", Count: rows}},
		NodeColumns: []ingest.ColumnSpec{{Name: name, Role: role, Elem: a.Elem, Dim: int(a.Dim()), Rows: rows}},
	}}, watched}, nil
}

// columnSource is one array.
type columnSource struct {
	a    *numpy.Array
	desc ingest.Description
}

// Describe implements ingest.Source.
func (s *columnSource) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *columnSource) Close() error { return nil }

// Rows implements ingest.Source.
func (s *columnSource) Rows(ctx context.Context, env ingest.Env, _ int, emit func([]byte, ingest.Position) error) error {
	return s.a.Stream(ctx, env, files.ReadBytes, func(first int64, b []byte) error {
		return emit(b, ingest.Position{File: s.a.Path, Unit: "row", Index: uint64(first)})
	})
}

// Edges implements ingest.Source: there are none.
func (s *columnSource) Edges(context.Context, ingest.Env, func(int, *ingest.EdgeBatch) error) error {
	return nil
}

// Split implements ingest.Source: there are none.
func (s *columnSource) Split(context.Context, ingest.Env, int, uint8, func(*ingest.IDs, ingest.Position) error) error {
	return nil
}

// EdgeList implements ingest.Source: there are none.
func (s *columnSource) EdgeList(context.Context, ingest.Env, int, func(*ingest.EdgeBatch) error) error {
	return nil
}

// Names implements ingest.Source: there are none.
func (s *columnSource) Names(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error {
	return nil
}

// OpenNodes opens the tables of nodes that o.Nodes names, without edges, for grow.Relabel: o.Text.IDs is what the store's ids are.
func OpenNodes(o Options) (ingest.Source, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	watched := &watchedFS{FS: o.FS}
	src, err := tables.OpenNodes(watched, o.Nodes, o.NodeColumns, o.Text)
	if err == nil {
		err = o.checkNamed(src.Describe())
	}
	if bad := watched.verdict(err); bad != nil {
		return nil, bad
	}
	return &watchedSource{src, watched}, nil
}
