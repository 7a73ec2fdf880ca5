package database_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/storetest"
)

// shop is a database with what databases have: a key of text, one of two columns, one of none, a reference of a table to itself, references
// that are null or dangle, times of days and of fractions of seconds, before 1970 and missing, and names that SQL has to quote.
var shop = map[string]string{
	"people.csv":   "person_id,name,boss,vip,since,city\nann,Ann,,True,1969-12-31,Rome\nbob,Bob,ann,False,1970-01-02,Oslo\ncy,Cy,bob,True,,Rome\ndi,Di,zed,False,2000-01-01,Oslo\n",
	"order.csv":    "order,person,day,total,state_id\n1,ann,2020-01-01 10:00:00.25,1.5,7\n2,bob,2020-01-02,,7\n3,ann,2020-01-02,-3,8\n4,,2020-01-03,1,8\n",
	"lines.csv":    "order,no,\"select \"\"x\"\"\"\n1,1,a|b\n1,2,c\n2,1,a|b\n9,1,c\n",
	"visits.csv":   "who,order,no\nann,1,2\nbob,1,1\nann,3,1\ncy,,1\n",
	"schema.yaml":  shopSchema,
	"notes.txt":    "no table",
	"_ignored.csv": "a\n1\n",
}

const shopSchema = `tables:
  people: {file: people.csv, key: person_id, time: since, references: [{columns: boss, table: people}], columns: {name: text, city: category, vip: boolean}}
  order: {file: order.csv, key: order, time: day, references: [{columns: person, table: people}]}
  lines: {file: lines.csv, key: [order, no], references: [{columns: [order], table: order}]}
  visits: {file: visits.csv, references: [{columns: who, table: people}, {columns: [order, no], table: lines}]}
`

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// stored ingests a database and lists what the store has.
func stored(t *testing.T, path string, fo formats.Options) (lines []string, m *store.Manifest) {
	t.Helper()
	src, err := formats.Open(path, fo)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s")
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Missing: ingest.MissingZero, Partitions: 3, MemoryBytes: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lines = storetest.Lines(t, s, nil)
	m = s.Manifest()
	if err := errors.Join(s.Close(), src.Close()); err != nil {
		t.Fatal(err)
	}
	return lines, m
}

// Rows become nodes, references edges with the times of their rows; what is null or dangles is none.
func TestDatabase(t *testing.T) {
	lines, m := stored(t, folder(t, shop), formats.Options{})
	var edges []string
	for _, l := range lines {
		if strings.HasPrefix(l, "edge ") {
			edges = append(edges, l)
		}
	}
	want := []string{
		"edge lines:1|1 order:1 relation=lines:order:order timestamp=-9.223372036854776e+18",
		"edge lines:1|2 order:1 relation=lines:order:order timestamp=-9.223372036854776e+18",
		"edge lines:2|1 order:2 relation=lines:order:order timestamp=-9.223372036854776e+18",
		"edge order:1 people:ann relation=order:person:people timestamp=1.577872801e+09", // a quarter of a second later
		"edge order:2 people:bob relation=order:person:people timestamp=1.5779232e+09",
		"edge order:3 people:ann relation=order:person:people timestamp=1.5779232e+09",
		"edge people:bob people:ann relation=people:boss:people timestamp=86400",
		"edge people:cy people:bob relation=people:boss:people timestamp=9.223372036854776e+18",
		"edge visits:0 lines:1|2 relation=visits:order+no:lines timestamp=-9.223372036854776e+18",
		"edge visits:0 people:ann relation=visits:who:people timestamp=-9.223372036854776e+18",
		"edge visits:1 lines:1|1 relation=visits:order+no:lines timestamp=-9.223372036854776e+18",
		"edge visits:1 people:bob relation=visits:who:people timestamp=-9.223372036854776e+18",
		"edge visits:2 people:ann relation=visits:who:people timestamp=-9.223372036854776e+18",
		"edge visits:3 people:cy relation=visits:who:people timestamp=-9.223372036854776e+18",
	}
	if !slices.Equal(edges, want) {
		t.Errorf("edges\n%s\nexpected\n%s", strings.Join(edges, "\n"), strings.Join(want, "\n"))
	}
	for _, note := range []string{"1 edges of people:boss:people name no row", "1 edges of lines:order:order name no row", "1 edges of visits:order+no:lines name no row",
		"1 of 4 rows of order refer to none of people", "1 of 4 rows of people refer to none of people"} {
		if !strings.Contains(m.Ingest["notes"], note) {
			t.Errorf("notes\n%s\nlack %q", m.Ingest["notes"], note)
		}
	}
	if c := m.RowTime("people"); c == nil || m.RowTime("lines") != nil {
		t.Errorf("times of people %v and of lines %v", c, m.RowTime("lines"))
	}
	if k, ok := m.Category("people.city"); !ok || k.Nodes != 2 {
		t.Errorf("category people.city: %v, %v", k, ok)
	}
}

