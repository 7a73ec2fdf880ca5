package ingest_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// Bad input is refused with file, position and reason, and nothing is left.
func TestBadInputIsRefused(t *testing.T) {
	i64 := func(shape string, x ...int64) []byte { return npy("<i8", shape, blocks.Bytes(x)) }
	nan := make([]float32, 12)
	nan[7] = float32(math.NaN())
	inf := make([]float32, 12)
	inf[0] = float32(math.Inf(-1))
	tests := []struct {
		name, file string
		data       []byte // nil = the file is removed
		want       []string
	}{
		{"edge id out of range", "edge_index.npy", i64("2, 2", 0, 1, 2, 4), []string{"edge_index.npy: edge 1", "dst node 4", "less than 4"}},
		{"negative edge id", "edge_index.npy", i64("2, 2", 0, -7, 2, 3), []string{"edge_index.npy: edge 1", "src node -7 is negative"}},
		{"edges of wrong shape", "edge_index.npy", i64("4,", 0, 1, 2, 3), []string{"edge_index.npy", "[2, E]"}},
		{"edges of floats", "edge_index.npy", npy("<f4", "2, 1", make([]byte, 8)), []string{"edge_index.npy", "float32"}},
		{"truncated", "edge_index.npy", i64("2, 3", 0, 1, 2, 3), []string{"edge_index.npy", "truncated"}},
		{"no numpy file", "edge_index.npy", []byte("1 2\n3 4\n"), []string{"edge_index.npy", "not a .npy file"}},
		{"features of wrong shape", "node_feat.npy", npy("<f4", "3, 4", make([]byte, 48)), []string{"node_label.npy", "expected 3 rows"}},
		{"NaN feature", "node_feat.npy", npy("<f4", "4, 3", blocks.Bytes(nan)), []string{"node_feat.npy: row 2", "column 1", "NaN"}},
		{"infinite feature", "node_feat.npy", npy("<f4", "4, 3", blocks.Bytes(inf)), []string{"node_feat.npy: row 0", "column 0", "-Inf"}},
		{"labels missing", "node_label.npy", nil, []string{"split", "node_label.npy"}},
		{"label out of range", "node_label.npy", i64("4,", 0, 1, -2, 0), []string{"node_label.npy: row 2", "label -2"}},
		{"label beyond the classes", "node_label.npy", i64("4,", 0, 1, 2, 0), []string{"node_label.npy: row 2", "label 2", "less than 2"}},
		{"overlapping split", "split/valid.npy", i64("1,", 3), []string{"valid.npy: row 0", "node 3 is in train and in valid"}},
		{"a node twice in a split", "split/train.npy", i64("3,", 0, 3, 0), []string{"train.npy: row 2", "node 0 is twice in train of split split"}},
		{"a split of no training nodes", "split/train.npy", i64("0,"), []string{"split/", ".npy: split split has no training nodes"}},
		{"split out of range", "split/test.npy", i64("2,", 0, 9), []string{"test.npy: row 1", "node 9"}},
		{"a weight that is NaN", "edge_weight.npy", npy("<f4", "2,", []byte{0, 0, 128, 63, 0, 0, 192, 127}), []string{"edge_index.npy: edge 1", "weight is NaN"}},
		{"an infinite weight", "edge_weight.npy", npy("<f4", "2,", []byte{0, 0, 128, 255, 0, 0, 128, 63}), []string{"edge_index.npy: edge 0", "weight is -Inf"}},
		{"edge types of wrong shape", "edge_type.npy", i64("3,", 0, 0, 0), []string{"edge_type.npy", "expected [2]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &graph{nodes: 4, src: []int64{0, 1}, dst: []int64{2, 3}, types: []int64{0, 0}, x: make([]float32, 12), labels: []int64{0, 1, -1, 0}}
			input := g.write(t, false)
			path := filepath.Join(input, tt.file)
			err := os.WriteFile(filepath.Join(input, "classes.txt"), []byte("a\nb\n"), 0o666)
			if err == nil && tt.data == nil {
				err = os.Remove(path)
			} else if err == nil {
				err = os.WriteFile(path, tt.data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "store")
			src, err := formats.Open(input, formats.Options{})
			if err == nil {
				_, err = ingest.Run(context.Background(), dir, src, ingest.Options{})
			}
			if !errors.Is(err, ingest.ErrInput) {
				t.Fatalf("got %v, expected ErrInput", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("message %q lacks %q", err, w)
				}
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was left behind (%v)", dir, err)
			}
		})
	}
}

// An ingest cancelled in any phase does not open, and resumes to the files of
// an undisturbed one.
func TestCancelledInAnyPhaseResumes(t *testing.T) {
	g := randomGraph(4, 300, 4000)
	input := g.write(t, true)
	o := ingest.Options{Partitions: 4, Seed: 3}
	var phases []string
	o.Progress = func(p ingest.Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	}
	o.Threads = 1
	whole, _ := run(t, input, o)
	want := files(t, whole)
	for _, stop := range phases {
		src, err := formats.Open(input, formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "store")
		ctx, cancel := context.WithCancel(context.Background())
		o.Progress = func(p ingest.Progress) {
			if p.Phase == stop {
				cancel()
			}
		}
		_, err = ingest.Run(ctx, dir, src, o)
		cancel()
		if err == nil {
			continue // cancelled too late: the last phase
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled in %q: %v", stop, err)
		}
		if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrNoVersion) {
			t.Errorf("cancelled in %q: Open says %v, expected ErrNoVersion", stop, err)
		}
		o.Progress, o.Resume = nil, true
		rep, err := ingest.Run(context.Background(), dir, src, o)
		if err != nil {
			t.Fatalf("resumed after %q: %v", stop, err)
		}
		if stop == "ids" && len(rep.Resumed) == 0 {
			t.Error("nothing was resumed after the edges were done")
		}
		sameFiles(t, want, files(t, dir))
		o.Resume = false
	}
}

