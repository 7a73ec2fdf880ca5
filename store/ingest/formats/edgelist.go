package formats

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
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

func comment(line []byte) bool { return len(line) == 0 || line[0] == '#' || line[0] == '%' }

// split cuts a line into fields.
func (s *edgeList) split(fields [][]byte, line []byte) [][]byte {
	return splitLine(fields, line, s.o.Delimiter)
}

// splitLine cuts a line into fields, without blanks around them; ' ' separates
// by runs of blanks and tabs.
func splitLine(fields [][]byte, line []byte, delimiter byte) [][]byte {
	if delimiter != ' ' {
		for {
			i := bytes.IndexByte(line, delimiter)
			if i < 0 {
				return append(fields, trim(line))
			}
			fields = append(fields, trim(line[:i]))
			line = line[i+1:]
		}
	}
	for i := 0; i < len(line); {
		for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
		from := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' {
			i++
		}
		if i > from {
			fields = append(fields, line[from:i])
		}
	}
	return fields
}

// trim cuts blanks off both ends. Unlike bytes.TrimSpace it keeps the place of
// a field that is empty, for messages.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
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

// lineParser is a worker's room.
type lineParser struct {
	batch   ingest.EdgeBatch
	lines   []uint64
	fields  [][]byte
	numbers []uint64 // bits of a line's values
}

// parse turns a block into a batch.
func (s *edgeList) parse(p *lineParser, path string, b textBlock) error {
	e := &p.batch
	e.Src.Reset()
	e.Dst.Reset()
	e.RelationNames.Reset()
	if len(e.Columns) != len(s.desc.EdgeColumns) {
		e.Columns = make([][]byte, len(s.desc.EdgeColumns))
	}
	for c := range e.Columns {
		e.Columns[c] = e.Columns[c][:0]
	}
	p.lines = p.lines[:0]
	header := s.headers[path]
	fast := s.need == 2 && s.src == 0 && s.desc.IDs != store.IDsStrings && s.o.Delimiter != 0
	number := b.line
	for rest := b.data; len(rest) > 0; number++ {
		if fast {
			if n, src, dst := twoInts(rest, s.o.Delimiter); n > 0 && number != header {
				e.Src.Ints, e.Dst.Ints = append(e.Src.Ints, src), append(e.Dst.Ints, dst)
				p.lines = append(p.lines, number)
				rest = rest[n:]
				continue
			}
		}
		var line []byte
		line, rest = nextLine(rest)
		if number == header || comment(line) {
			continue
		}
		if err := s.line(p, line); err != nil {
			err = ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%v", err)
			if s.bad.Add(1) > s.o.SkipBadMax {
				return err
			}
			if s.o.OnBad != nil {
				s.o.OnBad(err)
			}
			continue
		}
		p.lines = append(p.lines, number)
	}
	e.At = ingest.Position{File: path, Unit: "line", Index: b.line, Lines: p.lines}
	return nil
}

// twoInts parses "a<delimiter>b\n" at the front of b, the common line; it
// returns 0 for every other.
func twoInts(b []byte, delimiter byte) (n int, src, dst uint64) {
	i := 0
	for ; i < len(b) && i < 19; i++ {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		src = src*10 + uint64(d)
	}
	if i == 0 || i >= len(b) || b[i] != delimiter {
		return 0, 0, 0
	}
	i++
	from := i
	for ; i < len(b) && i < from+19; i++ {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		dst = dst*10 + uint64(d)
	}
	if i == from || i >= len(b) || b[i] != '\n' {
		return 0, 0, 0
	}
	return i + 1, src, dst
}

// line parses one edge; on an error nothing is added.
func (s *edgeList) line(p *lineParser, line []byte) error {
	p.fields = s.split(p.fields[:0], line)
	f := p.fields
	if len(f) < s.need {
		return fmt.Errorf("column %d: the line has %d fields, expected %d", len(line)+1, len(f), s.need)
	}
	src, dst := f[s.src], f[s.dst]
	var a, b uint64
	if s.desc.IDs != store.IDsStrings {
		var ok bool
		if a, ok = parseUint(src); !ok {
			return fmt.Errorf("column %d: %.40q is no node id (an integer ≥ 0)", columnOf(line, src), src)
		}
		if b, ok = parseUint(dst); !ok {
			return fmt.Errorf("column %d: %.40q is no node id (an integer ≥ 0)", columnOf(line, dst), dst)
		}
	} else if len(src) == 0 || len(dst) == 0 {
		empty := src
		if len(src) > 0 {
			empty = dst
		}
		return fmt.Errorf("column %d: empty node id", columnOf(line, empty))
	}
	p.numbers = p.numbers[:0]
	for _, v := range s.values {
		for k := range v.dim {
			bits, err := parseNumber(f[v.at+k], v.elem)
			if err != nil {
				return fmt.Errorf("column %d: %w (%s)", columnOf(line, f[v.at+k]), err, v.name)
			}
			p.numbers = append(p.numbers, bits)
		}
	}
	e, numbers := &p.batch, p.numbers
	for c, v := range s.values {
		for _, bits := range numbers[:v.dim] {
			if v.elem.Size() == 8 {
				e.Columns[c] = binary.LittleEndian.AppendUint64(e.Columns[c], bits)
			} else {
				e.Columns[c] = binary.LittleEndian.AppendUint32(e.Columns[c], uint32(bits))
			}
		}
		numbers = numbers[v.dim:]
	}
	if s.desc.IDs == store.IDsStrings {
		e.Src.Append(src)
		e.Dst.Append(dst)
	} else {
		e.Src.Ints, e.Dst.Ints = append(e.Src.Ints, a), append(e.Dst.Ints, b)
	}
	if s.rel >= 0 {
		e.RelationNames.Append(f[s.rel])
	}
	return nil
}

// columnOf is where a field, a part of line, begins, from 1, in bytes.
func columnOf(line, field []byte) int { return cap(line) - cap(field) + 1 }

// parseNumber parses a finite number as the bits of an elem.
func parseNumber(text []byte, elem blocks.ElemType) (uint64, error) {
	switch elem {
	case blocks.Int32, blocks.Int64:
		x, err := strconv.ParseInt(string(text), 10, 8*elem.Size())
		if err != nil {
			return 0, fmt.Errorf("%.40q is no integer of %d bits", text, 8*elem.Size())
		}
		return uint64(x), nil
	}
	x, err := strconv.ParseFloat(string(text), 8*elem.Size())
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%.40q is no finite number of %d bits", text, 8*elem.Size())
	}
	if elem == blocks.Float64 {
		return math.Float64bits(x), nil
	}
	return uint64(math.Float32bits(float32(x))), nil
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
