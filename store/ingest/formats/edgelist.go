package formats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// TextOptions say how lines of an edge list are to be read. The zero value
// takes source and destination from the first two fields and detects the rest.
type TextOptions struct {
	// Columns names the fields in order: "src", "dst", "relation", "weight",
	// "timestamp"; "-" skips one, "-*N" N of them. Any other name is a numeric
	// feature of the edge: NAME or NAME:TYPE of one field, NAME*N or NAME:TYPE*N
	// of N fields. nil = as the first line names them, or src, dst.
	Columns []string
	// Delimiter separates fields; 0 = runs of blanks and tabs, or a comma
	// where the first line has one, or a tab where it has one.
	Delimiter byte
	// Header says that the first line that is no comment names fields and is no
	// edge; nil = it is one if ids are integers and the line's are not.
	Header *bool
	// IDs is the kind of node ids: dense integers (0 ≤ id, no gaps expected), any
	// integers, or strings; "" = integers if the first lines have them, else strings.
	IDs store.IDKind
	// NodeColumns names the columns of tables of nodes in order: "id", "label",
	// "split", "train_mask", "valid_mask", "test_mask", "-", or features as in
	// Columns. nil = by their names.
	NodeColumns []string
	// SkipBadMax is how many malformed lines are skipped; one more fails. 0 = the first fails.
	SkipBadMax int64
	// OnBad, if not nil, is told of each skipped line; calls may be concurrent.
	OnBad func(error)
}

// edgeList is a text file with an edge on each line, and others of the same
// form as edge lists; lines that begin with # or % are comments.
type edgeList struct {
	fs      vfs.FS
	o       TextOptions
	desc    ingest.Description
	path    string // of the topology
	lists   []string
	src     int               // place of each field; relation −1 = there is none
	dst     int               //
	rel     int               //
	values  []field           // of desc.EdgeColumns
	need    int               // fields a line must have
	headers map[string]uint64 // number, from 1, of the line of a file that names fields; 0 = none
	bad     atomic.Int64
}

func (s *edgeList) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *edgeList) Close() error { return nil }

// openEdgeList opens a text file of edges.
func openEdgeList(fs vfs.FS, path string, o TextOptions) (*edgeList, error) {
	s := &edgeList{fs: fs, path: path, headers: map[string]uint64{}}
	s.desc = ingest.Description{Format: "edgelist", Input: path, Files: []string{path}, Nodes: -1, Edges: -1, IDs: o.IDs,
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	if err := s.setOptions(o); err != nil {
		return nil, err
	}
	return s, s.sniff()
}

func (s *edgeList) setOptions(o TextOptions) error {
	columns := o.Columns
	if columns == nil {
		columns = []string{"src", "dst"}
	}
	s.o, s.src, s.dst, s.rel, s.values, s.desc.EdgeColumns = o, -1, -1, -1, nil, nil
	fields, need, err := parseFields(columns, edgeFields)
	if err != nil {
		return err
	}
	s.need = need
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

// sniff looks at the first lines for delimiter, header and kind of ids.
func (s *edgeList) sniff() (err error) {
	text, err := firstLines(s.fs, s.path)
	if err != nil {
		return err
	}
	s.sniffDelimiter(text)
	named, certain := []string(nil), false
	if s.o.Columns == nil && (s.o.Header == nil || *s.o.Header) {
		if named, certain = headerColumns(text, s.o.Delimiter); named != nil && (certain || s.o.Header != nil) {
			yes := true
			s.o.Header, s.o.Columns = &yes, named
			if err := s.setOptions(s.o); err != nil {
				return err
			}
		}
	}
	var fields [][]byte
	first := uint64(0)        // number of the first line with fields enough
	firstIsEdge := false      // it has two integers
	integers, rows := true, 0 // of the lines after it
	for number := uint64(1); len(text) > 0; number++ {
		var line []byte
		line, text = nextLine(text)
		if comment(line) {
			continue
		}
		fields = s.split(fields[:0], line)
		if len(fields) < s.need {
			continue // an error when it is read in earnest
		}
		_, a := parseUint(fields[s.src])
		_, b := parseUint(fields[s.dst])
		if first == 0 {
			first, firstIsEdge = number, a && b
			// one that has an integer in either place names no fields
			if a != b {
				integers = false
			}
			continue
		}
		rows++
		integers = integers && a && b
	}
	switch {
	case first == 0:
	case s.o.Header != nil:
		if *s.o.Header {
			s.headers[s.path] = first
		} else {
			rows, integers = rows+1, integers && firstIsEdge
		}
	case !firstIsEdge && integers && rows > 0:
		s.headers[s.path] = first
		if named != nil {
			s.o.Columns = named
			if err := s.setOptions(s.o); err != nil {
				return err
			}
		}
	default:
		rows, integers = rows+1, integers && firstIsEdge
	}
	if s.desc.IDs == "" {
		s.desc.IDs = store.IDsStrings
		if integers && rows > 0 {
			s.desc.IDs = store.IDsIntegers
		}
	}
	return nil
}

// sniffDelimiter takes it from the first line that is no comment.
func (s *edgeList) sniffDelimiter(text []byte) {
	for s.o.Delimiter == 0 && len(text) > 0 {
		var line []byte
		if line, text = nextLine(text); comment(line) {
			continue
		}
		s.o.Delimiter = ' '
		if bytes.IndexByte(line, '\t') >= 0 {
			s.o.Delimiter = '\t'
		} else if bytes.IndexByte(line, ',') >= 0 {
			s.o.Delimiter = ','
		}
	}
}

// addList makes path, a file of the same form, an edge list of the source.
func (s *edgeList) addList(name, path string) error {
	s.lists, s.desc.EdgeLists = append(s.lists, path), append(s.desc.EdgeLists, name)
	s.desc.Files = append(s.desc.Files, path)
	if s.headers[s.path] == 0 {
		return nil
	}
	text, err := firstLines(s.fs, path)
	if err != nil {
		return err
	}
	for number := uint64(1); len(text) > 0; number++ {
		var line []byte
		if line, text = nextLine(text); !comment(line) {
			s.headers[path] = number
			break
		}
	}
	return nil
}

// sniffBytes is how much of a text file is looked at to learn its form.
const sniffBytes = 64 << 10

// firstLines returns the first whole lines of a file, at most sniffBytes.
func firstLines(fs vfs.FS, path string) (_ []byte, err error) {
	f, err := open(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, sniffBytes)
	n, err := io.ReadFull(f, buf)
	switch {
	case err == nil:
		return buf[:bytes.LastIndexByte(buf, '\n')+1], nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return buf[:n], nil
	}
	return nil, err
}

// Edges implements ingest.Source.
func (s *edgeList) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	s.bad.Store(0)
	parsers := make([]lineParser, env.Threads)
	return parallelBlocks(ctx, env, s.fs, s.path, func(worker int, b textBlock) error {
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
	return serialBlocks(ctx, s.fs, s.lists[l], func(b textBlock) error {
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
	if o.Columns == nil {
		o.Columns = []string{"src", "relation", "dst"}
	}
	if o.Delimiter == 0 {
		o.Delimiter = '\t'
	}
	if o.IDs == "" {
		o.IDs = store.IDsStrings
	}
	no := false
	if o.Header == nil {
		o.Header = &no
	}
	s, err := openEdgeList(fs, train, o)
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
