package generate

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// A store made at once holds, byte for byte, the data files of one made from
// the written folder, whatever the threads.
func TestSourceEqualsIngestedFiles(t *testing.T) {
	sbm := smallSBM(t, 6000)
	rmat, err := NewRMAT(RMATOptions{Nodes: 5000, Edges: 70_000, Dim: 8, Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	kg, err := NewKG(KGOptions{Entities: 1500, Relations: 12, Triples: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	shares := WriteOptions{Train: .3, Valid: .1, Test: .35}
	cases := map[string]struct {
		write  func(dir string) error
		source func() (ingest.Source, error)
	}{
		"sbm": {func(dir string) error { _, err := Write(t.Context(), dir, sbm, shares); return err },
			func() (ingest.Source, error) { return Source(sbm, nil, shares) }},
		"rmat": {func(dir string) error { _, err := Write(t.Context(), dir, rmat, shares); return err },
			func() (ingest.Source, error) { return Source(rmat, nil, shares) }},
		"kg": {func(dir string) error { _, err := WriteKG(t.Context(), dir, kg, WriteOptions{}); return err },
			func() (ingest.Source, error) { return SourceKG(kg, nil) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.write(filepath.Join(dir, "files")); err != nil {
				t.Fatal(err)
			}
			files, err := formats.Open(filepath.Join(dir, "files"), formats.Options{})
			if err != nil {
				t.Fatal(err)
			}
			direct, err := c.source()
			if err != nil {
				t.Fatal(err)
			}
			manifests := make([]*store.Manifest, 2)
			for i, src := range []ingest.Source{files, direct} {
				rep, err := ingest.Run(t.Context(), filepath.Join(dir, string(rune('a'+i))), src, ingest.Options{Partitions: 5, Seed: 3, Threads: 1 + 2*i})
				if err != nil {
					t.Fatal(err)
				}
				manifests[i] = rep.Manifest
				if err := src.Close(); err != nil {
					t.Fatal(err)
				}
			}
			a, b := manifests[0], manifests[1]
			if a.Nodes != b.Nodes || a.Edges != b.Edges || len(a.Columns) != len(b.Columns) || a.Schema.Task != b.Schema.Task {
				t.Errorf("%d nodes, %d edges, %d columns, task %q from files; %d, %d, %d, %q at once",
					a.Nodes, a.Edges, len(a.Columns), a.Schema.Task, b.Nodes, b.Edges, len(b.Columns), b.Schema.Task)
			}
			want, got := tree(t, filepath.Join(dir, "a", "data")), tree(t, filepath.Join(dir, "b", "data"))
			if len(want) != len(got) || len(want) == 0 {
				t.Fatalf("%d data files from files, %d at once", len(want), len(got))
			}
			for name, data := range want {
				if !bytes.Equal(data, got[name]) {
					t.Errorf("%s differs", name)
				}
			}
		})
	}
}
