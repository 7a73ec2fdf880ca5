package database

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
)

// Source is a database that is read as a graph.
type Source struct {
	*parts.Source
	in     *input
	schema *Schema
	tables []*rows
	notes  []string
}

// Open opens a database and looks at its tables.
func Open(fs vfs.FS, path string, o Options) (_ *Source, err error) {
	ctx := context.Background()
	switch o.Dangling {
	case "", ingest.DanglingDrop, ingest.DanglingError, ingest.DanglingNode:
	default:
		return nil, fmt.Errorf("%w: rule for references that dangle %q (known: drop, error, node)", ingest.ErrOptions, string(o.Dangling))
	}
	s := &Source{Source: parts.New("database", path)}
	s.in, err = openInput(ctx, fs, path, &o)
	defer func() {
		if err != nil && s.in != nil {
			err = errors.Join(err, s.in.close())
		}
	}()
	if err != nil {
		return nil, err
	}
	if s.schema, err = s.in.schema(); err != nil {
		return nil, err
	}
	switch {
	case o.Dangling == "" && s.schema.implies():
		o.Dangling = ingest.DanglingNode
	case o.Dangling != "" && o.Dangling != ingest.DanglingNode && s.schema.implies():
		return nil, fmt.Errorf("%w: references that dangle are to be treated by rule %s, and the schema has implied tables, whose rows are what is referred to", ingest.ErrOptions, o.Dangling)
	}
	if o.Like != nil {
		if err := s.takeOver(); err != nil {
			return nil, err
		}
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if o.Dangling == "" {
		if o.Dangling = ingest.DanglingDrop; s.schema.implies() {
			o.Dangling = ingest.DanglingNode
		}
	}
	return s, s.describe(&o)
}

// Close implements [ingest.Source].
func (s *Source) Close() error { return s.in.close() }

// Schema is what the database was taken for, with the kind of every column.
func (s *Source) Schema() *Schema { return s.schema }

// open opens the tables, fills in what the schema does not say, and looks at their rows.
func (s *Source) open(ctx context.Context) error {
	where := s.in.path
	if s.in.o.Schema != "" {
		where = s.in.o.Schema
	}
	open, columns := map[string]table.Table{}, map[string][]table.Column{}
	timed := false
	for _, name := range s.schema.names() {
		if !s.there(name) {
			continue
		}
		t, err := s.in.table(ctx, name, s.schema.Tables[name])
		if err != nil {
			return err
		}
		open[name], columns[name] = t, t.Columns()
		timed = timed || s.schema.Tables[name].Time != ""
	}
	if s.in.o.Like == nil {
		if inferKeys(s.schema, columns) {
			implied, err := inferShared(ctx, s.schema, open, cmp.Or(s.in.o.Dangling, ingest.DanglingNode) == ingest.DanglingNode)
			if err != nil {
				return err
			}
			for _, name := range implied {
				s.notes = append(s.notes, fmt.Sprintf("there are ids of %s, which is no table: each is a node of that type (--dangling drop leaves them columns)", name))
			}
		}
	}
	if err := s.nameLabel(columns); err != nil {
		return err
	}
	for _, name := range s.schema.names() {
		if t := s.schema.Tables[name]; !timed && s.in.o.Like == nil {
			var others []string
			var err error
			if t.Time, others = inferTime(t, columns[name]); t.Time == "" && open[name] != nil {
				if t.Time, err = inferMoments(ctx, open[name]); err != nil {
					return err
				}
			}
			if t.Time == "" && len(others) > 0 {
				s.notes = append(s.notes, fmt.Sprintf("table %s has dates %q, none of which is taken for the time of its rows: they are known always (time: in a --schema names one)", name, others))
			}
		}
	}
	if err := s.schema.validate(where); err != nil {
		return err
	}
	for _, name := range s.schema.names() {
		said := s.schema.Tables[name]
		if !s.there(name) {
			continue
		}
		if s.in.o.Like != nil {
			said.forget(columns[name])
		}
		r, err := openRows(open[name], name, said, columns[name])
		if err != nil {
			return err
		}
		if s.in.o.Like != nil {
			if err := r.keepFresh(ctx, s.in.o); err != nil {
				return err
			}
			r.like(s.in.o.Like.Manifest())
		}
		if err := r.survey(ctx); err != nil {
			return err
		}
		kinds := map[string]Kind{}
		for k, c := range r.cols {
			if !r.isKey(k) && k != r.time {
				kinds[c.Name] = r.kinds[k]
			}
		}
		said.Columns = kinds
		s.tables = append(s.tables, r)
	}
	return nil
}

// describe makes the graph of the tables.
func (s *Source) describe(o *Options) error {
	d := &s.Desc
	s.AddFiles(s.in.files...)
	d.Keyed, d.Dangling, d.Edges, d.Notes = true, o.Dangling, 0, slices.Concat(s.schema.Notes, s.notes)
	timed := slices.ContainsFunc(s.schema.names(), func(name string) bool { return s.schema.Tables[name].Time != "" })
	if timed {
		d.EdgeColumns = []ingest.ColumnSpec{{Name: "timestamp", Role: store.RoleEdge, Elem: blocks.Int64, Dim: 1}}
	}
	for _, r := range s.tables {
		for k := range r.refs {
			d.Relations = append(d.Relations, r.refs[k].relation)
		}
	}
	if len(d.Relations) == 0 && o.Draft {
		d.Notes = append(d.Notes, "no table refers to another: say which columns hold the keys of others (key: of these, references: {columns: …, table: …} of those)")
		for _, r := range s.tables {
			s.tell(r)
		}
		return nil
	}
	if len(d.Relations) == 0 && o.Like == nil {
		return ingest.Inputf(d.Input, "no table refers to another: a schema says which columns hold the keys of others (--dry-run writes one to be edited)")
	}
	if err := tables.SetTypes(s.Source, d.Input, s.schema.names(), nil); err != nil {
		return err
	}
	if err := s.tellFresh(); err != nil {
		return err
	}
	if err := s.keepSchema(); err != nil {
		return err
	}
	d.HasRelation = true
	first := 0
	for _, r := range s.tables {
		s.EdgeStreams = append(s.EdgeStreams, r.edges(first, timed))
		s.IDStreams = append(s.IDStreams, r.keys())
		first += len(r.refs)
		for k := range r.refs {
			d.Edges += r.count - r.refs[k].nulls
			if n := r.refs[k].nulls; n > 0 {
				d.Notes = append(d.Notes, fmt.Sprintf("%d of %d rows of %s refer to none of %s (%q is empty)", n, r.count, r.name, r.refs[k].to, []string(r.said.References[k].Columns)))
			}
		}
		s.addColumns(r)
		s.tell(r)
	}
	return nil
}

// nameLabel makes the column that the options name one of labels.
func (s *Source) nameLabel(columns map[string][]table.Column) error {
	want := s.in.o.Label
	if want == "" {
		return nil
	}
	var found []string
	of, column, typed := strings.Cut(want, ".")
	for _, name := range s.schema.names() {
		for _, c := range table.ColumnNames(columns[name]) {
			if c == want || typed && name == of && c == column {
				found = append(found, name+"."+c)
			}
		}
	}
	switch {
	case len(found) == 0:
		return ingest.Inputf(s.in.path, "--label %s: no column is called so; expected TABLE.COLUMN, of tables %q", want, s.schema.names())
	case len(found) > 1:
		return ingest.Inputf(s.in.path, "--label %s: tables have several columns of that name: say one of %q", want, found)
	}
	if was := s.schema.label(); was != "" && was != found[0] {
		return ingest.Inputf(s.in.path, "--label %s: the schema says that %s is the label", want, was)
	}
	of, column, _ = strings.Cut(found[0], ".")
	t := s.schema.Tables[of]
	if t.Columns == nil {
		t.Columns = map[string]Kind{}
	}
	t.Columns[column] = Label
	return nil
}

// keepSchema makes the schema one that the store keeps.
func (s *Source) keepSchema() error {
	said := *s.schema
	said.Notes = nil
	var b bytes.Buffer
	err := said.Write(&b)
	s.Desc.Schema = b.String()
	return err
}

// keys streams the ids of a table's rows.
func (r *rows) keys() parts.IDs {
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		return r.read(ctx, env, nil, func(ids *ingest.IDs, b *table.Batch, _ int) error { return emit(ids, b.At) })
	}
}

