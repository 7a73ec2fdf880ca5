package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/grow"
)

// fileRequest names an input of files, or a database at an address.
type fileRequest struct {
	File     string `json:"file"`
	Format   string `json:"format"`
	Schema   string `json:"schema"`
	Dangling string `json:"dangling"`
	Keyless  string `json:"keyless"`
}

// options say how the input is read.
func (q *fileRequest) options() formats.Options {
	return formats.Options{Format: q.Format, Schema: q.Schema, Dangling: ingest.Dangling(q.Dangling), Keyless: database.Keyless(q.Keyless)}
}

// appendRequest says what is added to a store.
type appendRequest struct {
	Path string `json:"path"`
	fileRequest

	Change       string `json:"change"`
	Missing      string `json:"missing"`
	NewNodes     bool   `json:"new_nodes"` // any number of nodes may be new
	KeepVersions int    `json:"keep_versions"`
	MemoryBytes  int64  `json:"memory_bytes"`
	Threads      int    `json:"threads"`
	Note         string `json:"note"`
}

// appendFiles adds what is in files, or a database's new rows, to a store.
func appendFiles(ctx context.Context, c *call) (err error) {
	var q appendRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	fo := q.options()
	file, done, err := fo.Beside(ctx, q.Path, q.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	s, err := store.Open(q.Path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := fo.LikeStore(ctx, s); err != nil {
		return err
	}
	src, err := formats.Open(file, fo)
	if errors.Is(err, database.ErrNoneNew) {
		return c.answer(map[string]any{"version": s.Manifest().Version, "new_nodes": 0, "edges_added": 0, "notes": []string{err.Error()}})
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	o := grow.Options{MemoryBytes: q.MemoryBytes, Threads: q.Threads, KeepVersions: q.KeepVersions, Missing: ingest.Missing(q.Missing), Change: grow.Change(q.Change), Note: q.Note}
	if !q.NewNodes {
		o.NewShare = grow.FewNew
	}
	if q.Change != "" && src.Describe().Schema != "" {
		return fmt.Errorf("%w: rows of a database that the store has stay as they are there: ingest it anew", store.ErrInvalid)
	}
	r, err := grow.Append(ctx, q.Path, src, o)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"version": r.Manifest.Version, "new_nodes": r.NewNodes, "edges_added": r.EdgesAdded, "notes": src.Describe().Notes})
}

// addRequest says which column of nodes is added to a store: rows of an .npy file, in the order of external ids where these are dense, and else
// of internal ones.
type addRequest struct {
	Path         string `json:"path"`
	Name         string `json:"name"`
	File         string `json:"file"`
	Feature      bool   `json:"feature"` // or a column that models do not read
	Dtype        string `json:"dtype"`   // of features; "" = as they are
	Normalize    bool   `json:"normalize"`
	KeepVersions int    `json:"keep_versions"`
	MemoryBytes  int64  `json:"memory_bytes"`
	Threads      int    `json:"threads"`
	Note         string `json:"note"`
}

// addColumn adds a column of nodes to a store.
func addColumn(ctx context.Context, c *call) (err error) {
	var q addRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	elem, role := blocks.Invalid, store.RoleNode
	if q.Feature {
		role = store.RoleFeature
	}
	if q.Dtype != "" {
		if elem, err = blocks.ParseElemType(q.Dtype); err != nil {
			return fmt.Errorf("%w: dtype: %w", store.ErrInvalid, err)
		}
	}
	src, err := formats.OpenColumn(nil, q.File, q.Name, role)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	r, err := grow.AppendColumns(ctx, q.Path, src, elem, grow.Options{MemoryBytes: q.MemoryBytes, Threads: q.Threads, KeepVersions: q.KeepVersions,
		Normalize: q.Normalize, Note: q.Note})
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"version": r.Manifest.Version})
}
