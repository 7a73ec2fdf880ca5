package text

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// textSample is what the first lines of a text table tell of it.
type textSample struct {
	Dialect
	path  string
	first uint64         // number, from 1, of the first line that is no comment; 0 = there is none
	lines uint64         // that it takes
	names []string       // its fields
	rows  [][]string     // of the lines after it, as many as were looked at
	cols  []table.Column // by place: what the rows hold there, called as the first line has it

	commented  bool // names are those of a comment: the first line is a row like the others
	undirected bool // a comment says that edges are

	spaces []string // of ids, by column; nil = its names are none of Neo4j's
}

// sampleText looks at the first lines of a text table. Lines before the first that is none are comments
// if they begin with # or %.
func sampleText(fs vfs.FS, path string, o *table.Options) (*textSample, error) {
	text, err := firstLines(fs, path)
	if err != nil {
		return nil, err
	}
	t := &textSample{path: path}
	number := uint64(1)
	var comments [][]byte
	for len(text) > 0 {
		line, rest := NextLine(text)
		if !comment(line) {
			break
		}
		if len(line) > 0 {
			comments = append(comments, line)
		}
		text = rest
		number++
	}
	if len(text) == 0 {
		t.Dialect = Dialect{delimiter: ' '}
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
	if t.attributes != nil && t.first != 0 {
		t.rows, t.names, t.commented = slices.Insert(t.rows, 0, t.names), append([]string{"src", "dst"}, t.attributes...), true
	}
	t.pointFractions()
	if o.Lists && o.Columns == nil && o.NodeColumns == nil {
		t.expandLists(o)
	}
	t.nameList()
	t.cutSpaces()
	t.nameByComments(comments, o)
	table.NameApart(t.names)
	t.classify()
	return t, nil
}

// FirstFields are those of the first line of a file whose name says nothing, but whose first lines are text of as many fields each, two or
// more; else nil.
func FirstFields(fs vfs.FS, path string) []string {
	text, err := firstLines(fs, path)
	if err != nil || len(text) == 0 || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 || bytes.HasPrefix(text, []byte("%%MatrixMarket")) {
		return nil
	}
	t, err := sampleText(fs, path, &table.Options{})
	if err != nil || len(t.names) < 2 || strings.ContainsAny(t.names[0], "{[<") ||
		slices.ContainsFunc(t.rows, func(row []string) bool { return len(row) != len(t.names) && len(row) > 0 }) {
		return nil
	}
	return t.names
}

// Where is the file's path.
func (t *textSample) Where() string { return t.path }

// Columns are what the first lines hold, called as the first has them.
func (t *textSample) Columns() []table.Column { return t.cols }

// detect finds out the dialect, by the first line of text, line number of the file.
func (t *textSample) detect(text []byte, number uint64, o *table.Options) error {
	line, _ := NextLine(text)
	if o.Delimiter == 0 && o.Columns == nil && o.NodeColumns == nil && o.Header == nil {
		if t.attributes = attributeNames(line); t.attributes != nil {
			t.delimiter = ' '
			return nil
		}
	}
	if t.delimiter = o.Delimiter; t.delimiter == 0 {
		t.delimiter = ' '
		plain := outsideQuotes(line)
		if id, _, ok := bytes.Cut(plain, []byte("::")); ok && table.IsNumber(id) && bytes.IndexByte(plain, '\t') < 0 { // MovieLens' ratings.dat
			t.delimiter = twoColons
			return nil
		}
		for _, d := range []byte{hive, '\t', ',', ';', '|'} {
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
			line, text = NextLine(text)
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
	t.cols = make([]table.Column, len(t.names))
	for k, name := range t.names {
		numbers, texts, dates, booleans := 0, 0, 0, 0
		example := ""
		for _, row := range t.rows {
			if k >= len(row) || table.MissingText([]byte(row[k])) {
				continue
			}
			switch v := []byte(row[k]); {
			case table.IsNumber(v):
				numbers++
			case table.IsDate(row[k]):
				dates++
				texts++
			default:
				if _, ok := table.ParseBool(v); ok {
					booleans++
				}
				texts++
			}
			if texts == 1 && example == "" {
				example = row[k]
			}
		}
		t.cols[k] = table.Column{Name: name, Dim: 1, Text: texts > 0, Mixed: texts > 0 && numbers > 0, Example: example,
			Boolean: texts > 0 && booleans == texts && numbers == 0, Date: texts > 0 && dates == texts && numbers == 0, Empty: texts+numbers == 0}
	}
}

// unlike is the place of a column in which the first line has text and the others numbers or dates; −1 = there is none.
func (t *textSample) unlike() int {
	return slices.IndexFunc(t.cols, func(c table.Column) bool {
		alike := c.Text && !c.Date || table.IsNumber([]byte(c.Name)) || table.IsDate(c.Name)
		return !alike && !c.Empty && !table.MissingText([]byte(c.Name))
	})
}

// numbered reports whether the first line's fields at the places of both ends, which differ by a number, may be nodes' names, such as user1 and
// user2: nothing tells it from the lines after it. nodes says that they are such names, as the next line has.
func (t *textSample) numbered(src, dst int) (may, nodes bool) {
	if t.unlike() >= 0 || !table.NumberedEnds(t.names[src], t.names[dst]) {
		return false, false
	}
	for _, row := range t.rows {
		if src < len(row) && dst < len(row) {
			return true, table.DifferByWord(t.names[src], row[src]) && table.DifferByWord(t.names[dst], row[dst])
		}
	}
	return true, true
}

// moments reports whether the numbers at a place look like times: seconds since 1970, of 1980 and later.
func (t *textSample) moments(place int) bool {
	for _, row := range t.rows {
		if place >= len(row) {
			continue
		}
		if x, err := table.ParseFloat([]byte(row[place]), 64); err != nil || !table.IsMoment(x) {
			return false
		}
	}
	return len(t.rows) > 0
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
			if _, ok := table.ParseID([]byte(row[k])); !ok {
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
