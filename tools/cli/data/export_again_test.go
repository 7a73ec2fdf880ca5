package data_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// tableLines are the lines of a store's graph and nodes as text, in no order; the ends of an undirected edge in theirs.
func tableLines(t *testing.T, store string) (header, lines []string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "text")
	clitest.MustRun(t, "export", store, out, "--format", "tsv", "--quiet")
	meta, err := os.ReadFile(filepath.Join(out, "meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"edges.tsv", "nodes.tsv"} {
		b, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(strings.TrimSpace(string(b)), "\n")
		header = append(header, rows[0])
		for _, row := range rows[1:] {
			if file == "edges.tsv" && strings.Contains(string(meta), `"undirected": true`) {
				f := strings.Split(row, "\t")
				slices.Sort(f[:2])
				row = "undirected " + strings.Join(f, "\t")
			}
			lines = append(lines, row)
		}
	}
	slices.Sort(lines)
	return header, lines
}

// TestExportComesBack: what gstore export writes is the same graph when it is ingested, without a flag: columns under
// their names however these look, ids, undirectedness. No file of an export takes another's place.
func TestExportComesBack(t *testing.T) {
	nodes := "id\tfeat.0\tfeat.1\tids\ta/b\ta_b\tFeat\tlabel\tsplit\n%1\t1\t2\t3\t4\t5\t8\tno\ttrain\n%2\t6\t7\t8\t9\t10\t9\tyes\tvalid\n%3\t1\t1\t1\t1\t1\t1\t\t\n"
	edges := "src\tdst\trelation\tweight\tindex\ttype\te.0\te.1\n%1\t%2\tknows\t.5\t7\t8\t1\t2\n%2\t%3\tlikes\t1.5\t9\t10\t3\t4\n"
	for kind, ids := range map[string][3]string{"strings": {"a b", "z", "m"}, "integers": {"900", "7", "13"}, "dense": {"0", "1", "2"}} {
		r := strings.NewReplacer("%1", ids[0], "%2", ids[1], "%3", ids[2])
		dir := clitest.Put(t, t.TempDir(), map[string][]byte{"edges.tsv": []byte(r.Replace(edges)), "nodes.tsv": []byte(r.Replace(nodes))})
		for _, flag := range []string{"", "--undirected"} {
			store := filepath.Join(t.TempDir(), "s")
			clitest.MustRun(t, slices.DeleteFunc([]string{"ingest", dir, store, "--quiet", "--ids", kind, "--partitions", "2", "--columns", "src,dst,relation,weight,index,type,e*2",
				"--node-columns", "id,feat*2,ids,a/b,a_b,Feat,label,split", flag}, func(a string) bool { return a == "" })...)
			header, want := tableLines(t, store)
			for _, format := range []string{"numpy", "tsv", "parquet"} {
				t.Run(kind+flag+" "+format, func(t *testing.T) {
					out, again := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "again")
					clitest.MustRun(t, "export", store, out, "--format", format, "--what", "all", "--quiet")
					clitest.MustRun(t, "ingest", out, again, "--partitions", "3")
					gotHeader, got := tableLines(t, again)
					if !slices.Equal(got, want) || !slices.Equal(gotHeader, header) {
						t.Errorf("%q\n%q, expected\n%q\n%q", gotHeader, got, header, want)
					}
				})
			}
		}
	}
}

// TestNumpyFiles: arrays of a folder that are read under other names, and those that are not, are told.
func TestNumpyFiles(t *testing.T) {
	ints := func(x ...int64) []byte { return clitest.NpyInts(x) }
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"edge_index.npy": clitest.NpyFile("<i8", "2, 2", make([]byte, 32)), "x.npy": ints(1, 2), "y.npy": ints(0, 1),
		"node_age.npy": ints(30, 40), "edge_len.npy": ints(5, 6), "foo.npy": ints(1), "edges_valid.npy": clitest.NpyFile("<i8", "1, 2", make([]byte, 16))})
	_, out, _ := clitest.Run(t, "ingest", dir, filepath.Join(t.TempDir(), "s"))
	for _, want := range []string{`x.npy → feature x [1]`, `y.npy → label`, `node_age.npy → feature age [1]`, `edge_len.npy → edge feature len`, "foo.npy is not read"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}
