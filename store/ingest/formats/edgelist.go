package formats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// TextOptions say how text and tables are to be read. The zero value detects everything.
type TextOptions struct {
	// Columns names the fields of edges in order: "src", "dst", "relation", "weight",
	// "timestamp"; "-" skips one, "-*N" N of them, "-*" at the end all that follow. Any other name is a numeric
	// feature of the edge: NAME or NAME:TYPE of one field, NAME*N or NAME:TYPE*N
	// of N fields. nil = as the first line names them, or src, dst of two fields.
	Columns []string
	// Delimiter separates fields; 0 = the first of tab, comma, semicolon and bar that
	// the first line has, or else runs of blanks and tabs.
	Delimiter byte
	// Quotes says that fields in double quotes are what stands in them (RFC 4180), or that quotes
	// are text; nil = the former, but where tabs or blanks separate the latter (unless every field of the first line is in quotes).
	Quotes *bool
	// Header says that the first line that is no comment names fields and is no
	// edge; nil = it is one if it names both ends, or stands where --columns expects numbers.
	Header *bool
	// IDs is the kind of node ids: dense integers (0 ≤ id, no gaps expected), any
	// integers, or strings; "" = integers if the first lines have them, else strings.
	IDs store.IDKind
	// NodeColumns names the columns of tables of nodes in order: "id", "label",
	// "split", "train_mask", "valid_mask", "test_mask", "-", or features as in
	// Columns. nil = by their names.
	NodeColumns []string
	// Skip names columns of tables that are left out, Use columns of dates that are features.
	Skip, Use []string
	// Like, if not nil, is the version of a store that tables of nodes are added to: their text is coded as its classes and
	// features are, and the elements of features have its order.
	Like  *store.Manifest
	kind  string   // type of a table's nodes; "" = the one there is
	types []string // of tables' nodes, where they have types
	ends  []string // types of a table's sources and destinations, where its name says them; its relation then too
	// SkipBadMax is how many malformed lines are skipped; one more fails. 0 = the first fails.
	SkipBadMax int64
	// OnBad, if not nil, is told of each skipped line; calls may be concurrent.
	OnBad func(error)
}

// edgeList is a text file with an edge on each line, and others of the same
// form as edge lists. Lines that begin with # or % are comments: those before all others, and
// among these the ones that are no edge.
type edgeList struct {
	fs      vfs.FS
	o       TextOptions
	desc    ingest.Description
	path    string // of the topology
	lists   []string
	src     int     // place of each field; relation −1 = there is none
	dst     int     //
	rel     int     //
	values  []field // of desc.EdgeColumns
	need    int     // fields of a line that are looked at
	width   int     // fields of a line, or anyWidth
	text    dialect
	first   []string          // fields of the first line of path
	begins  map[string]uint64 // number of the first line of a file that is no comment
	headers map[string]uint64 // number, from 1, of the line of a file that names fields; 0 = none
	bad     atomic.Int64
}

func (s *edgeList) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *edgeList) Close() error { return nil }

// openEdgeList opens a text file of edges.
func openEdgeList(fs vfs.FS, path string, o TextOptions) (*edgeList, error) {
	return openEdgeText(fs, path, o, []string{"src", "dst"})
}

