package database_test

import (
	"bytes"
	"database/sql"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // writes what is read here

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// shopTables are the tables of shop in SQL, and shopRows their rows.
const (
	shopTables = `CREATE TABLE people (person_id TEXT PRIMARY KEY, name TEXT, boss TEXT REFERENCES people, vip BOOLEAN, since DATE, city TEXT);
CREATE TABLE "order" ("order" INTEGER PRIMARY KEY, person TEXT REFERENCES people (person_id), day DATETIME, total REAL, state_id INTEGER);
CREATE TABLE lines ("order" INTEGER REFERENCES "order", no INTEGER, "select ""x""" TEXT, PRIMARY KEY ("order", no));
CREATE TABLE visits (who TEXT REFERENCES people, "order" INTEGER, no INTEGER, FOREIGN KEY (no, "order") REFERENCES lines (no, "order"));`
	shopRows = `INSERT INTO people VALUES ('ann', 'Ann', NULL, 1, '1969-12-31', 'Rome'), ('bob', 'Bob', 'ann', 0, '1970-01-02', 'Oslo'), ('cy', 'Cy', 'bob', 1, NULL, 'Rome'), ('di', 'Di', 'zed', 0, '2000-01-01', 'Oslo');
INSERT INTO "order" VALUES (1, 'ann', '2020-01-01 10:00:00.25', 1.5, 7), (2, 'bob', '2020-01-02', NULL, 7), (3, 'ann', '2020-01-02', -3, 8), (4, NULL, '2020-01-03', 1, 8);
INSERT INTO lines VALUES (1, 1, 'a|b'), (1, 2, 'c'), (2, 1, 'a|b'), (9, 1, 'c');
INSERT INTO visits VALUES ('ann', 1, 2), ('bob', 1, 1), ('ann', 3, 1), ('cy', NULL, 1);`
)

// file is an SQLite file that statements have made.
func file(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// An SQLite file is the graph that its tables as text are.
func TestSQLite(t *testing.T) {
	want, _ := stored(t, folder(t, shop), formats.Options{})
	schema := filepath.Join(t.TempDir(), "schema.yaml")
	files := strings.NewReplacer("file: people.csv, ", "", "file: order.csv, ", "", "file: lines.csv, ", "", "file: visits.csv, ", "")
	if err := os.WriteFile(schema, []byte(files.Replace(shopSchema)), 0o666); err != nil {
		t.Fatal(err)
	}
	path := file(t, shopTables, shopRows)
	got, m := stored(t, path, formats.Options{Schema: schema})
	if !slices.Equal(got, want) {
		t.Errorf("of the file\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m.Ingest["format"] != "database" {
		t.Errorf("format %q", m.Ingest["format"])
	}
}

// Keys and references are the file's own, and times and kinds what its values suggest.
func TestSQLiteSchema(t *testing.T) {
	schema, _, _, err := formats.Schema(file(t, shopTables, shopRows), formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := schema.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"key: person_id", "key: order", "    key:\n      - order\n      - \"no\"\n", "columns: boss\n        table: people", "columns: person\n        table: people",
		"columns:\n          - order\n          - \"no\"\n        table: lines", "vip: boolean", "total: number"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in\n%s", part, &b)
		}
	}
}

// Where a file has keys and no references, names tell these.
func TestReferencesAreInferred(t *testing.T) {
	path := file(t, `CREATE TABLE users (name TEXT, "user" INTEGER PRIMARY KEY)`, `CREATE TABLE buys (id INTEGER PRIMARY KEY, user_id INTEGER, price REAL)`,
		`INSERT INTO users VALUES ('a', 1), ('b', 2)`, `INSERT INTO buys VALUES (1, 2, .5), (2, 1, 1), (3, 2, 1)`)
	lines, _ := stored(t, path, formats.Options{})
	if !slices.Contains(lines, "edge buys:1 users:2 relation=buys:user_id:users") {
		t.Errorf("lines\n%s", strings.Join(lines, "\n"))
	}
}

// A view is a table where the schema names it.
func TestViews(t *testing.T) {
	path := file(t, shopTables, shopRows, `CREATE VIEW bills AS SELECT "order" AS bill, person, total * 2 AS twice FROM "order" WHERE person IS NOT NULL`)
	schema := filepath.Join(t.TempDir(), "schema.yaml")
	text := "tables: {people: {key: person_id}, bills: {key: bill, references: [{columns: person, table: people}]}}"
	if err := os.WriteFile(schema, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	lines, m := stored(t, path, formats.Options{Schema: schema})
	if m.Nodes != 4+3 || !slices.Contains(lines, "edge bills:3 people:ann relation=bills:person:people") {
		t.Errorf("%d nodes, and lines\n%s", m.Nodes, strings.Join(lines, "\n"))
	}
}

// What cannot be read of a file is refused with where it stands.
func TestHostileSQLite(t *testing.T) {
	text := filepath.Join(t.TempDir(), "no.sqlite")
	if err := os.WriteFile(text, []byte("a,b\n1,2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{text, "or an SQLite file"},
		{file(t, `CREATE TABLE t (x)`, `DROP TABLE t`), "no tables"},
		{file(t, `CREATE TABLE t (x INTEGER PRIMARY KEY)`, `INSERT INTO t VALUES (1)`), "no table refers to another"},
		{file(t, `CREATE TABLE "a:b" (x INTEGER PRIMARY KEY)`), "without a colon"},
		{file(t, shopTables, shopRows, `INSERT INTO people VALUES (NULL, 'x', 'ann', 1, NULL, 'Rome')`), `table people: row 5: a row without a key`},
		{file(t, shopTables, shopRows, `UPDATE "order" SET total = 9e999 WHERE "order" = 3`), `table order: row 3: column "total": +Inf is no finite number`},
	} {
		src, err := formats.Open(test.path, formats.Options{})
		if err == nil {
			_, err = ingest.Run(t.Context(), filepath.Join(t.TempDir(), "s"), src, ingest.Options{Missing: ingest.MissingZero, MemoryBytes: 256 << 20})
			err = errors.Join(err, src.Close())
		}
		if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, expected one that says %q", err, test.want)
		}
	}
}

// A training table may be what an SQLite file answers.
func TestTaskOfQueries(t *testing.T) {
	path := file(t, shopTables, shopRows)
	manifest := func(more string) string {
		return "task_type: regression\nentity_table: people\nentity_col: who\ntime_col: day\ntarget_col: total\n" + more
	}
	open := func(text string) (*database.Task, error) {
		return database.OpenTask(nil, folder(t, map[string]string{"manifest.yaml": text}))
	}
	task, err := open(manifest("source: " + path + "\nqueries:\n  train: SELECT person AS who, date(day) AS day, total FROM \"order\" WHERE person IS NOT NULL ORDER BY 1, 2\n  val: SELECT 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if task.Name == "" {
		t.Error("the task has no name")
	}
	got, err := task.Read(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Keys, []string{"people:ann", "people:ann", "people:bob"}) || !slices.Equal(got.Times, []int64{1577836800, 1577923200, 1577923200}) ||
		got.Values[0] != 1.5 || got.Values[1] != -3 || !math.IsNaN(got.Values[2]) {
		t.Errorf("targets %v", got)
	}
	if _, err := task.Read(t.Context(), "valid"); !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), `query val: columns ["1"], expected "who"`) {
		t.Errorf("error %v", err)
	}
	if got, err := task.Read(t.Context(), "test"); err != nil || len(got.Keys) > 0 {
		t.Errorf("%v of part test, of which there is no query: %v", got, err)
	}
	if _, err := open(manifest("source: x.db\n")); !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "0 queries") {
		t.Errorf("error %v", err)
	}
}
