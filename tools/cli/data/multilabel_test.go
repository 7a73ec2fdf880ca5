package data_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// labelsOfIDs are the labels of a store's nodes, by the nodes' ids, sorted and with | between them; "?" where none are known.
func labelsOfIDs(t *testing.T, dir string) (of map[string]string, m *store.Manifest) {
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
	m, of = s.Manifest(), map[string]string{}
	sets := m.LabelSets()
	if sets == nil {
		return nil, m
	}
	rows, err := s.Features(t.Context(), m.Labels().Name, nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		of[id] = "?"
		if set := int32(binary.LittleEndian.Uint32(rows[4*i:])); set >= 0 {
			var names []string
			for _, j := range sets.Of(set, nil) {
				names = append(names, m.Schema.ClassNames[j])
			}
			slices.Sort(names)
			of[id] = strings.Join(names, "|")
		}
	}
	return of, m
}

// TestSeveralLabels: nodes may have several labels, in a column of text or a column of 0 and 1 for each, which is found out or said; they
// stay what they are through appends, repartitions and exports in every format, and are trained, evaluated and predicted.
func TestSeveralLabels(t *testing.T) {
	t.Chdir(t.TempDir())
	names := []string{"blue", "deep red", "green", "old", "round"}
	edges, text, wide := "src,dst\n", "id,x,tags\n", "id,x,"+strings.Join(names, ",")+"\n"
	texts, wides := map[string]string{}, map[string]string{}
	for i := range 61 {
		id := fmt.Sprintf("H%d", i)
		edges += fmt.Sprintf("H%d,H%d\n", i, (i*7+1)%61)
		var has []string
		row := fmt.Sprintf("%s,%d", id, i%5)
		for j, n := range names {
			if (i*i+3*j*i+j)%7 < 3 {
				has = append(has, n)
				row += ",1"
			} else {
				row += ",0"
			}
		}
		wide += row + "\n"
		wides[id] = strings.Join(has, "|")
		slices.Reverse(has) // the order says nothing
		if text += fmt.Sprintf("%s,%d,%s\n", id, i%5, strings.Join(has, " | ")); len(has) == 0 {
			texts[id] = "?" // empty text is not known
		} else {
			texts[id] = wides[id]
		}
	}
	clitest.Put(t, ".", map[string][]byte{"near.csv": []byte(edges), "text.csv": []byte(text), "wide.csv": []byte(wide), "week.csv": []byte("src,dst\nN1,H3\nN2,N1\n"),
		"newtext.csv": []byte("id,x,tags\nN1,4,old|green|blue\nN2,1,\n"), "newwide.csv": []byte("id,x," + strings.Join(names, ",") + "\nN1,4,1,0,1,1,0\nN2,1,0,0,0,0,0\n")})
	for _, form := range []struct {
		name, label string
		want        map[string]string
	}{{"text", "tags", texts}, {"wide", strings.Join(names, ","), wides}} {
		dir, want := form.name, form.want
		same := func(dir string) {
			t.Helper()
			got, m := labelsOfIDs(t, dir)
			if m.Schema.Classes != len(names) || !slices.Equal(m.Schema.ClassNames, names) || m.Schema.Task != store.TaskNode {
				t.Fatalf("%s: labels %+v, %q, task %q", dir, m.Labels(), m.Schema.ClassNames, m.Schema.Task)
			}
			for id, x := range want {
				if got[id] != x {
					t.Errorf("%s: node %s has labels %q, expected %q", dir, id, got[id], x)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d nodes, expected %d", dir, len(got), len(want))
			}
			clitest.MustRun(t, "verify", dir)
		}
		_, told, _ := clitest.Run(t, "ingest", "near.csv", dir, "--nodes", form.name+".csv", "--label", form.label, "--partitions", "3")
		if !strings.Contains(told, "of 5 labels") {
			t.Errorf("ingest says %s", told)
		}
		same(dir)
		clitest.MustRun(t, "train", dir, "--epochs", "3", "--hidden", "8")
		clitest.MustRun(t, "append", dir, "week.csv", "--nodes", "new"+form.name+".csv")
		want["N1"], want["N2"] = "blue|green|old", map[string]string{"text": "?", "wide": ""}[form.name]
		same(dir)
		clitest.MustRun(t, "partition", dir, "--partitions", "5")
		same(dir)
		for _, format := range []string{"numpy", "tsv", "parquet"} {
			out := form.name + format
			clitest.MustRun(t, "export", dir, "x"+out, "--format", format)
			clitest.MustRun(t, "ingest", "x"+out, out)
			same(out)
		}
		answers(t, dir, names)
		clitest.MustRun(t, "eval", dir)
		clitest.MustRun(t, "inspect", dir)
	}
	mistakenLabels(t)
}

// answers compares the labels that predict says of each node with the probabilities beside them.
func answers(t *testing.T, dir string, names []string) {
	t.Helper()
	clitest.MustRun(t, "predict", dir, "--out", "answers.csv")
	b, err := os.ReadFile("answers.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if want := "node,labels,p_" + strings.Join(names, ",p_"); lines[0] != want || len(lines) < 60 {
		t.Fatalf("%d lines, the first is %q, expected %q", len(lines), lines[0], want)
	}
	for _, line := range lines[1:] {
		cells := strings.Split(line, ",")
		var said []string
		for j, n := range names {
			var p float64
			if _, err := fmt.Sscan(cells[2+j], &p); err != nil || p < 0 || p > 1 {
				t.Fatalf("%q: probability %q: %v", line, cells[2+j], err)
			}
			if p > .5 {
				said = append(said, n)
			}
		}
		if cells[1] != strings.Join(said, "|") {
			t.Errorf("%q: labels %q, expected %q", line, cells[1], said)
		}
	}
}

// mistakenLabels tries what labels are taken for, and what is refused.
func mistakenLabels(t *testing.T) {
	t.Helper()
	clitest.Put(t, ".", map[string][]byte{"one.csv": []byte("id,a,b,c\nH0,1,0,0\nH1,0,1,0\nH2,0,0,1\nH3,,,\n"), "two.csv": []byte("id,a,b,c\nH0,1,2,0\nH1,0,1,0\n"),
		"half.csv": []byte("id,a,b,c\nH0,1,,0\nH1,0,1,0\n"), "wrong.csv": []byte("id,x,tags\nN7,4,old|new\n"), "edge.csv": []byte("src,dst\nN7,H3\n")})
	for _, c := range []struct {
		args    []string
		classes int // −1: refused
		several bool
		says    string
	}{
		{[]string{"text.csv", "--label", "tags", "--labels", "classes"}, 5, false, ""},
		{[]string{"text.csv", "--label", "tags", "--labels", "multi"}, 5, true, ""},
		{[]string{"text.csv", "--label", "x", "--labels", "multi"}, -1, false, "labels are numbers, one a node"},
		{[]string{"one.csv", "--label", "a,b,c"}, 3, false, "which are its class"},
		{[]string{"one.csv", "--label", "a,b,c", "--labels", "multi"}, 3, true, ""},
		{[]string{"wide.csv", "--label", "blue,old", "--labels", "numbers"}, -1, false, "expected one number a node"},
		{[]string{"wide.csv", "--label", "blue,old", "--labels", "classes"}, -1, false, "--labels multi takes them"},
		{[]string{"wide.csv", "--label", "blue,new"}, -1, false, "--label new: no column is called so"},
		{[]string{"two.csv", "--label", "a,b,c"}, -1, false, "expected 0 or 1"},
		{[]string{"half.csv", "--label", "a,b,c"}, -1, false, "1 of 3 labels are not known"},
		{[]string{"text.csv", "--label", "tags,x"}, -1, false, "are text, expected 0 and 1"},
	} {
		if err := os.RemoveAll("other"); err != nil {
			t.Fatal(err)
		}
		code, told, errs := clitest.Run(t, append([]string{"ingest", "near.csv", "other", "--nodes"}, c.args...)...)
		if (code == cli.ExitOK) != (c.classes >= 0) || !strings.Contains(told+errs, c.says) {
			t.Errorf("%q: exit %d: %s%s", c.args, code, told, errs)
			continue
		}
		if c.classes < 0 {
			continue
		}
		if _, m := labelsOfIDs(t, "other"); m.Schema.Classes != c.classes || (m.LabelSets() != nil) != c.several {
			t.Errorf("%q: %d classes, labels %+v", c.args, m.Schema.Classes, m.Labels())
		}
	}
	if code, _, errs := clitest.Run(t, "append", "text", "edge.csv", "--nodes", "wrong.csv"); code == cli.ExitOK || !strings.Contains(errs, `label "new", expected one of the store's`) {
		t.Errorf("an unknown label: exit %d: %s", code, errs)
	}
	clitest.MustRun(t, "verify", "text")
}
