package text

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// EdgeLines is a text file with an edge on each line, and others of the same
// form as edge lists. Lines that begin with # or % are comments: those before all others, and
// among these the ones that are no edge.
type EdgeLines struct {
	FS      vfs.FS
	o       table.Options
	Desc    ingest.Description
	Path    string // of the topology
	lists   []string
	src     int           // place of each field; relation −1 = there is none
	dst     int           //
	rel     int           //
	values  []table.Field // of desc.EdgeColumns
	need    int           // fields of a line that are looked at
	width   int           // fields of a line, or AnyWidth
	text    Dialect
	first   []string          // fields of the first line of path
	begins  map[string]uint64 // number of the first line of a file that is no comment
	headers map[string]uint64 // number, from 1, of the line of a file that names fields; 0 = none
	bad     atomic.Int64
}

// Describe implements ingest.Source.
func (s *EdgeLines) Describe() *ingest.Description { return &s.Desc }

// Close implements ingest.Source.
func (s *EdgeLines) Close() error { return nil }

// OpenEdgeLines opens a text file of edges.
func OpenEdgeLines(fs vfs.FS, path string, o table.Options) (*EdgeLines, error) {
	return OpenEdges(fs, path, o, []string{"src", "dst"})
}

// OpenEdges opens a text file of edges. Where neither o nor a header says what fields are, they are those of byPlace.
func OpenEdges(fs vfs.FS, path string, o table.Options, byPlace []string) (*EdgeLines, error) {
	s := &EdgeLines{FS: fs, Path: path, headers: map[string]uint64{}, begins: map[string]uint64{}}
	s.Desc = ingest.Description{Format: "edgelist", Input: path, Files: []string{path}, Nodes: -1, Edges: -1, IDs: o.IDs,
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	columns := o.Columns
	if columns == nil {
		columns = byPlace
	}
	if err := s.setFields(columns); err != nil {
		return nil, err
	}
	o.Lists = true
	t, err := sampleText(fs, path, &o)
	if err != nil {
		return nil, err
	}
	s.o, s.text = o, t.Dialect
	header, uses, err := s.settle(t, byPlace)
	if err != nil {
		return nil, err
	}
	s.begins[path], s.first = t.first, slices.Clone(t.names)
	if header {
		s.headers[path] = t.first
	}
	if s.Desc.IDs == "" {
		s.Desc.IDs = store.IDsStrings
		if t.integers(header || t.commented, s.src, s.dst) {
			s.Desc.IDs = store.IDsIntegers
		}
	}
	names := t.names
	if !header && !t.commented {
		for k := range names {
			names[k] = fmt.Sprintf("field %d", k+1)
		}
	}
	s.Desc.Uses = table.ColumnUses(path, names, uses)
	return s, nil
}

// setFields takes over what the fields of a line are.
func (s *EdgeLines) setFields(columns []string) error {
	fields, need, width, err := table.ParseFields(columns, table.EdgeFields)
	if err != nil {
		return err
	}
	s.need, s.width = need, width
	return s.place(fields, columns)
}

// place notes where fields are.
func (s *EdgeLines) place(fields []table.Field, columns []string) error {
	s.src, s.dst, s.rel, s.values, s.Desc.EdgeColumns, s.Desc.HasRelation = -1, -1, -1, nil, nil, false
	for _, f := range fields {
		switch f.Name {
		case "src":
			s.src = f.At
		case "dst":
			s.dst = f.At
		case "relation":
			s.rel, s.Desc.HasRelation = f.At, true
		default:
			s.values = append(s.values, f)
			s.Desc.EdgeColumns = append(s.Desc.EdgeColumns, f.EdgeColumn())
		}
	}
	if s.src < 0 || s.dst < 0 {
		return fmt.Errorf("%w: edge list fields %v lack src or dst", ingest.ErrOptions, columns)
	}
	return nil
}

// settle decides whether the first line is a header, and what fields are if nobody said it. Nothing is guessed: what can be read in
// two ways is refused, with the flags that say which. uses tells of each field what it became.
func (s *EdgeLines) settle(t *textSample, byPlace []string) (header bool, uses []string, err error) {
	where := fmt.Sprintf("%s: line %d", s.Path, t.first)
	meaning, named := table.EdgeMeanings(t.names, &s.o)
	told := s.o.Header
	maybe := false
	if named && told == nil && !t.commented {
		var nodes bool
		maybe, nodes = t.numbered(slices.Index(meaning, "src"), slices.Index(meaning, "dst"))
		named = !nodes
	}
	if s.o.Columns != nil {
		switch {
		case t.first == 0:
		case told != nil:
			header = *told
		default:
			header = s.headerOf(t, meaning, named && !maybe)
		}
		fields, _, _, _ := table.ParseFields(s.o.Columns, table.EdgeFields)
		return header, table.FieldUses(fields, len(t.names)), nil
	}
	switch {
	case t.first == 0: // empty
	case told != nil && !*told:
	case named:
		src, dst := slices.Index(meaning, "src"), slices.Index(meaning, "dst")
		if told == nil && !t.commented && t.among(src, dst) {
			return false, nil, ingest.Inputf(where, "%q may name columns or be an edge: nodes of these names are in the lines after it; say which with --header yes or --header no", t.names)
		}
		if maybe {
			return false, nil, ingest.Inputf(where, "%q may name columns or be an edge between two nodes of these names; say which with --header yes or --header no", t.names)
		}
		fields, uses, _, err := table.EdgesByName(t, &s.o)
		if err != nil {
			return false, nil, err
		}
		s.need, s.width, s.Desc.Undirected = len(t.names), len(t.names), t.undirected
		return !t.commented, uses, s.place(fields, nil)
	case table.TwiceNamed(t.names) != "": // a header that nobody meant, or a loop of a node of this name
		return false, nil, ingest.Inputf(where, "two columns are called %q; --columns says what each is, in order: src, dst, relation, weight, timestamp, - (skip) or a feature's name; if the line is an edge: --header no", table.TwiceNamed(t.names))
	case told != nil: // a header of other names
		if header = true; len(t.names) != len(byPlace) {
			return false, nil, ingest.Inputf(where, "no names of both ends among %q (%s); --columns says what they are, in order: src, dst, relation, weight, timestamp, - (skip) or a feature's name", t.names, table.KnownEnds())
		}
	default:
		if pairs := table.PairsOfEnds(t.names); len(pairs) > 1 {
			var may []string
			for _, p := range pairs {
				may = append(may, fmt.Sprintf("%q and %q", t.names[p[0]], t.names[p[1]]))
			}
			return false, nil, ingest.Inputf(where, "the columns of both ends may be %s; --columns says which, in order, as %s", strings.Join(may, ", or "), t.betweenColumns(pairs[0]))
		}
		if k := t.unlike(); k >= 0 || looksNamed(t.names) {
			return false, nil, ingest.Inputf(where, "%q looks like names of columns or is unlike the lines after it, and names of both ends are not among them (%s). If it is a header, say what it names: --header yes --columns %s; if it is an edge: --header no",
				t.names, table.KnownEnds(), suggestion(t, byPlace))
		}
	}
	if !header && s.likeTriples(t) {
		byPlace = triplePlaces
		if err := s.setFields(byPlace); err != nil {
			return false, nil, err
		}
	}
	if n := len(t.names); n != len(byPlace) && t.first != 0 {
		if n < len(byPlace) {
			return false, nil, ingest.Inputf(where, "%d field, expected %d (%s); --delimiter says what separates them", n, len(byPlace), strings.Join(byPlace, ", "))
		}
		columns, more := suggestion(t, byPlace), ""
		if rest, ok := strings.CutPrefix(columns, "src,dst,"); ok {
			more = "; where users and items, or the like, are numbered by themselves, name their types: --columns user_id,item_id," + rest
		}
		if columns == relationBetween && s.text.delimiter == '\t' {
			more = "; --format triples takes it for a knowledge graph, whose edges are predicted"
		}
		return false, nil, ingest.Inputf(where, "%d fields, of which %d are left over; say what each is with --columns, such as --columns %s, or leave the rest out with --columns %s,-*%s",
			n, n-len(byPlace), columns, strings.Join(byPlace, ","), more)
	}
	fields, _, _, _ := table.ParseFields(byPlace, table.EdgeFields)
	return header, table.FieldUses(fields, len(t.names)), nil
}

// triplePlaces are the fields of a line of head, relation and tail.
var triplePlaces = []string{"src", "relation", "dst"}

// likeTriples reports whether the file, which does not say what its fields are, has three of which the second is a relation of the store
// that its edges are added to.
func (s *EdgeLines) likeTriples(t *textSample) bool {
	if s.o.Like == nil || len(t.names) != len(triplePlaces) || table.IsNumber([]byte(t.names[1])) { // a node's id, too
		return false
	}
	_, err := s.o.Like.Schema.RelationNamed(t.names[1])
	return err == nil
}

// headerOf reports whether the first line is a header, where --columns says what fields are: it names the ends, or has
// text where the other lines have numbers.
func (s *EdgeLines) headerOf(t *textSample, meaning []string, named bool) bool {
	if len(t.names) < s.need {
		return false // an error when it is read in earnest
	}
	if named && meaning[s.src] == "src" && meaning[s.dst] == "dst" && !t.among(s.src, s.dst) {
		return true
	}
	text := func(k int) bool {
		c := t.cols[k]
		return !table.IsNumber([]byte(t.names[k])) && !table.IsDate(t.names[k]) && (!c.Text || c.Date) && !c.Empty
	}
	for _, f := range s.values {
		if text(f.At) {
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

// relationBetween is --columns of three fields that may be triples.
const relationBetween = "src,relation,dst"

// featuresListed is how many features without names a suggestion has one by one.
const featuresListed = 8

// suggestion is what --columns might say.
func suggestion(t *textSample, byPlace []string) string {
	out := slices.Clone(byPlace)
	named := t.unlike() >= 0
	for k := len(byPlace); k < len(t.names); k++ {
		c, numbers := t.cols[k], k
		for !named && numbers < len(t.cols) && !t.cols[numbers].Text {
			numbers++
		}
		if (c.Date || t.moments(k)) && !slices.Contains(out, "timestamp") {
			out = append(out, "timestamp")
		} else if numbers-k > featuresListed {
			out = append(out, fmt.Sprintf("x*%d", numbers-k))
			k = numbers - 1
		} else if c.Text || c.Empty && !table.IsNumber([]byte(c.Name)) {
			out = append(out, "-")
		} else if named && !strings.ContainsAny(c.Name, ",:*") {
			out = append(out, c.Name)
		} else if k == len(byPlace) && !slices.Contains(out, "weight") {
			out = append(out, "weight")
		} else {
			out = append(out, fmt.Sprintf("f%d", k+1))
		}
	}
	if len(byPlace) == 2 && len(t.names) == 3 && t.cols[1].Text && !t.cols[2].Empty && !slices.Contains(out, "timestamp") {
		return relationBetween
	}
	return strings.Join(out, ",")
}

// betweenColumns is what --columns might say of a header whose ends are at two places.
func (t *textSample) betweenColumns(ends [2]int) string {
	out := make([]string, len(t.names))
	related, timed := false, false
	for k, n := range t.names {
		c := t.cols[k]
		switch {
		case k == ends[0]:
			out[k] = "src"
		case k == ends[1]:
			out[k] = "dst"
		case slices.Contains(parts.RelationNames, strings.ToLower(n)) && !related:
			out[k], related = "relation", true
		case c.Date && !timed:
			out[k], timed = "timestamp", true
		case c.Text || c.Empty || table.IsID(n) || strings.ContainsAny(n, ",:*"):
			out[k] = "-"
		default:
			out[k] = n
		}
	}
	for len(out) > 1 && out[len(out)-1] == "-" && out[len(out)-2] == "-" {
		out = out[:len(out)-1]
	}
	if out[len(out)-1] == "-" {
		out[len(out)-1] = "-*"
	}
	return strings.Join(out, ",")
}

// AddList makes path, a file of the same form, an edge list of the source. Where
// the first file has a header, it must have the same one.
func (s *EdgeLines) AddList(name, path string) error {
	s.lists, s.Desc.EdgeLists = append(s.lists, path), append(s.Desc.EdgeLists, name)
	s.Desc.Files = append(s.Desc.Files, path)
	o := s.o
	o.Delimiter, o.Quotes = s.text.delimiter, &s.text.quotes
	t, err := sampleText(s.FS, path, &o)
	if err != nil {
		return err
	}
	if s.begins[path] = t.first; t.first == 0 {
		return nil
	}
	switch header := s.headers[s.Path]; {
	case header != 0 && !slices.EqualFunc(t.names, s.first, strings.EqualFold):
		return ingest.Inputf(fmt.Sprintf("%s: line %d", path, t.first), "%q, expected the header of %s, %q", t.names, s.Path, s.first)
	case header != 0:
		s.headers[path] = t.first
	case s.o.Header == nil && !t.commented && slices.Equal(t.names, s.first):
		return ingest.Inputf(fmt.Sprintf("%s: line %d", path, t.first), "%q is the first line of %s too: is it a header (--header yes) or an edge (--header no)?", t.names, s.Path)
	}
	return nil
}

// Edges implements ingest.Source.
func (s *EdgeLines) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	s.bad.Store(0)
	parsers := make([]lineParser, env.Threads)
	return parallelBlocks(ctx, env, s.FS, s.Path, s.text, func(worker int, b Block) error {
		p := &parsers[worker]
		if err := s.parse(p, s.Path, b); err != nil {
			return err
		}
		if p.batch.Len() == 0 {
			return nil
		}
		return emit(worker, &p.batch)
	})
}

// EdgeList implements ingest.Source.
func (s *EdgeLines) EdgeList(ctx context.Context, _ ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	var p lineParser
	return SerialBlocks(ctx, s.FS, s.lists[l], s.text, func(b Block) error {
		if err := s.parse(&p, s.lists[l], b); err != nil || p.batch.Len() == 0 {
			return err
		}
		return emit(&p.batch)
	})
}

// Rows implements ingest.Source: edge lists have no node columns.
func (s *EdgeLines) Rows(context.Context, ingest.Env, int, func([]byte, ingest.Position) error) error {
	return parts.ErrNone
}

// Split implements ingest.Source: edge lists have no splits.
func (s *EdgeLines) Split(context.Context, ingest.Env, int, uint8, func(*ingest.IDs, ingest.Position) error) error {
	return parts.ErrNone
}

// Names implements ingest.Source: the ids are the names.
func (s *EdgeLines) Names(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error {
	return parts.ErrNone
}

// Ends are what the fields of sources and destinations are called; "" where no line names them.
func (s *EdgeLines) Ends() (ends [2]string) {
	if len(s.first) > max(s.src, s.dst) {
		ends = [2]string{s.first[s.src], s.first[s.dst]}
	}
	return ends
}