// Edges alone do not say how many nodes there are beyond the largest id: an option does. It is refused where the input says
// otherwise, and where ids are no positions.
func TestNumberOfNodes(t *testing.T) {
	edges := npy("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 2, 4}))
	tests := []struct {
		name  string
		nodes int64
		file  string // beside the edges
		ids   store.IDKind
		want  uint64
		err   string
	}{
		{name: "counted", want: 5},
		{name: "isolated nodes at the end", nodes: 9, want: 9},
		{name: "too few", nodes: 4, err: "dst node 4, expected less than 4"},
		{name: "labels say otherwise", nodes: 9, file: "node_label.npy", err: "9 nodes are given, the input has 6"},
		{name: "labels say the same", nodes: 6, file: "node_label.npy", want: 6},
		{name: "ids of their own", nodes: 9, ids: store.IDsIntegers, err: "expected ids from 0 on"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			input := t.TempDir()
			err := os.WriteFile(filepath.Join(input, "edge_index.npy"), edges, 0o666)
			if err == nil && tt.file != "" {
				err = os.WriteFile(filepath.Join(input, tt.file), npy("<i8", "6,", make([]byte, 48)), 0o666)
			}
			o := formats.Options{Format: "numpy"}
			if tt.ids != "" {
				input, o = filepath.Join(input, "edges.tsv"), formats.Options{Format: "edgelist"}
				o.Text.IDs = tt.ids
				err = os.WriteFile(input, []byte("0\t2\n1\t4\n"), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			src, err := formats.Open(input, o)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := ingest.Run(context.Background(), filepath.Join(t.TempDir(), "s"), src, ingest.Options{Nodes: tt.nodes})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !ingest.Refused(err) {
					t.Errorf("expected a refusal with %q, got %v", tt.err, err)
				}
				return
			}
			if err != nil || rep.Nodes != tt.want {
				t.Errorf("expected %d nodes, got %+v, %v", tt.want, rep, err)
			}
		})
	}
}
