package data_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// exported are the lines of a store's exported table, sorted.
func exported(t *testing.T, dir, table string) []string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	clitest.MustRun(t, "export", dir, out, "--format", "tsv", "--quiet")
	b, err := os.ReadFile(filepath.Join(out, table))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Sort(lines[1:])
	return lines
}

// TestAppendUpdateRows: tables change features, labels and parts of the split of nodes that a store has: it holds then what an ingest of the
// changed tables does, in whatever partitions, types and number of elements.
func TestAppendUpdateRows(t *testing.T) {
	t.Chdir(t.TempDir())
	customers := func(change func(i int) bool, columns ...string) string {
		text := "customer_id," + strings.Join(columns, ",") + "\n"
		for i := range 40 {
			if change != nil && !change(i) {
				continue
			}
			row := map[string]string{"age": fmt.Sprint(20 + i), "visits": fmt.Sprint(i % 7), "town": []string{"ulm", "bonn", "jena"}[i%3], "segment": "ab"[i%2 : i%2+1]}
			if change != nil && change(i) {
				row = map[string]string{"age": fmt.Sprint(70 - i), "visits": "9", "town": "bonn", "segment": "b"}
			}
			text += fmt.Sprintf("C%d", i)
			for _, c := range columns {
				text += "," + row[c]
			}
			text += "\n"
		}
		return text
	}
	some := func(i int) bool { return i%5 == 1 || i == 39 }
	all := []string{"age", "visits", "town", "segment"}
	var bought, products strings.Builder
	bought.WriteString("customer_id,product_id\n")
	products.WriteString("product_id,price\n")
	for i := range 200 {
		fmt.Fprintf(&bought, "C%d,P%d\n", i*7%40, i*3%11)
	}
	for i := range 11 {
		fmt.Fprintf(&products, "P%d,%d\n", i, i)
	}
	clitest.Put(t, ".", map[string][]byte{"bought.csv": []byte(bought.String()), "product.csv": []byte(products.String())})
	ingest := func(dir, table string, flags ...string) {
		clitest.Put(t, ".", map[string][]byte{"customer.csv": []byte(table)})
		clitest.MustRun(t, append([]string{"ingest", "bought.csv", dir, "--nodes", "customer=customer.csv", "--nodes", "product=product.csv", "--use", "town", "--label", "segment", "--partitions", "3", "--quiet"}, flags...)...)
	}
	for _, c := range []struct {
		name    string
		columns []string
		flags   []string
		says    []string
	}{
		{"all", all, []string{"--normalize=none"}, []string{"features of 9 nodes", "labels of 9 nodes: 0 had none, 4 another one"}},
		{"one element", []string{"visits"}, []string{"--normalize=none"}, []string{"features of 9 nodes"}},
		{"text", []string{"town"}, []string{"--normalize=none"}, []string{"features of 9 nodes"}},
		{"half", []string{"visits", "age"}, []string{"--normalize=none", "--feature-dtype", "float16"}, []string{"features of 9 nodes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, once := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "once")
			ingest(dir, customers(nil, all...), c.flags...)
			clitest.MustRun(t, "precompute", dir, "--quiet")
			before := exported(t, dir, "nodes.tsv")
			clitest.Put(t, ".", map[string][]byte{"customer.csv": []byte(customers(some, c.columns...) + "nobody" + strings.Repeat(",1", len(c.columns)) + "\n")})
			if slices.Contains(c.columns, "town") { // whose values are known
				clitest.Put(t, ".", map[string][]byte{"customer.csv": []byte(customers(some, c.columns...))})
			}
			args := []string{"append", dir, "--nodes", "customer.csv", "--update", "--use", "town", "--label", "segment"}
			if !slices.Contains(c.columns, "segment") {
				args = args[:len(args)-2]
			}
			if !slices.Contains(c.columns, "town") {
				args = slices.Delete(args, 5, 7)
			}
			code, told, errs := clitest.Run(t, args...)
			if code != cli.ExitOK {
				t.Fatal(errs)
			}
			dropped := "customer.x.hop1 is not in this version"
			if c.name == "text" {
				dropped = "customer.town.hop1 is not in this version"
			}
			for _, want := range append(c.says, dropped) {
				if !strings.Contains(told, want) {
					t.Errorf("says %s, expected %s", told, want)
				}
			}
			if unknown := strings.Contains(errs, `1 rows are left out: the store has no nodes such as ["customer:nobody"]`); unknown == slices.Contains(c.columns, "town") {
				t.Errorf("of a row of no node: %s", errs)
			}
			clitest.MustRun(t, "verify", dir)
			// The same by tables that were so from the beginning.
			rows := strings.Split(customers(nil, all...), "\n")
			changed := strings.Split(customers(some, all...), "\n")[1:]
			for k, row := range rows {
				id, _, _ := strings.Cut(row, ",")
				for _, x := range changed {
					if other, _, _ := strings.Cut(x, ","); id == "" || other != id {
						continue
					}
					was, is := strings.Split(row, ","), strings.Split(x, ",")
					for i, name := range all {
						if slices.Contains(c.columns, name) {
							was[i+1] = is[i+1]
						}
					}
					rows[k] = strings.Join(was, ",")
				}
			}
			ingest(once, strings.Join(rows, "\n"), c.flags...)
			got, want := exported(t, dir, "nodes.tsv"), exported(t, once, "nodes.tsv")
			cut := func(lines []string) (out []string) { // the split, which is drawn of the labelled nodes
				for _, l := range lines {
					out = append(out, l[:strings.LastIndex(l, "\t")])
				}
				return out
			}
			if !slices.Equal(cut(got), cut(want)) {
				t.Errorf("%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if slices.Equal(got, before) {
				t.Error("nothing changed")
			}
			if _, inspected, _ := clitest.Run(t, "inspect", dir); strings.Contains(inspected, "hop1") {
				t.Error("what was precomputed of the features that were is still there")
			}
		})
	}
	for _, c := range []struct{ table, says string }{
		{"customer_id,height\nC1,3\n", `made of ["height"], the store's column of ["age" "visits"]`},
		{"customer_id,town\nC1,rome\n", `"rome" is none of the store's values`},
		{"customer_id,age,visits\nC1,3,\n", ""}, // the mean
		{"customer_id,age\nX1,3\n", "none of its 1 rows names a node of the store"},
		{"customer_id,age\nC1,3\nC1,4\n", "two rows for one node"},
		{"customer_id\nC1\n", "no column of features, of labels or of a split"},
	} {
		dir := filepath.Join(t.TempDir(), "s")
		ingest(dir, customers(nil, all...))
		clitest.Put(t, ".", map[string][]byte{"customer.csv": []byte(c.table)})
		code, _, errs := clitest.Run(t, "append", dir, "--nodes", "customer.csv", "--update", "--use", "town")
		if !strings.Contains(c.table, "town") {
			code, _, errs = clitest.Run(t, "append", dir, "--nodes", "customer.csv", "--update")
		}
		if (code == cli.ExitOK) != (c.says == "") || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s", c.table, code, errs)
		}
	}
}

