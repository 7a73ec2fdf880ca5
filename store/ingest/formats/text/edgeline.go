package text

import (
	"encoding/binary"
	"fmt"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// lineParser is a worker's room.
type lineParser struct {
	batch   ingest.EdgeBatch
	lines   []uint64
	fields  [][]byte
	numbers []uint64 // bits of a line's values
}

// parse turns a block into a batch.
func (s *EdgeLines) parse(p *lineParser, path string, b Block) error {
	e := &p.batch
	e.Src.Reset()
	e.Dst.Reset()
	e.RelationNames.Reset()
	if len(e.Columns) != len(s.Desc.EdgeColumns) {
		e.Columns = make([][]byte, len(s.Desc.EdgeColumns))
	}
	for c := range e.Columns {
		e.Columns[c] = e.Columns[c][:0]
	}
	p.lines = p.lines[:0]
	header := s.headers[path]
	begin := s.begins[path]
	fast := s.need == 2 && s.width == 2 && s.src == 0 && s.Desc.IDs != store.IDsStrings
	number := b.Line
	for rest := b.Data; len(rest) > 0; {
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
	e.At = ingest.Position{File: path, Unit: "line", Index: b.Line, Lines: p.lines}
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
	if i == 0 || i >= len(b) || b[i] != delimiter || delimiter == twoColons {
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

// Line parses one edge; on an error nothing is added.
func (s *EdgeLines) line(p *lineParser, line []byte) error {
	var err error
	if p.fields, err = s.text.split(p.fields[:0], line); err != nil {
		return err
	}
	f := p.fields
	if len(f) < s.need || s.width != table.AnyWidth && len(f) > s.width {
		rest := ""
		if len(f) > s.width {
			rest = " (-* at the end of --columns leaves the rest out)"
		}
		return fmt.Errorf("column %d: the line has %d fields, expected %d%s", len(line)+1, len(f), max(s.need, s.width), rest)
	}
	src, dst := f[s.src], f[s.dst]
	var a, b uint64
	if s.Desc.IDs != store.IDsStrings {
		var ok bool
		if a, ok = table.ParseID(src); !ok {
			return fmt.Errorf("column %d: %.40q is no node id (an integer ≥ 0)", columnOf(line, src), src)
		}
		if b, ok = table.ParseID(dst); !ok {
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
		for k := range v.Dim {
			bits, err := table.ParseNumber(f[v.At+k], v.Elem)
			if err != nil && v.Name == "timestamp" {
				bits, err = table.ParseTime(f[v.At+k])
			}
			if err != nil {
				return fmt.Errorf("column %d: %w (%s)", columnOf(line, f[v.At+k]), err, v.Name)
			}
			p.numbers = append(p.numbers, bits)
		}
	}
	e, numbers := &p.batch, p.numbers
	for c, v := range s.values {
		for _, bits := range numbers[:v.Dim] {
			if v.Elem.Size() == 8 {
				e.Columns[c] = binary.LittleEndian.AppendUint64(e.Columns[c], bits)
			} else {
				e.Columns[c] = binary.LittleEndian.AppendUint32(e.Columns[c], uint32(bits))
			}
		}
		numbers = numbers[v.Dim:]
	}
	if s.Desc.IDs == store.IDsStrings {
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
