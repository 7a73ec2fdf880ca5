package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			fails: []string{"e.csv: line 1", `"user_id" "item_id" "action" "rating" "ts"`, "--header yes", "--header no"}},
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
		{name: "a missing value", files: map[string]string{"e.csv": "src,dst\nann,bob\n", "n.csv": "id,age,size\nann,31,1\nbob,NA,2\n"}, input: "e.csv", args: "--nodes n.csv",
			fails: []string{"n.csv: line 3", `column "age" has no value`, "--missing mean"}},
		{name: "a missing value as the mean", files: map[string]string{"e.csv": "src,dst\nann,bob\n", "n.csv": "id,age,size\nann,31,1\nbob,,2\n"}, input: "e.csv",
			args: "--nodes n.csv --missing mean --missing-mask", says: []string{"1 values of x were missing"}},
		{name: "a weight that is none", files: map[string]string{"e.csv": "src,dst,w\n1,2,NaN\n"}, fails: []string{"e.csv: line 2", "no finite number"}},
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
