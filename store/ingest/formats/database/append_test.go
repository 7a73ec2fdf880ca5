package database_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/storetest"
)

// kinds is the shop's schema with every column's kind: few rows say little of it.
var kinds = strings.NewReplacer("references: [{columns: person, table: people}]}",
	"references: [{columns: person, table: people}], columns: {state_id: category, total: number}}", "references: [{columns: [order], table: order}]}",
	"references: [{columns: [order], table: order}], columns: {'select \"x\"': category}}").Replace(shopSchema)

// grown is the shop, with values of which each was there from the beginning.
func grown() map[string]string {
	files := maps.Clone(shop)
	files["order.csv"] = strings.Replace(files["order.csv"], "2,bob,2020-01-02,,7", "2,bob,2020-01-02,,8", 1)
	files["schema.yaml"] = kinds
	return files
}

// began is the shop at an earlier moment: some rows fewer in each table.
var began = map[string]string{
	"people.csv":  "person_id,name,boss,vip,since,city\nann,Ann,,True,1969-12-31,Rome\nbob,Bob,ann,False,1970-01-02,Oslo\ncy,Cy,bob,True,,Rome\n",
	"order.csv":   "order,person,day,total,state_id\n1,ann,2020-01-01 10:00:00.25,1.5,7\n2,bob,2020-01-02,,8\n",
	"lines.csv":   "order,no,\"select \"\"x\"\"\"\n1,1,a|b\n1,2,c\n",
	"visits.csv":  "who,order,no\nann,1,2\nbob,1,1\n",
	"schema.yaml": kinds,
}

// came are the rows that it lacks, with one that it has.
var came = map[string]string{
	"people.csv": "person_id,name,boss,vip,since,city\nbob,Bob,ann,False,1970-01-02,Oslo\ndi,Di,zed,False,2000-01-01,Oslo\n",
	"order.csv":  "state_id,order,day,total,person\n8,3,2020-01-02,-3,ann\n8,4,2020-01-03,1,\n",
	"lines.csv":  "order,no,\"select \"\"x\"\"\"\n2,1,a|b\n9,1,c\n",
	"visits.csv": "who,order,no\nann,3,1\ncy,,1\n",
}

