package formats

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
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
	// "timestamp"; "-" skips one. nil = src, dst.
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
	// SkipBadMax is how many malformed lines are skipped; one more fails. 0 = the first fails.
	SkipBadMax int64
	// OnBad, if not nil, is told of each skipped line; calls may be concurrent.
	OnBad func(error)
}

// edgeList is one or more text files with an edge on each line; lines that
// begin with # or % are comments.
type edgeList struct {
	fs     vfs.FS
	o      TextOptions
	desc   ingest.Description
	files  []string // of the topology
	lists  []string
	fields map[string]int // place of each named field
	need   int            // fields a line must have
	header []byte         // the header line, nil if there is none
	bad    atomic.Int64
}

func (s *edgeList) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *edgeList) Close() error { return nil }

// openEdgeList opens text files of edges.
func openEdgeList(fs vfs.FS, input string, files []string, o TextOptions) (*edgeList, error) {
	s := &edgeList{fs: fs, o: o, files: files, fields: map[string]int{}}
	s.desc = ingest.Description{Format: "edgelist", Input: input, Files: files, Nodes: -1, Edges: -1, IDs: o.IDs,
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	if o.Columns == nil {
		s.o.Columns = []string{"src", "dst"}
	}
	for i, name := range s.o.Columns {
		switch name {
		case "-":
			continue
		case "src", "dst", "relation", "weight", "timestamp":
		default:
			return nil, fmt.Errorf("%w: edge list field %q (known: src, dst, relation, weight, timestamp, -)", ingest.ErrOptions, name)
		}
		if _, twice := s.fields[name]; twice {
			return nil, fmt.Errorf("%w: edge list field %q named twice", ingest.ErrOptions, name)
		}
		s.fields[name], s.need = i, i+1
	}
	_, hasSrc := s.fields["src"]
	_, hasDst := s.fields["dst"]
	if !hasSrc || !hasDst {
		return nil, fmt.Errorf("%w: edge list fields %v lack src or dst", ingest.ErrOptions, s.o.Columns)
	}
	_, s.desc.HasRelation = s.fields["relation"]
	if _, ok := s.fields["weight"]; ok {
		s.desc.EdgeColumns = append(s.desc.EdgeColumns, ingest.ColumnSpec{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1})
	}
	if _, ok := s.fields["timestamp"]; ok {
		s.desc.EdgeColumns = append(s.desc.EdgeColumns, ingest.ColumnSpec{Name: "timestamp", Role: store.RoleEdge, Elem: blocks.Int64, Dim: 1})
	}
	return s, s.sniff()
}

// sniff looks at the first lines for delimiter, header and kind of ids.
func (s *edgeList) sniff() (err error) {
	f, err := open(s.fs, s.files[0])
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 64<<10)
	n := 0
	for n < len(buf) && err == nil {
		var k int
		k, err = f.Read(buf[n:])
		n += k
	}
	text := buf[:n]
	if n == len(buf) {
		text = buf[:bytes.LastIndexByte(buf, '\n')+1]
	}
	var first []byte
	integers, rows := true, 0
	var fields [][]byte
	for len(text) > 0 {
		var line []byte
		line, text = nextLine(text)
		if comment(line) {
			continue
		}
		if s.o.Delimiter == 0 {
			s.o.Delimiter = ' '
			if bytes.IndexByte(line, '\t') >= 0 {
				s.o.Delimiter = '\t'
			} else if bytes.IndexByte(line, ',') >= 0 {
				s.o.Delimiter = ','
			}
		}
		fields = s.split(fields[:0], line)
		if len(fields) < s.need {
			continue // an error when it is read in earnest
		}
		_, a := parseUint(fields[s.fields["src"]])
		_, b := parseUint(fields[s.fields["dst"]])
		if first == nil {
			first = bytes.Clone(line)
			if s.o.Header == nil && !(a && b) {
				continue // decided below: a header, if what follows are integers
			}
			if s.o.Header != nil && *s.o.Header {
				continue
			}
		}
		rows++
		integers = integers && a && b
	}
	if first != nil {
		fields = s.split(fields[:0], first)
		isHeader := s.o.Header != nil && *s.o.Header
		if s.o.Header == nil && len(fields) >= s.need {
			_, a := parseUint(fields[s.fields["src"]])
			_, b := parseUint(fields[s.fields["dst"]])
			isHeader = !a && !b && integers && rows > 0
			integers = integers && (isHeader || a && b)
		}
		if isHeader {
			s.header = first
		}
	}
	if s.desc.IDs == "" {
		s.desc.IDs = store.IDsStrings
		if integers && rows > 0 {
			s.desc.IDs = store.IDsIntegers
		}
	}
	return nil
}

func comment(line []byte) bool { return len(line) == 0 || line[0] == '#' || line[0] == '%' }

