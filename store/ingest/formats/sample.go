package formats

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
)

// textSample is what the first lines of a text table tell of it.
type textSample struct {
	dialect
	path  string
	first uint64        // number, from 1, of the first line that is no comment; 0 = there is none
	lines uint64        // that it takes
	names []string      // its fields
	rows  [][]string    // of the lines after it, as many as were looked at
	cols  []tableColumn // by place: what the rows hold there, called as the first line has it
}

// sampleText looks at the first lines of a text table. Lines before the first that is none are comments
// if they begin with # or %.
func sampleText(fs vfs.FS, path string, o *TextOptions) (*textSample, error) {
	text, err := firstLines(fs, path)
	if err != nil {
		return nil, err
	}
	t := &textSample{path: path}
	number := uint64(1)
	for len(text) > 0 {
		line, rest := nextLine(text)
		if !comment(line) {
			break
		}
		text = rest
		number++
	}
	if len(text) == 0 {
		t.dialect = dialect{delimiter: ' '}
		if o.Delimiter != 0 {
			t.delimiter = o.Delimiter
		}
		return t, nil
	}
	if err := t.detect(text, number, o); err != nil {
		return nil, err
	}
	for len(text) > 0 {
		line, rest, lines, open := t.next(text)
		if open && t.first != 0 {
			break // the sample ends in it
		}
		text = rest
		if t.first != 0 && comment(line) {
			continue
		}
		fields, err := t.split(nil, line)
		row := make([]string, len(fields))
		for k, f := range fields {
			row[k] = string(f)
		}
		switch {
		case err != nil && t.first == 0:
			return nil, ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%v", err)
		case err != nil: // an error when it is read in earnest
		case t.first == 0:
			t.first, t.lines, t.names = number, lines, row
		default:
			t.rows = append(t.rows, row)
		}
		number += lines
	}
	t.classify()
	return t, nil
}

func (t *textSample) where() string          { return t.path }
func (t *textSample) columns() []tableColumn { return t.cols }

// detect finds out the dialect, by the first line of text, line number of the file.
func (t *textSample) detect(text []byte, number uint64, o *TextOptions) error {
	line, _ := nextLine(text)
	if t.delimiter = o.Delimiter; t.delimiter == 0 {
		t.delimiter = ' '
		plain := outsideQuotes(line)
		for _, d := range []byte{'\t', ',', ';', '|'} {
			if bytes.IndexByte(plain, d) >= 0 {
				t.delimiter = d
				break
			}
		}
	}
	switch {
	case o.Quotes != nil:
		t.quotes = *o.Quotes && t.delimiter != ' '
	case t.delimiter == '\t':
		// Names of a knowledge graph may be in quotes that are theirs. Where every field of the first line is, a program put them.
		t.quotes = len(line) > 0
		for _, f := range splitLine(nil, line, '\t') {
			t.quotes = t.quotes && len(f) > 1 && f[0] == '"' && f[len(f)-1] == '"'
		}
		for n := number; !t.quotes && len(text) > 0; n++ {
			line, text = nextLine(text)
			for _, f := range splitLine(nil, line, '\t') {
				if len(f) > 3 && f[0] == '"' && f[len(f)-1] == '"' && bytes.Contains(f[1:len(f)-1], []byte(`""`)) {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", t.path, n), "%.40q: are its quotes written by a program, around the text and twice within it (--quotes yes), or are they text (--quotes no)?", f)
				}
			}
		}
	default:
		t.quotes = t.delimiter != ' '
	}
	return nil
}

// outsideQuotes is a line without what stands in quotes.
func outsideQuotes(line []byte) []byte {
	if bytes.IndexByte(line, '"') < 0 {
		return line
	}
	var out []byte
	for in := false; len(line) > 0; in = !in {
		k := bytes.IndexByte(line, '"')
		if k < 0 {
			k = len(line) - 1
			out = append(out, line[k])
		}
		if !in {
			out = append(out, line[:k]...)
		}
		line = line[k+1:]
	}
	return out
}

// classify finds out what the rows hold by column.
func (t *textSample) classify() {
	t.cols = make([]tableColumn, len(t.names))
	for k, name := range t.names {
		numbers, texts, dates, booleans := 0, 0, 0, 0
		example := ""
		for _, row := range t.rows {
			if k >= len(row) || missingText([]byte(row[k])) {
				continue
			}
			switch v := []byte(row[k]); {
			case isNumber(v):
				numbers++
			case isDate(row[k]):
				dates++
				texts++
			default:
				if _, ok := parseBool(v); ok {
					booleans++
				}
				texts++
			}
			if texts == 1 && example == "" {
				example = row[k]
			}
		}
		t.cols[k] = tableColumn{name: name, dim: 1, text: texts > 0, mixed: texts > 0 && numbers > 0, example: example,
			boolean: texts > 0 && booleans == texts && numbers == 0, date: texts > 0 && dates == texts && numbers == 0, empty: texts+numbers == 0}
	}
}

// unlike is the place of a column in which the first line has text and the others numbers; −1 = there is none.
func (t *textSample) unlike() int {
	return slices.IndexFunc(t.cols, func(c tableColumn) bool {
		return !c.text && !c.empty && !isNumber([]byte(c.name)) && !missingText([]byte(c.name))
	})
}

// integers reports whether the fields at a place are node ids that are integers: of the rows, and of the first line unless it is a header.
func (t *textSample) integers(header bool, places ...int) bool {
	rows := t.rows
	if !header && t.first != 0 {
		rows = append([][]string{t.names}, rows...)
	}
	known := false
	for _, row := range rows {
		for _, k := range places {
			if k >= len(row) {
				continue // an error when it is read in earnest
			}
			if _, ok := parseID([]byte(row[k])); !ok {
				return false
			}
			known = true
		}
	}
	return known
}

// among reports whether one of the values is a row's at one of the places.
func (t *textSample) among(places ...int) bool {
	for _, row := range t.rows {
		for _, k := range places {
			for _, p := range places {
				if k < len(row) && row[k] == t.names[p] {
					return true
				}
			}
		}
	}
	return false
}

// isNumber reports whether b is a number.
func isNumber(b []byte) bool {
	_, err := strconv.ParseFloat(string(b), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// parseBool is the value of True or False as pandas and others write them.
func parseBool(b []byte) (x float64, ok bool) {
	switch string(b) {
	case "True", "true", "TRUE":
		return 1, true
	case "False", "false", "FALSE":
		return 0, true
	}
	return 0, false
}

// missingText reports whether b stands for no value: empty, or one of the words that pandas takes for missing.
func missingText(b []byte) bool {
	if len(b) > 9 {
		return false
	}
	switch string(b) {
	case "", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "NaT":
		return true
	}
	return false
}

// isDate reports whether s is a date, or a date and a time, as ISO 8601 has them.
func isDate(s string) bool {
	if len(s) < len(time.DateOnly) {
		return false
	}
	if _, err := time.Parse(time.DateOnly, s[:len(time.DateOnly)]); err != nil {
		return false
	}
	return len(s) == len(time.DateOnly) || strings.ContainsRune("T ", rune(s[len(time.DateOnly)]))
}

// parseID parses a node id: an integer ≥ 0, or one that a program wrote as a number with a fraction of 0 (pandas
// does, of a column of integers in which some are missing).
func parseID(b []byte) (uint64, bool) {
	if x, ok := parseUint(b); ok {
		return x, true
	}
	k := bytes.IndexByte(b, '.')
	if k <= 0 || len(bytes.TrimRight(b[k+1:], "0")) > 0 {
		return 0, false
	}
	return parseUint(b[:k])
}