// Labels that a store without features gets later number its nodes too, as an ingest with labels does, and nodes that come then are numbered on.
func TestAppendLabelsNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{"edges.csv": []byte("src,dst\na,b\nb,c\nc,d\nd,a\n"), "labels.csv": []byte("id,label\na,0\nb,1\nc,0\nd,1\n"),
		"more.csv": []byte("src,dst\nd,e\n"), "later.csv": []byte("id,label\ne,1\n")})
	clitest.MustRun(t, "ingest", "edges.csv", "s", "--quiet")
	if code, told, says := clitest.Run(t, "append", "s", "--nodes", "labels.csv"); code != cli.ExitOK || !strings.Contains(told+says, "column node.node numbers them") {
		t.Fatalf("exit %d: %s%s", code, told, says)
	}
	clitest.MustRun(t, "append", "s", "more.csv", "--nodes", "later.csv", "--quiet")
	clitest.MustRun(t, "verify", "s")
	clitest.MustRun(t, "train", "s", "--epochs", "1", "--quiet")
	out := filepath.Join(t.TempDir(), "out")
	clitest.MustRun(t, "export", "s", out, "--format", "tsv", "--quiet")
	b, err := os.ReadFile(filepath.Join(out, "nodes.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		if f := strings.Split(line, "\t"); len(f) > 3 && f[2] == "1" {
			numbers[f[3]] = true
		}
	}
	if want := map[string]bool{"1": true, "2": true, "3": true, "4": true, "5": true}; !maps.Equal(numbers, want) {
		t.Errorf("nodes are numbered %v in\n%s", numbers, b)
	}
}

