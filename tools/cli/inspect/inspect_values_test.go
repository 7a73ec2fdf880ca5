package inspect_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestInspectValues: gstore inspect counts the nodes of each class and edges of each relation, and says what the features'
// values are, as they were given; an append counts too.
func TestInspectValues(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"e.csv": []byte("src,dst,rel\na,b,likes\nb,c,likes\nc,d,knows\n"),
		"n.csv": []byte("id,age,income,label,split,emb.0,emb.1\na,20,1000,gold,train,1,2\nb,,3000,silver,test,3,4\nc,40,5000,gold,valid,5,6\nd,60,7000,,,7,8\n"),
		"f.csv": []byte("src,dst,rel\ne,a,knows\n"), "m.csv": []byte("id,age,income,label,split,emb.0,emb.1\ne,,9000,silver,train,0,1\n"),
	})
	inspect := func(store string, args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(t, append([]string{"inspect", store}, args...)...)
		if code != cli.ExitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	for name, args := range map[string][]string{"as given": nil, "standardised": {"--normalize"}, "int8": {"--normalize", "--feature-dtype", "int8"}} {
		store := filepath.Join(t.TempDir(), "s")
		clitest.MustRun(t, append([]string{"ingest", "e.csv", store, "--nodes", "n.csv", "--missing", "mean", "--partitions", "2"}, args...)...)
		seen := inspect(store)
		wants := []string{"2: knows (1 edges), likes (2 edges)", "class nodes train valid test gold 2 1 1 0 silver 1 0 0 1 without a label 1",
			"feature minimum mean maximum missing", "x: age 20 40 60 1", "x: income 1000 4000 7000", "emb: emb.0 1 4 7 0", "emb: emb.1 2 5 8"}
		if name == "int8" { // rounded
			wants = wants[:3]
		}
		for _, want := range wants {
			if !strings.Contains(seen, want) {
				t.Errorf("%s: no %q in %s", name, want, seen)
			}
		}
		if seen := inspect(store, "--stats", "no"); !strings.Contains(seen, "values not read (--stats yes reads") || strings.Contains(seen, "x: age") {
			t.Errorf("--stats no: %s", seen)
		}
		clitest.MustRun(t, "append", store, "f.csv", "--nodes", "m.csv", "--missing", "mean")
		if seen := inspect(store, "--elements", "1"); !strings.Contains(seen, "gold 2 1 1 0 … 1 more") || !strings.Contains(seen, "… 1 more of x") ||
			name == "standardised" && !strings.Contains(seen, "x: age 20 40 60 2") {
			t.Errorf("%s: after an append: %s", name, seen)
		}
	}
	if code, _, errs := clitest.Run(t, "inspect", ".", "--stats", "some"); code != cli.ExitUsage || !strings.Contains(errs, "expected auto, yes or no") {
		t.Errorf("--stats some: exit %d, %s", code, errs)
	}
}
