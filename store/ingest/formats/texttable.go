package formats

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// textTable is a CSV or TSV file of rows. Its first line names the columns; where
// TextOptions.NodeColumns does, there may be no such line: it is one if it
// has text where other lines have numbers, or names the ids.
type textTable struct {
	fs     vfs.FS
	path   string
	o      TextOptions
	text   dialect
	cols   []tableColumn
	begin  uint64 // the first line that is no comment
	header uint64 // line; 0 = none
	used   []wantColumn
	bad    atomic.Int64
}

// openTextTable learns columns and dialect from the first lines.
func openTextTable(fs vfs.FS, path string, o TextOptions) (*textTable, error) {
	o.Delimiter = 0 // the edges' need not be the table's
	s, err := sampleText(fs, path, &o)
	if err != nil {
		return nil, err
	}
	if s.first == 0 {
		return nil, ingest.Inputf(path, "empty, expected a line that names the columns")
	}
	if s.delimiter == ' ' { // a table of one column, or one whose names have blanks
		o.Delimiter = ','
		if s, err = sampleText(fs, path, &o); err != nil {
			return nil, err
		}
	}
	t := &textTable{fs: fs, path: path, o: o, text: s.dialect, cols: s.cols, begin: s.first}
	if o.NodeColumns == nil || s.unlike() >= 0 || slices.ContainsFunc(s.names, func(n string) bool { return slices.Contains(idNames, strings.ToLower(n)) }) {
		t.header = s.first
	}
	return t, nil
}

func (t *textTable) where() string          { return t.path }
func (t *textTable) columns() []tableColumn { return t.cols }

// use implements table.
func (t *textTable) use(want []wantColumn) { t.used = append(t.used, want...) }

// read implements table.
func (t *textTable) read(ctx context.Context, _ ingest.Env, want []wantColumn, emit func(*tableBatch) error) error {
	t.bad.Store(0)
	b := &tableBatch{numbers: make([][]byte, len(want)), text: make([]ingest.IDs, len(want))}
	b.at = ingest.Position{File: t.path, Unit: "line"}
	bits, spare := make([]uint64, len(want)), make([]uint64, len(t.used))
	var fields [][]byte
	return serialBlocks(ctx, t.fs, t.path, t.text, func(block textBlock) error {
		b.rows, b.at.Lines = 0, b.at.Lines[:0]
		for c := range want {
			b.text[c].Reset()
			if b.numbers[c] = b.numbers[c][:0]; want[c].elem != blocks.Invalid && b.numbers[c] == nil {
				b.numbers[c] = []byte{}
			}
		}
		number := block.line
		for rest := block.data; len(rest) > 0; {
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
			b.add(fields, want, bits)
			b.at.Lines = append(b.at.Lines, number)
		}
		if b.rows == 0 {
			return nil
		}
		return emit(b)
	})
}

// add appends a row that line has parsed.
func (b *tableBatch) add(fields [][]byte, want []wantColumn, bits []uint64) {
	b.rows++
	for c, w := range want {
		switch w.elem.Size() {
		case 8:
			b.numbers[c] = binary.LittleEndian.AppendUint64(b.numbers[c], bits[c])
		case 4:
			b.numbers[c] = binary.LittleEndian.AppendUint32(b.numbers[c], uint32(bits[c]))
		case 1:
			b.numbers[c] = append(b.numbers[c], byte(bits[c]))
		default:
			b.text[c].Append(fields[w.at])
		}
	}
}

// line parses the wanted fields of a row.
func (t *textTable) line(line []byte, fields [][]byte, want []wantColumn, bits []uint64) error {
	if len(fields) != len(t.cols) {
		return fmt.Errorf("column %d: the line has %d fields, expected %d", len(line)+1, len(fields), len(t.cols))
	}
	for c, w := range want {
		text := fields[w.at]
		bad := func(expected string) error {
			return fmt.Errorf("column %d: %.40q is no %s (%s)", columnOf(line, text), text, expected, t.cols[w.at].name)
		}
		var err error
		ok := true
		switch w.elem {
		case blocks.Invalid:
		case blocks.Uint64:
			if bits[c], ok = parseID(text); !ok {
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
			case missingText(text):
			case w.days:
				seconds, err := parseTime(text)
				if err != nil {
					return fmt.Errorf("column %d: %w (%s)", columnOf(line, text), err, t.cols[w.at].name)
				}
				x = float64(int64(seconds)) / (24 * 60 * 60)
			case t.cols[w.at].boolean:
				if x, ok = parseBool(text); !ok {
					return bad("True or False")
				}
			default:
				if x, err = strconv.ParseFloat(string(text), 64); err != nil || math.IsInf(x, 0) {
					return bad("finite number")
				}
			}
			bits[c] = math.Float64bits(x)
		case blocks.Float32:
			if missingText(text) {
				bits[c] = uint64(math.Float32bits(float32(math.NaN())))
				break
			}
			if x, ok := parseBool(text); ok && t.cols[w.at].boolean {
				bits[c] = uint64(math.Float32bits(float32(x)))
				break
			}
			fallthrough
		default:
			if bits[c], err = parseNumber(text, w.elem); err != nil {
				return fmt.Errorf("column %d: %w (%s)", columnOf(line, text), err, t.cols[w.at].name)
			}
		}
	}
	return nil
}
