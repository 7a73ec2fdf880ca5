package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// exportedTable ingests with the arguments and returns the export's nodes.tsv and edges.tsv.
func exportedTable(t *testing.T, args ...string) (nodes, edges string) {
	t.Helper()
	store, out := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "out")
	clitest.MustRun(t, append([]string{"ingest", args[0], store}, args[1:]...)...)
	clitest.MustRun(t, "verify", store)
	clitest.MustRun(t, "export", store, out, "--format", "tsv")
	n, err := os.ReadFile(filepath.Join(out, "nodes.tsv"))
	if err != nil && !os.IsNotExist(err) { // of a graph without columns of nodes
		t.Fatal(err)
	}
	e, err := os.ReadFile(filepath.Join(out, "edges.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	return string(n), string(e)
}

// TestIngestTypes: tables of users and items beside their interactions, in one command: ids of each are a space of their own.
func TestIngestTypes(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"users.csv": []byte("user_id,age,label\n1,30,gold\n2,40,silver\n"), "items.csv": []byte("item_id,price\n1,9.5\n2,.5\n"), "shops.csv": []byte("shop_id,size\n1,4\n"),
		"bought.csv": []byte("user_id,item_id,stars\n1,1,5\n2,1,3\n1,2.0,4\n"), "viewed.csv": []byte("item_id,user_id\n1,2\n"), "plain.csv": []byte("src,dst\n1,2\n"),
		"more.csv": []byte("user_id,item_id,stars\n3,2,1\n"), "more-users.csv": []byte("user_id,age,label\n3,50,silver\n"),
		"bought.parquet": parquetFile([]struct {
			User  float64 `parquet:"user_id"`
			Item  int32   `parquet:"item_id"`
			Stars float64 `parquet:"stars"`
		}{{1, 1, 5}, {2, 1, 3}, {1, 2, 4}}),
	})
	both := []string{"--nodes", "user=users.csv,item=items.csv", "--normalize=none", "--split-random", "none"}
	want := "id\tuser.x\tlabel\titem.x\tnode_type\nitem:1\t0\t-1\t9.5\t1\nitem:2\t0\t-1\t0.5\t1\nuser:1\t30\t0\t0\t2\nuser:2\t40\t1\t0\t2\n"
	for _, input := range []string{"bought.csv", "bought.parquet"} {
		nodes, edges := exportedTable(t, append([]string{input}, both...)...)
		if nodes != want || !strings.Contains(edges, "user:1\titem:2\t4\n") || strings.Count(edges, "\n") != 4 {
			t.Errorf("%s: nodes\n%sedges\n%s", input, nodes, edges)
		}
	}
	if _, edges := exportedTable(t, append([]string{"viewed.csv"}, both...)...); !strings.Contains(edges, "item:1\tuser:2\n") {
		t.Errorf("items first: %s", edges)
	}
	if _, edges := exportedTable(t, append([]string{"plain.csv"}, both...)...); !strings.Contains(edges, "user:1\titem:2\n") {
		t.Errorf("ends by the order of tables: %s", edges)
	}
	if _, edges := exportedTable(t, "plain.csv", "--nodes", "user=users.csv"); !strings.Contains(edges, "user:1\tuser:2\n") {
		t.Errorf("ends of one type: %s", edges)
	}
	clitest.MustRun(t, append([]string{"ingest", "bought.csv", "s"}, both...)...)
	clitest.MustRun(t, "append", "s", "more.csv", "--nodes", "user=more-users.csv")
	clitest.MustRun(t, "export", "s", "out", "--format", "tsv")
	if b, err := os.ReadFile("out/nodes.tsv"); err != nil || !strings.Contains(string(b), "user:3\t50\t1\t0\t2\n") {
		t.Errorf("appended: %s (%v)", b, err)
	}
	for _, c := range []struct {
		args  string
		code  int
		fails string
	}{
		{"plain.csv x --nodes user=users.csv,items.csv", cli.ExitFailed, "expected one of each, or of none"},
		{"plain.csv x --nodes user=users.csv,item=items.csv,shop=shops.csv", cli.ExitFailed, `call the columns TYPE_id of two of ["user" "item" "shop"]`},
		{"bought.csv x --nodes user=users.csv,item=items.csv --ids integers", cli.ExitUsage, "are strings, TYPE:ID"},
		{"bought.csv x --nodes users.csv --node-columns id,age --node-columns id,price", cli.ExitUsage, "2 lists of columns for 1 tables"},
	} {
		if code, _, errs := clitest.Run(t, append([]string{"ingest"}, strings.Fields(c.args)...)...); code != c.code || !strings.Contains(errs, c.fails) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
	nodes, _ := exportedTable(t, "plain.csv", "--nodes", "users.csv,items.csv", "--node-columns", "id,age,-", "--node-columns", "id,price")
	if nodes != "id\tage\tprice\n1\t30\t9.5\n2\t40\t0.5\n" {
		t.Errorf("a list of columns for each table: %s", nodes)
	}
}

