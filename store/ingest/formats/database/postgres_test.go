package database_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// server starts a PostgreSQL server of Debian's package for the test, and returns the address of its database.
func server(t *testing.T) (address string) {
	t.Helper()
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(programs) == 0 {
		t.Skip("there is no PostgreSQL server here (apt-get install postgresql)")
	}
	bin := slices.Max(programs)
	// Not t.TempDir: the server, which does not run as root, has to reach it.
	dir, err := os.MkdirTemp("/tmp", "gstore-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("root must not run PostgreSQL, and there is no user postgres")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.SysProcAttr, cmd.Dir = as, dir
		log, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = log, log // no pipe, which the server would keep open
		if err := cmd.Run(); err != nil {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("%s: %v: %s", name, err, said)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	run("initdb", "-D", data, "-U", "gstore", "-A", "trust", "--no-sync", "-E", "UTF8")
	run("pg_ctl", "-D", data, "-w", "-l", filepath.Join(dir, "log"), "-o", fmt.Sprintf("-F -k %s -c listen_addresses=127.0.0.1 -p %d", dir, port), "start")
	t.Cleanup(func() { run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop") })
	return fmt.Sprintf("postgres://gstore:secret@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// execute has a server execute statements.
func execute(ctx context.Context, address, text string) error {
	conn, err := pgconn.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, text).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

func spooled(t *testing.T, address string) (path string) {
	t.Helper()
	path, err := formats.SpoolDatabase(t.Context(), nil, filepath.Join(t.TempDir(), "s"), address, false)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A PostgreSQL database is the graph that its tables as text are; no references are declared here, since some lead nowhere.
func testPostgresIsItsTables(t *testing.T, address string) {
	tables := strings.NewReplacer(" REFERENCES people (person_id)", "", " REFERENCES people", "", ` REFERENCES "order"`, "", "DATETIME", "TIMESTAMPTZ", "REAL", "NUMERIC(8, 2)",
		", FOREIGN KEY (no, \"order\") REFERENCES lines (no, \"order\")", "").Replace(shopTables)
	rows := strings.NewReplacer("NULL, 1, '1969", "NULL, true, '1969", "'ann', 0, '1970", "'ann', false, '1970", "'bob', 1, NULL", "'bob', true, NULL", "'zed', 0,", "'zed', false,").Replace(shopRows)
	if err := execute(t.Context(), address, tables+rows); err != nil {
		t.Fatal(err)
	}
	want, _ := stored(t, folder(t, shop), formats.Options{})
	schema := filepath.Join(t.TempDir(), "schema.yaml")
	if err := os.WriteFile(schema, []byte(strings.NewReplacer("file: people.csv, ", "", "file: order.csv, ", "", "file: lines.csv, ", "", "file: visits.csv, ", "").Replace(shopSchema)), 0o666); err != nil {
		t.Fatal(err)
	}
	path := spooled(t, address)
	got, _ := stored(t, path, formats.Options{Schema: schema})
	if !slices.Equal(got, want) {
		t.Errorf("of the database\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// What was spooled is taken without the server, unless it is not whole.
	dead := "postgres://gstore@127.0.0.1:1/postgres"
	if err := database.Spool(t.Context(), vfs.Default, dead, path); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(path, "schema.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := database.Spool(t.Context(), vfs.Default, dead, path); err == nil || errors.Is(err, ingest.ErrInput) {
		t.Errorf("error %v", err)
	}
}

// Keys, references and types are those that the database declares; names and values are as they are.
func testPostgresSchema(t *testing.T, address string) {
	err := execute(t.Context(), address, `CREATE SCHEMA odd; SET search_path = odd;
		CREATE TABLE "A/b ""c""" (id BIGINT, part INT, PRIMARY KEY (part, id));
		CREATE DOMAIN price AS NUMERIC CHECK (VALUE > 0);
		CREATE TYPE mood AS ENUM ('good', 'bad');
		CREATE TABLE item (id UUID PRIMARY KEY, a BIGINT, b INT, text TEXT, price price, mood mood, at TIMESTAMPTZ, flag BOOLEAN, none INT[], raw BYTEA, FOREIGN KEY (a, b) REFERENCES "A/b ""c""" (id, part));
		CREATE TABLE logs (id INT, at DATE, item UUID REFERENCES item) PARTITION BY RANGE (at);
		CREATE TABLE logs_old PARTITION OF logs FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
		CREATE TABLE logs_new PARTITION OF logs FOR VALUES FROM ('2020-01-01') TO (MAXVALUE);
		CREATE VIEW seen AS SELECT 1;
		INSERT INTO "A/b ""c""" VALUES (-5, 1), (9007199254740993, 2);
		INSERT INTO item VALUES ('00000000-0000-0000-0000-000000000001', 9007199254740993, 2, E'tab\t, new\nline, \\N', 1.25, 'good', '2020-01-01 00:00:00.000001+01', true),
			('00000000-0000-0000-0000-000000000002', NULL, 2, '', NULL, 'bad', 'infinity', false), ('00000000-0000-0000-0000-000000000003', -5, 1, 'NA', 2, NULL, '-infinity', NULL);
		INSERT INTO logs VALUES (1, '2019-01-01', '00000000-0000-0000-0000-000000000001'), (2, '2021-01-01', '00000000-0000-0000-0000-000000000003')`)
	if err != nil {
		t.Fatal(err)
	}
	path := spooled(t, address+"&search_path=odd")
	lines, m := stored(t, path, formats.Options{})
	all := strings.Join(lines, "\n")
	for _, part := range []string{`edge item:00000000-0000-0000-0000-000000000001 A/b "c":2|9007199254740993 relation=item:b+a:A/b "c" timestamp=1.577833201e+09`,
		`edge item:00000000-0000-0000-0000-000000000003 A/b "c":1|-5 relation=item:b+a:A/b "c" timestamp=9.223372036854776e+18`,
		"edge logs:0 item:00000000-0000-0000-0000-000000000001 relation=logs:item:item timestamp=1.5463008e+09", "edge logs:1 item:00000000-0000-0000-0000-000000000003"} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in\n%s", part, all)
		}
	}
	if m.Nodes != 2+3+2 {
		t.Errorf("%d nodes", m.Nodes)
	}
	for _, note := range []string{`column "none" of item is left out: it is of type integer[]`, `column "raw" of item is left out: it is of type bytea`} {
		if !strings.Contains(m.Ingest["notes"], note) {
			t.Errorf("notes\n%s\nlack %q", m.Ingest["notes"], note)
		}
	}
	if c, ok := m.Category("item.mood"); ok {
		t.Errorf("%v: two values of two rows are no category", c)
	}
}

// All tables are of one moment, while others write.
func testPostgresIsReadAtOneMoment(t *testing.T, address string) {
	if err := execute(t.Context(), address, `CREATE SCHEMA busy; CREATE TABLE busy.parents (id INT PRIMARY KEY); CREATE TABLE busy.children (id INT PRIMARY KEY, parent INT REFERENCES busy.parents);
		INSERT INTO busy.parents SELECT generate_series(1, 20000); INSERT INTO busy.children SELECT i, i FROM generate_series(1, 20000) i`); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := pgconn.Connect(t.Context(), address)
		if err != nil {
			t.Error(err)
			return
		}
		for k := 20001; ctx.Err() == nil; k++ {
			if _, err := conn.Exec(t.Context(), fmt.Sprintf("BEGIN; INSERT INTO busy.parents VALUES (%[1]d); INSERT INTO busy.children VALUES (%[1]d, %[1]d); DELETE FROM busy.children WHERE id = %[2]d; DELETE FROM busy.parents WHERE id = %[2]d; COMMIT", k, k-20000)).ReadAll(); err != nil {
				t.Error(err)
				return
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer stop()
	for range 5 {
		_, m := stored(t, spooled(t, address+"&search_path=busy"), formats.Options{Dangling: ingest.DanglingError})
		if m.Nodes != 40000 || m.Edges != 20000 {
			t.Fatalf("%d nodes and %d edges, expected 40000 and 20000", m.Nodes, m.Edges)
		}
	}
}

// What cannot be read is an error that says why and nothing secret, or a note.
func testPostgresRefuses(t *testing.T, address string) {
	if err := execute(t.Context(), address, `CREATE SCHEMA shut; CREATE TABLE shut.hidden (id INT PRIMARY KEY); CREATE TABLE shut.open (id INT PRIMARY KEY, other INT REFERENCES shut.open);
		CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA shut TO guest; GRANT SELECT ON shut.open TO guest; INSERT INTO shut.open VALUES (1, NULL), (2, 1), (3, 1); CREATE SCHEMA empty`); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		address, want string
		input         bool
	}{
		{address + "&search_path=empty", "no tables that the user may read", true},
		{strings.Replace(address, "/postgres?", "/nothing?", 1), `"nothing" does not exist`, false},
		{strings.Replace(address, u.Port(), "1", 1), "connection refused", false},
		{"postgres://u:secret@host:port/x", "no address of a database", true},
	} {
		_, err := formats.SpoolDatabase(t.Context(), nil, filepath.Join(t.TempDir(), "s"), test.address, false)
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ingest.ErrInput) != test.input || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, expected one that says %q", err, test.want)
		}
	}
	guest := strings.Replace(address, "gstore:secret", "guest", 1) + "&search_path=shut"
	_, m := stored(t, spooled(t, guest), formats.Options{})
	if m.Nodes != 3 || !strings.Contains(m.Ingest["notes"], "table hidden is left out: the user may not read it") {
		t.Errorf("%d nodes, notes %q", m.Nodes, m.Ingest["notes"])
	}
	if p := formats.PublicAddress(address); strings.Contains(p, "secret") || !strings.Contains(p, "gstore@127.0.0.1") {
		t.Errorf("public address %s", p)
	}
}

// A training table may be what the server answers.
func testPostgresTask(t *testing.T, address string) {
	if err := execute(t.Context(), address, `CREATE SCHEMA ask; CREATE TABLE ask.labels (who TEXT, day TIMESTAMPTZ, bought BOOLEAN);
		INSERT INTO ask.labels VALUES ('ann', '2020-01-02 00:00:00.5+00', true), ('bob', '2020-01-01', NULL)`); err != nil {
		t.Fatal(err)
	}
	task, err := database.ParseTask("task", []byte("task_type: binary_classification\nentity_table: people\nentity_col: who\ntime_col: day\ntarget_col: hit\nsource: "+address+
		"\nqueries: {train: \"SELECT who, day, bought AS hit FROM ask.labels ORDER BY who -- so\", val: DROP TABLE ask.labels, test: \"SELECT 1; SELECT 2\"}"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := task.Read(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Keys, []string{"people:ann", "people:bob"}) || !slices.Equal(got.Times, []int64{1577923200, 1577836800}) || got.Values[0] != 1 || !math.IsNaN(got.Values[1]) {
		t.Errorf("targets %v", got)
	}
	for part, want := range map[string]string{"valid": "no columns, expected a SELECT", "test": "cannot insert multiple commands"} {
		if _, err := task.Read(t.Context(), part); !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, expected one that says %q", err, want)
		}
	}
}

// TestPostgres reads databases of a real server.
func TestPostgres(t *testing.T) {
	address := server(t)
	for name, test := range map[string]func(*testing.T, string){"tables": testPostgresIsItsTables, "schema": testPostgresSchema, "one moment": testPostgresIsReadAtOneMoment, "refusals": testPostgresRefuses, "task": testPostgresTask} {
		t.Run(name, func(t *testing.T) { test(t, address) })
	}
}
