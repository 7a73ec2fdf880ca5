package database_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Texts of parts that recur are features of 0 and 1, also of rows that are added; a part that the store does not have is none.
func TestSets(t *testing.T) {
	files := map[string]string{
		"films.csv":   "film_id,genres,title\n1,Drama|Comedy,A\n2,Comedy,B\n3,,C\n4,Comedy|War,D\n5,Drama|War,E\n",
		"ratings.csv": "film_id,stars\n1,3\n2,4\n5,1\n",
		"schema.yaml": "tables:\n  films: {key: film_id}\n  ratings: {references: [{columns: film_id, table: films}]}\n",
	}
	dir := ingested(t, files)
	genres := func() (rows []string) {
		for _, l := range linesOf(t, dir) {
			if id, row, ok := strings.Cut(l, " films.genres "); ok && strings.HasPrefix(l, "node films:") {
				rows = append(rows, strings.TrimPrefix(id, "node films:")+": "+row[:len("0 0 0")])
			}
		}
		return rows
	}
	before := genres()
	files["films.csv"] += "6,War|Noir,F\n"
	if _, _, err := added(t, dir, folder(t, files), formats.Options{Keyless: database.Rest}); err != nil {
		t.Fatal(err)
	}
	want := []string{"1: 1 1 0", "2: 1 0 0", "3: 0 0 0", "4: 1 0 1", "5: 0 1 1", "6: 0 0 1"} // Comedy, Drama, War
	if after := genres(); !slices.Equal(before, want[:5]) || !slices.Equal(after, want) {
		t.Errorf("%q, then %q, expected %q", before, after, want)
	}
}
