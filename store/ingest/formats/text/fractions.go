package text

import (
	"strings"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// pointFractions finds the columns whose numbers have a comma before their fraction, as most of Europe writes them, and has it read as a point.
// Semicolons separate the fields of such files.
func (t *textSample) pointFractions() {
	if t.delimiter != ';' {
		return
	}
	for k := range t.names {
		if !t.hasCommas(k) {
			continue
		}
		if t.commas == nil {
			t.commas = make([]bool, len(t.names))
		}
		t.commas[k] = true
		for _, row := range t.rows {
			row[k] = strings.Replace(row[k], ",", ".", 1)
		}
	}
}

// hasCommas reports whether all of a column's fields are numbers once a comma is a point, and some have one.
func (t *textSample) hasCommas(column int) bool {
	some := false
	for _, row := range t.rows {
		if column >= len(row) {
			return false
		}
		v := []byte(strings.Replace(row[column], ",", ".", 1))
		if !table.MissingText(v) && !table.IsNumber(v) { // as with a second comma
			return false
		}
		some = some || strings.Contains(row[column], ",")
	}
	return some
}