// ingested makes a store of a folder, whose numbers stay as they are.
func ingested(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	src, err := formats.Open(folder(t, files), formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "s")
	_, err = ingest.Run(t.Context(), dir, src, ingest.Options{Normalize: ingest.NormalizeNone, Missing: ingest.MissingZero, Partitions: 2, MemoryBytes: 256 << 20})
	if err = errors.Join(err, src.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// added adds a database's new rows to a store.
func added(t *testing.T, dir, path string, fo formats.Options) (r *grow.Report, notes []string, err error) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fo.Store, fo.Text.Like = s, s.Manifest()
	src, err := formats.Open(path, fo)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	r, err = grow.Append(t.Context(), dir, src, grow.Options{MemoryBytes: 256 << 20, Missing: ingest.MissingZero})
	return r, src.Describe().Notes, err
}

func linesOf(t *testing.T, dir string) []string {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lines := storetest.Lines(t, s, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// A store that a database's rows were added to is the one that is made of all of them, whether the whole database is read again or the new
// rows alone, in columns of another order; what refers to no row dangles, and what refers to one of the store does not.
func TestRowsAreAdded(t *testing.T) {
	want := linesOf(t, ingested(t, grown()))
	for name, files := range map[string]map[string]string{"whole": grown(), "new": came} {
		dir := ingested(t, began)
		rule := database.All
		if name == "whole" {
			rule = database.Rest
		}
		r, notes, err := added(t, dir, folder(t, files), formats.Options{Keyless: rule})
		if err != nil {
			t.Fatal(err)
		}
		if got := linesOf(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: the store has\n%s\nexpected\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r.NewNodes != 7 || r.EdgesDangling != 3 {
			t.Errorf("%s: %d nodes are new and %d references dangle, expected 7 and 3", name, r.NewNodes, r.EdgesDangling)
		}
		if text := strings.Join(notes, "\n"); !strings.Contains(text, "table people: 1 rows are new") {
			t.Errorf("%s: notes\n%s", name, text)
		}
		if _, _, err := added(t, dir, folder(t, grown()), formats.Options{Keyless: database.Rest}); !errors.Is(err, database.ErrNoneNew) {
			t.Errorf("%s: once more: error %v, expected that no row is new", name, err)
		}
	}
}

// A value that a category does not have counts as missing, and is told of; a table and a column that the store lacks are left out.
func TestUnknownValuesAreMissing(t *testing.T) {
	dir := ingested(t, began)
	files := map[string]string{"people.csv": "person_id,name,boss,vip,since,city,age\nfi,Fi,ann,True,1969-12-31,Bern,3\n", "cities.csv": "id\n1\n"}
	_, notes, err := added(t, dir, folder(t, files), formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, `1 values of column "city" are none of the store's, such as "Bern"`) || !strings.Contains(text, "table cities is left out") {
		t.Errorf("notes\n%s", text)
	}
	if lines := linesOf(t, dir); !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "node people:fi ") && strings.Contains(l, " people.city 0 ")
	}) {
		t.Errorf("the store has\n%s", strings.Join(lines, "\n"))
	}
}

// Of a table without a key the rows are new that are later than the store's, and they are numbered on.
func TestLaterRowsAreAdded(t *testing.T) {
	visits := func(n int) map[string]string {
		text := "who,at,seen\n"
		for i := range n {
			text += fmt.Sprintf("%s,2020-01-%02d,%d\n", []string{"ann", "bob"}[i%2], 1+i/2, i)
		}
		text += "ann,,7\n"
		return map[string]string{"people.csv": "id,age\nann,30\nbob,31\n", "visits.csv": text,
			"schema.yaml": "tables:\n  people: {file: people.csv, key: id}\n  visits: {file: visits.csv, time: at, references: [{columns: who, table: people}]}\n"}
	}
	dir := ingested(t, visits(10))
	before := linesOf(t, dir)
	r, _, err := added(t, dir, folder(t, visits(20)), formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.NewNodes != 10 || r.EdgesAdded != 10 {
		t.Errorf("%d nodes and %d edges are new, expected 10 of each", r.NewNodes, r.EdgesAdded)
	}
	after := linesOf(t, dir)
	for _, l := range before {
		if !slices.Contains(after, l) {
			t.Errorf("the store lacks %q, which it had", l)
		}
	}
	if !slices.ContainsFunc(after, func(l string) bool {
		return strings.HasPrefix(l, "edge visits:20 people:bob ") && strings.HasSuffix(l, "timestamp=1.5786144e+09") // the tenth
	}) {
		t.Errorf("the last row is not visits:20:\n%s", strings.Join(after, "\n"))
	}
}

// What was ingested of CSV is added to from files of another form, called otherwise.
func TestRowsOfOtherFilesAreAdded(t *testing.T) {
	dir := ingested(t, began)
	text := strings.ReplaceAll("person_id,name,boss,vip,since,city\nfi,Fi,ann,True,1969-12-31,Rome\n", ",", "\t")
	r, _, err := added(t, dir, folder(t, map[string]string{"people.tsv": text}), formats.Options{})
	if err != nil || r.NewNodes != 1 || r.EdgesAdded != 1 {
		t.Errorf("%+v: %v", r, err)
	}
}

// What cannot be added is refused with what to do, and the store stays as it was.
func TestRefusedRows(t *testing.T) {
	dir := ingested(t, began)
	before := linesOf(t, dir)
	with := func(name, text string) map[string]string {
		files := maps.Clone(came)
		files[name] = text
		return files
	}
	for _, test := range []struct {
		files map[string]string
		rule  database.Keyless
		want  string
	}{
		{came, "", "table visits has neither a key nor a time"},
		{with("people.csv", "person_id,name,boss,vip,since,city\nfi,Fi,ann,True,1969-12-31,Rome\nfi,Fi,ann,True,1969-12-31,Rome\n"), database.All, `a second row of key "people:fi"`},
		{with("people.csv", "person_id,name,vip,since,city\nfi,Fi,True,1969-12-31,Rome\n"), database.All, `a reference to people is column "boss", which is not there`},
		{with("people.csv", "person_id,name,boss,vip,since,city\n,Fi,ann,True,1969-12-31,Rome\n"), database.All, "a row without a key"},
		{with("order.csv", "state_id,order,day,total,person\n8,3,2020-01-02,much,ann\n"), database.All, "much"},
		{map[string]string{"others.csv": "id\n1\n"}, database.All, `its tables are ["others"]`},
	} {
		if _, _, err := added(t, dir, folder(t, test.files), formats.Options{Keyless: test.rule}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, expected one with %q", err, test.want)
		}
	}
	if after := linesOf(t, dir); !slices.Equal(before, after) {
		t.Error("the store is another")
	}
}
