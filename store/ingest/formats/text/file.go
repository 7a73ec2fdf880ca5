package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
)

// sniffBytes is how much of a text file is looked at to learn its form; where lines are long so much more, up to sniffBytesMax, that
// sniffLines of them are seen.
const (
	sniffBytes    = 64 << 10
	sniffBytesMax = 16 << 20
	sniffLines    = 8
)

// utf8Mark is a byte order mark, which Windows programs put before UTF-8.
var utf8Mark = []byte("\xef\xbb\xbf")

// openText opens a text file for reading front to back, unpacked. A byte order mark
// is left out, and lines that end with a carriage return alone (old Macs, Excel's "CSV (Macintosh)")
// end with a line feed. UTF-16 is refused.
func openText(fs vfs.FS, path string) (io.ReadCloser, error) {
	f, err := files.Open(fs, path)
	if err != nil {
		return nil, err
	}
	if isJSON(path) {
		f = newJSONRows(f, path)
	}
	head := make([]byte, sniffBytes)
	n, err := io.ReadFull(f, head)
	head = head[:n]
	whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !whole {
		return nil, errors.Join(err, f.Close())
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil, errors.Join(ingest.Inputf(path, "text in UTF-16, expected UTF-8 (in pandas: encoding=\"utf-8\")"), f.Close())
	}
	head = bytes.TrimPrefix(head, utf8Mark)
	cr := bytes.IndexByte(head, '\r')
	t := &textFile{Reader: io.MultiReader(bytes.NewReader(head), f), Closer: f}
	// The last byte may be the first of a pair whose other was not read yet.
	if cr >= 0 && (whole || cr+1 < len(head)) && bytes.IndexByte(head, '\n') < 0 {
		t.Reader = returns{t.Reader}
	}
	return t, nil
}

type textFile struct {
	io.Reader
	io.Closer
}

// returns makes line feeds of carriage returns.
type returns struct{ io.Reader }

func (r returns) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	for i, c := range b[:n] {
		if c == '\r' {
			b[i] = '\n'
		}
	}
	return n, err
}

// firstLines returns the first whole lines of a file: those in sniffBytes, or sniffLines where these are longer, at most sniffBytesMax.
func firstLines(fs vfs.FS, path string) (_ []byte, err error) {
	f, err := openText(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, sniffBytes)
	n, err := io.ReadFull(f, buf)
	for err == nil && len(buf) < sniffBytesMax && bytes.Count(buf, []byte{'\n'}) < sniffLines {
		more := make([]byte, 2*len(buf))
		copy(more, buf)
		n, err = io.ReadFull(f, more[len(buf):])
		n, buf = len(buf)+n, more
	}
	switch {
	case err == nil:
		return buf[:bytes.LastIndexByte(buf, '\n')+1], nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return buf[:n], nil
	}
	return nil, err
}

// Dialect is how lines of a text file are cut into fields.
type Dialect struct {
	// delimiter separates fields; ' ' is any run of blanks and tabs, twoColons "::", 0 is not known yet.
	delimiter byte
	// quotes says that a field may stand in double quotes, as RFC 4180 has it: in it, a
	// delimiter and a line break are text, and a quote is written twice. Elsewhere
	// quotes are text like any other.
	quotes bool
	// lists are, by place, how many numbers a field holds that is a list of them, each of which becomes a field; 0 = it is none.
	lists []int
	// commas says, by place, that a field's numbers have a comma before their fraction.
	commas []bool
	// attributes are the names of those that a dictionary at the end of each line has, if one is there; see attributed.
	attributes []string
}

// hive separates fields in text files of Hive and what reads them, Ctrl-A: no other text has it.
const hive = 1

// twoColons stands for a delimiter of two bytes: a byte that no text in UTF-8 has.
const twoColons = 0xff

// next cuts the first record off b, without its line end. lines is how many lines it takes. A quoted
// field that does not end in b makes all of b the record, and open true.
func (d Dialect) next(b []byte) (record, rest []byte, lines uint64, open bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		end = len(b)
	}
	if lines = 1; d.quotes && bytes.IndexByte(b[:end], '"') >= 0 {
		end, open = d.recordEnd(b)
		lines += uint64(bytes.Count(b[:end], []byte{'\n'}))
	}
	record = b[:end]
	if end < len(b) {
		rest = b[end+1:]
	}
	if n := len(record); n > 0 && record[n-1] == '\r' {
		record = record[:n-1]
	}
	return record, rest, lines, open
}

