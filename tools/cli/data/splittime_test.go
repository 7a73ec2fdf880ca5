package data_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestSplitTime: the labelled nodes of a store are divided by a number of theirs: whoever is later is tested, and nodes of one number go
// together, whatever the column is stored as.
func TestSplitTime(t *testing.T) {
	t.Chdir(t.TempDir())
	ingest := func(dir string, year func(i int) int, flags ...string) {
		edges, table := "src,dst\n", "id,year,size,label\n"
		for i := range 60 {
			edges += fmt.Sprintf("p%d,p%d\n", i, (i*7+1)%60)
			label := "ab"[i%2 : i%2+1]
			if i%6 == 5 {
				label = ""
			}
			table += fmt.Sprintf("p%d,%d,%d,%s\n", i, year(i), i*i, label)
		}
		clitest.Put(t, ".", map[string][]byte{"e.csv": []byte(edges), "p.csv": []byte(table)})
		clitest.MustRun(t, append([]string{"ingest", "e.csv", dir, "--nodes", "p.csv", "--partitions", "4", "--quiet"}, flags...)...)
	}
	decades := func(i int) int { return 2000 + i*7%10 }
	for _, c := range []struct {
		name  string
		year  func(i int) int
		split string
		flags []string
	}{
		{"years", decades, "year", nil},
		{"shares", decades, "year:80/10/10", []string{"--normalize=none"}},
		{"float16", func(i int) int { return i / 10 }, "year:50/0/50", []string{"--feature-dtype", "float16"}},
		{"int8", func(i int) int { return i / 20 * 100 }, "year", []string{"--feature-dtype", "int8"}},
		{"two", func(i int) int { return 1999 + i/50 }, "year:10/10/80", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ingest(c.name, c.year, c.flags...)
			code, told, errs := clitest.Run(t, "append", c.name, "--split-time", c.split)
			if code != cli.ExitOK || !strings.Contains(told, "by year ") {
				t.Fatalf("exit %d: %s%s", code, told, errs)
			}
			clitest.MustRun(t, "verify", c.name)
			latest, earliest, counts := map[string]int{}, map[string]int{}, map[string]int{}
			for _, line := range exported(t, c.name, "nodes.tsv")[1:] {
				f := strings.Split(line, "\t")
				id, part, label := f[0], f[len(f)-1], f[len(f)-2]
				if labelled := label != "-1"; labelled == (part == "" || part == "none") {
					t.Errorf("node %s with label %s is in part %q", id, label, part)
				}
				i, err := strconv.Atoi(id[1:])
				if err != nil {
					t.Fatal(err)
				}
				if label == "-1" {
					continue
				}
				y := c.year(i)
				if counts[part]++; counts[part] == 1 {
					latest[part], earliest[part] = y, y
				}
				latest[part], earliest[part] = max(latest[part], y), min(earliest[part], y)
			}
			if counts["train"] == 0 || counts["test"] == 0 || latest["train"] >= earliest["test"] ||
				counts["valid"] > 0 && (latest["train"] >= earliest["valid"] || latest["valid"] >= earliest["test"]) {
				t.Errorf("parts %v, from %v to %v", counts, earliest, latest)
			}
			if c.name == "years" && (counts["train"] != 30 || counts["valid"] != 10) {
				t.Errorf("parts %v of 50 nodes of ten years, expected 30 and 10", counts)
			}
			clitest.MustRun(t, "train", c.name, "--epochs", "1", "--quiet")
		})
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"append years --split-time yeer", cli.ExitFailed, `no column "yeer" of one number; there are ["year" "size"]`},
		{"append years --split-time year:50", cli.ExitUsage, "year or year:70/10/20"},
		{"append years --split-time year --split-random 60/20/20", cli.ExitFailed, "give one of them"},
		{"append years e.csv --split-time year", cli.ExitUsage, "expected STORE and either"},
	} {
		if code, _, says := clitest.Run(t, strings.Fields(c.args)...); code != c.code || !strings.Contains(says, c.says) {
			t.Errorf("%s: exit %d: %s, expected %d: %s", c.args, code, says, c.code, c.says)
		}
	}
	ingest("same", func(int) int { return 2020 })
	if code, _, says := clitest.Run(t, "append", "same", "--split-time", "year"); code != cli.ExitFailed || !strings.Contains(says, "all 50 labelled nodes have one number in year") {
		t.Errorf("of one year: exit %d: %s", code, says)
	}
}
