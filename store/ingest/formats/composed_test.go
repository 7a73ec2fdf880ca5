package formats

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// memFS holds the files, by slash-separated path.
func memFS(t testing.TB, files map[string][]byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	for path, b := range files {
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			if err := fs.MkdirAll(path[:i], 0o777); err != nil {
				t.Fatal(err)
			}
		}
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(bytes.Clone(b)) // under -race, Pebble's file system inverts what it was given
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// drain reads all that a source describes, checks that it is what was
// described, and returns the first error. It counts edges.
func drain(t testing.TB, s ingest.Source) (edges int64, err error) {
	t.Helper()
	ctx, scratch := context.Background(), vfs.NewMem()
	if err := scratch.MkdirAll("scratch", 0o777); err != nil {
		t.Fatal(err)
	}
	env := ingest.Env{Threads: 1, MemoryBytes: 1 << 20, ScratchDir: "scratch", FS: scratch}
	d := s.Describe()
	batch := func(b *ingest.EdgeBatch) error {
		n := b.Len()
		if b.Src.Len() != n || b.Dst.Len() != n || d.HasRelation && len(b.Relations)+b.RelationNames.Len() != n {
			t.Fatalf("a batch of %d sources, %d destinations, %d relations", b.Src.Len(), b.Dst.Len(), len(b.Relations))
		}
		_ = b.At.Of(0)
		return nil
	}
	err = s.Edges(ctx, env, func(_ int, b *ingest.EdgeBatch) error {
		edges += int64(b.Len())
		for c, spec := range d.EdgeColumns {
			if len(b.Columns[c]) != b.Len()*spec.RowBytes() {
				t.Fatalf("%d bytes of %s for %d edges", len(b.Columns[c]), spec.Name, b.Len())
			}
		}
		return batch(b)
	})
	if err == nil && d.Edges >= 0 && edges != d.Edges {
		t.Fatalf("%d edges, %d were described", edges, d.Edges)
	}
	errs := []error{err}
	for l := range d.EdgeLists {
		errs = append(errs, s.EdgeList(ctx, env, l, batch))
	}
	if d.Keyed {
		errs = append(errs, drainKeyed(t, s.(ingest.KeyedSource), env))
	}
	for c, spec := range d.NodeColumns {
		if spec.Keyed {
			continue
		}
		rows := 0
		err := s.Rows(ctx, env, c, func(b []byte, at ingest.Position) error {
			if spec.RowBytes() == 0 || len(b)%spec.RowBytes() != 0 {
				t.Fatalf("%d bytes are no whole rows of %+v", len(b), spec)
			}
			rows += len(b) / spec.RowBytes()
			return nil
		})
		if err == nil && spec.Rows >= 0 && int64(rows) != spec.Rows {
			err = fmt.Errorf("%w: %d rows of %s, %d were described", ingest.ErrInput, rows, spec.Name, spec.Rows) // ingest refuses more and fewer
		}
		errs = append(errs, err)
	}
	for k := range d.Splits {
		for part := store.SplitTrain; part <= store.SplitTest; part++ {
			errs = append(errs, s.Split(ctx, env, k, uint8(part), func(*ingest.IDs, ingest.Position) error { return nil }))
		}
	}
	if d.Named {
		errs = append(errs, s.Names(ctx, env, func(*ingest.IDs, ingest.Position) error { return nil }))
	}
	return edges, errors.Join(errs...)
}

// drainKeyed reads the tables of nodes.
func drainKeyed(t testing.TB, s ingest.KeyedSource, env ingest.Env) error {
	t.Helper()
	nodes := 0
	errs := []error{s.NodeIDs(t.Context(), env, func(ids *ingest.IDs, _ ingest.Position) error {
		nodes += ids.Len()
		return nil
	})}
	for c, spec := range s.Describe().NodeColumns {
		if !spec.Keyed {
			continue
		}
		errs = append(errs, s.KeyedRows(t.Context(), env, c, func(ids *ingest.IDs, rows []byte, at ingest.Position) error {
			if spec.RowBytes() == 0 || len(rows) != ids.Len()*spec.RowBytes() {
				t.Fatalf("%d bytes of %+v for %d nodes", len(rows), spec, ids.Len())
			}
			_ = at.Of(0)
			return nil
		}))
	}
	return errors.Join(errs...)
}

// openDrain opens and drains what is at path; every error must be one about the input.
func openDrain(t testing.TB, fs vfs.FS, path string, o Options) error {
	t.Helper()
	o.FS = fs
	s, err := Open(path, o)
	if err == nil {
		_, err = drain(t, s)
		err = errors.Join(err, s.Close())
	}
	if err != nil && !errors.Is(err, ingest.ErrInput) {
		t.Fatalf("%v: not marked as an error of the input", err)
	}
	return err
}

// badCase is an input that must be refused with a message that has all of want.
type badCase struct {
	name, path string
	format     string
	files      map[string][]byte
	want       []string
}

func runBad(t *testing.T, cases []badCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := openDrain(t, memFS(t, c.files), c.path, Options{Format: c.format})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
}

func npyBytes(descr, shape string, data []byte) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape)
	b := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	return append(append(b, head...), data...)
}

