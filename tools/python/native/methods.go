package native

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/remote"
)

var errorKinds = []struct {
	err  error
	kind int
}{
	{store.ErrInternal, KindInternal}, {context.Canceled, KindCancelled}, {store.ErrCorrupt, KindCorrupt}, {store.ErrFormatVersion, KindVersion}, {store.ErrBudget, KindBudget},
	{store.ErrLocked, KindLocked}, {store.ErrExists, KindExists}, {store.ErrClosed, KindClosed}, {ingest.ErrInput, KindInput},
	{ingest.ErrOptions, KindInvalid}, {partitioner.ErrOption, KindInvalid}, {macro.ErrPlan, KindInvalid}, {store.ErrInvalid, KindInvalid}, {store.ErrNotFound, KindNotFound},
}

// method is what a name calls, with at least so many arrays.
type method struct {
	arrays int
	run    func(ctx context.Context, c *call) error
}

var methods = map[string]method{
	"counts":     {0, counts},
	"open":       {0, open},
	"close":      {0, closeObject},
	"column":     {1, column},
	"features":   {2, features},
	"lookup":     {2, lookup},
	"external":   {1, external},
	"neighbors":  {1, neighbors},
	"walks":      {1, walks},
	"ingest":     {0, ingestGraph},
	"append":     {0, appendFiles},
	"add":        {0, addColumn},
	"upload":     {0, upload},
	"download":   {0, download},
	"loader":     {0, openLoader},
	"links":      {0, openLinkLoader},
	"start":      {0, startLoader},
	"next":       {0, nextBatch},
	"slabs":      {0, loaderSlabs},
	"batches":    {0, loaderBatches},
	"history":    {0, openHistory},
	"push":       {2, pushStates},
	"pull":       {3, pullHistory},
	"states":     {3, historyStates},
	"past":       {0, historyRows},
	"restore":    {1, restoreHistory},
	"table":      {0, openTable},
	"rows":       {2, embeddingRows},
	"step":       {2, stepEmbeddings},
	"checkpoint": {1, checkpointEmbeddings},
}

// counts says how many objects and operations are alive, itself not counted: for tests of leaks.
func counts(_ context.Context, c *call) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	return c.answer(map[string]int{"objects": len(all.objects), "operations": len(all.operations) - 1, "goroutines": runtime.NumGoroutine()})
}

func closeObject(_ context.Context, c *call) error {
	if c.object == nil {
		return store.ErrClosed
	}
	return c.object.close()
}

// openStore is a store's handle.
type openStore struct {
	*store.Store
	followed *remote.Followed // that it is in, if it was opened by an address
}

func (s openStore) close() error {
	err := s.Close()
	if s.followed != nil {
		err = errors.Join(err, s.followed.Close())
	}
	return err
}
func (s openStore) free() {}

func (c *call) store() (*store.Store, error) {
	s, err := objectOf[openStore](c, "a store")
	return s.Store, err
}

// cacheDir is where measurements of devices are kept, the same as the command line's.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gstore")
}

// columnInfo describes a column; Dtype is what its rows are handed out as.
type columnInfo struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Dtype   string `json:"dtype"`
	Stored  string `json:"stored"`
	Dim     int    `json:"dim"`
	Derived string `json:"derived,omitempty"`
	Type    string `json:"node_type,omitempty"` // whose nodes have rows, of others they are zero; "": all
	*store.Standard
}