// TestIngestParquetTypes: what pandas and Spark put into Parquet is read as what it means: decimals, times of all kinds, lists that
// are missing or have missing elements; what cannot be read is left out, and said so.
func TestIngestParquetTypes(t *testing.T) {
	t.Chdir(t.TempDir())
	day := func(d int) deprecated.Int96 { return deprecated.Int96{uint32(d) * 1e9, 0, 2440588 + uint32(d)} } // and d seconds
	one, two := float32(1), float32(2)
	type inner struct{ A, B float64 }
	clitest.Put(t, ".", map[string][]byte{
		"e.csv": []byte("src,dst\n1,2\n2,3\n"),
		"n.parquet": parquetFile([]struct {
			ID     int64            `parquet:"id"`
			Price  int64            `parquet:"price,decimal(2:12)"`
			When   deprecated.Int96 `parquet:"when"`
			Emb    []*float32       `parquet:"emb,list,optional"`
			Pair   inner            `parquet:"pair"`
			Active bool             `parquet:"active"`
		}{{1, 125, day(1), nil, inner{}, true}, {2, -250, day(2), []*float32{&one, &two}, inner{}, false}, {3, 0, day(3), []*float32{nil, &one}, inner{}, true}}),
		"n.csv": []byte("id,active\n1,True\n2,False\n3,\n"),
		"t.parquet": parquetFile([]struct {
			Src  int64     `parquet:"src"`
			Dst  int64     `parquet:"dst"`
			Time time.Time `parquet:"time,timestamp(microsecond)"`
		}{{1, 2, time.Unix(1_700_000_000, 999)}}),
		"t96.parquet": parquetFile([]struct {
			Src  int64            `parquet:"src"`
			Dst  int64            `parquet:"dst"`
			Time deprecated.Int96 `parquet:"time"`
		}{{1, 2, day(2)}}),
		"bad.parquet": parquetFile([]struct {
			Src int64 `parquet:"src"`
			Dst inner `parquet:"dst"`
		}{{1, inner{}}}),
	})
	nodes, _ := exportedTable(t, "e.csv", "--nodes", "n.parquet", "--use", "when", "--missing", "zero", "--normalize=none")
	if want := "id\twhen\temb.0\temb.1\tx.0\tx.1\n1\t1.0000116\t0\t0\t1.25\t1\n2\t2.0000231\t1\t2\t-2.5\t0\n3\t3.0000348\t0\t1\t0\t1\n"; nodes != want {
		t.Errorf("nodes\n%s, expected\n%s", nodes, want)
	}
	_, out, _ := clitest.Run(t, "ingest", "e.csv", "s", "--nodes", "n.parquet", "--missing", "zero")
	for _, want := range []string{`"pair" → left out: nested`, `"when" → left out: dates`, "3 values of emb were missing"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said: %s", want, out)
		}
	}
	if code, _, errs := clitest.Run(t, "ingest", "e.csv", "s2", "--nodes", "n.parquet"); code != cli.ExitFailed || !strings.Contains(errs, "n.parquet: row 0: column 0 of emb has no value") {
		t.Errorf("missing lists: exit %d: %s", code, errs)
	}
	if nodes, _ := exportedTable(t, "e.csv", "--nodes", "n.csv", "--missing", "mean"); nodes != "id\tx\n1\t1\n2\t0\n3\t0.5\n" {
		t.Errorf("booleans of text: %s", nodes)
	}
	if _, edges := exportedTable(t, "t.parquet"); edges != "src\tdst\ttimestamp\n1\t2\t1700000000\n" {
		t.Errorf("microseconds: %s", edges)
	}
	if _, edges := exportedTable(t, "t96.parquet"); edges != "src\tdst\ttimestamp\n1\t2\t172802\n" {
		t.Errorf("INT96: %s", edges)
	}
	if code, _, errs := clitest.Run(t, "ingest", "bad.parquet", "s3"); code != cli.ExitFailed || !strings.Contains(errs, `column "dst", the dst, is nested`) {
		t.Errorf("a nested end: exit %d: %s", code, errs)
	}
}