func npyList(x ...int64) []byte { return npyBytes("<i8", fmt.Sprintf("%d,", len(x)), blocks.Bytes(x)) }

func npzBytes(t testing.TB, method uint16, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, key := range slices.Sorted(maps.Keys(arrays)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: key + ".npy", Method: method})
		if err == nil {
			_, err = w.Write(arrays[key])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// scipyArrays is a matrix of 3 nodes with 3 edges, with the named arrays replaced.
func scipyArrays(replace map[string][]byte) map[string][]byte {
	a := map[string][]byte{"adj_indptr": npyList(0, 1, 2, 3), "adj_indices": npyList(1, 2, 0),
		"adj_data": npyBytes("<f4", "3,", blocks.Bytes([]float32{1, 2, 1})), "adj_shape": npyList(3, 3)}
	maps.Copy(a, replace)
	return a
}

func TestNPZBadInput(t *testing.T) {
	bad := func(name string, replace map[string][]byte, want ...string) badCase {
		return badCase{name: name, path: "g.npz", want: append(want, "g.npz"),
			files: map[string][]byte{"g.npz": npzBytes(t, zip.Deflate, scipyArrays(replace))}}
	}
	whole := npzBytes(t, zip.Deflate, scipyArrays(nil))
	damaged := bytes.Clone(whole)
	damaged[bytes.Index(damaged, []byte("adj_data.npy"))+14] ^= 0xff
	runBad(t, []badCase{
		bad("column out of range", map[string][]byte{"adj_indices": npyList(1, 3, 0)}, "adj_indices: row 1: column 3, expected 0 ≤ column < 3"),
		bad("negative column", map[string][]byte{"adj_indices": npyList(1, -3, 0)}, "row 1: column -3"),
		bad("indptr falls", map[string][]byte{"adj_indptr": npyList(0, 2, 1, 3)}, "adj_indptr: row 2: 1, expected 2 ≤ x ≤ 3"),
		bad("indptr begins late", map[string][]byte{"adj_indptr": npyList(1, 2, 3, 3)}, "row 0: 1, expected 0"),
		bad("indptr ends early", map[string][]byte{"adj_indptr": npyList(0, 1, 2, 2)}, "row 3: 2, expected 3"),
		bad("indptr of another length", map[string][]byte{"adj_indptr": npyList(0, 3)}, "shape [2], expected integers of shape [4]"),
		bad("data of another length", map[string][]byte{"adj_data": npyList(1)}, "adj_data: shape [1], expected [3]"),
		bad("not square", map[string][]byte{"adj_shape": npyList(3, 4)}, "expected a square matrix"),
		bad("three dimensions", map[string][]byte{"adj_shape": npyList(3, 3, 3)}, "adj_shape", "at most 2"),
		bad("a COO matrix", map[string][]byte{"adj_format": npyBytes("|S3", "", []byte("coo"))}, `scipy format "coo", expected csr`),
		bad("features of other nodes", map[string][]byte{"x": npyBytes("<f4", "1, 2", make([]byte, 8))}, "expected 3 rows"),
		bad("masks of splits of other nodes", map[string][]byte{"labels": npyList(0, 1, 0), "train_masks": npyBytes("|b1", "2, 2", make([]byte, 4))}, "or of several splits [S, 3]"),
		bad("masks of another number of splits", map[string][]byte{"labels": npyList(0, 1, 0), "train_masks": npyBytes("|b1", "2, 3", make([]byte, 6)),
			"val_masks": npyBytes("|b1", "4, 3", make([]byte, 12))}, "splits beside those of"),
		bad("a mask of other nodes", map[string][]byte{"labels": npyList(0, 1, 0), "train_mask": npyBytes("|b1", "2,", []byte{1, 0})}, "expected bool of shape [3]"),
		bad("a split without labels", map[string][]byte{"train_idx": npyList(0)}, "no labels"),
		{name: "no edges", path: "g.npz", files: map[string][]byte{"g.npz": npzBytes(t, zip.Store, map[string][]byte{"x": npyList(1)})},
			want: []string{"no edges", "there are: x"}},
		{name: "no archive", path: "g.npz", files: map[string][]byte{"g.npz": []byte("PK")}, want: []string{"not an .npz archive"}},
		{name: "damaged", path: "g.npz", files: map[string][]byte{"g.npz": damaged}, want: []string{"g.npz: adj_data"}},
		{name: "OGB of two graphs", path: "d", files: map[string][]byte{"d/raw/data.npz": npzBytes(t, zip.Store, map[string][]byte{
			"edge_index": npyBytes("<i8", "2, 1", make([]byte, 16)), "num_nodes_list": npyList(3, 4)})}, want: []string{"num_nodes_list", "at most 1"}},
		{name: "OGB edge count", path: "d", files: map[string][]byte{"d/raw/data.npz": npzBytes(t, zip.Store, map[string][]byte{
			"edge_index": npyBytes("<i8", "2, 1", make([]byte, 16)), "num_edges_list": npyList(3)})}, want: []string{"1 edges, expected 3"}},
	})
}

// Values other than 1 become weights, in the order of the edges.
func TestNPZWeights(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		s, err := Open("g.npz", Options{FS: memFS(t, map[string][]byte{"g.npz": npzBytes(t, method, scipyArrays(nil))})})
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		err = s.Edges(t.Context(), ingest.Env{Threads: 1}, func(_ int, b *ingest.EdgeBatch) error {
			got = append(got, b.Columns[0]...)
			return nil
		})
		if want := blocks.Bytes([]float32{1, 2, 1}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("weights %v (%v), expected %v", got, err, want)
		}
	}
}

// Whatever the bytes, an .npz is refused or read as described.
func FuzzNPZ(f *testing.F) {
	f.Add(npzBytes(f, zip.Store, scipyArrays(nil)))
	f.Add(npzBytes(f, zip.Store, scipyArrays(map[string][]byte{"attr_indptr": npyList(0, 1, 1, 1), "attr_indices": npyList(1),
		"attr_data": npyList(4), "attr_shape": npyList(3, 2), "labels": npyList(0, 1, 0), "train_idx": npyList(1)})))
	f.Add(npzBytes(f, zip.Deflate, map[string][]byte{"edge_index": npyBytes("<i8", "2, 1", make([]byte, 16))}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = openDrain(t, memFS(t, map[string][]byte{"g.npz": b}), "g.npz", Options{})
	})
}
