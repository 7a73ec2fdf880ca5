package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// fixedBytes is the memory an export takes whatever the store: the program, writers' buffers, and what its caller holds.
func (x *exporter) fixedBytes() int64 {
	if x.o.Format == Parquet { // the library's pages, dictionaries and the garbage of both
		return 66<<20 + x.o.HeldBytes
	}
	return 53<<20 + x.o.HeldBytes // the program alone has 47 of them
}

// exporter is one run.
type exporter struct {
	s   *store.Store
	m   *store.Manifest
	o   Options
	out *folder
	// room is the memory for nodes or edges; ids beside it have as much.
	room int64
	ids  *idCache
	// internal says that edges name positions that are internal ids.
	internal bool
	// edgeFields and nodeFields say what the columns of tables are, as ingest's --columns and --node-columns do; nil
	// where no table was written, or one of a column whose name these flags cannot have.
	edgeFields, nodeFields []string
	slab                   *blockio.Slab
	scratch                []byte // of storeRows

	name, unit  string
	done, total int64
}

// sink writes one format.
type sink interface {
	// edges begins the graph (name "") or an edge list of rows edges.
	edges(name string, rows uint64) (edgeSink, error)
	// nodes begins the node columns.
	nodes(columns []NodeColumn) (nodeSink, error)
}

// edgeSink writes batches of edges. Its close is called once, whether or not add failed.
type edgeSink interface {
	add(b *edgeBatch) error
	close() error
}

// nodeSink writes batches of nodes, like edgeSink.
type nodeSink interface {
	add(b *nodeBatch) error
	close() error
}

// Run writes s to the new folder out. After a failure nothing is left of it;
// a killed run leaves out.partial, which the next one replaces.
func Run(ctx context.Context, s *store.Store, out string, o Options) (_ *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	x := &exporter{s: s, m: s.Manifest(), o: o.withDefaults()}
	x.room = (x.o.MemoryBytes - x.fixedBytes()) / 2
	if x.room < 4<<20 {
		return nil, x.tooSmall(4 << 20)
	}
	x.internal = x.o.Format == Numpy && x.m.IDs.Kind != store.IDsDense
	columns, err := x.columns()
	if err != nil {
		return nil, err
	}
	x.ids = newIDCache(s, x.room)
	defer x.ids.Close()
	if x.slab, err = blockio.AllocSlab(blocks.RangeBytes(4<<20), blockio.SlabOptions{Lazy: true}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.slab.Free()) }()
	x.scratch = x.slab.Bytes()
	if x.out, err = newFolder(x.o.FS, out); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.out.abandon())
		}
	}()
	x.out.reserve("edge_index.npy", "edge_type.npy", "edge_types.txt", "train.npy", "relations.txt", "entities.txt", "node_feat.npy", "node_label.npy",
		"node_ids.npy", "node_ids.txt", "classes.txt", "edges.tsv", "train.tsv", "nodes.tsv", "edges.parquet", "nodes.parquet")
	for _, a := range x.o.Attached {
		x.out.reserve(a.Name)
	}
	var to sink
	switch x.o.Format {
	case TSV:
		to = &tsvSink{x: x}
	case Parquet:
		to = &parquetSink{x: x}
	default:
		to = &numpySink{x: x}
	}
	if err := x.write(ctx, to, columns); err != nil {
		return nil, err
	}
	for _, a := range x.o.Attached {
		if err := x.out.attach(a); err != nil {
			return nil, err
		}
	}
	if err := x.meta(); err != nil {
		return nil, err
	}
	return &x.out.rep, x.out.commit()
}

func (x *exporter) write(ctx context.Context, to sink, columns []NodeColumn) error {
	if slices.Contains(x.o.What, Graph) {
		if err := x.writeEdges(to, "", x.m.Edges, func(emit func(*edgeBatch) error) error { return x.edges(ctx, emit) }); err != nil {
			return err
		}
		for _, l := range x.m.EdgeLists {
			if err := x.writeEdges(to, l.Name, l.Rows, func(emit func(*edgeBatch) error) error { return x.edgeList(ctx, l.Name, emit) }); err != nil {
				return err
			}
		}
	}
	if len(columns) == 0 && (!x.internal || !slices.Contains(x.o.What, Graph)) {
		return nil
	}
	n, err := to.nodes(columns)
	if err != nil {
		return err
	}
	return errors.Join(x.nodes(ctx, columns, n.add), n.close())
}

func (x *exporter) writeEdges(to sink, name string, rows uint64, stream func(emit func(*edgeBatch) error) error) error {
	e, err := to.edges(name, rows)
	if err != nil {
		return err
	}
	n := uint64(0)
	err = stream(func(b *edgeBatch) error {
		n += uint64(b.len())
		return e.add(b)
	})
	if err == nil && n != rows {
		err = fmt.Errorf("%w: %d edges in %q, the manifest says %d", store.ErrInvalid, n, name, rows)
	}
	return errors.Join(err, e.close())
}

// triples reports whether the store is a knowledge graph: then files have the form that
// is usual for these.
func (x *exporter) triples() bool {
	_, relation := x.edgeColumns()
	return x.m.Schema.Task == store.TaskLink && relation != nil
}

