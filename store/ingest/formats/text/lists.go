package text

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// listWidthMax is the most numbers that a field which is a list may hold.
const listWidthMax = 1 << 16

// expandLists finds columns whose every field is a list of as many numbers, such as [0.1, 0.2] as pandas writes them or 0,1,1, and makes each
// number a field of its own, NAME.0, NAME.1, …, of the rows that were looked at and of all that will be cut. Columns that o names stay what they
// are called.
func (t *textSample) expandLists(o *table.Options) {
	for k := len(t.names) - 1; k >= 0; k-- {
		if slices.ContainsFunc(slices.Concat(o.Skip, o.Label), func(n string) bool { return n == t.names[k] || strings.HasSuffix(n, "."+t.names[k]) }) {
			continue
		}
		if width := t.listWidth(k); width > 0 {
			if t.lists == nil {
				t.lists = make([]int, len(t.names))
			}
			t.lists[k] = width
		}
	}
	if t.lists == nil {
		return
	}
	var names []string
	for k, n := range t.names {
		if t.lists[k] == 0 {
			names = append(names, n)
		}
		for i := range t.lists[k] {
			names = append(names, fmt.Sprintf("%s.%d", n, i))
		}
	}
	t.names = names
	for r, row := range t.rows {
		var fields [][]byte
		for _, f := range row {
			fields = append(fields, []byte(f))
		}
		t.rows[r] = nil
		for _, f := range t.expand(nil, fields) {
			t.rows[r] = append(t.rows[r], string(f))
		}
	}
}

// listWidth is how many numbers the lists of a column hold; 0 = its fields are none, or the first line's is one too and names nothing.
func (t *textSample) listWidth(column int) int {
	if _, list := listed(nil, []byte(t.names[column])); list || t.names[column] == "" {
		return 0
	}
	width := 0
	for _, row := range t.rows {
		if column >= len(row) {
			return 0
		}
		numbers, ok := listed(nil, []byte(row[column]))
		if !ok || width > 0 && len(numbers) != width {
			return 0
		}
		width = len(numbers)
	}
	if width > listWidthMax {
		return 0
	}
	return width
}

// expand puts the numbers of the fields that are lists in the places of these. A field that is not the list it should be stays whole, so
// that its line has another number of fields than it should.
func (d Dialect) expand(out, fields [][]byte) [][]byte {
	for k, f := range fields {
		if k >= len(d.lists) || d.lists[k] == 0 {
			out = append(out, f)
			continue
		}
		before := len(out)
		if more, ok := listed(out, f); ok && len(more)-before == d.lists[k] {
			out = more
		} else {
			out = append(out, f)
		}
	}
	return out
}

// listed appends the numbers of a field that is a list of two or more: between brackets, or apart by commas or blanks. Digits in groups of three
// are one number, and a few numbers apart by blanks may as well be a telephone's.
func listed(out [][]byte, f []byte) (_ [][]byte, ok bool) {
	f = trim(f)
	bare := true
	if n := len(f); n > 1 && (f[0] == '[' && f[n-1] == ']' || f[0] == '(' && f[n-1] == ')') {
		f, bare = f[1:n-1], false
	}
	before, groups := len(out), true
	separator := byte(' ')
	if bytes.IndexByte(f, ',') >= 0 {
		separator = ','
	}
	if out = splitLine(out, f, separator); len(out)-before < 2 {
		return out[:before], false
	}
	for k, x := range out[before:] {
		if !table.IsNumber(x) {
			return out[:before], false
		}
		groups = groups && (k == 0 && len(x) <= 3 || len(x) == 3) && !slices.Contains(x, '.')
	}
	if bare && (separator == ',' && groups && !bytes.Contains(f, []byte(", ")) || separator == ' ' && len(out)-before < 4) {
		return out[:before], false
	}
	return out, true
}