// split cuts a line into fields.
func (s *edgeList) split(fields [][]byte, line []byte) [][]byte {
	if s.o.Delimiter != ' ' {
		for {
			i := bytes.IndexByte(line, s.o.Delimiter)
			if i < 0 {
				return append(fields, bytes.TrimSpace(line))
			}
			fields = append(fields, bytes.TrimSpace(line[:i]))
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

// Edges implements ingest.Source.
func (s *edgeList) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	s.bad.Store(0)
	parsers := make([]lineParser, env.Threads)
	for k, path := range s.files {
		header := s.header
		if k > 0 && s.o.Header == nil {
			header = nil
		}
		err := parallelBlocks(ctx, env, s.fs, path, func(worker int, b textBlock) error {
			p := &parsers[worker]
			if err := s.parse(p, path, b, header); err != nil {
				return err
			}
			if p.batch.Len() == 0 {
				return nil
			}
			return emit(worker, &p.batch)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lineParser is a worker's room.
type lineParser struct {
	batch  ingest.EdgeBatch
	lines  []uint64
	fields [][]byte
}

// parse turns a block into a batch.
func (s *edgeList) parse(p *lineParser, path string, b textBlock, header []byte) error {
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
	fast := s.need == 2 && s.desc.IDs != store.IDsStrings && s.fields["src"] == 0 && s.o.Delimiter != 0
	number := b.line
	for rest := b.data; len(rest) > 0; number++ {
		if fast {
			if n, src, dst := twoInts(rest, s.o.Delimiter); n > 0 {
				e.Src.Ints, e.Dst.Ints = append(e.Src.Ints, src), append(e.Dst.Ints, dst)
				p.lines = append(p.lines, number)
				rest = rest[n:]
				continue
			}
		}
		var line []byte
		line, rest = nextLine(rest)
		if comment(line) || header != nil && bytes.Equal(line, header) {
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
		return fmt.Errorf("column %d: the line has %d fields, expected %d (%v)", len(line)+1, len(f), s.need, s.o.Columns)
	}
	column := func(name string) int { // for messages: from 1, in bytes
		k := s.fields[name]
		return cap(line) - cap(f[k]) + 1
	}
	src, dst := f[s.fields["src"]], f[s.fields["dst"]]
	var a, b uint64
	if s.desc.IDs != store.IDsStrings {
		var ok bool
		if a, ok = parseUint(src); !ok {
			return fmt.Errorf("column %d: %.40q is no node id (an integer ≥ 0)", column("src"), src)
		}
		if b, ok = parseUint(dst); !ok {
			return fmt.Errorf("column %d: %.40q is no node id (an integer ≥ 0)", column("dst"), dst)
		}
	} else if len(src) == 0 || len(dst) == 0 {
		return fmt.Errorf("column %d: empty node id", min(column("src"), column("dst")))
	}
	var numbers [2]uint64
	for c, spec := range s.desc.EdgeColumns {
		text := f[s.fields[spec.Name]]
		if spec.Elem == blocks.Int64 {
			x, err := strconv.ParseInt(string(text), 10, 64)
			if err != nil {
				return fmt.Errorf("column %d: %.40q is no timestamp (an integer)", column(spec.Name), text)
			}
			numbers[c] = uint64(x)
			continue
		}
		x, err := strconv.ParseFloat(string(text), 32)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("column %d: %.40q is no finite number", column(spec.Name), text)
		}
		numbers[c] = uint64(math.Float32bits(float32(x)))
	}
	e := &p.batch
	for c, spec := range s.desc.EdgeColumns {
		if spec.Elem == blocks.Int64 {
			e.Columns[c] = binary.LittleEndian.AppendUint64(e.Columns[c], numbers[c])
		} else {
			e.Columns[c] = binary.LittleEndian.AppendUint32(e.Columns[c], uint32(numbers[c]))
		}
	}
	if s.desc.IDs == store.IDsStrings {
		e.Src.Append(src)
		e.Dst.Append(dst)
	} else {
		e.Src.Ints, e.Dst.Ints = append(e.Src.Ints, a), append(e.Dst.Ints, b)
	}
	if s.desc.HasRelation {
		e.RelationNames.Append(f[s.fields["relation"]])
	}
	return nil
}

// EdgeList implements ingest.Source.
func (s *edgeList) EdgeList(ctx context.Context, _ ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	var p lineParser
	return serialBlocks(ctx, s.fs, s.lists[l], func(b textBlock) error {
		if err := s.parse(&p, s.lists[l], b, nil); err != nil || p.batch.Len() == 0 {
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
	s, err := openEdgeList(fs, path, []string{train}, o)
	if err != nil {
		return nil, err
	}
	s.lists, s.desc.EdgeLists = lists, names
	s.desc.Files = append([]string{train}, lists...)
	s.desc.Format, s.desc.Task = "triples", store.TaskLink
	return s, nil
}
