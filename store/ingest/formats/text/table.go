package text

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// textTable is a CSV or TSV file of rows. Its first line names the columns; where
// TextOptions.NodeColumns does, there may be no such line: it is one if it
// has text where other lines have numbers, or names the ids.
type textTable struct {
	fs     vfs.FS
	path   string
	o      table.Options
	text   Dialect
	cols   []table.Column
	begin  uint64 // the first line that is no comment
	header uint64 // line; 0 = none
	used   []table.Want
	bad    atomic.Int64
}

// OpenTable learns columns and dialect from the first lines.
func OpenTable(fs vfs.FS, path string, o table.Options) (*textTable, error) {
	o.Delimiter = 0 // the edges' need not be the table's
	s, err := sampleText(fs, path, &o)
	if err != nil {
		return nil, err
	}
	if s.first == 0 {
		return nil, ingest.Inputf(path, "empty, expected a line that names the columns")
	}
	if s.delimiter == ' ' && !s.commented { // a table of one column, or one whose names have blanks
		o.Delimiter = ','
		if s, err = sampleText(fs, path, &o); err != nil {
			return nil, err
		}
	}
	t := &textTable{fs: fs, path: path, o: o, text: s.Dialect, cols: s.cols, begin: s.first}
	if !s.commented && (o.NodeColumns == nil || s.unlike() >= 0 || slices.ContainsFunc(s.names, func(n string) bool { return slices.Contains(table.IdNames, strings.ToLower(n)) })) {
		t.header = s.first
	}
	return t, nil
}

// Where is the table's path.
func (t *textTable) Where() string { return t.path }

// Columns are what the first line names.
func (t *textTable) Columns() []table.Column { return t.cols }

// Use implements table.
func (t *textTable) Use(want []table.Want) { t.used = append(t.used, want...) }

// Read implements table.
func (t *textTable) Read(ctx context.Context, _ ingest.Env, want []table.Want, emit func(*table.Batch) error) error {
	t.bad.Store(0)
	b := &table.Batch{Numbers: make([][]byte, len(want)), Text: make([]ingest.IDs, len(want))}
	b.At = ingest.Position{File: t.path, Unit: "line"}
	bits, spare := make([]uint64, len(want)), make([]uint64, len(t.used))
	var fields [][]byte
	return SerialBlocks(ctx, t.fs, t.path, t.text, func(block Block) error {
		b.Rows, b.At.Lines = 0, b.At.Lines[:0]
		for c := range want {
			b.Text[c].Reset()
			if b.Numbers[c] = b.Numbers[c][:0]; want[c].Elem != blocks.Invalid && b.Numbers[c] == nil {
				b.Numbers[c] = []byte{}
			}
		}
		number := block.Line
		for rest := block.Data; len(rest) > 0; {
			var line []byte
			var lines uint64
			line, rest, lines, _ = t.text.next(rest)
			number += lines
			number := number - lines // of this record
			if number == t.header || len(line) == 0 || number < t.begin && comment(line) {
				continue
			}
			var err error
			if fields, err = t.text.split(fields[:0], line); err == nil {
				err = t.line(line, fields, want, bits)
			}
			if err == nil && t.o.SkipBadMax > 0 { // a line that is bad in another pass is bad in this one
				err = t.line(line, fields, t.used, spare)
			}
			if err != nil && comment(line) && len(fields) != len(t.cols) {
				continue
			}
			if err != nil {
				err = ingest.Inputf(fmt.Sprintf("%s: line %d", t.path, number), "%v", err)
				if t.bad.Add(1) > t.o.SkipBadMax {
					return err
				}
				if t.o.OnBad != nil {
					t.o.OnBad(err)
				}
				continue
			}
			b.Add(fields, want, bits)
			b.At.Lines = append(b.At.Lines, number)
		}
		if b.Rows == 0 {
			return nil
		}
		return emit(b)
	})
}

// Line parses the wanted fields of a row.
func (t *textTable) line(line []byte, fields [][]byte, want []table.Want, bits []uint64) error {
	if len(fields) != len(t.cols) {
		return fmt.Errorf("column %d: the line has %d fields, expected %d", len(line)+1, len(fields), len(t.cols))
	}
	for c, w := range want {
		text := fields[w.At]
		bad := func(expected string) error {
			return fmt.Errorf("column %d: %.40q is no %s (%s)", columnOf(line, text), text, expected, t.cols[w.At].Name)
		}
		var err error
		ok := true
		if w.Time {
			x, err := table.ParseRowTime(text)
			if err != nil {
				return fmt.Errorf("column %d: %w (%s)", columnOf(line, text), err, t.cols[w.At].Name)
			}
			bits[c] = uint64(x)
			continue
		}
		switch w.Elem {
		case blocks.Invalid:
		case blocks.Uint64:
			if bits[c], ok = table.ParseID(text); !ok {
				return bad("node id (an integer ≥ 0)")
			}
		case blocks.Uint8:
			switch strings.ToLower(string(text)) {
			case "1", "true", "t", "yes":
				bits[c] = 1
			case "0", "false", "f", "no", "":
				bits[c] = 0
			default:
				return bad("mask (0 or 1)")
			}
		case blocks.Float64:
			x := math.NaN() // no label, or a feature that is missing
			switch {
			case table.MissingText(text):
			case w.Days:
				seconds, err := table.ParseTime(text)
				if err != nil {
					return fmt.Errorf("column %d: %w (%s)", columnOf(line, text), err, t.cols[w.At].Name)
				}
				x = float64(int64(seconds)) / (24 * 60 * 60)
			case t.cols[w.At].Boolean:
				if x, ok = table.ParseBool(text); !ok {
					return bad("True or False")
				}
			default:
				if x, err = table.ParseFloat(text, 64); err != nil || math.IsInf(x, 0) {
					return bad("finite number")
				}
			}
			bits[c] = math.Float64bits(x)
		case blocks.Float32:
			if table.MissingText(text) {
				bits[c] = uint64(math.Float32bits(float32(math.NaN())))
				break
			}
			if x, ok := table.ParseBool(text); ok && t.cols[w.At].Boolean {
				bits[c] = uint64(math.Float32bits(float32(x)))
				break
			}
			fallthrough
		default:
			if bits[c], err = table.ParseNumber(text, w.Elem); err != nil {
				return fmt.Errorf("column %d: %w (%s)", columnOf(line, text), err, t.cols[w.At].Name)
			}
		}
	}
	return nil
}
