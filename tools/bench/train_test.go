package bench

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Every model is measured on every number of threads with one loss, and the
// dumped batches are those that were trained; timings are not judged.
func TestRunTrain(t *testing.T) {
	o := TrainOptions{Dir: t.TempDir(), Nodes: 3000, Edges: 30000, Classes: 4, Dims: []int{8}, Hidden: []int{16}, Fanouts: []int{5, 3},
		BatchSize: 50, Batches: 2, Repeats: 1, Threads: []int{1, 2}, DumpDir: t.TempDir()}
	for _, run := range []string{"made", "found"} { // the second run finds the store
		var got []TrainResult
		if err := RunTrain(t.Context(), o, func(r TrainResult) { got = append(got, r) }); err != nil {
			t.Fatalf("%s: %v", run, err)
		}
		if len(got) != 6 {
			t.Fatalf("%s: %d results, expected 3 models on 2 numbers of threads", run, len(got))
		}
		for i, r := range got {
			if r.Model != []string{"sage", "gcn", "gat"}[i/2] || r.Threads != 1+i%2 || r.Elem != "float32" || r.Dim != 8 {
				t.Errorf("%s: result %d is %+v", run, i, r)
			}
			if !(r.Loss > 0) || r.Loss != got[i/2*2].Loss {
				t.Errorf("%s: %s: loss %v on %d threads, %v on 1", run, r.Model, r.Loss, r.Threads, got[i/2*2].Loss)
			}
			if !(r.Sample > 0 && r.Gather > 0 && r.Forward > 0 && r.Backward > 0 && r.Optimize > 0 && r.Edges > 0 && r.Inputs >= 50) || len(r.Operations) == 0 {
				t.Errorf("%s: result %d lacks a stage: %+v", run, i, r)
			}
		}
	}
	dumped := filepath.Join(o.DumpDir, "8", "2")
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 10 + int(binary.LittleEndian.Uint16(b[8:]))
		if !bytes.HasPrefix(b, []byte("\x93NUMPY\x01\x00")) || n%64 != 0 {
			t.Fatalf("%s starts with %q", path, b[:10])
		}
		return b[n:]
	}
	input, seeds := read(filepath.Join(dumped, "input.npy")), read(filepath.Join(dumped, "seeds.npy"))
	if len(seeds) != 4*50 || !bytes.HasPrefix(input, seeds) {
		t.Errorf("%d seed bytes, expected 50 rows that the input of %d bytes starts with", len(seeds), len(input))
	}
	last, indices := read(filepath.Join(dumped, "indptr_1.npy")), read(filepath.Join(dumped, "indices_1.npy"))
	if len(last) != 4*51 || int(binary.LittleEndian.Uint32(last[200:])) != len(indices)/4 {
		t.Errorf("the last block has %d bytes of indptr and %d of indices", len(last), len(indices))
	}
	indptr, all := read(filepath.Join(o.DumpDir, "8", "indptr.npy")), read(filepath.Join(o.DumpDir, "8", "indices.npy"))
	if edges := binary.LittleEndian.Uint64(indptr[len(indptr)-8:]); int(edges) != len(all)/4 || edges != o.Edges {
		t.Errorf("the graph has %d edges in indptr and %d in indices, expected %d", edges, len(all)/4, o.Edges)
	}
}
