package data_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestAppendTables: rows of a table that is appended mean what the store's do, whichever of the store's classes and values
// they have, in whatever order their columns stand; what cannot be is refused.
func TestAppendTables(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"e.csv": []byte("src,dst\na,b\nb,c\nc,d\n"), "f.csv": []byte("src,dst\ne,a\nf,b\n"),
		"n.csv": []byte("id,age,income,city,label,node_type,joined\na,1,10,Rome,gold,u,2024-01-01\nb,2,20,Paris,silver,v,2024-01-02\nc,3,30,,bronze,u,2024-01-03\nd,4,40,Rome,gold,v,2024-01-04\n"),
	})
	clitest.MustRun(t, "ingest", "e.csv", "first", "--nodes", "n.csv", "--use", "city,joined", "--missing", "zero", "--normalize=none", "--split-random", "50/25/25")
	for _, c := range []struct{ name, table, nodes, fails string }{
		{"some of the values, other order", "id,income,joined,age,label,node_type,city\ne,50,2024-01-05,5,silver,v,\nf,,2024-01-06,6,,u,Rome\n",
			"e\t0\t0\t0\t1\t19727\t5\t50\t2\tnone\nf\t0\t1\t1\t0\t19728\t6\t0\t-1\tnone", ""},
		{"a column without values", "id,age,income,label\ne,5,,silver\nf,6,,gold\n", "e\t0\t0\t0\t0\t0\t5\t0\t2\tnone\nf\t0\t0\t0\t0\t0\t6\t0\t1\tnone", ""},
		{"another class", "id,age,income,label\ne,5,50,platinum\nf,6,60,gold\n", "", `m.csv: line 2: "platinum" is none of the store's values ["bronze" "gold" "silver"]`},
		{"another value", "id,city,node_type\ne,Oslo,u\nf,Rome,u\n", "", `m.csv: line 2: "Oslo" is none of the store's values ["Paris" "Rome"]`},
		{"a column less", "id,age\ne,5\nf,6\n", "", `x: made of ["age"], the store's column of ["age" "income"]`},
		{"a column more", "id,age,income,height\ne,5,50,2\nf,6,60,2\n", "", `made of ["age" "income" "height"]`},
	} {
		store := filepath.Join(t.TempDir(), "s")
		if err := os.CopyFS(store, os.DirFS("first")); err != nil {
			t.Fatal(err)
		}
		clitest.Put(t, ".", map[string][]byte{"m.csv": []byte(c.table)})
		code, told, errs := clitest.Run(t, "append", store, "f.csv", "--nodes", "m.csv", "--missing", "zero")
		if c.fails != "" {
			if code != cli.ExitFailed || !strings.Contains(errs, c.fails) {
				t.Errorf("%s: exit %d: %s", c.name, code, errs)
			}
			continue
		}
		if code != cli.ExitOK {
			t.Errorf("%s: exit %d: %s", c.name, code, errs)
			continue
		}
		if filled := "column city: the input has no rows of the 2 new nodes, which have 0\n"; strings.Contains(told, filled) != strings.HasPrefix(c.name, "a column without") || !strings.Contains(told, "which have no split\n") {
			t.Errorf("%s: said of columns:\n%s", c.name, told)
		}
		out := filepath.Join(t.TempDir(), "out")
		clitest.MustRun(t, "export", store, out, "--format", "tsv")
		b, err := os.ReadFile(filepath.Join(out, "nodes.tsv"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ReplaceAll(string(b), "\t\n", "\tnone\n"), c.nodes+"\n") {
			t.Errorf("%s: nodes\n%s, expected\n%s", c.name, b, c.nodes)
		}
	}
}
