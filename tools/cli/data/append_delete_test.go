package data_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestDeleteNodes: nodes that tables name go with their edges; models that were trained before know the others, and nodes that come later get
// vectors that nobody had. What cannot go is refused.
func TestDeleteNodes(t *testing.T) {
	work := t.TempDir()
	var users, bought strings.Builder
	users.WriteString("user_id,age,label\n")
	bought.WriteString("user_id,item_id\n")
	for u := range 60 {
		users.WriteString(strings.Join([]string{num(u), num(20 + u%30), []string{"gold", "silver"}[u%2]}, ",") + "\n")
		for k := range 4 {
			bought.WriteString(num(u) + "," + num(u%2*10+(u+3*k)%10) + "\n")
		}
	}
	shop := clitest.Put(t, t.TempDir(), map[string][]byte{"nodes/user.csv": []byte(users.String()), "edges/user-bought-item.csv": []byte(bought.String())})
	dir := filepath.Join(work, "shop.gstore")
	clitest.MustRun(t, "ingest", shop, dir, "--split-random", "60/20/20", "--quiet")
	clitest.MustRun(t, "train", dir, "--epochs", "2", "--quiet")
	before := clitest.Events(t, "predict", dir, "user:30", "--json")
	put := func(name, text string) string {
		return filepath.Join(clitest.Put(t, t.TempDir(), map[string][]byte{name: []byte(text)}), name)
	}
	gone, items := put("user.csv", "user_id\n7\n11\n999\n"), put("item.csv", "item_id\n3\n")

	code, out, _ := clitest.Run(t, "append", dir, "--nodes", "user="+gone, "--delete", "--dry-run")
	if code != cli.ExitOK || !strings.Contains(out, "would have 78 nodes (2 deleted") || newest(t, dir).Version != 1 {
		t.Errorf("exit code %d, version %d: %s", code, newest(t, dir).Version, out)
	}
	code, out, errs := clitest.Run(t, "append", dir, "--nodes", "user="+gone+",item="+items, "--delete")
	m := newest(t, dir)
	if code != cli.ExitOK || m.Nodes != 77 || !strings.Contains(out, "(3 deleted)") || !strings.Contains(errs, `no nodes such as ["user:999"]`) || !strings.Contains(out, "gstore prune "+dir+" --keep 1") {
		t.Fatalf("exit code %d, %d nodes: %s%s", code, m.Nodes, out, errs)
	}
	if code, _, errs := clitest.Run(t, "predict", dir, "user:7"); code != cli.ExitUsage || !strings.Contains(errs, `no node "user:7"`) {
		t.Errorf("a node that went: exit code %d, %s", code, errs)
	}
	after := clitest.Events(t, "predict", dir, "user:30", "--json") // neither it nor what it bought, or who else did, went
	if len(after) != len(before) || after[0]["class"] != before[0]["class"] || after[0]["node"] != "user:30" {
		t.Errorf("said %v, before %v", after, before)
	}
	more := put("user-bought-item.csv", "user_id,item_id\n30,777\n31,777\n")
	clitest.MustRun(t, "append", dir, more, "--new-nodes", "ok", "--quiet")
	c, err := newest(t, dir).Column("item" + store.NodeSuffix)
	if err != nil || c.Numbered != 21 {
		t.Errorf("%v: items got %d numbers, expected 21: 20, of which one is gone, and a new one", err, c.Numbered)
	}
	clitest.MustRun(t, "verify", dir)
	clitest.MustRun(t, "predict", dir, "user:30", "--quiet")
	clitest.MustRun(t, "train", dir, "--from", "best", "--epochs", "1", "--quiet")

	all := put("user.csv", "user_id\n7\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nobody":     {[]string{"--nodes", "user=" + all, "--delete"}, `none of the nodes`},
		"nothing":    {[]string{"--delete"}, "or nodes, gstore append STORE --nodes TABLE --delete"},
		"edges too":  {[]string{more, "--nodes", "user=" + all, "--delete"}, "give one of both"},
		"and divide": {[]string{"--nodes", "user=" + all, "--delete", "--split-random", "60/20/20"}, "one after the other"},
	} {
		if code, _, errs := clitest.Run(t, append([]string{"append", dir}, c.args...)...); code == cli.ExitOK || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
	}
}

func num(n int) string { return strconv.Itoa(n) }

// newest is the store's newest version.
func newest(t *testing.T, dir string) *store.Manifest {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // test
	return s.Manifest()
}
