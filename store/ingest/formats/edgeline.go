package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

func comment(line []byte) bool { return len(line) == 0 || line[0] == '#' || line[0] == '%' }

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
	begin := s.begins[path]
	fast := s.need == 2 && s.width == 2 && s.src == 0 && s.desc.IDs != store.IDsStrings
	number := b.line
	for rest := b.data; len(rest) > 0; {
		if fast {
			if n, src, dst := twoInts(rest, s.text.delimiter); n > 0 && number != header {
				e.Src.Ints, e.Dst.Ints = append(e.Src.Ints, src), append(e.Dst.Ints, dst)
				p.lines = append(p.lines, number)
				rest = rest[n:]
				number++
				continue
			}
		}
		var line []byte
		var lines uint64
		line, rest, lines, _ = s.text.next(rest)
		number += lines
		number := number - lines // of this record
		if number == header || len(line) == 0 || number < begin && comment(line) {
			continue
		}
		if err := s.line(p, line); err != nil {
			if comment(line) {
				continue
			}
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
	var err error
	if p.fields, err = s.text.split(p.fields[:0], line); err != nil {
		return err
	}
	f := p.fields
	if len(f) < s.need || s.width != anyWidth && len(f) > s.width {
		return fmt.Errorf("column %d: the line has %d fields, expected %d", len(line)+1, len(f), max(s.need, s.width))
	}
	src, dst := f[s.src], f[s.dst]
	var a, b uint64
	if s.desc.IDs != store.IDsStrings {
		var ok bool
		if a, ok = parseID(src); !ok {
			return fmt.Errorf("column %d: %.40q is no node id (an integer ≥ 0)", columnOf(line, src), src)
		}
		if b, ok = parseID(dst); !ok {
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
			if err != nil && v.name == "timestamp" {
				bits, err = parseTime(f[v.at+k])
			}
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

// parseTime parses a date, with a time of day or without, as seconds since 1970; or an integer that has a fraction of 0.
func parseTime(text []byte) (uint64, error) {
	if x, ok := parseID(text); ok && x <= math.MaxInt64 {
		return x, nil
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return uint64(t.Unix()), nil
		}
	}
	return 0, fmt.Errorf("%.40q is no time: neither an integer nor a date as 2006-01-02 15:04:05", text)
}

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