// recordEnd is where the first record of b ends: at a line feed outside of quotes, or at len(b).
func (d Dialect) recordEnd(b []byte) (end int, open bool) {
	for i := 0; ; {
		// At the beginning of a field.
		for i < len(b) && b[i] == ' ' && d.delimiter != ' ' {
			i++
		}
		if i < len(b) && b[i] == '"' {
			for i++; ; i++ {
				k := bytes.IndexByte(b[i:], '"')
				if k < 0 {
					return len(b), true
				}
				if i += k + 1; i == len(b) || b[i] != '"' {
					break
				}
			}
		}
		for i < len(b) && b[i] != d.delimiter && b[i] != '\n' {
			i++
		}
		if i == len(b) || b[i] == '\n' {
			return i, false
		}
		i++
	}
}

// wholeRecords is how many bytes of b are whole records, whose last line feed is there.
func (d Dialect) wholeRecords(b []byte) int {
	last := bytes.LastIndexByte(b, '\n') + 1
	if !d.quotes || bytes.IndexByte(b[:last], '"') < 0 {
		return last
	}
	for at := 0; ; {
		end, open := d.recordEnd(b[at:])
		if open || at+end == len(b) {
			return at
		}
		at += end + 1
	}
}

// split appends the fields of a record, without blanks around them. Fields in quotes are
// written anew in place, so a record is split once. A field is a part of line: columnOf tells where it begins.
func (d Dialect) split(fields [][]byte, line []byte) ([][]byte, error) {
	var err error
	if d.attributes != nil {
		return d.splitAttributes(fields, line)
	}
	if d.quotes && bytes.IndexByte(line, '"') >= 0 {
		fields, err = d.splitQuoted(fields, line)
	} else {
		fields = splitLine(fields, line, d.delimiter)
	}
	for k := range min(len(fields), len(d.commas)) {
		if i := bytes.IndexByte(fields[k], ','); d.commas[k] && i >= 0 {
			fields[k][i] = '.' // in place, as a record is split once
		}
	}
	if d.lists != nil && err == nil {
		fields = d.expand(nil, fields)
	}
	return fields, err
}

func (d Dialect) splitQuoted(fields [][]byte, line []byte) ([][]byte, error) {
	for rest := line; ; {
		begin := trimLeft(rest)
		if len(begin) == 0 || begin[0] != '"' {
			end := bytes.IndexByte(rest, d.delimiter)
			field := rest
			if end >= 0 {
				field = rest[:end]
			}
			if field = trim(field); bytes.IndexByte(field, '"') >= 0 {
				return fields, fmt.Errorf("column %d: %.40q has a quote and does not begin with one; write the field in quotes and the quote twice, or take quotes for text with --quotes no",
					columnOf(line, field), field)
			}
			if fields = append(fields, field); end < 0 {
				return fields, nil
			}
			rest = rest[end+1:]
			continue
		}
		// Text between quotes moves one to the front, and one more for each quote that is written twice.
		out, i := begin[:0], 1
		for {
			k := bytes.IndexByte(begin[i:], '"')
			if k < 0 {
				return fields, fmt.Errorf("column %d: a quote that is not closed; --quotes no takes quotes for text", columnOf(line, begin))
			}
			out = append(out, begin[i:i+k]...)
			if i += k + 1; i == len(begin) || begin[i] != '"' {
				break
			}
			out = append(out, '"')
			i++
		}
		fields = append(fields, out)
		after := trimLeft(begin[i:])
		if len(after) == 0 {
			return fields, nil
		}
		if after[0] != d.delimiter {
			return fields, fmt.Errorf("column %d: %.40q after a quoted field, expected %q; --quotes no takes quotes for text", columnOf(line, after), after, d.delimiter)
		}
		rest = after[1:]
	}
}

// trimLeft cuts blanks off the front.
func trimLeft(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

func comment(line []byte) bool { return len(line) == 0 || line[0] == '#' || line[0] == '%' }

// splitLine cuts a line into fields, without blanks around them; ' ' separates
// by runs of blanks and tabs.
func splitLine(fields [][]byte, line []byte, delimiter byte) [][]byte {
	if delimiter == twoColons {
		for {
			i := bytes.Index(line, []byte("::"))
			if i < 0 {
				return append(fields, trim(line))
			}
			fields = append(fields, trim(line[:i]))
			line = line[i+2:]
		}
	}
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

// columnOf is where a field, a part of line, begins, from 1, in bytes.
func columnOf(line, field []byte) int { return cap(line) - cap(field) + 1 }