// openEdgeText opens a text file of edges. Where neither o nor a header says what fields are, they are those of byPlace.
func openEdgeText(fs vfs.FS, path string, o TextOptions, byPlace []string) (*edgeList, error) {
	s := &edgeList{fs: fs, path: path, headers: map[string]uint64{}, begins: map[string]uint64{}}
	s.desc = ingest.Description{Format: "edgelist", Input: path, Files: []string{path}, Nodes: -1, Edges: -1, IDs: o.IDs,
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	columns := o.Columns
	if columns == nil {
		columns = byPlace
	}
	if err := s.setFields(columns); err != nil {
		return nil, err
	}
	t, err := sampleText(fs, path, &o)
	if err != nil {
		return nil, err
	}
	s.o, s.text = o, t.dialect
	header, uses, err := s.settle(t, byPlace)
	if err != nil {
		return nil, err
	}
	s.begins[path], s.first = t.first, slices.Clone(t.names)
	if header {
		s.headers[path] = t.first
	}
	if s.desc.IDs == "" {
		s.desc.IDs = store.IDsStrings
		if t.integers(header, s.src, s.dst) {
			s.desc.IDs = store.IDsIntegers
		}
	}
	names := t.names
	if !header {
		for k := range names {
			names[k] = fmt.Sprintf("field %d", k+1)
		}
	}
	s.desc.Uses = columnUses(path, names, uses)
	return s, nil
}

// setFields takes over what the fields of a line are.
func (s *edgeList) setFields(columns []string) error {
	fields, need, width, err := parseFields(columns, edgeFields)
	if err != nil {
		return err
	}
	s.need, s.width = need, width
	return s.place(fields, columns)
}

// place notes where fields are.
func (s *edgeList) place(fields []field, columns []string) error {
	s.src, s.dst, s.rel, s.values, s.desc.EdgeColumns, s.desc.HasRelation = -1, -1, -1, nil, nil, false
	for _, f := range fields {
		switch f.name {
		case "src":
			s.src = f.at
		case "dst":
			s.dst = f.at
		case "relation":
			s.rel, s.desc.HasRelation = f.at, true
		default:
			s.values = append(s.values, f)
			s.desc.EdgeColumns = append(s.desc.EdgeColumns, f.edgeColumn())
		}
	}
	if s.src < 0 || s.dst < 0 {
		return fmt.Errorf("%w: edge list fields %v lack src or dst", ingest.ErrOptions, columns)
	}
	return nil
}

// settle decides whether the first line is a header, and what fields are if nobody said it. Nothing is guessed: what can be read in
// two ways is refused, with the flags that say which. uses tells of each field what it became.
func (s *edgeList) settle(t *textSample, byPlace []string) (header bool, uses []string, err error) {
	where := fmt.Sprintf("%s: line %d", s.path, t.first)
	meaning, named := edgeMeanings(t.names, &s.o)
	told := s.o.Header
	if s.o.Columns != nil {
		switch {
		case t.first == 0:
		case told != nil:
			header = *told
		default:
			header = s.headerOf(t, meaning)
		}
		fields, _, _, _ := parseFields(s.o.Columns, edgeFields)
		return header, fieldUses(fields, len(t.names)), nil
	}
	switch {
	case t.first == 0: // empty
	case told != nil && !*told:
	case named:
		if src, dst := slices.Index(meaning, "src"), slices.Index(meaning, "dst"); told == nil && t.among(src, dst) {
			return false, nil, ingest.Inputf(where, "%q may name columns or be an edge: nodes of these names are in the lines after it; say which with --header yes or --header no", t.names)
		}
		fields, uses, _, err := edgesByName(t, &s.o)
		if err != nil {
			return false, nil, err
		}
		s.need, s.width = len(t.names), len(t.names)
		return true, uses, s.place(fields, nil)
	case told != nil: // a header of other names
		if header = true; len(t.names) != len(byPlace) {
			return false, nil, ingest.Inputf(where, "no names of both ends among %q (%s); --columns says what they are, in order: src, dst, relation, weight, timestamp, - (skip) or a feature's name", t.names, knownEnds())
		}
	default:
		if k := t.unlike(); k >= 0 || looksNamed(t.names) {
			return false, nil, ingest.Inputf(where, "%q looks like names of columns or is unlike the lines after it, and names of both ends are not among them (%s). If it is a header, say what it names: --header yes --columns %s; if it is an edge: --header no",
				t.names, knownEnds(), suggestion(t, byPlace))
		}
	}
	if n := len(t.names); n != len(byPlace) && t.first != 0 {
		if n < len(byPlace) {
			return false, nil, ingest.Inputf(where, "%d field, expected %d (%s); --delimiter says what separates them", n, len(byPlace), strings.Join(byPlace, ", "))
		}
		return false, nil, ingest.Inputf(where, "%d fields, of which %d are left over; say what each is with --columns, such as --columns %s, or leave the rest out with --columns %s,-*",
			n, n-len(byPlace), suggestion(t, byPlace), strings.Join(byPlace, ","))
	}
	fields, _, _, _ := parseFields(byPlace, edgeFields)
	return header, fieldUses(fields, len(t.names)), nil
}

// headerOf reports whether the first line is a header, where --columns says what fields are: it names the ends, or has
// text where the other lines have numbers.
func (s *edgeList) headerOf(t *textSample, meaning []string) bool {
	if len(t.names) < s.need {
		return false // an error when it is read in earnest
	}
	if meaning[s.src] == "src" && meaning[s.dst] == "dst" && !t.among(s.src, s.dst) {
		return true
	}
	text := func(k int) bool { return !isNumber([]byte(t.names[k])) && !t.cols[k].text && !t.cols[k].empty }
	for _, f := range s.values {
		if text(f.at) {
			return true
		}
	}
	return text(s.src) && text(s.dst)
}

// looksNamed reports whether all fields of a line are words that people call columns of ids.
func looksNamed(names []string) bool {
	id := func(n string) bool {
		n = strings.ToLower(n)
		return n == "id" || strings.HasSuffix(n, "_id") || strings.HasSuffix(n, " id") || n == "name" || strings.HasSuffix(n, "_name")
	}
	return len(names) > 1 && id(names[0]) && id(names[1])
}

// suggestion is what --columns might say.
func suggestion(t *textSample, byPlace []string) string {
	out := slices.Clone(byPlace)
	for k := len(byPlace); k < len(t.names); k++ {
		if c := t.cols[k]; c.text || c.empty && !isNumber([]byte(c.name)) {
			out = append(out, "-")
		} else if t.unlike() >= 0 && !strings.ContainsAny(c.name, ",:*") {
			out = append(out, c.name)
		} else if k == len(byPlace) && !slices.Contains(out, "weight") {
			out = append(out, "weight")
		} else {
			out = append(out, fmt.Sprintf("f%d", k+1))
		}
	}
	if len(byPlace) == 2 && len(t.names) == 3 && t.cols[1].text && !t.cols[2].empty {
		return "src,relation,dst"
	}
	return strings.Join(out, ",")
}

// addList makes path, a file of the same form, an edge list of the source. Where
// the first file has a header, it must have the same one.
func (s *edgeList) addList(name, path string) error {
	s.lists, s.desc.EdgeLists = append(s.lists, path), append(s.desc.EdgeLists, name)
	s.desc.Files = append(s.desc.Files, path)
	o := s.o
	o.Delimiter, o.Quotes = s.text.delimiter, &s.text.quotes
	t, err := sampleText(s.fs, path, &o)
	if err != nil {
		return err
	}
	if s.begins[path] = t.first; t.first == 0 {
		return nil
	}
	switch header := s.headers[s.path]; {
	case header != 0 && !slices.EqualFunc(t.names, s.first, strings.EqualFold):
		return ingest.Inputf(fmt.Sprintf("%s: line %d", path, t.first), "%q, expected the header of %s, %q", t.names, s.path, s.first)
	case header != 0:
		s.headers[path] = t.first
	case s.o.Header == nil && slices.Equal(t.names, s.first):
		return ingest.Inputf(fmt.Sprintf("%s: line %d", path, t.first), "%q is the first line of %s too: is it a header (--header yes) or an edge (--header no)?", t.names, s.path)
	}
	return nil
}

// Edges implements ingest.Source.
func (s *edgeList) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	s.bad.Store(0)
	parsers := make([]lineParser, env.Threads)
	return parallelBlocks(ctx, env, s.fs, s.path, s.text, func(worker int, b textBlock) error {
		p := &parsers[worker]
		if err := s.parse(p, s.path, b); err != nil {
			return err
		}
		if p.batch.Len() == 0 {
			return nil
		}
		return emit(worker, &p.batch)
	})
}

