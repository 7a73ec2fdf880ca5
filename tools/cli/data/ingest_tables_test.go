package data_test

import (
	"bytes"
	"context"
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

// TestIngestTables: gstore ingest of tables as people have them. It says what every column became, and so does
// inspect; what can be read in two ways is refused, with the flag that decides.
func TestIngestTables(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		args  string // after gstore ingest INPUT STORE
		input string // "" = the only file
		says  []string
		fails []string
		lacks string // of what is printed
	}{
		{name: "triples with names", files: map[string]string{"kg/train.tsv": "head\trelation\ttail\na\tlikes\tb\nb\thates\tc\n", "kg/test.tsv": "head\trelation\ttail\nc\tlikes\ta\n"}, input: "kg",
			says: []string{"3 nodes, 2 edges", `"head" → source`, `"relation" → relation`, `"tail" → destination`}},
		{name: "triples in another order", files: map[string]string{"kg/train.csv": "head,tail,relation\na,b,likes\nb,c,hates\n", "kg/test.csv": "head,tail,relation\nc,a,likes\n"}, input: "kg",
			says: []string{"3 nodes, 2 edges", `"tail" → destination`}},
		{name: "files whose headers differ", files: map[string]string{"kg/train.csv": "head,tail,relation\na,b,likes\n", "kg/test.csv": "head,relation,tail\nc,likes,a\n"}, input: "kg",
			fails: []string{"test.csv: line 1", "expected the header of", "train.csv"}},
		{name: "a header of unknown names, in every file", files: map[string]string{"kg/train.tsv": "h\tsays\tt0\na\tlikes\tb\n", "kg/test.tsv": "h\tsays\tt0\nc\tlikes\ta\n"}, input: "kg",
			fails: []string{"test.tsv: line 1", "--header yes"}},
		{name: "users and items", files: map[string]string{"e.csv": "user_id,item_id,action,rating,ts\n1,10,buy,4.5,1700000000\n"},
			says: []string{`"user_id" → source of type user`, `"item_id" → destination of type item`, `"ts" → timestamp`, "--columns src,dst"}},
		{name: "a mark", files: map[string]string{"e.csv": "\xef\xbb\xbfsrc,dst\n1,2\n"}, says: []string{"2 nodes, 1 edges", `"src" → source`}},
		{name: "no header", files: map[string]string{"e.csv": "1,2\n"}, says: []string{`"field 1" → source`, `"field 2" → destination`}},
		{name: "left over", files: map[string]string{"e.csv": "1,2,5\n"}, fails: []string{"3 fields, of which 1 are left over", "--columns src,dst,weight"}},
		{name: "a line with more", files: map[string]string{"e.csv": "1,2\n3,4,5\n"}, fails: []string{"e.csv: line 2", "3 fields, expected 2"}},
		{name: "nodes of a shop", files: map[string]string{"e.csv": "src,dst\nann,bob\n",
			"n.csv": "id,age,city,joined,label,note,node_type\nann,31,\"Paris, FR\",2024-01-02,gold,,person\nbob,40,Rome,2024-01-03,silver,,robot\n"}, input: "e.csv", args: "--nodes n.csv",
			says: []string{`"age" → feature x`, `"city" → left out: text ("Paris, FR")`, `"joined" → left out: dates are no feature unless asked for (--use joined)`,
				`"label" → label: classes ["gold" "silver"]`, `"note" → left out: no values`, `"node_type" → feature node_type: which of ["person" "robot"]`}},
		{name: "dates and text asked for", files: map[string]string{"e.csv": "src,dst\nann,bob\n", "n.csv": "id,city,joined\nann,Paris,2024-01-02\nbob,,2024-01-03\n"}, input: "e.csv",
			args: "--nodes n.csv --use joined,city", says: []string{`"city" → feature city: which of ["Paris"]`, `"joined" → feature joined, in days since 1970`}},
		{name: "a missing value", files: map[string]string{"e.csv": "src,dst\nann,bob\n", "n.csv": "id,age,size\nann,31,1\nbob,NA,2\n"}, input: "e.csv", args: "--nodes n.csv --missing error",
			fails: []string{"n.csv: line 3", `column "age" has no value`, "--missing mean"}},
		{name: "a missing value as the mean", files: map[string]string{"e.csv": "src,dst\nann,bob\n", "n.csv": "id,age,size\nann,31,1\nbob,,2\n"}, input: "e.csv",
			args: "--nodes n.csv --missing mean --missing-mask", says: []string{"1 values of x were missing"}},
		{name: "features of different scale", files: map[string]string{"e.csv": "src,dst\n1,2\n", "n.csv": "id,age,income,founded\n1,31,52000,1.7e9\n2,20,9,0\n"}, input: "e.csv", args: "--nodes n.csv --normalize=none",
			says: []string{`columns of x are of very different scale: "founded" up to 1.7e+09, "age" up to 31`}},
		{name: "features of like scale", files: map[string]string{"e.csv": "src,dst\n1,2\n", "n.csv": "id,age,size\n1,31,2\n2,20,1\n"}, input: "e.csv", args: "--nodes n.csv --normalize=none",
			says: []string{`"age" → feature x[0] of 2`}, lacks: "different scale"},
		{name: "a weight that is none", files: map[string]string{"e.csv": "src,dst,w\n1,2,NaN\n"}, fails: []string{"e.csv: line 2", "no finite number"}},
		{name: "rows and edges", files: map[string]string{"e.csv": "src,dst\nann,tea\nbob,tea\nann,milk\ncid,milk\n", "who.csv": "id,x\nann,31\nbob,5\n", "what.csv": "id,x\ntea,3\nmilk,4\n"},
			input: "e.csv", args: "--nodes what=what.csv --nodes who=who.csv", says: []string{`"src" → source of type who`, `"dst" → destination of type what`, "1 of 3 nodes of type who have no row for who.x: edges alone name them"}},
		{name: "no ids", files: map[string]string{"e.csv": "src,dst\nann,bob\n", "n.csv": "who,age\nann,31\n"}, input: "e.csv", args: "--nodes n.csv",
			fails: []string{"no column of ids", `"who" "age"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			input := tt.input
			for name, text := range tt.files {
				clitest.Put(t, ".", map[string][]byte{name: []byte(text)})
				if input == "" {
					input = name
				}
			}
			code, stdout, stderr := clitest.Run(t, append([]string{"ingest", input, "s"}, strings.Fields(tt.args)...)...)
			if tt.fails != nil {
				if code != cli.ExitFailed {
					t.Fatalf("exit code %d, expected %d: %s%s", code, cli.ExitFailed, stdout, stderr)
				}
				for _, want := range tt.fails {
					if !strings.Contains(stderr, want) {
						t.Errorf("%q lacks %q", stderr, want)
					}
				}
				if entries, err := os.ReadDir("s"); err == nil {
					t.Errorf("the refused ingest left %v", entries)
				}
				return
			}
			if code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if tt.lacks != "" && strings.Contains(stdout, tt.lacks) {
				t.Errorf("%q has %q", stdout, tt.lacks)
			}
			_, inspected, _ := clitest.Run(t, "inspect", "s")
			for _, want := range tt.says {
				if !strings.Contains(stdout, want) {
					t.Errorf("ingest: %q lacks %q", stdout, want)
				}
				if strings.Contains(want, "→") && !strings.Contains(inspected, want) {
					t.Errorf("inspect: %q lacks %q", inspected, want)
				}
			}
		})
	}
}

// TestIngestDedup: two edges of different relations between two nodes are one neighbour or two, as --dedup says.
func TestIngestDedup(t *testing.T) {
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"e.csv": []byte("src,dst,relation\n1,2,a\n2,1,a\n1,2,b\n3,1,b\n3,1,b\n")})
	for args, want := range map[string]int{"": 5, "--dedup relation": 4, "--dedup pair": 3, "--undirected": 3, "--undirected --dedup pair": 2, "--undirected --dedup no": 5} {
		t.Run(args, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "s")
			if code, out, stderr := clitest.Run(t, append([]string{"ingest", filepath.Join(dir, "e.csv"), store}, strings.Fields(args)...)...); code != cli.ExitOK || !strings.Contains(out, fmt.Sprintf("3 nodes, %d edges in", want)) {
				t.Errorf("exit code %d, expected %d edges: %s%s", code, want, out, stderr)
			}
			if code, out, stderr := clitest.Run(t, "partition", store, "--partitions", "2"); code != cli.ExitOK || !strings.Contains(out, fmt.Sprint(want)) {
				t.Errorf("partition: exit code %d, expected %d edges: %s%s", code, want, out, stderr)
			}
		})
	}
}

// TestSplitRandom: the labelled nodes, or the edges of a graph without labels, are divided at random, the same way for any
// number of partitions; edges of one relation between two nodes go together.
func TestSplitRandom(t *testing.T) {
	t.Chdir(t.TempDir())
	var nodes, edges, triples strings.Builder
	nodes.WriteString("id,age,label\n")
	edges.WriteString("src,dst\n")
	triples.WriteString("head,relation,tail\n")
	for i := range 3000 {
		label := fmt.Sprint(i % 2)
		if i%10 == 0 {
			label = ""
		}
		fmt.Fprintf(&nodes, "%d,%d,%s\n", i, i%77, label)
		fmt.Fprintf(&edges, "%d,%d\n", i, (i+1)%3000)
		fmt.Fprintf(&triples, "e%d,r,e%d\ne%d,r,e%d\n", i, (i+1)%3000, (i+1)%3000, i)
	}
	clitest.Put(t, ".", map[string][]byte{"nodes.csv": []byte(nodes.String()), "edges.csv": []byte(edges.String()), "kg.csv": []byte(triples.String())})
	split := func(store string, args ...string) map[string]string {
		clitest.MustRun(t, append([]string{"ingest", "edges.csv", store, "--nodes", "nodes.csv", "--quiet"}, args...)...)
		clitest.MustRun(t, "export", store, store+"-x", "--format", "tsv", "--quiet")
		b, err := os.ReadFile(store + "-x/nodes.tsv")
		if err != nil {
			t.Fatal(err)
		}
		parts := map[string]string{}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			parts[f[0]] = f[len(f)-1]
		}
		return parts
	}
	a := split("a", "--split-random", "60/20/20:7")
	counts := map[string]int{}
	for id, part := range a {
		if counts[part]++; (part == "none") != strings.HasSuffix(id, "0") && id != "id" {
			t.Errorf("node %s is in %s", id, part)
		}
	}
	for part, want := range map[string]int{"train": 1620, "valid": 540, "test": 540} {
		if d := counts[part] - want; d < -90 || d > 90 {
			t.Errorf("%d nodes in %s, expected about %d", counts[part], part, want)
		}
	}
	if b := split("b", "--split-random", "60/20/20:7", "--partitions", "5", "--hubs", ".1", "--partitioner", "fennel"); !maps.Equal(a, b) {
		t.Error("another number of partitions gives another split")
	}
	if b := split("c", "--split-random", "60/20/20:8"); maps.Equal(a, b) {
		t.Error("another seed gives the same split")
	}
	if unasked := split("d"); !maps.Equal(unasked, split("e", "--split-random", "60/20/20")) {
		t.Error("unasked, the split is another one than 60/20/20")
	}
	for id, last := range split("f", "--split-random", "none") {
		if slices.Contains(store.SplitNames(), last) && last != "none" {
			t.Fatalf("node %s is in %s without a split", id, last)
		}
	}
	clitest.MustRun(t, "ingest", "kg.csv", "k", "--split-random", "80/10/10", "--quiet")
	clitest.MustRun(t, "export", "k", "k-x", "--format", "tsv", "--quiet")
	part, total := map[string]string{}, 0
	for _, file := range []string{"train", "valid", "test"} {
		b, err := os.ReadFile("k-x/" + file + ".tsv")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			slices.Sort(f)
			if was, ok := part[strings.Join(f, " ")]; ok && was != file {
				t.Fatalf("%v is in %s, its reverse in %s", f, file, was)
			}
			part[strings.Join(f, " ")] = file
			n++
		}
		if total += n; file == "train" && (n < 4600 || n > 5000) {
			t.Errorf("%d triples to train on, expected about 4800", n)
		}
	}
	if total != 6000 {
		t.Errorf("%d triples, expected 6000", total)
	}
	if code, _, stderr := clitest.Run(t, "ingest", "kg.csv", "x", "--split-random", "80/10/20"); code != cli.ExitUsage || !strings.Contains(stderr, "add up to 100") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestIngestInterrupted: an interrupted ingest says how it goes on.
func TestIngestInterrupted(t *testing.T) {
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"e.csv": []byte("src,dst\n1,2\n")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	args := []string{"ingest", filepath.Join(dir, "e.csv"), filepath.Join(dir, "s")}
	if code := cli.Run(ctx, args, strings.NewReader(""), &stdout, &stderr); code != cli.ExitInterrupted || !strings.Contains(stderr.String(), "interrupted; the same command with --resume goes on") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	clitest.MustRun(t, append(args, "--resume", "--quiet")...)
}
