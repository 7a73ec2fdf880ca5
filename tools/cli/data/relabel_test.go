package data_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// textOfLabels are the labels of a store's nodes as text, by id: names of classes, numbers or several with | between them; "" for none.
func textOfLabels(t *testing.T, dir string) (map[string]string, *store.Manifest) {
	t.Helper()
	if several, m := labelsOfIDs(t, dir); several != nil {
		for id, text := range several {
			if text == "?" {
				several[id] = ""
			}
		}
		return several, m
	}
	numbers, m := labelsByID(t, dir)
	of := map[string]string{}
	for id, x := range numbers {
		switch {
		case x != x || !m.NumberLabels() && x < 0:
			of[id] = ""
		case m.Schema.ClassNames != nil:
			of[id] = m.Schema.ClassNames[int(x)]
		default:
			of[id] = fmt.Sprint(x)
		}
	}
	return of, m
}

// TestRelabel: nodes of a store get labels of every kind, and parts of a split, by tables that come later; others keep theirs, and a model
// goes on with them.
func TestRelabel(t *testing.T) {
	t.Chdir(t.TempDir())
	edges, bare := "src,dst\n", "id,x\n"
	for i := range 60 {
		edges += fmt.Sprintf("H%d,H%d\n", i, (i*7+1)%60)
		bare += fmt.Sprintf("H%d,%d\n", i, i%5)
	}
	table := func(name, header string, lo, hi int, label func(i int) string) map[string]string {
		of, text := map[string]string{}, "id,"+header+"\n"
		for i := lo; i < hi; i++ {
			of[fmt.Sprintf("H%d", i)] = label(i)
			text += fmt.Sprintf("H%d,%s\n", i, label(i))
		}
		clitest.Put(t, ".", map[string][]byte{name: []byte(text)})
		return of
	}
	clitest.Put(t, ".", map[string][]byte{"near.csv": []byte(edges), "bare.csv": []byte(bare)})
	for _, c := range []struct {
		kind          string
		header        string
		first, second func(i int) string
		refused       string // a label that is none of the store's, and what is said of it
		says          string
	}{
		{"classes", "town", func(i int) string { return []string{"ulm", "bonn", ""}[i%3] }, func(i int) string { return []string{"ulm", "aachen"}[i%2] }, "", ""},
		{"ids", "label", func(i int) string { return fmt.Sprint(i % 3) }, func(i int) string { return fmt.Sprint(i % 4) }, "2.5", "expected a class id"},
		{"numbers", "rent", func(i int) string { return fmt.Sprintf("%g", 100.5*float64(i+1)) }, func(i int) string { return fmt.Sprintf("%g", -7-float64(i)) }, "much", "those of the store are numbers"},
		{"multi", "tags", func(i int) string { return []string{"old|red", "red", "blue|old|red", ""}[i%4] }, func(i int) string { return []string{"blue|red", "old"}[i%2] }, "green|red", `label "green"`},
		{"separators", "tags", func(i int) string { return []string{"new;old|red", "red", "blue|new;old|red", ""}[i%4] }, func(i int) string { return []string{"blue|red", "new;old"}[i%2] }, "old|red", `label "old"`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			dir := c.kind
			want := table(c.kind+"1.csv", c.header, 0, 40, c.first)
			later := table(c.kind+"2.csv", c.header, 30, 70, c.second) // 60 to 69 are no nodes
			clitest.MustRun(t, "ingest", "near.csv", dir, "--nodes", "bare.csv", "--partitions", "3")
			args := []string{"append", dir, "--nodes", c.kind + "1.csv", "--label", c.header}
			code, told, errs := clitest.Run(t, args...)
			if code != cli.ExitOK || !strings.Contains(told, "had none, 0 another one") || !strings.Contains(told, "60 % do") {
				t.Fatalf("exit %d: %s%s", code, told, errs)
			}
			check := func() {
				t.Helper()
				got, m := textOfLabels(t, dir)
				want := maps.Clone(want)
				for i := range 60 {
					if id := fmt.Sprintf("H%d", i); want[id] == "" {
						want[id] = ""
					}
				}
				if !maps.Equal(got, want) || m.Schema.Task != store.TaskNode {
					t.Errorf("%s: labels %v, expected %v", dir, got, want)
				}
				clitest.MustRun(t, "verify", dir)
			}
			check()
			clitest.MustRun(t, "train", dir, "--epochs", "2", "--hidden", "4")
			_, before := textOfLabels(t, dir)
			code, told, errs = clitest.Run(t, "append", dir, "--nodes", c.kind+"2.csv", "--label", c.header)
			if code != cli.ExitOK || !strings.Contains(errs, "10 rows are left out") || !strings.Contains(errs, "in no part of the split") || !strings.Contains(told, "labels of 30 nodes") {
				t.Fatalf("exit %d: %s%s", code, told, errs)
			}
			for id, x := range later {
				if want[id] = x; id >= "H60" && len(id) == 3 {
					delete(want, id)
				}
			}
			check()
			_, after := textOfLabels(t, dir)
			for k, name := range before.Schema.ClassNames {
				if after.Schema.ClassNames[k] != name {
					t.Errorf("class %d was %q, is %q", k, name, after.Schema.ClassNames[k])
				}
			}
			clitest.MustRun(t, "append", dir, "--split-random", "50/25/25:1")
			_, m := textOfLabels(t, dir)
			parted := uint64(0)
			for _, p := range m.Partitions {
				parted += p.Train + p.Valid + p.Test
			}
			labelled := uint64(0)
			for _, x := range want {
				if x != "" {
					labelled++
				}
			}
			if parted != labelled {
				t.Errorf("%d nodes are in parts, expected the %d with labels", parted, labelled)
			}
			check()
			clitest.MustRun(t, "train", dir, "--epochs", "2", "--hidden", "4")
			if c.refused != "" {
				clitest.Put(t, ".", map[string][]byte{"bad.csv": []byte("id," + c.header + "\nH3," + c.refused + "\n")})
				if code, _, errs := clitest.Run(t, "append", dir, "--nodes", "bad.csv", "--label", c.header); code == cli.ExitOK || !strings.Contains(errs, c.says) {
					t.Errorf("exit %d: %s", code, errs)
				}
				check()
			}
		})
	}
}