func open(ctx context.Context, c *call) (err error) {
	var q openRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	s := openStore{}
	defer func() {
		if err != nil && s.followed != nil {
			err = errors.Join(err, s.followed.Close())
		}
	}()
	if remote.IsAddress(q.Path) {
		if s.followed, err = follow(ctx, &q); err != nil {
			return err
		}
		q.Path = s.followed.Dir
	}
	if s.Store, err = store.Open(q.Path, store.Options{Version: q.Version, CacheDir: cacheDir()}); err != nil {
		return err
	}
	m := s.Manifest()
	var columns []columnInfo
	for i := range m.Columns {
		x := &m.Columns[i]
		columns = append(columns, columnInfo{x.Name, string(x.Role), dtypeOf(x), x.Elem.String(), dimOf(m, x), x.Derived, x.NodeType, x.Standard})
	}
	var lists []string
	for _, l := range m.EdgeLists {
		lists = append(lists, l.Name)
	}
	err = c.answer(map[string]any{
		"path": q.Path, "version": m.Version, "parent": m.Parent, "created": m.Created, "note": m.Note, "nodes": m.Nodes, "edges": m.Edges,
		"partitions": len(m.Partitions), "pinned": len(m.Pinned), "schema": m.Schema, "columns": columns, "edge_lists": lists, "ids": m.IDs.Kind, "bytes": m.Bytes(),
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	c.reply.Handle = all.add(s)
	return nil
}

// dtype is what NumPy calls elements as they are handed out: what it does not have, or has no scale for, becomes float32.
func dtype(e blocks.ElemType) string {
	if converted(e) {
		return "float32"
	}
	return e.String()
}

// dtypeOf is dtype of a column: labels that are numbers become float32, NaN for none, and so do those of which a node has several, 0 or 1
// each.
func dtypeOf(c *store.ColumnInfo) string {
	if decoded(c) {
		return "float32"
	}
	return dtype(c.Elem)
}

// dimOf is how many elements a column's rows have as they are handed out.
func dimOf(m *store.Manifest, c *store.ColumnInfo) int {
	if c.Sets != nil {
		return m.Schema.Classes
	}
	return c.Dim
}

// decoded reports whether a column's entries are codes.
func decoded(c *store.ColumnInfo) bool { return c.Numbers || c.Sets != nil }

func converted(e blocks.ElemType) bool { return e == blocks.BFloat16 || e == blocks.Int8 }

// handOut copies whole rows of a column to dst as [dtype] says.
func handOut(e blocks.ElemType, scale []float32, dst, rows []byte) error {
	if !converted(e) {
		copy(dst, rows)
		return nil
	}
	to, err := blocks.View[float32](dst)
	if err != nil {
		return err
	}
	for i := range to {
		if e == blocks.BFloat16 {
			to[i] = blocks.BFloat16Value(binary.LittleEndian.Uint16(rows[2*i:]))
			continue
		}
		if to[i] = float32(int8(rows[i])); scale != nil {
			to[i] *= scale[i%len(scale)]
		}
	}
	return nil
}

// handOutColumn copies whole rows of a column to dst as [dtypeOf] says.
func handOutColumn(m *store.Manifest, c *store.ColumnInfo, dst, rows []byte) error {
	if !decoded(c) {
		return handOut(c.Elem, c.Scale, dst, rows)
	}
	to, err := blocks.View[float32](dst)
	if err != nil {
		return err
	}
	label := func(i int) int32 { return int32(binary.LittleEndian.Uint32(rows[4*i:])) }
	if c.Sets != nil {
		setRows(m.LabelSets(), to, label)
		return nil
	}
	for i := range to {
		to[i] = blocks.CodedNumber(label(i))
	}
	return nil
}

// setRows fills rows of labels of which a node has several: 1 where its set, whose number label tells, has the label, else 0; NaN where
// none is known.
func setRows(sets *store.LabelSets, to []float32, label func(i int) int32) {
	none, k := float32(math.NaN()), sets.Labels()
	var of []int
	for i := range len(to) / k {
		set, row := label(i), to[i*k:(i+1)*k]
		if set < 0 {
			for j := range row {
				row[j] = none
			}
			continue
		}
		clear(row)
		of = sets.Of(set, of[:0])
		for _, j := range of {
			row[j] = 1
		}
	}
}

// asked returns the call's store, and in q its request.
func (c *call) asked(q any) (*store.Store, error) {
	s, err := c.store()
	if err == nil {
		err = c.decode(q)
	}
	return s, err
}

// column fills in a node column, by internal id.
func column(ctx context.Context, c *call) error {
	var q struct {
		Column string `json:"column"`
	}
	s, err := c.asked(&q)
	if err != nil {
		return err
	}
	info, err := s.Manifest().Column(q.Column)
	if err != nil {
		return err
	}
	if info.Role.OnEdges() {
		return fmt.Errorf("%w: column %q lies on edges, expected one of nodes", store.ErrInvalid, q.Column)
	}
	m, dst, width := s.Manifest(), c.arrays[0], info.RowBytes()
	if converted(info.Elem) || decoded(info) {
		width = 4 * dimOf(m, info)
	}
	if err := wantBytes("rows", dst, int64(s.Manifest().Nodes)*int64(width)); err != nil {
		return err
	}
	var buf []byte
	for p, part := range s.Manifest().Partitions {
		if buf, err = s.ReadColumn(ctx, q.Column, store.PartitionID(p), buf); err != nil {
			return err
		}
		n := int(part.Nodes) * width
		if err := handOutColumn(m, info, dst[:n], buf); err != nil {
			return err
		}
		dst = dst[n:]
	}
	return nil
}

func wantBytes(what string, b []byte, n int64) error {
	if int64(len(b)) != n {
		return fmt.Errorf("%w: %s of %d bytes, expected %d", store.ErrInvalid, what, len(b), n)
	}
	return nil
}

// features fills in rows of given nodes: arrays are the nodes, uint64, and the rows.
func features(ctx context.Context, c *call) error {
	var q struct {
		Column string `json:"column"`
	}
	s, err := c.asked(&q)
	if err != nil {
		return err
	}
	nodes, err := blocks.View[store.NodeID](c.arrays[0])
	if err != nil {
		return err
	}
	info, err := s.Manifest().Column(q.Column)
	if err != nil {
		return err
	}
	if !converted(info.Elem) && !decoded(info) {
		if err := wantBytes("rows", c.arrays[1], int64(len(nodes))*int64(info.RowBytes())); err != nil {
			return err
		}
		_, err = s.Features(ctx, q.Column, nodes, c.arrays[1])
		return err
	}
	if err := wantBytes("rows", c.arrays[1], int64(len(nodes))*int64(dimOf(s.Manifest(), info))*4); err != nil {
		return err
	}
	rows, err := s.Features(ctx, q.Column, nodes, nil)
	if err != nil {
		return err
	}
	return handOutColumn(s.Manifest(), info, c.arrays[1], rows)
}

// lookup finds nodes by external ids: arrays are the ids, uint64, and the nodes; or of strings text, ends and nodes.
func lookup(ctx context.Context, c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	nodes, err := blocks.View[store.NodeID](c.arrays[len(c.arrays)-1])
	if err != nil {
		return err
	}
	if len(c.arrays) == 2 {
		ids, err := blocks.View[uint64](c.arrays[0])
		if err != nil {
			return err
		}
		return s.LookupInts(ctx, ids, nodes)
	}
	names, err := texts(c.arrays[0], c.arrays[1])
	if err != nil {
		return err
	}
	return s.LookupStrings(ctx, names, nodes)
}

// texts cuts text at ends, uint64.
func texts(text, ends []byte) ([]string, error) {
	at, err := blocks.View[uint64](ends)
	if err != nil {
		return nil, err
	}
	list, from := make([]string, len(at)), uint64(0)
	for i, to := range at {
		if to < from || to > uint64(len(text)) {
			return nil, fmt.Errorf("%w: text %d ends at %d of %d bytes", store.ErrInvalid, i, to, len(text))
		}
		list[i], from = string(text[from:to]), to
	}
	return list, nil
}

// external finds the external ids of nodes: arrays are the nodes and, where ids are integers, the ids. Strings are the
// reply's arrays: text and ends.
func external(ctx context.Context, c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	nodes, err := blocks.View[store.NodeID](c.arrays[0])
	if err != nil {
		return err
	}
	if len(c.arrays) == 2 {
		ids, err := blocks.View[uint64](c.arrays[1])
		if err != nil {
			return err
		}
		return s.ExternalInts(ctx, nodes, ids)
	}
	names, err := s.ExternalStrings(ctx, nodes)
	if err != nil {
		return err
	}
	n := 0
	for _, x := range names {
		n += len(x)
	}
	if err := c.alloc(int64(n), int64(8*len(names))); err != nil {
		return err
	}
	at := 0
	for i, x := range names {
		at += copy(c.reply.Arrays[0][at:], x)
		binary.LittleEndian.PutUint64(c.reply.Arrays[1][8*i:], uint64(at))
	}
	return nil
}

// neighbors finds the neighbours of nodes: the reply's arrays are indptr int64, nodes uint64 and, if asked for and there,
// relations uint32.
func neighbors(ctx context.Context, c *call) error {
	var q struct {
		Out       bool `json:"out"`
		Relations bool `json:"relations"`
	}
	s, err := c.asked(&q)
	if err != nil {
		return err
	}
	nodes, err := blocks.View[store.NodeID](c.arrays[0])
	if err != nil {
		return err
	}
	n, err := s.Neighbors(ctx, nodes, store.NeighborOptions{Out: q.Out, Relations: q.Relations})
	if err != nil {
		return err
	}
	parts := [][]byte{blocks.Bytes(n.Indptr), blocks.Bytes(n.Nodes), blocks.Bytes(n.Relations)}
	if n.Relations == nil {
		parts = parts[:2]
	}
	var sizes []int64
	for _, b := range parts {
		sizes = append(sizes, int64(len(b)))
	}
	if err := c.alloc(sizes...); err != nil {
		return err
	}
	for i, b := range parts {
		copy(c.reply.Arrays[i], b)
	}
	return nil
}