// relationNames lists the relations by id.
func (x *exporter) relationNames() []string {
	var names []string
	for _, r := range x.m.Schema.Relations {
		names = append(names, r.Name)
	}
	return names
}

// meta writes meta.json: what the data is of and how it is read back.
func (x *exporter) meta() error {
	meta := map[string]any{
		"nodes": x.m.Nodes, "edges": x.m.Edges, "undirected": x.m.Schema.Undirected, "classes": x.m.Schema.Classes,
		"ids": x.m.IDs.Kind, "version": x.m.Version, "format": x.o.Format, "ingest": "gstore ingest " + x.out.fs.PathBase(x.out.target) + " STORE",
	}
	if x.out.columns != nil {
		meta["columns"] = x.out.columns
	}
	if x.m.IDs.Kind == store.IDsDense && x.nodeFields == nil && x.out.columns == nil && !x.triples() { // nothing else says how many nodes there are
		meta["ingest"] = fmt.Sprint(meta["ingest"], " --num-nodes ", x.m.Nodes)
	}
	if x.m.Schema.Undirected && x.m.Ingest["dedup"] == "no" { // parallel edges stay
		meta["ingest"] = fmt.Sprint(meta["ingest"], " --dedup no")
	}
	labels := x.m.Labels() != nil && len(x.m.ColumnsOf(store.RoleSplit)) == 0 && slices.Contains(x.o.What, Labels)
	if labels || x.triples() && len(x.m.EdgeLists) == 0 { // and nothing divides them
		meta["ingest"] = fmt.Sprint(meta["ingest"], " --split-random none")
	}
	if x.edgeFields != nil {
		meta["edge_columns"] = x.edgeFields
	}
	if x.nodeFields != nil {
		meta["node_columns"] = x.nodeFields
	}
	standard := map[string]*store.Standard{}
	for _, c := range x.m.ColumnsOf(store.RoleFeature) {
		if c.Standard != nil {
			standard[c.Name] = c.Standard
		}
	}
	if len(standard) > 0 {
		meta["standard"] = standard
	}
	if _, numbered := x.m.Category(store.TypeColumn); numbered || len(x.m.Schema.NodeTypes) > 1 {
		types := map[string]string{}
		for _, c := range x.m.Columns {
			if c.NodeType != "" && !computed(&c) {
				types[c.Name] = c.NodeType
			}
		}
		meta["node_types"], meta["column_types"] = x.m.Schema.NodeTypes, types
	}
	if c := x.m.Labels(); c != nil {
		switch meta["labels"] = "classes"; { // what they were ingested as
		case c.Numbers:
			meta["labels"] = "numbers"
		case c.Sets != nil:
			meta["labels"] = "multi"
		}
	}
	if x.m.Schema.ClassNames != nil {
		meta["class_names"] = x.m.Schema.ClassNames
	}
	b, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return fmt.Errorf("encode meta.json: %w", err)
	}
	return x.out.text("meta.json", strings.Split(string(b), "\n"))
}

// fieldsOf says what columns of a table are: first those of its own, then one each, or as many as it has numbers.
func fieldsOf(own []string, spread bool, columns []NodeColumn) []string {
	for _, c := range columns {
		name := c.Name
		switch to := c.output(false); {
		case c.Role == store.RoleLabel:
			name = "label"
		case c.Role == store.RoleSplit && !strings.HasPrefix(name, "split"):
			return nil
		case c.Role == store.RoleSplit:
		case c.Role != store.RoleFeature && c.Role != store.RoleNode && !c.Role.OnEdges():
			name = "-"
		case strings.ContainsAny(name, ":*,\"") || name == "-" || slices.Contains(own, name):
			return nil
		case c.Role == store.RoleWeight || name == "timestamp":
		case c.Role == store.RoleNode && to == blocks.Uint32:
			name += ":" + blocks.Int64.String() // whole, of however many nodes
		case to == blocks.Float64 || to == blocks.Int32 || to == blocks.Int64:
			name += ":" + to.String()
		}
		if spread && c.Dim > 1 {
			name += fmt.Sprintf("*%d", c.Dim)
		}
		own = append(own, name)
	}
	return own
}

// edgeFieldsOf says what the columns of a table of edges are.
func (x *exporter) edgeFieldsOf(spread bool, columns []*store.ColumnInfo, relation bool) []string {
	own := []string{"src", "dst"}
	if relation {
		own = append(own, "relation")
	}
	var list []NodeColumn
	for _, c := range columns {
		list = append(list, NodeColumn{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim})
	}
	return fieldsOf(own, spread, list)
}

// tooSmall says which budget would do for need more bytes.
func (x *exporter) tooSmall(need int64) error {
	return fmt.Errorf("%w: %d MiB; the smallest that works is %dMiB", store.ErrBudget, x.o.MemoryBytes>>20, (2*need+x.fixedBytes()+1<<20-1)>>20)
}

func (x *exporter) phase(name, unit string, total int64) {
	x.name, x.unit, x.done, x.total = name, unit, 0, total
	x.tick(0)
}

func (x *exporter) tick(n int64) {
	x.done += n
	if x.o.Progress != nil {
		x.o.Progress(Progress{Phase: x.name, Unit: x.unit, Done: x.done, Total: x.total})
	}
}
