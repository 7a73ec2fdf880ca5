package parquet

import (
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Edges is a Parquet table of edges and what its columns mean.
type Edges struct {
	*Table
	IDs     store.IDKind
	want    []table.Want // src, dst, the relation if there is one, then those of specs
	Related bool
	Uses    []string // of cols
	Specs   []ingest.ColumnSpec
}

// OpenEdges works out what the columns of the table at path mean: by
// o.Columns, one for each in order, or else by name, others being features.
func OpenEdges(fs vfs.FS, path string, o table.Options) (*Edges, error) {
	t, err := Open(fs, path)
	if err != nil {
		return nil, err
	}
	e := &Edges{Table: t, IDs: o.IDs}
	fields, err := e.fields(&o)
	if err != nil {
		return nil, err
	}
	place := map[string]int{}
	var values []table.Field
	for _, f := range fields {
		switch f.Name {
		case "src", "dst", "relation":
			place[f.Name] = f.At
		default:
			values = append(values, f)
		}
	}
	src, hasSrc := place["src"]
	dst, hasDst := place["dst"]
	if !hasSrc || !hasDst {
		return nil, ingest.Inputf(path, "no columns of sources and destinations (%s) among %q; --columns names the columns in order", table.KnownEnds(), table.ColumnNames(e.cols))
	}
	id, err := e.idColumn(src, dst)
	if err != nil {
		return nil, err
	}
	e.want = []table.Want{{At: src, Elem: id}, {At: dst, Elem: id}}
	if rel, ok := place["relation"]; ok {
		e.Related, e.want = true, append(e.want, table.Want{At: rel})
	}
	for _, f := range values {
		e.want = append(e.want, table.Want{At: f.At, Elem: f.Elem})
		e.Specs = append(e.Specs, f.EdgeColumn())
	}
	return e, nil
}

// fields resolves names to columns; nil if sources or destinations have none.
func (e *Edges) fields(o *table.Options) (fields []table.Field, err error) {
	cols := e.Columns()
	if o.Columns == nil {
		fields, uses, _, err := table.EdgesByName(e, o)
		e.Uses = uses
		return fields, err
	}
	fields, _, width, err := table.ParseFields(o.Columns, table.EdgeFields)
	if err != nil {
		return nil, err
	}
	if width != table.AnyWidth && width != len(cols) {
		return nil, ingest.Inputf(e.Where(), "%d columns, %q; --columns says what %d are (- skips one, -* at the end all that follow)", len(cols), table.ColumnNames(cols), width)
	}
	for k := range fields {
		f := &fields[k]
		if f.At+f.Dim > len(cols) {
			return nil, ingest.Inputf(e.Where(), "%d columns, %q, expected %d (--columns)", len(cols), table.ColumnNames(cols), f.At+f.Dim)
		}
		if c := cols[f.At]; c.Strange != "" {
			return nil, ingest.Inputf(e.Where(), "column %q, the %s, is %s, expected numbers or strings", c.Name, f.Name, c.Strange)
		}
		if f.Dim > 1 {
			return nil, fmt.Errorf("%w: field %s: a column of Parquet is one field; a list has its own length", ingest.ErrOptions, f.Name)
		}
	}
	e.Uses = table.FieldUses(fields, len(cols))
	for k := range fields {
		if f := &fields[k]; !slices.Contains(table.EdgeFields[:3], f.Name) {
			f.Dim = cols[f.At].Dim
		}
	}
	return fields, nil
}

// idColumn settles the kind of ids and returns the type in which they are read.
func (e *Edges) idColumn(src, dst int) (blocks.ElemType, error) {
	cols := e.Columns()
	for _, k := range []int{src, dst} {
		if cols[k].Dim != 1 || cols[k].List {
			return 0, ingest.Inputf(e.Where(), "column %q holds lists, expected node ids", cols[k].Name)
		}
	}
	if e.IDs == "" {
		e.IDs = store.IDsIntegers
		if cols[src].Text || cols[dst].Text {
			e.IDs = store.IDsStrings
		}
	}
	if e.IDs == store.IDsStrings {
		return blocks.Invalid, nil
	}
	for _, k := range []int{src, dst} {
		if cols[k].Text {
			return 0, ingest.Inputf(e.Where(), "column %q holds strings, expected integers (--ids %s)", cols[k].Name, e.IDs)
		}
	}
	return blocks.Uint64, nil
}

// Stream streams the rows of all threads.
func (e *Edges) Stream(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	batches := make([]ingest.EdgeBatch, env.Threads)
	return e.readParallel(ctx, env, e.want, func(worker int, b *table.Batch) error {
		if err := e.batch(b, &batches[worker]); err != nil {
			return err
		}
		return emit(worker, &batches[worker])
	})
}

// InOrder streams the rows in order.
func (e *Edges) InOrder(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
	var batch ingest.EdgeBatch
	return e.Read(ctx, env, e.want, func(b *table.Batch) error {
		if err := e.batch(b, &batch); err != nil {
			return err
		}
		return emit(&batch)
	})
}

// batch makes rows edges.
func (e *Edges) batch(b *table.Batch, out *ingest.EdgeBatch) error {
	out.At = b.At
	out.Src, out.Dst = *b.IDs(0, &out.Src), *b.IDs(1, &out.Dst)
	if e.IDs == store.IDsStrings {
		for i := range b.Rows {
			if len(out.Src.At(i)) == 0 || len(out.Dst.At(i)) == 0 {
				return ingest.Inputf(b.At.Of(i), "null or empty node id")
			}
		}
	}
	at := 2
	if e.Related {
		out.RelationNames = b.Text[2]
		at = 3
	}
	if out.Columns == nil {
		out.Columns = make([][]byte, len(e.Specs))
	}
	for c := range e.Specs {
		out.Columns[c] = b.Numbers[at+c]
	}
	return nil
}

// Ends are what the columns of sources and destinations are called.
func (e *Edges) Ends() [2]string {
	return [2]string{e.cols[e.want[0].At].Name, e.cols[e.want[1].At].Name}
}
