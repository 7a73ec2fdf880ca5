package data_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestAppendTypes: what is appended to a store of types names nodes with their types, without them where one type alone has them, or by the
// names of columns and files; and nothing enters the store as what it is not.
func TestAppendTypes(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"buys.csv": []byte("customer_id,product_id\nC1,1\nC2,2\nC3,3\nC1,2\n"),
		"c0.csv":   []byte("id,age\nC1,3\nC2,4\nC3,5\n"), "p0.csv": []byte("id,price\n1,3\n2,4\n3,9\nC3,5\n"),
		"customer.csv": []byte("id,age\nC4,9\n"), "product.csv": []byte("id,price\n9,2\n"),
	})
	clitest.MustRun(t, "ingest", "buys.csv", "first", "--nodes", "customer=c0.csv", "--nodes", "product=p0.csv")
	anew, customers := "customer_id,product_id\n", []string(nil) // week of 12 new customers
	for k := range 12 {
		customers = append(customers, fmt.Sprintf("customer:N%d", k))
		anew += fmt.Sprintf("N%d,3\n", k)
	}
	for _, c := range []struct {
		name, edges string
		args        []string
		added       []string // external ids
		fails       string
	}{
		{"columns called by types", "customer_id,product_id\nC1,3\nC4,1\n", nil, []string{"customer:C4"}, ""},
		{"columns in the other order", "product_id,customer_id\n3,C1\n1,C4\n", nil, []string{"customer:C4"}, ""},
		{"ids with types", "src,dst\ncustomer:C4,product:1\ncustomer:C1,product:7\n", nil, []string{"customer:C4", "product:7"}, ""},
		{"ids that one type has", "src,dst\nC1,3\nC2,customer:C1\n", nil, nil, ""},
		{"new ids without a type", "src,dst\nC1,3\nC4,1\n", nil, nil, `1 node(s) that the store does not have say no type, such as ["C4"]: write customer:C4`},
		{"an id of two types", "src,dst\nC3,1\n", nil, nil, `"C3" is a node of several types: write customer:C3 or product:C3`},
		{"another type's column", "customer_id,shop_id\nC1,3\n", nil, nil, `node type "shop", expected one of the store's`},
		{"another type's id", "src,dst\nshop:1,C1\n", nil, nil, "say no type"},
		{"files called by types", "customer_id,product_id\nC4,9\n", []string{"--nodes", "customer.csv", "--nodes", "product.csv"}, []string{"customer:C4", "product:9"}, ""},
		{"files with types", "src,dst\ncustomer:C4,1\n", []string{"--nodes", "customer=customer.csv"}, []string{"customer:C4"}, ""},
		{"all are new", anew, nil, nil, "too many are new: week.csv: the store has 1 of the 13 nodes and would get 12; if they are new, --new-nodes ok adds them"},
		{"all may be new", anew, []string{"--new-nodes", "ok"}, customers, ""},
		{"nothing happens", "customer_id,product_id\nC1,3\nC4,1\n", []string{"--dry-run"}, nil, ""},
	} {
		dir := filepath.Join(t.TempDir(), "s")
		if err := os.CopyFS(dir, os.DirFS("first")); err != nil {
			t.Fatal(err)
		}
		clitest.Put(t, ".", map[string][]byte{"week.csv": []byte(c.edges)})
		code, told, errs := clitest.Run(t, append([]string{"append", dir, "week.csv"}, c.args...)...)
		if want := map[bool]int{true: cli.ExitOK, false: cli.ExitFailed}[c.fails == ""]; code != want || !strings.Contains(errs, c.fails) {
			t.Errorf("%s: exit %d: %s", c.name, code, errs)
			continue
		}
		if dry := slices.Contains(c.args, "--dry-run"); dry != strings.Contains(told, "the store is as it was; the next version would be\n") || dry && !strings.Contains(told, "version 2, 8 nodes (1 new") {
			t.Errorf("%s: %s", c.name, told)
		}
		got, types := idsAndTypes(t, dir)
		for _, id := range c.added {
			if !slices.Contains(got, id) {
				t.Errorf("%s: nodes are %q, expected %q among them", c.name, got, id)
			}
		}
		want := map[string]uint64{"customer": 3, "product": 4}
		for _, id := range c.added {
			kind, _, _ := strings.Cut(id, ":")
			want[kind]++
		}
		if len(got) != 7+len(c.added) || !maps.Equal(types, want) {
			t.Errorf("%s: nodes %q of types %v, expected %v", c.name, got, types, want)
		}
	}
}

// idsAndTypes are the external ids of a store's nodes, and how many there are of each type.
func idsAndTypes(t *testing.T, dir string) (ids []string, types map[string]uint64) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for id := range s.Manifest().Nodes {
		external, err := s.External(t.Context(), store.NodeID(id))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, external)
	}
	types = map[string]uint64{}
	for _, n := range s.Manifest().Schema.NodeTypes {
		types[n.Name] = n.Count
	}
	return ids, types
}