// TestResplit: a table says parts of a split, which others keep; typed ids may leave their type out; and what cannot be is refused.
func TestResplit(t *testing.T) {
	t.Chdir(t.TempDir())
	users, edges := "id,x,segment\n", "user_id,item_id\n"
	for i := range 30 {
		users += fmt.Sprintf("%d,%d,%s\n", i, i%7, []string{"gold", "silver"}[i%2])
		edges += fmt.Sprintf("%d,%d\n", i, i%5)
	}
	clitest.Put(t, ".", map[string][]byte{"users.csv": []byte(users), "edges.csv": []byte(edges), "parts.csv": []byte("id,split\nuser:1,train\nuser:2,test\nuser:3,valid\n"),
		"user.csv": []byte("id,segment\n4,gold\n5,bronze\n"), "none.csv": []byte("id,segment\nx,gold\n"), "twice.csv": []byte("id,segment\nuser:4,gold\nuser:4,gold\n")})
	clitest.MustRun(t, "ingest", "edges.csv", "s", "--nodes", "user=users.csv", "--label", "segment", "--split-random", "40/30/30")
	clitest.MustRun(t, "append", "s", "--split-random", "100/0/0")
	clitest.MustRun(t, "append", "s", "--nodes", "parts.csv")
	clitest.MustRun(t, "append", "s", "--nodes", "user.csv") // segment is what the store's label is called
	got, m := textOfLabels(t, "s")
	if got["user:4"] != "gold" || got["user:5"] != "bronze" || got["user:6"] != "gold" || m.Labels().NodeType != "user" || len(m.ColumnsOf(store.RoleSplit)) != 1 {
		t.Errorf("labels %v of type %q, %d splits", got, m.Labels().NodeType, len(m.ColumnsOf(store.RoleSplit)))
	}
	var train, valid, test uint64
	for _, p := range m.Partitions {
		train, valid, test = train+p.Train, valid+p.Valid, test+p.Test
	}
	if train != 28 || valid != 1 || test != 1 {
		t.Errorf("%d train, %d validate, %d test, expected 28, 1, 1", train, valid, test)
	}
	clitest.MustRun(t, "verify", "s")
	clitest.MustRun(t, "train", "s", "--epochs", "2")
	for _, c := range []struct {
		args string
		says string
	}{
		{"--nodes none.csv", "none of its 1 rows names a node"},
		{"--nodes twice.csv", "two rows for one node"},
		{"--nodes users.csv --split-random 50/50", "expected percentages"},
		{"--nodes parts.csv --split-random 50/25/25", "give one of both"},
		{"--nodes shop=users.csv", "nodes of type shop"},
		{"--nodes user=users.csv --label rent", "--label rent: no column is called so"},
		{"", "expected STORE and either INPUT"},
		{"users.csv --split-random 50/25/25", "expected STORE and either INPUT"},
	} {
		if code, _, errs := clitest.Run(t, append([]string{"append", "s"}, strings.Fields(c.args)...)...); code == cli.ExitOK || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d: %s", c.args, code, errs)
		}
	}
	if _, m := textOfLabels(t, "s"); m.Version != 4 {
		t.Errorf("version %d, expected 4: what is refused leaves the store as it is", m.Version)
	}
	if err := os.RemoveAll("s"); err != nil {
		t.Fatal(err)
	}
}