// EdgeList implements ingest.Source.
func (s *edgeList) EdgeList(ctx context.Context, _ ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	var p lineParser
	return serialBlocks(ctx, s.fs, s.lists[l], s.text, func(b textBlock) error {
		if err := s.parse(&p, s.lists[l], b); err != nil || p.batch.Len() == 0 {
			return err
		}
		return emit(&p.batch)
	})
}

// Rows implements ingest.Source: edge lists have no node columns.
func (s *edgeList) Rows(context.Context, ingest.Env, int, func([]byte, ingest.Position) error) error {
	return errNothing
}

// Split implements ingest.Source: edge lists have no splits.
func (s *edgeList) Split(context.Context, ingest.Env, int, uint8, func(*ingest.IDs, ingest.Position) error) error {
	return errNothing
}

// Names implements ingest.Source: the ids are the names.
func (s *edgeList) Names(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error {
	return errNothing
}

// openTriples opens a folder of train, valid and test files of
// head<TAB>relation<TAB>tail names, or one such file.
func openTriples(fs vfs.FS, path string, o TextOptions) (ingest.Source, error) {
	train := path
	var lists, names []string
	if info, err := fs.Stat(path); err == nil && info.IsDir() {
		if train = find(fs, path, "train.tsv", "train.txt"); train == "" {
			return nil, ingest.Inputf(path, "no train.tsv (nor train.txt) of triples")
		}
		for _, part := range []string{"valid", "test"} {
			if f := find(fs, path, part+".tsv", part+".txt"); f != "" {
				lists, names = append(lists, f), append(names, part)
			}
		}
	}
	if o.Delimiter == 0 {
		o.Delimiter = '\t'
	}
	if o.IDs == "" {
		o.IDs = store.IDsStrings
	}
	s, err := openEdgeText(fs, train, o, []string{"src", "relation", "dst"})
	if err != nil {
		return nil, err
	}
	for k, list := range lists {
		if err := s.addList(names[k], list); err != nil {
			return nil, err
		}
	}
	s.desc.Format, s.desc.Input, s.desc.Task = "triples", path, store.TaskLink
	return s, nil
}