// What a reference names is a node if the user says so, or an error that says where it stands.
func TestDangling(t *testing.T) {
	dir := folder(t, shop)
	lines, m := stored(t, dir, formats.Options{Dangling: ingest.DanglingNode})
	if k := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "edge people:di people:zed ") }); k < 0 || m.Nodes != 4+4+4+4+3 {
		t.Errorf("%d nodes, and lines\n%s", m.Nodes, strings.Join(lines, "\n"))
	}
	src, err := formats.Open(dir, formats.Options{Dangling: ingest.DanglingError})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	_, err = ingest.Run(t.Context(), filepath.Join(t.TempDir(), "s"), src, ingest.Options{Missing: ingest.MissingZero, MemoryBytes: 256 << 20})
	if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), `lines.csv: line 5: relation lines:order:order leads to "order:9"`) {
		t.Errorf("error %v", err)
	}
}

// A schema that was written reads as it was, and gives the same graph.
func TestSchemaIsWrittenAndRead(t *testing.T) {
	dir := folder(t, shop)
	schema, _, _, err := formats.Schema(dir, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := schema.Write(&first); err != nil {
		t.Fatal(err)
	}
	again, err := database.ParseSchema("written", first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&second); err != nil || first.String() != second.String() {
		t.Errorf("%v: written\n%s\nthen\n%s", err, &first, &second)
	}
	path := filepath.Join(t.TempDir(), "edited.yaml")
	if err := os.WriteFile(path, first.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	want, _ := stored(t, dir, formats.Options{})
	got, _ := stored(t, dir, formats.Options{Schema: path})
	if !slices.Equal(got, want) {
		t.Errorf("by the written schema\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of tables without a schema names tell keys, references and times.
func TestKeysAreInferred(t *testing.T) {
	dir := folder(t, map[string]string{
		"cities.csv": "id,name\n1,Rome\n2,Oslo\n",
		"users.csv":  "userId,city_id,created\n7,1,2020-01-01\n8,2,2021-01-01\n",
		"buys.csv":   "user_id,price,timestamp\n7,3.5,2022-01-01\n8,4,2022-01-02\n7,1,2022-01-03\n",
	})
	schema, _, _, err := formats.Schema(dir, formats.Options{Format: "database"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := schema.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"key: id", "key: userId", "time: created", "time: timestamp", "columns: city_id\n        table: cities", "columns: user_id\n        table: users", "price: number"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in\n%s", part, &b)
		}
	}
}

// Ids that tables share, and none is called by: keys where their values are, else nodes without a table.
func TestSharedIDsAreInferred(t *testing.T) {
	files := map[string]string{
		"shop_customers.csv": "customer_id,city\nc1,Rome\nc2,Oslo\nc3,Oslo\n",
		"shop_orders.csv":    "order_id,customer_id,status\no1,c1,sent\no2,c2,sent\no3,c3,lost\n", // each customer once, but not first
		"shop_items.csv":     "order_id,product_id,seller_id,price,timestamp\no1,p1,7,3.5,1640995200\no1,p2,7,4,1640995300\no3,p1,8,1,1640995400\n",
		"shop_sellers.csv":   "seller_id,rating\n7,1\n7,2\n8,3\n", // twice: no key
		"shop_products.csv":  "product_id,weight,time\np1,3,12\np2,4,13\n",
	}
	dir := folder(t, files)
	schema, _, notes, err := formats.Schema(dir, formats.Options{Format: "database"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := schema.Write(&b); err != nil {
		t.Fatal(err)
	}
	refers := func(from, column, to string) bool {
		return slices.ContainsFunc(schema.Tables[from].References, func(r database.Reference) bool {
			return len(r.Columns) == 1 && r.Columns[0] == column && r.Table == to
		})
	}
	if !slices.Equal(schema.Tables["shop_orders"].Key, []string{"order_id"}) || !slices.Equal(schema.Tables["shop_customers"].Key, []string{"customer_id"}) ||
		!refers("shop_items", "order_id", "shop_orders") || !refers("shop_orders", "customer_id", "shop_customers") || !refers("shop_items", "product_id", "shop_products") ||
		!schema.Tables["seller"].Implied || !refers("shop_items", "seller_id", "seller") || !refers("shop_sellers", "seller_id", "seller") {
		t.Errorf("%s", &b)
	}
	if schema.Tables["shop_items"].Time != "timestamp" || schema.Tables["shop_products"].Time != "" {
		t.Errorf("times of\n%s", &b)
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "there are ids of seller") {
		t.Errorf("notes %q", notes)
	}
	if schema, _, _, err = formats.Schema(dir, formats.Options{Format: "database", Dangling: ingest.DanglingDrop}); err != nil || schema.Tables["seller"] != nil {
		t.Errorf("%v, or it is implied although what dangles is dropped", err)
	}
}

// Ids whose name has more words after id, of two tables with one row for each, and of one table alone.
func TestIDsOfOtherFormsAreInferred(t *testing.T) {
	loans, identities, transactions, orders := "SK_ID_LOAN,SK_ID_CURR,DAYS\n", "TransactionID,id_01\n", "TransactionID,Amount\n", "order_no,user_id,channel_id\n"
	applications := "SK_ID_CURR,TARGET\n"
	for k := range 300 {
		loans += fmt.Sprintf("%d,%d,%d\n", 5000+k, 100+k%40, -k)
		orders += fmt.Sprintf("%d,%d,%d\n", k, 70+k%120, k%3)
		transactions += fmt.Sprintf("%d,%d\n", 9000+k, k)
		if k < 40 {
			applications += fmt.Sprintf("%d,%d\n", 100+k, k%2)
			identities += fmt.Sprintf("%d,%d\n", 9000+3*k, k)
		}
	}
	dir := folder(t, map[string]string{"bureau.csv": loans, "application.csv": applications, "train_identity.csv": identities, "train_transaction.csv": transactions, "basket.csv": orders})
	schema, uses, notes, err := formats.Schema(dir, formats.Options{Format: "database"})
	if err != nil {
		t.Fatal(err)
	}
	refers := map[string]string{}
	for name, table := range schema.Tables {
		for _, r := range table.References {
			refers[name] += r.Columns[0] + ">" + r.Table + " "
		}
	}
	want := map[string]string{"bureau": "SK_ID_CURR>application ", "train_identity": "TransactionID>train_transaction ", "basket": "user_id>user "}
	if !maps.Equal(refers, want) || !slices.Equal(schema.Tables["train_transaction"].Key, []string{"TransactionID"}) || !slices.Equal(schema.Tables["application"].Key, []string{"SK_ID_CURR"}) || !schema.Tables["user"].Implied {
		t.Errorf("references %v, expected %v", refers, want)
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "there are ids of user") {
		t.Errorf("notes %q", notes)
	}
	for _, u := range uses {
		if strings.Contains(u.Column, "channel_id") && !strings.HasPrefix(u.As, "category of 3 values") || strings.Contains(u.Column, "SK_ID_LOAN") && !strings.HasPrefix(u.As, "left out") {
			t.Errorf("%s: %s", u.Column, u.As)
		}
	}
}

// The only date of a table that refers to others is the time of its rows, unless somebody was born then; of several a note says that none is.
func TestTimesAreInferred(t *testing.T) {
	dir := folder(t, map[string]string{
		"users.csv":  "user_id,member_from,dob\n7,2019-01-01,1990-01-01\n8,2019-01-02,1991-01-01\n",
		"visits.csv": "visit_id,user_id,day\n1,7,2020-01-01\n2,8,2020-01-02\n",
		"plans.csv":  "plan_id,user_id,first,final\n1,7,2020-01-01,2021-01-01\n2,8,2020-01-02,2021-01-01\n",
		"pets.csv":   "pet_id,user_id,dob\n1,7,2018-01-01\n2,8,2017-01-02\n",
	})
	schema, _, notes, err := formats.Schema(dir, formats.Options{Format: "database"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"users": "", "visits": "day", "plans": "", "pets": ""} {
		if got := schema.Tables[name].Time; got != want {
			t.Errorf("the time of %s is %q, expected %q", name, got, want)
		}
	}
	first := folder(t, map[string]string{"users.csv": "user_id,age\n7,30\n8,31\n", "visits.csv": "date,user_id,planned\n2020-01-01,7,2019-01-01\n2020-01-02,8,2019-01-02\n"})
	schema, uses, _, err := formats.Schema(first, formats.Options{Format: "database"})
	if err != nil || schema.Tables["visits"].Time != "date" { // a first column may be the time
		t.Errorf("%v, the time of visits is %q, expected date", err, schema.Tables["visits"].Time)
	}
	told := map[string]string{}
	for _, u := range uses {
		told[strings.Trim(u.Column, `"`)] = u.As
	}
	for column, want := range map[string]string{"date": "time of the row", "age": "number: feature users.x", "planned": "date: feature visits.x"} {
		if !strings.HasPrefix(told[column], want) {
			t.Errorf("of column %s is told %q, expected %q", column, told[column], want)
		}
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, `table plans has dates ["first" "final"]`) || strings.Count(all, "has dates") != 1 {
		t.Errorf("notes %q", notes)
	}
}

// The numbers of rows that pandas writes in front are neither a key nor a feature, and a schema to be edited is written where none was found.
func TestTablesOfPandas(t *testing.T) {
	dir := folder(t, map[string]string{"users.csv": "index,user_id,age\n0,7,30\n1,8,31\n", "visits.csv": "index,visit_id,user_id,day\n0,1,7,2020-01-01\n1,2,8,2020-01-02\n"})
	schema, _, _, err := formats.Schema(dir, formats.Options{Format: "database"})
	if err != nil {
		t.Fatal(err)
	}
	users, visits := schema.Tables["users"], schema.Tables["visits"]
	if !slices.Equal(users.Key, []string{"user_id"}) || len(visits.References) != 1 || visits.References[0].Table != "users" || users.Columns["index"] != database.Skip {
		t.Errorf("users %+v, visits %+v", users, visits)
	}
	apart := folder(t, map[string]string{"a.csv": "x,y\n1,2\n2,3\n", "b.csv": "z,w\n1,2\n2,4\n"})
	schema, uses, notes, err := formats.Schema(apart, formats.Options{Format: "database"})
	if err != nil || len(schema.Tables) != 2 || len(uses) == 0 || !strings.Contains(strings.Join(notes, "\n"), "no table refers to another") {
		t.Errorf("schema %v, uses %v, notes %q, error %v", schema, uses, notes, err)
	}
	if _, err := formats.Open(apart, formats.Options{Format: "database"}); !errors.Is(err, ingest.ErrInput) {
		t.Errorf("error %v", err)
	}
}

// What cannot be read is refused with where it stands and what was expected.
func TestHostileDatabases(t *testing.T) {
	with := func(name, text string) map[string]string {
		files := map[string]string{}
		for n, x := range shop {
			files[n] = x
		}
		files[name] = text
		return files
	}
	schema := func(text string) map[string]string { return with("schema.yaml", text) }
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{schema("tables: {people: {file: people.csv, key: nobody}}"), `column "nobody", which is not there`},
		{schema("tables: {people: {file: people.csv, key: [person_id, person_id]}}"), `column "person_id" stands twice in its key`},
		{schema("tables: {people: {file: people.csv}, order: {references: [{columns: person, table: people}]}}"), `table "people", which has no key`},
		{schema("tables: {order: {references: [{columns: person, table: folk}]}}"), `table "folk", which is not there`},
		{schema("tables: {people: {key: person_id}, order: {references: [{columns: [person, day], table: people}]}}"), "whose key has 1 columns"},
		{schema("tables: {people: {key: person_id}, order: {references: [{columns: person, table: people}, {columns: person, table: people}]}}"), `refer to table "people" twice`},
		{schema("tables: {'a:b': {file: people.csv}}"), "without a colon"},
		{schema("tables: {people: {columns: {vip: yes-no}}}"), `of kind "yes-no", expected one of [number`},
		{schema("tables: {people: {columns: {name: vector}}}"), "only lists of numbers are vectors"},
		{schema("tables: {people: {}}"), "no table refers to another"},
		{schema("tables: {gone: {}}"), `table "gone" has no file`},
		{schema("tables: {people: {time: name, key: person_id, references: [{columns: boss, table: people}]}}"), `line 2: column 5: "Ann" is no time`},
		{schema("tables: [1, 2]"), "no schema: yaml"},
		{schema("tables: {}"), "no tables"},
		{with("people.csv", "person_id,name,boss,vip,since,city\nann,A,,1,2020-01-01,x\nann,B,,1,2020-01-01,y\n"), `line 3: a second row of key "people:ann"`},
		{with("people.csv", "person_id,name,boss,vip,since,city\n,A,,1,2020-01-01,x\n"), `line 2: a row without a key`},
		{with("people.csv", "person_id,name,boss,vip,since,city\nann,A,,1,1577836800000000,x\n"), "1577836800000000 is none of the years 1 to 9999"},
		{with("people.csv", "person_id,name,name,boss,vip,since,city\nann,A,B,,1,2020-01-01,x\n"), `two columns are called "name"`},
		{with("lines.csv", "order,no,x\n1,1\n"), "line 2"},
	} {
		src, err := formats.Open(folder(t, test.files), formats.Options{})
		if err == nil {
			_, err = ingest.Run(t.Context(), filepath.Join(t.TempDir(), "s"), src, ingest.Options{Missing: ingest.MissingZero, MemoryBytes: 256 << 20})
			err = errors.Join(err, src.Close())
		}
		if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, expected one with %q", err, test.want)
		}
	}
}

// The graph does not depend on memory, threads or partitions that are resumed.
func TestManyRowsInLittleMemory(t *testing.T) {
	var b, c strings.Builder
	dangling := 0
	b.WriteString("id,v\n")
	c.WriteString("big_id,at\n")
	for i := range 20000 {
		fmt.Fprintf(&b, "%d,%d\n", i, i%97)
		to := i * 7 % 20010
		fmt.Fprintf(&c, "%d,%d\n", to, i)
		if to >= 20000 {
			dangling++
		}
	}
	dir := folder(t, map[string]string{"big.csv": b.String(), "links.csv": c.String(),
		"schema.yaml": "tables: {big: {file: big.csv, key: id}, links: {file: links.csv, time: at, references: [{columns: big_id, table: big}]}}"})
	var first []string
	for _, o := range []ingest.Options{{MemoryBytes: 1 << 30}, {MemoryBytes: 144 << 20, Threads: 1}} {
		src, err := formats.Open(dir, formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(t.TempDir(), "s")
		rep, err := ingest.Run(t.Context(), at, src, o)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(rep.Manifest.Ingest["notes"], fmt.Sprintf("%d edges of links:big_id:big name no row", dangling)) {
			t.Errorf("notes %s", rep.Manifest.Ingest["notes"])
		}
		s, err := store.Open(at, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lines := storetest.Lines(t, s, nil)
		if err := errors.Join(s.Close(), src.Close()); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = lines
		} else if !slices.Equal(first, lines) {
			t.Error("the graph depends on memory")
		}
	}
}

// FuzzSchema parses schemas: what is taken is written and read as it is.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(shopSchema))
	f.Add([]byte("tables:\n  races: {pkey: raceId, time_col: date, fkeys: {circuitId: circuits}}\n  circuits: {pkey: circuitId, time_col: null, fkeys: {}}\n"))
	f.Add([]byte("tables: {a: null}"))
	f.Add([]byte("tables: {a: {key: [x], references: [{columns: [b], table: a}], columns: {x: text}}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := database.ParseSchema("fuzzed", b)
		if err != nil {
			if !errors.Is(err, ingest.ErrInput) {
				t.Fatalf("%v", err)
			}
			return
		}
		var first, second bytes.Buffer
		if err := s.Write(&first); err != nil {
			t.Fatal(err)
		}
		again, err := database.ParseSchema("written", first.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, &first)
		}
		if err := again.Write(&second); err != nil || first.String() != second.String() {
			t.Fatalf("%v: written\n%s\nthen\n%s", err, &first, &second)
		}
	})
}
