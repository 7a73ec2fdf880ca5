package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/sqlite"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// made is a file that statements have made, and a connection that may go on writing to it.
func made(t *testing.T, statements ...string) (path string, db *sql.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a b?c#.sqlite") // what an address would have to escape
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("?", "%3f", "#", "%23").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return path, db
}

func opened(t *testing.T, path string) *sqlite.File {
	t.Helper()
	f, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// texts reads columns as text, a row a line.
func texts(ctx context.Context, in *sqlite.Table) (rows []string, err error) {
	var want []table.Want
	for k, c := range in.Columns() {
		if c.Strange == "" {
			want = append(want, table.Want{At: k})
		}
	}
	err = in.Read(ctx, ingest.Env{}, want, func(b *table.Batch) error {
		for i := range b.Rows {
			var row []string
			for k := range want {
				row = append(row, string(b.Text[k].At(i)))
			}
			rows = append(rows, strings.Join(row, "|"))
		}
		return nil
	})
	return rows, err
}

// Keys and references are those that the file declares, in the order of the key that they name; what names no primary key is noted.
func TestKeysAndReferences(t *testing.T) {
	path, _ := made(t,
		`CREATE TABLE "Line ""x""" (no INTEGER, "order" INTEGER, PRIMARY KEY ("order", no)) WITHOUT ROWID`,
		`CREATE TABLE part (id INTEGER PRIMARY KEY, n INT, o INT, boss REFERENCES PART, maker TEXT REFERENCES maker(name), gone REFERENCES nowhere,
			FOREIGN KEY (n, o) REFERENCES "line ""X""" (NO, "order"))`,
		`CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT UNIQUE)`,
		`CREATE VIEW seen AS SELECT id, n FROM part`,
		`CREATE VIRTUAL TABLE words USING fts5(text)`,
	)
	f := opened(t, path)
	var lines []string
	for _, r := range f.Relations() {
		lines = append(lines, fmt.Sprintf("%s %v %q %v", r.Name, r.View, r.Key, r.References))
	}
	want := []string{`Line "x" false ["order" "no"] []`, `maker false ["id"] []`,
		`part false ["id"] [{[o n] Line "x"} {[boss] part}]`, `seen true [] []`}
	if !slices.Equal(lines, want) {
		t.Errorf("relations\n%s\nexpected\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	notes := strings.Join(f.Notes(), "\n")
	for _, part := range []string{`foreign key ["maker"] of part to maker is left out: the primary key there is ["id"]`, `to nowhere is left out: there is no such table`} {
		if !strings.Contains(notes, part) {
			t.Errorf("notes\n%s\nlack %q", notes, part)
		}
	}
}

// A column is what all of its values are, whatever its definition says.
func TestColumns(t *testing.T) {
	path, _ := made(t,
		`CREATE TABLE t (k INTEGER, r REAL, mixed INTEGER, day DATE, epoch DATETIME, flag BOOLEAN, odd BOOLEAN, bytes, none TEXT, yes TEXT)`,
		`INSERT INTO t VALUES (1, 2.5, 3, '2020-01-02', 86400, 1, 2, x'00', NULL, 'True'), (-7, 1, 'x', '2020-01-03 04:05:06', 0, 0, 1, NULL, NULL, 'False'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
	in, err := opened(t, path).Table(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range in.Columns() {
		lines = append(lines, fmt.Sprintf("%s %v text=%v date=%v boolean=%v %s", c.Name, c.Elem, c.Text, c.Date, c.Boolean, c.Strange))
	}
	want := []string{"k int64 text=false date=false boolean=false ", "r float64 text=false date=false boolean=false ",
		"mixed invalid text=true date=false boolean=false ", "day invalid text=true date=true boolean=false ",
		"epoch int64 text=false date=true boolean=false ", "flag uint8 text=false date=false boolean=false ",
		"odd int64 text=false date=false boolean=false ", "bytes invalid text=false date=false boolean=false bytes (a BLOB)",
		"none int32 text=false date=false boolean=false ", "yes invalid text=true date=false boolean=true "}
	if !slices.Equal(lines, want) {
		t.Errorf("columns\n%s\nexpected\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	rows, err := texts(t.Context(), in)
	if want := []string{"1|2.5|3|2020-01-02|86400|1|2||True", "-7|1|x|2020-01-03 04:05:06|0|0|1||False", "||||||||"}; err != nil || !slices.Equal(rows, want) {
		t.Errorf("%v: rows %q, expected %q", err, rows, want)
	}
	var days []string
	err = in.Read(t.Context(), ingest.Env{}, []table.Want{{At: 3, Elem: blocks.Float64, Days: true}, {At: 4, Elem: blocks.Int64, Time: true}}, func(b *table.Batch) error {
		days = append(days, fmt.Sprintf("%d rows, %d and %d bytes, from %v", b.Rows, len(b.Numbers[0]), len(b.Numbers[1]), b.At.Of(1)))
		return nil
	})
	if err != nil || len(days) != 1 || !strings.HasSuffix(days[0], ": table t: row 2") {
		t.Errorf("%v: %q", err, days)
	}
}

// What is written while the file is open is not seen, and the writer does not wait.
func TestOneMomentIsRead(t *testing.T) {
	path, db := made(t, `PRAGMA journal_mode = WAL`, `CREATE TABLE t (k INTEGER PRIMARY KEY)`, `INSERT INTO t VALUES (1), (2)`)
	f := opened(t, path)
	if _, err := db.Exec(`INSERT INTO t VALUES (3)`); err != nil {
		t.Fatal(err)
	}
	in, err := f.Table(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := texts(t.Context(), in); err != nil || len(rows) != 2 {
		t.Errorf("%v: rows %q, expected those from before", err, rows)
	}
	if files := f.Files(vfs.Default); len(files) != 2 {
		t.Errorf("files %q, expected the journal too", files)
	}
	again, err := opened(t, path).Table(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := texts(t.Context(), again); err != nil || len(rows) != 3 {
		t.Errorf("%v: rows %q, expected all", err, rows)
	}
}

// A statement of a user's answers with rows, and can do nothing else.
func TestQueries(t *testing.T) {
	path, _ := made(t, `CREATE TABLE t (k INTEGER, day TEXT)`, `INSERT INTO t VALUES (2, '2020-01-01'), (1, '2020-01-02')`)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	in, err := f.Query(t.Context(), "train", "SELECT k + 1 AS next, day -- a comment\nFROM t ORDER BY k;\n")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := texts(t.Context(), in); err != nil || !slices.Equal(rows, []string{"2|2020-01-02", "3|2020-01-01"}) {
		t.Errorf("%v: rows %q", err, rows)
	}
	other := filepath.Join(t.TempDir(), "made")
	for _, text := range []string{"SELECT nothing FROM t", "DROP TABLE t", "SELECT 1; DROP TABLE t", "SELECT 1; VACUUM INTO '" + other + "'",
		"SELECT 1; COMMIT; VACUUM INTO '" + other + "'", "SELECT 1; ATTACH '" + other + "' AS x", "SELECT 1; PRAGMA writable_schema = 1; DELETE FROM sqlite_schema"} {
		if in, err := f.Query(t.Context(), "train", text); err == nil {
			_, err = texts(t.Context(), in)
			if err == nil {
				t.Errorf("%q was answered", text)
			}
		} else if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "query train") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("a query made a file: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("a query changed the file: %v", err)
	}
}

// A damaged file is an error of the input or reads as something else, and never a panic.
func TestDamagedFiles(t *testing.T) {
	race.SkipArithmetic(t)
	path, db := made(t, `CREATE TABLE a (k INTEGER PRIMARY KEY, x TEXT, y REAL)`, `CREATE TABLE b (k TEXT PRIMARY KEY, a REFERENCES a) WITHOUT ROWID`,
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) INSERT INTO a SELECT i, hex(randomblob(i % 90)), i / 3.0 FROM n`,
		`INSERT INTO b SELECT 'b' || k, k FROM a`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for n := range 300 {
		b := slices.Clone(whole)
		switch at := random.IntN(len(b)); n % 3 {
		case 0:
			b[at] ^= 1 << random.IntN(8)
		case 1:
			b = b[:at]
		default:
			clear(b[at:min(len(b), at+512)])
		}
		if err := os.WriteFile(damaged, b, 0o666); err != nil {
			t.Fatal(err)
		}
		if !sqlite.Is(vfs.Default, damaged) {
			continue
		}
		err := func() error {
			f, err := sqlite.Open(t.Context(), damaged)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }() // it is only read
			for _, r := range f.Relations() {
				in, err := f.Table(t.Context(), r.Name)
				if err != nil {
					return err
				}
				if _, err := texts(t.Context(), in); err != nil {
					return err
				}
			}
			return nil
		}()
		if err != nil {
			if refused++; !errors.Is(err, ingest.ErrInput) {
				t.Errorf("damage %d: %v is no error of the input", n, err)
			}
		}
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// A text beyond all bounds is refused before it is in memory.
func TestTextsAreBounded(t *testing.T) {
	path, _ := made(t, `CREATE TABLE t (x TEXT)`, `INSERT INTO t VALUES (hex(zeroblob(9000000)))`)
	_, err := opened(t, path).Table(t.Context(), "t")
	if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "a text of 18000000 bytes") {
		t.Errorf("error %v", err)
	}
}
