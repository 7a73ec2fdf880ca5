package data_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestExport(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"a", "b"} {
		table, err := table.Create(context.Background(), s, table.Options{Name: name, Dim: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args  []string
		code  int
		files []string // in the target
		text  string   // in what is printed
	}{
		{nil, cli.ExitOK, []string{"edge_index.npy", "edges_valid.npy", "node_feat.npy", "node_label.npy", "split/train.npy", "meta.json"}, "200 rows"},
		{[]string{"--format", "tsv", "--what", "graph"}, cli.ExitOK, []string{"edges.tsv", "edges_valid.tsv", "meta.json"}, "1000 rows"},
		{[]string{"--format", "parquet", "--what", "all"}, cli.ExitOK, []string{"edges.parquet", "nodes.parquet"}, ""},
		{[]string{"--what", "embeddings", "--tables", "b", "--json"}, cli.ExitOK, []string{"node_embedding.npy"}, `"rows":200`},
		{[]string{"--what", "embeddings"}, cli.ExitOK, []string{"node_embedding_a.npy", "node_embedding_b.npy"}, ""},
		{[]string{"--what", "embeddings", "--tables", "c"}, cli.ExitFailed, nil, "the store has: a, b"},
		{[]string{"--tables", "a"}, cli.ExitUsage, nil, "--what embeddings"},
		{[]string{"--what", "edges"}, cli.ExitUsage, nil, "--what edges: expected some of"},
		{[]string{"--what="}, cli.ExitUsage, nil, "nothing to write"},
		{[]string{"--mem", "1MiB"}, cli.ExitFailed, nil, "the smallest that works is"},
		{[]string{"--version", "9"}, cli.ExitFailed, nil, ""},
	} {
		out := filepath.Join(t.TempDir(), "out")
		code, stdout, stderr := clitest.Run(t, append([]string{"export", dir, out}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.text) {
			t.Errorf("%v: exit code %d, expected %d and %q\n%s%s", c.args, code, c.code, c.text, stdout, stderr)
		}
		for _, f := range c.files {
			if _, err := os.Stat(filepath.Join(out, f)); err != nil {
				t.Errorf("%v: %v", c.args, err)
			}
		}
		if c.files == nil {
			if _, err := os.Stat(out); err == nil {
				t.Errorf("%v: %s is there", c.args, out)
			}
		}
	}
}
