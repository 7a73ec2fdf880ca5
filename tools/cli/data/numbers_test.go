package data_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// labelsByID are a store's labels by the nodes' ids; NaN for none.
func labelsByID(t *testing.T, dir string) (of map[string]float32, m *store.Manifest) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ids, _ := idsAndTypes(t, dir)
	nodes := make([]store.NodeID, len(ids))
	for i := range nodes {
		nodes[i] = store.NodeID(i)
	}
	m, of = s.Manifest(), map[string]float32{}
	if m.Labels() == nil {
		return of, m
	}
	rows, err := s.Features(t.Context(), m.Labels().Name, nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		code := int32(binary.LittleEndian.Uint32(rows[4*i:]))
		if of[id] = float32(code); m.NumberLabels() {
			of[id] = blocks.CodedNumber(code)
		}
	}
	return of, m
}

// TestLabelsThatAreNumbers: which column is the label can be said, what kind labels are is found out or said, and they stay what they are
// through appends, repartitions and exports in every format.
func TestLabelsThatAreNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	edges, rows := "src,dst\n", "id,area,price,town\n"
	want := map[string]float32{}
	for i := range 61 {
		id := fmt.Sprintf("H%d", i)
		edges += fmt.Sprintf("H%d,H%d\n", i, (i*7+1)%61)
		price := float32(i*i)/4 - 100
		text := fmt.Sprint(price)
		if want[id] = price; i%9 == 5 {
			want[id], text = float32(math.NaN()), ""
		}
		rows += fmt.Sprintf("%s,%d,%s,T%d\n", id, i, text, i%3)
	}
	clitest.Put(t, ".", map[string][]byte{"near.csv": []byte(edges), "houses.csv": []byte(rows), "week.csv": []byte("src,dst\nN1,H3\n"), "new.csv": []byte("id,area,price,town\nN1,4,-7.25,T1\n")})
	same := func(dir string) {
		t.Helper()
		got, m := labelsByID(t, dir)
		if !m.NumberLabels() || m.Schema.Classes != 0 || m.Schema.Task != store.TaskNode {
			t.Fatalf("%s: labels %+v, %d classes, task %q, expected numbers", dir, m.Labels(), m.Schema.Classes, m.Schema.Task)
		}
		for id, x := range want {
			if y, ok := got[id]; !ok || y != x && !(math.IsNaN(float64(y)) && math.IsNaN(float64(x))) {
				t.Errorf("%s: node %s has label %v, expected %v", dir, id, y, x)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d nodes, expected %d", dir, len(got), len(want))
		}
		clitest.MustRun(t, "verify", dir)
	}
	_, told, _ := clitest.Run(t, "ingest", "near.csv", "s", "--nodes", "houses.csv", "--label", "price", "--split-random", "60/20/20", "--partitions", "3")
	if !strings.Contains(told, "labels are numbers from -100 to 800") || !strings.Contains(told, `"price" → label`) {
		t.Errorf("ingest says %s", told)
	}
	same("s")
	clitest.MustRun(t, "append", "s", "week.csv", "--nodes", "new.csv")
	want["N1"] = -7.25
	same("s")
	clitest.MustRun(t, "partition", "s", "--partitions", "5")
	same("s")
	for _, format := range []string{"numpy", "tsv", "parquet"} {
		clitest.MustRun(t, "export", "s", "x"+format, "--format", format)
		clitest.MustRun(t, "ingest", "x"+format, "again"+format)
		same("again" + format)
	}
	for _, c := range []struct {
		args    []string
		classes int // 0: numbers, −1: none
		says    string
	}{
		{[]string{"--label", "town"}, 3, `"town" → label: classes ["T0" "T1" "T2"]`},
		{nil, -1, ""},
		{[]string{"--label", "area"}, 61, ""},
		{[]string{"--label", "area", "--labels", "numbers"}, 0, ""},
		{[]string{"--label", "rent"}, -2, "--label rent: no column is called so"},
		{[]string{"--label", "Price"}, -2, "did you mean price?"},
		{[]string{"--label", "price", "--labels", "classes"}, -2, "expected a class id"},
		{[]string{"--label", "town", "--labels", "numbers"}, -2, "expected numbers"},
		{[]string{"--labels", "maybe"}, -2, "expected auto, classes, numbers or multi"},
		{[]string{"--label", "price", "--node-columns", "id,-,label,-"}, -2, "both name columns"},
	} {
		if err := os.RemoveAll("other"); err != nil {
			t.Fatal(err)
		}
		code, told, errs := clitest.Run(t, append([]string{"ingest", "near.csv", "other", "--nodes", "houses.csv"}, c.args...)...)
		if (code == cli.ExitOK) != (c.classes > -2) || !strings.Contains(told+errs, c.says) {
			t.Errorf("%q: exit %d: %s%s", c.args, code, told, errs)
			continue
		}
		if c.classes == -2 {
			continue
		}
		_, m := labelsByID(t, "other")
		if m.NumberLabels() != (c.classes == 0) || m.Schema.Classes != max(c.classes, 0) || (m.Labels() == nil) != (c.classes < 0) {
			t.Errorf("%q: %d classes, labels %+v", c.args, m.Schema.Classes, m.Labels())
		}
	}
}

// TestManyIntegersAreNumbers: integers of which many differ, few nodes having the same, are numbers unless they are like ids, or that is
// said.
func TestManyIntegersAreNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	edges, few, gaps, many := "src,dst\n", "id,label\n", "id,label\n", "id,label\n"
	for i := range 3001 {
		edges += fmt.Sprintf("%d,%d\n", i, (i*7+1)%3001)
		few += fmt.Sprintf("%d,%d\n", i, i%1000)
		gaps += fmt.Sprintf("%d,%d\n", i, 400+i%700)
		many += fmt.Sprintf("%d,%d\n", i, 20000+i*11)
	}
	clitest.Put(t, ".", map[string][]byte{"e.csv": []byte(edges), "few.csv": []byte(few), "gaps.csv": []byte(gaps), "many.csv": []byte(many)})
	for _, c := range []struct {
		name, table string
		args        []string
		classes     int
	}{{"few", "few.csv", nil, 1000}, {"gaps", "gaps.csv", nil, 0}, {"many", "many.csv", nil, 0}, {"classes", "many.csv", []string{"--labels", "classes"}, 20000 + 3000*11 + 1}} {
		clitest.MustRun(t, append([]string{"ingest", "e.csv", c.name, "--nodes", c.table}, c.args...)...)
		if _, m := labelsByID(t, c.name); m.Schema.Classes != c.classes || m.NumberLabels() != (c.classes == 0) {
			t.Errorf("%s: %d classes, expected %d", c.name, m.Schema.Classes, c.classes)
		}
	}
}
