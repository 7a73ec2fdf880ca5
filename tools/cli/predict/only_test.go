package predict_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestOnly: of a store of several types the nodes of the type with labels are predicted, unless --only says otherwise.
func TestOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	users, items, buys := "id,age,label\n", "id,price\n", "user_id,item_id\n"
	var all, own, unlabelled []string
	for i := range 40 {
		label := "gold"
		id := fmt.Sprintf("user:u%d", i)
		if all, own = append(all, id), append(own, id); i%4 == 0 {
			label, unlabelled = "", append(unlabelled, id)
		} else if i%3 == 0 {
			label = "silver"
		}
		users += fmt.Sprintf("u%d,%d,%s\n", i, 20+i, label)
		buys += fmt.Sprintf("u%d,i%d\nu%d,i%d\n", i, i%7, i, i%5)
	}
	var others []string
	for i := range 7 {
		items += fmt.Sprintf("i%d,%d\n", i, i)
		others = append(others, fmt.Sprintf("item:i%d", i))
	}
	all = append(all, others...)
	clitest.Put(t, ".", map[string][]byte{"users.csv": []byte(users), "items.csv": []byte(items), "buys.csv": []byte(buys)})
	clitest.MustRun(t, "ingest", "buys.csv", "s", "--nodes", "user=users.csv", "--nodes", "item=items.csv", "--partitions", "3")
	clitest.MustRun(t, "train", "s", "--epochs", "1", "--hidden", "8")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, own}, {[]string{"--only", "all"}, all}, {[]string{"--only", "unlabelled"}, unlabelled}, {[]string{"--only", "item"}, others}, {[]string{"--only", "user"}, own},
	} {
		clitest.MustRun(t, append([]string{"predict", "s", "--out", "p.csv"}, c.args...)...)
		b, err := os.ReadFile("p.csv")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
			id, _, _ := strings.Cut(line, ",")
			got[id] = true
		}
		want := map[string]bool{}
		for _, id := range c.want {
			want[id] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: %v, expected %v", c.args, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{{[]string{"--only", "shop"}, `one of the store's node types ["item" "user"]`}, {[]string{"user:u1", "--only", "all"}, "nodes are named"}} {
		if code, _, errs := clitest.Run(t, append([]string{"predict", "s"}, c.args...)...); code != cli.ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d: %s", c.args, code, errs)
		}
	}
}