// TestHelpSections: the flags of ingest, partition, append and export stand under headings, one each.
func TestHelpSections(t *testing.T) {
	for name, wants := range map[string][]string{
		"ingest":    {"\nInput:\n", "\nFeatures and labels:\n", "\nGraph:\n", "\nPartitions:\n", "\nPrecomputed hop:\n", "\nOther:\n"},
		"append":    {"\nInput:\n", "\nA column:\n"},
		"partition": {"\nPartitions:\n", "\nAnswers:\n"},
		"export":    {"\nWhat is written:\n"},
	} {
		code, out, _ := clitest.Run(t, name, "--help")
		for _, want := range wants {
			if code != cli.ExitOK || strings.Count(out, want) != 1 {
				t.Errorf("%s --help: %q is there %d times: %s", name, want, strings.Count(out, want), out)
			}
		}
		if strings.Count(out, "\n  --mem ") != 1 {
			t.Errorf("%s --help: --mem is there %d times", name, strings.Count(out, "\n  --mem "))
		}
	}
}

// TestIngestTypesByFiles: tables of nodes without a TYPE= are of the types that the columns of edges' ends and the files are called by; where
// these do not fit, they are of one type as before.
func TestIngestTypesByFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"bought.csv": []byte("customer_id,product_id,weight\nC1,P1,1\nC2,P1,3\nC2,P2,4\n"), "plain.csv": []byte("src,dst\nC1,P1\nC2,P2\n"),
		"customer.csv": []byte("customer_id,age\nC1,20\nC2,30\n"), "product.csv": []byte("product_id,price\nP1,2\nP2,3\n"),
		"customers.csv": []byte("id,age\nC1,20\nC2,30\n"), "products.csv": []byte("id,price\nP1,2\nP2,3\n"), "more.csv": []byte("id,price\nP3,7\n"),
	})
	for name, c := range map[string]struct {
		args  []string
		types string
	}{
		"by files":  {[]string{"bought.csv", "s1", "--nodes", "customer.csv", "--nodes", "product.csv"}, "[customer product]"},
		"plural":    {[]string{"bought.csv", "s2", "--nodes", "products.csv", "--nodes", "customers.csv"}, "[customer product]"},
		"named":     {[]string{"bought.csv", "s3", "--nodes", "user=customer.csv", "--nodes", "item=product.csv"}, ""},
		"one type":  {[]string{"plain.csv", "s4", "--nodes", "customers.csv", "--nodes", "products.csv"}, ""},
		"no end":    {[]string{"bought.csv", "s5", "--nodes", "customers.csv", "--nodes", "more.csv"}, ""},
		"by places": {[]string{"bought.csv", "s6", "--columns", "src,dst,weight", "--header", "yes", "--nodes", "customers.csv", "--nodes", "products.csv"}, ""},
	} {
		code, _, errs := clitest.Run(t, append([]string{"ingest", "--quiet"}, c.args...)...)
		if (code == cli.ExitOK) != (c.types != "") {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
		if code != cli.ExitOK {
			continue
		}
		s, err := store.Open(c.args[1], store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, x := range s.Manifest().Schema.NodeTypes {
			types = append(types, x.Name)
		}
		if slices.Sort(types); fmt.Sprint(types) != c.types {
			t.Errorf("%s: types %v, expected %s", name, types, c.types)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
