package predict

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/tools/cli/command"
)

// Values of --format.
const (
	formatTable   = "table"
	formatCSV     = "csv"
	formatTSV     = "tsv"
	formatJSON    = "json"
	formatParquet = "parquet"
	formatSVG     = "svg" // a picture, of --explain
)

// formatOf is the format that a file's name says.
func formatOf(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		return formatCSV
	case ".tsv":
		return formatTSV
	case ".json", ".jsonl", ".ndjson":
		return formatJSON
	case ".parquet":
		return formatParquet
	case ".svg":
		return formatSVG
	}
	return formatTable
}

// knownEnding reports whether a file's name says its format, or says none.
func knownEnding(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return formatOf(path) != formatTable || slices.Contains([]string{"", ".txt", ".dat", ".out"}, ext)
}

// kind is what a column's values are.
type kind int

const (
	integers kind = iota // uint64
	numbers              // float32
	words                // string
)

// column is a column of what is written.
type column struct {
	name string
	kind kind
	wide int // at least so wide in a table; 0: left out of tables
}

// sink writes rows, a value a column each. Its close is called once, whatever failed.
type sink interface {
	row(values []any) error
	close() error
}

// rows is where rows go: a file or standard output, in some format.
type rows struct {
	sink
	n    int64
	file *command.File // nil: standard output
}

// open begins the output.
func (p *prediction) open(columns []column) (*rows, error) {
	r := &rows{}
	to := p.env.Stdout
	if p.out != "" {
		f, err := command.NewFile(p.out)
		if err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		r.file, to = f, f
	}
	var err error
	switch {
	case p.out == "" && p.env.JSON:
		r.sink = &eventSink{env: p.env, columns: columns}
	case p.format == formatCSV:
		r.sink, err = newCSV(to, ',', columns)
	case p.format == formatTSV:
		r.sink, err = newCSV(to, '\t', columns)
	case p.format == formatJSON:
		r.sink = &jsonSink{w: bufio.NewWriter(to), columns: columns}
	case p.format == formatParquet:
		r.sink = newParquet(to, columns)
	default:
		r.sink, err = newTable(to, columns)
	}
	if err != nil {
		return nil, errors.Join(err, r.end(err))
	}
	return r, nil
}

// add writes a row.
func (r *rows) add(values ...any) error {
	r.n++
	return r.row(values)
}

// end completes the output, or where err says that it failed removes what was written of a file.
func (r *rows) end(err error) error {
	if r.sink != nil {
		err = errors.Join(err, r.sink.close())
	}
	if r.file == nil {
		return err
	}
	return r.file.Finish(err)
}

// text is a value as text.
func text(v any) string {
	switch v := v.(type) {
	case uint64:
		return strconv.FormatUint(v, 10)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	}
	return v.(string)
}

// csvSink writes RFC 4180, with commas or tabs between fields.
type csvSink struct {
	w    *csv.Writer
	line []string
}

func newCSV(to io.Writer, between rune, columns []column) (*csvSink, error) {
	s := &csvSink{w: csv.NewWriter(to)}
	s.w.Comma = between
	for _, c := range columns {
		s.line = append(s.line, c.name)
	}
	return s, s.w.Write(s.line)
}

func (s *csvSink) row(values []any) error {
	for i, v := range values {
		s.line[i] = text(v)
	}
	return s.w.Write(s.line)
}

func (s *csvSink) close() error {
	s.w.Flush()
	return s.w.Error()
}

// jsonValue is a value in JSON, which has no NaN and no infinities.
func jsonValue(v any) any {
	if x, ok := v.(float32); ok && (math.IsNaN(float64(x)) || math.IsInf(float64(x), 0)) {
		return nil
	}
	return v
}

// jsonSink writes an object a line, its keys in the columns' order.
type jsonSink struct {
	w       *bufio.Writer
	columns []column
}

func (s *jsonSink) row(values []any) error {
	for i, v := range values {
		name, err := json.Marshal(s.columns[i].name)
		if err != nil {
			return err
		}
		b, err := json.Marshal(jsonValue(v))
		if err != nil {
			return err
		}
		begin := byte(',')
		if i == 0 {
			begin = '{'
		}
		_ = s.w.WriteByte(begin) // errors stay until Flush
		_, _ = s.w.Write(append(append(name, ':'), b...))
	}
	_, err := s.w.WriteString("}\n")
	return err
}

func (s *jsonSink) close() error { return s.w.Flush() }

// eventSink prints rows as events.
type eventSink struct {
	env     *command.Env
	columns []column
}

func (s *eventSink) row(values []any) error {
	f := map[string]any{}
	for i, v := range values {
		f[s.columns[i].name] = jsonValue(v)
	}
	s.env.Event("prediction", f)
	return nil
}

func (s *eventSink) close() error { return nil }

// tableSink writes columns under each other, for people.
type tableSink struct {
	w       *bufio.Writer
	columns []column
}

func newTable(to io.Writer, columns []column) (*tableSink, error) {
	s := &tableSink{w: bufio.NewWriter(to), columns: columns}
	names := make([]any, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return s, s.row(names)
}

func (s *tableSink) row(values []any) error {
	line := ""
	for i, v := range values {
		c := s.columns[i]
		if c.wide == 0 {
			continue
		}
		t := ""
		if x, ok := v.(float32); ok {
			t = fmt.Sprintf("%.4f", x)
		} else {
			t = text(v)
		}
		if line != "" {
			line += "  "
		}
		pad := strings.Repeat(" ", max(0, max(c.wide, len([]rune(c.name)))-len([]rune(t))))
		if c.kind == words {
			line += t + pad
		} else {
			line += pad + t
		}
	}
	_, err := s.w.WriteString(strings.TrimRight(line, " ") + "\n")
	return err
}

func (s *tableSink) close() error { return s.w.Flush() }

// parquetRows is how many rows a row group has: what the library keeps in memory is in proportion to it.
const parquetRows = 1 << 14

// parquetSink writes a Parquet file, compressed by Snappy.
type parquetSink struct {
	w       *parquet.GenericWriter[any]
	columns []column
	order   []int // where each column stands in the schema, which sorts them
	line    parquet.Row
	rows    int
}

func newParquet(to io.Writer, columns []column) *parquetSink {
	group := parquet.Group{}
	for _, c := range columns {
		group[c.name] = map[kind]parquet.Node{integers: parquet.Uint(64), numbers: parquet.Leaf(parquet.FloatType), words: parquet.String()}[c.kind]
	}
	s := &parquetSink{w: parquet.NewGenericWriter[any](to, parquet.NewSchema("gstore", group), parquet.Compression(&parquet.Snappy), parquet.CreatedBy("gstore", "", "")),
		columns: columns, order: make([]int, len(columns)), line: make(parquet.Row, len(columns))}
	for i, f := range group.Fields() {
		for k, c := range columns {
			if c.name == f.Name() {
				s.order[k] = i
			}
		}
	}
	return s
}

func (s *parquetSink) row(values []any) error {
	for i, v := range values {
		at := s.order[i]
		var x parquet.Value
		switch v := v.(type) {
		case uint64:
			x = parquet.Int64Value(int64(v))
		case float32:
			x = parquet.FloatValue(v)
		case string:
			x = parquet.ByteArrayValue([]byte(v))
		}
		s.line[at] = x.Level(0, 0, at)
	}
	if _, err := s.w.WriteRows([]parquet.Row{s.line}); err != nil {
		return err
	}
	if s.rows++; s.rows%parquetRows == 0 {
		return s.w.Flush()
	}
	return nil
}

func (s *parquetSink) close() error { return s.w.Close() }
