package database

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// plain is a name in lower case without what divides its words: driverId and driver_id are one.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// singular are what one row of a table may be called, by the table's plain name.
func singular(tableName string) []string {
	n := plain(tableName)
	names := []string{n}
	if s, ok := strings.CutSuffix(n, "ies"); ok {
		names = append(names, s+"y")
	}
	if s, ok := strings.CutSuffix(n, "es"); ok {
		names = append(names, s)
	}
	if s, ok := strings.CutSuffix(n, "s"); ok {
		names = append(names, s)
	}
	return names
}

// inferKeys fills in, of a schema that says nothing of references, those that names suggest, and, where it says nothing of keys either,
// keys: that of table drivers is a first column called id, drivers_id or driver_id. Any such column of another table refers to it, or to
// the key that the schema gives it. A column parent_driver_id is none: a schema may say so. unsaid reports that the schema says neither.
func inferKeys(s *Schema, columns map[string][]table.Column) (unsaid bool) {
	keyed := false
	for _, t := range s.Tables {
		if len(t.References) > 0 {
			return false
		}
		keyed = keyed || len(t.Key) > 0
	}
	called := map[string]string{} // plain names of columns that refer to a table
	for _, name := range s.names() {
		t, cols := s.Tables[name], columns[name]
		if len(cols) > 1 && isRowNumber(cols[0].Name) {
			cols = cols[1:]
		}
		if !keyed && len(cols) > 0 {
			first := plain(cols[0].Name)
			for _, one := range singular(name) {
				if first == "id" || first == one+"id" || first == one {
					t.Key = Names{cols[0].Name}
				}
			}
		}
		if len(t.Key) != 1 {
			continue
		}
		for _, one := range singular(name) {
			if _, twice := called[one+"id"]; !twice {
				called[one+"id"] = name
			}
		}
	}
	for _, name := range s.names() {
		t := s.Tables[name]
		for _, c := range columns[name] {
			to, ok := called[plain(c.Name)]
			if ok && !(to == name && t.Key[0] == c.Name) {
				t.References = append(t.References, Reference{Names{c.Name}, to})
			}
		}
	}
	return !keyed
}

// isRowNumber reports whether a first column is what pandas writes of the numbers of rows, unasked.
func isRowNumber(name string) bool {
	return slices.Contains([]string{"", "index", "level0", "unnamed:0"}, plain(name))
}

// timeNames are what the time of a row is called.
var timeNames = []string{"timestamp", "time", "ts", "date", "datetime", "createdat", "created", "creationdate", "eventtime", "eventdate"}

// inferTime is the column that names suggest for the time of rows, "" if none does: the first of dates called by one of timeNames, or else
// whose last word is one of timeWords, or else, of a table that refers to others, its only one. It holds for schemas that give no table a
// time. others are the dates of a table that refers to others and has several of which none is taken.
func inferTime(t *Table, cols []table.Column) (name string, others []string) {
	for _, want := range timeNames {
		k := slices.IndexFunc(cols, func(c table.Column) bool { return c.Date && plain(c.Name) == want })
		if k >= 0 {
			return cols[k].Name, nil
		}
	}
	var dates []string
	for _, c := range cols {
		n := plain(c.Name)
		if !c.Date || strings.Contains(n, "birth") || n == "dob" || slices.Contains(t.Key, c.Name) {
			continue
		}
		if slices.Contains(timeWords, lastWord(c.Name)) {
			return c.Name, nil
		}
		dates = append(dates, c.Name)
	}
	switch {
	case len(t.References) == 0:
		return "", nil
	case len(dates) == 1:
		return dates[0], nil
	}
	return "", dates
}

// timeWords end the names of dates that are the time of a row: order_date, createdAt.
var timeWords = []string{"date", "time", "timestamp", "datetime", "at"}

// What is a category: text of few values that come again, and integers whose name says that they stand for something. And what is text.
const (
	categoriesMax = 1000
	categoryRows  = 2 // rows a value, on average, at least
	textWords     = 4 // words of a text, on average, at least
)

// lastWord is the last word of a column's name, in lower case: id of statusId and of status_id, and grid of grid.
func lastWord(name string) string {
	w := table.Words(name)
	if len(w) == 0 {
		return ""
	}
	return w[len(w)-1]
}

// isID reports whether a column is called as ids are: SK_ID_CURR, userId, but not id_01.
func isID(name string) bool {
	w := table.Words(name)
	return len(w) > 1 && slices.Contains(w[1:], "id")
}

// codeNames are the last words of the names of integers that are no quantities.
var codeNames = []string{"id", "code", "type", "status", "class", "kind", "category"}

// kindOf is the kind that a column's values suggest.
func kindOf(c *table.Column, s *stats, rows int64) Kind {
	there := rows - s.missing
	few := s.values != nil && int64(len(s.values))*categoryRows <= there
	switch {
	case c.Strange != "" || there == 0 || c.List && c.Text:
		return Skip
	case c.List:
		return Vector
	case c.Boolean && !s.words || c.Elem.Size() == 1:
		return Boolean
	case c.Date && (c.Elem != blocks.Invalid || s.dates == there):
		return Date
	case s.words && s.values != nil && ingest.LabelsIn(slices.Sorted(maps.Keys(s.values))) != nil && len(partsOf(s.values)) <= partsMost:
		return Set
	case s.words && few:
		return Category
	case s.words && s.blanks >= textWords*there: // what is shorter names its row: a model learns it by heart, and nothing of other rows
		return Text
	case s.words:
		return Skip
	case s.integers && few && slices.Contains(codeNames, lastWord(c.Name)):
		return Category
	case s.integers && isID(c.Name): // no quantity
		return Skip
	}
	return Number
}

// partsMost bounds the elements of a set.
const partsMost = 500

// partsOf are the parts of texts, in order.
func partsOf(texts map[string]bool) []string {
	parts := map[string]bool{}
	for t := range texts {
		for _, p := range ingest.LabelParts(t) {
			parts[p] = true
		}
	}
	return slices.Sorted(maps.Keys(parts))
}

// stats are what the values of a column are.
type stats struct {
	missing  int64
	dates    int64
	blanks   int64           // and the end of each value: words
	words    bool            // some value is no number
	integers bool            // all are, of those that are read as text
	values   map[string]bool // nil: more than categoriesMax
}

// surveyed reports whether a column is looked at as text; others, of types that say what they hold, only for values that are missing.
func surveyed(c *table.Column) bool {
	return c.Text || c.Elem == blocks.Invalid || !c.Date && (c.Elem == blocks.Int32 || c.Elem == blocks.Int64 || c.Elem == blocks.Uint32 || c.Elem == blocks.Uint64)
}

// add looks at a value of a column that is surveyed.
func (s *stats) add(v []byte, absent, boolean bool) {
	if absent {
		s.missing++
		return
	}
	s.blanks += 1 + int64(bytes.Count(v, []byte{' '}))
	if _, ok := table.ParseBool(v); !table.IsNumber(v) && !(boolean && ok) {
		s.words = true
	}
	if s.integers {
		if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
			s.integers = false
		}
	}
	if table.IsDate(string(v[:min(len(v), 40)])) {
		s.dates++
	}
	if s.values != nil && !s.values[string(v)] {
		if len(s.values) == categoriesMax || len(v) > categoryBytesMax {
			s.values = nil
		} else {
			s.values[string(v)] = true
		}
	}
}

// categoryBytesMax bounds a value that is a category.
const categoryBytesMax = 200