// A feature of edges that is called as one of nodes is edge_NAME, also of edges that come later.
func TestAppendNamesApart(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{"edges.csv": []byte("src_id,dst_id,label,feat\n0,1,1,\"0.5, 2\"\n1,2,0,\"0.25, 3\"\n"), "nodes.csv": []byte("node_id,label,feat\n0,0,\"1.5, 2\"\n1,1,\"1, 2\"\n2,0,\"0.5, 7\"\n"),
		"more.csv": []byte("src_id,dst_id,label,feat\n2,0,1,\"0.75, 4\"\n")})
	clitest.MustRun(t, "ingest", "edges.csv", "s", "--nodes", "nodes.csv", "--quiet")
	clitest.MustRun(t, "append", "s", "more.csv", "--quiet")
	out := filepath.Join(t.TempDir(), "out")
	clitest.MustRun(t, "export", "s", out, "--format", "tsv", "--quiet")
	b, err := os.ReadFile(filepath.Join(out, "edges.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Sort(got[1:])
	if want := []string{"src\tdst\tedge_label\tedge_feat.0\tedge_feat.1", "0\t1\t1\t0.5\t2", "1\t2\t0\t0.25\t3", "2\t0\t1\t0.75\t4"}; !slices.Equal(got, want) {
		t.Errorf("edges %q, expected %q", got, want)
	}
}

// TestAppendTakesEdges: edges of a store of types are deleted and replaced by a list of its ends as tables have them; what it lacks is
// counted, and flags that say nothing together are refused before anything is read.
func TestAppendTakesEdges(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"customer.csv": []byte("customer_id,age\nC1,20\nC2,30\nC3,40\n"), "product.csv": []byte("product_id,price\nP1,2\nP2,3\n"),
		"bought.csv": []byte("customer_id,product_id,weight\nC1,P1,1\nC1,P1,2\nC2,P1,3\nC2,P2,4\nC3,P2,5\n"),
		"back.csv":   []byte("customer_id,product_id\nC1,P1\nC3,P1\nC9,P1\n"), "news.csv": []byte("customer_id,product_id,weight\nC2,P2,9\nC1,P2,8\n"),
	})
	clitest.MustRun(t, "ingest", "bought.csv", "s", "--nodes", "customer=customer.csv", "--nodes", "product=product.csv", "--partitions", "2", "--quiet")
	code, told, says := clitest.Run(t, "append", "s", "back.csv", "--delete")
	if code != cli.ExitOK || !strings.Contains(told, "5 nodes (0 new, in 0 partitions), 3 edges (2 deleted)") || !strings.Contains(says, "2 of the 3 edges are not in the store") {
		t.Fatalf("exit %d: %s%s", code, told, says)
	}
	code, told, says = clitest.Run(t, "append", "s", "news.csv", "--update")
	if code != cli.ExitOK || !strings.Contains(told, "4 edges (2 put in, 1 taken out)") {
		t.Fatalf("exit %d: %s%s", code, told, says)
	}
	clitest.MustRun(t, "verify", "s")
	out := filepath.Join(t.TempDir(), "out")
	clitest.MustRun(t, "export", "s", out, "--format", "tsv", "--quiet")
	b, err := os.ReadFile(filepath.Join(out, "edges.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(b)), "\n")[1:]
	slices.Sort(got)
	if want := []string{"customer:C1\tproduct:P2\t8", "customer:C2\tproduct:P1\t3", "customer:C2\tproduct:P2\t9", "customer:C3\tproduct:P2\t5"}; !slices.Equal(got, want) {
		t.Errorf("edges %q, expected %q", got, want)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"append s back.csv --delete", cli.ExitFailed, "the store has none of its 3 edges"},
		{"append s back.csv --delete --update", cli.ExitUsage, "give one of both"},
		{"append s --delete", cli.ExitUsage, "gstore append STORE INPUT --delete"},
		{"append s back.csv --nodes customer.csv --delete", cli.ExitUsage, "give one of both"},
		{"append s --split-random 60/20/20 --update", cli.ExitUsage, "or with tables of nodes (--nodes TABLE)"},
		{"append s back.csv --update", cli.ExitFailed, "its edges have no weight, and the store's have"},
	} {
		code, _, says := clitest.Run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(says, c.says) {
			t.Errorf("%s: exit %d: %s, expected %d: %s", c.args, code, says, c.code, c.says)
		}
	}
}