// edges streams the references of a table's rows, which are relations first, first+1, …, with the time of the row.
func (r *rows) edges(first int, timed bool) parts.Edges {
	if len(r.refs) == 0 {
		return func(context.Context, ingest.Env, func(int, *ingest.EdgeBatch) error) error { return nil }
	}
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		var want []table.Want
		for _, f := range r.refs {
			want = append(want, texts(f.columns)...)
		}
		if r.time >= 0 {
			want = append(want, table.Want{At: r.time, Elem: blocks.Int64, Time: true})
		}
		e := &ingest.EdgeBatch{}
		var lines []uint64
		var times, id []byte
		return r.read(ctx, env, want, func(ids *ingest.IDs, b *table.Batch, at int) error {
			for k, f := range r.refs {
				e.Src.Reset()
				e.Dst.Reset()
				e.Relations, lines, times = e.Relations[:0], lines[:0], times[:0]
				for i := range b.Rows {
					var ok bool
					if id, ok = r.appendKey(id[:0], f.to, f.columns, b, at, i); !ok {
						continue
					}
					e.Src.Append(ids.At(i))
					e.Dst.Append(id)
					e.Relations, lines = append(e.Relations, uint32(first+k)), append(lines, b.At.Number(i))
					if r.time >= 0 {
						times = append(times, b.Numbers[len(b.Numbers)-1][8*i:8*i+8]...)
					} else if timed {
						times = binary.LittleEndian.AppendUint64(times, 1<<63) // the least time: it was always there
					}
				}
				at += len(f.columns)
				if e.Src.Len() == 0 {
					continue
				}
				e.At = ingest.Position{File: b.At.File, Unit: b.At.Unit, Index: b.At.Index, Lines: lines}
				if e.Columns = nil; timed {
					e.Columns = [][]byte{times}
				}
				if err := emit(0, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// tell says what became of a table's columns.
func (s *Source) tell(r *rows) {
	uses := make([]string, len(r.cols))
	for k, c := range r.cols {
		switch kind := r.kinds[k]; {
		case c.Strange != "":
			uses[k] = "left out: " + c.Strange
		case kind == Skip && r.stats[k].missing == r.count && !c.List:
			uses[k] = "left out: no values"
		case kind == Skip && r.stats[k].words && !c.List:
			uses[k] = "left out: text that names rows (kind text makes a feature of it)"
		case kind == Skip && r.stats[k].integers && isID(c.Name):
			uses[k] = "left out: an id is no quantity (kind number makes a feature of it)"
		case kind == Skip:
			uses[k] = "left out"
		default:
			uses[k] = r.use(k)
		}
	}
	for _, k := range r.key {
		uses[k] = "key"
	}
	for _, f := range r.refs {
		for _, k := range f.columns {
			if slices.Contains(r.key, k) {
				uses[k] += ", "
			} else {
				uses[k] = ""
			}
			uses[k] += fmt.Sprintf("reference to %s: relation %s", f.to, f.relation)
		}
	}
	if r.time >= 0 {
		uses[r.time] = "time of the row, as column " + r.name + store.TimeSuffix
		if n := r.stats[r.time].missing; n > 0 {
			uses[r.time] += fmt.Sprintf(" (%d have none, and are never known)", n)
		}
	}
	s.Desc.Uses = append(s.Desc.Uses, table.ColumnUses(r.Where(), table.ColumnNames(r.cols), uses)...)
}

// never is the time of a row whose time is missing: it is never known.
const never = math.MaxInt64
