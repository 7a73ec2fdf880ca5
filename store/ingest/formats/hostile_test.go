package formats

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store/ingest"
)

// contents is all that a source says, as text: edges sorted, the rest in order.
func contents(t testing.TB, fs vfs.FS, path string) (string, error) {
	t.Helper()
	src, err := Open(path, Options{FS: fs})
	if err != nil {
		return "", err
	}
	defer src.Close() //nolint:errcheck // nothing is written
	d := *src.Describe()
	d.Input, d.Files, d.Uses = "", nil, nil
	out := fmt.Sprintf("%+v\n", d)
	scratch := vfs.NewMem()
	if err := scratch.MkdirAll("scratch", 0o777); err != nil {
		t.Fatal(err)
	}
	env := ingest.Env{Threads: 1, MemoryBytes: 1 << 20, ScratchDir: "scratch", FS: scratch}
	edge := func(b *ingest.EdgeBatch, i int) string {
		s := fmt.Sprint("edge ", b.Src.Ints[i], " ", b.Dst.Ints[i])
		if b.Relations != nil {
			s += fmt.Sprint(" ", b.Relations[i])
		}
		for _, c := range b.Columns {
			s += fmt.Sprintf(" %x", c[4*i:4*i+4])
		}
		return s
	}
	var edges []string
	errs := []error{src.Edges(t.Context(), env, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			edges = append(edges, edge(b, i))
		}
		return nil
	})}
	slices.Sort(edges)
	out += strings.Join(edges, "\n")
	for l := range d.EdgeLists {
		errs = append(errs, src.EdgeList(t.Context(), env, l, func(b *ingest.EdgeBatch) error {
			for i := range b.Len() {
				out += "\nlist " + edge(b, i)
			}
			return nil
		}))
	}
	for c, spec := range d.NodeColumns {
		errs = append(errs, src.Rows(t.Context(), env, c, func(b []byte, _ ingest.Position) error {
			out += fmt.Sprintf("\n%s %x", spec.Name, b)
			return nil
		}))
	}
	for s := range d.Splits {
		for part := range uint8(4) {
			errs = append(errs, src.Split(t.Context(), env, s, part, func(ids *ingest.IDs, _ ingest.Position) error {
				out += fmt.Sprint("\nsplit ", part, ids.Ints)
				return nil
			}))
		}
	}
	return out, errors.Join(errs...)
}

// fullNPZ has edges with types and weights, features, labels and a split.
func fullNPZ(t testing.TB, method uint16) []byte {
	return npzBytes(t, method, map[string][]byte{
		"edge_index":  npyBytes("<i8", "2, 3", blocks.Bytes([]int64{0, 1, 2, 1, 2, 0})),
		"edge_type":   npyList(0, 1, 0),
		"edge_weight": npyBytes("<f4", "3,", blocks.Bytes([]float32{1, 2, 3})),
		"x":           npyBytes("<f4", "3, 2", blocks.Bytes([]float32{1, 2, 3, 4, 5, 6})),
		"labels":      npyList(0, 1, 1), "train_idx": npyList(0, 2), "test_mask": npyBytes("|b1", "3,", []byte{0, 1, 0}),
	})
}

// Every flipped bit of an archive is an error of the input, or changes nothing: stored members,
// which are read at their places, are no less checked than deflated ones.
func TestNPZFlips(t *testing.T) {
	for name, method := range map[string]uint16{"stored": zip.Store, "deflated": zip.Deflate} {
		t.Run(name, func(t *testing.T) {
			whole := fullNPZ(t, method)
			want, err := contents(t, memFS(t, map[string][]byte{"g.npz": whole}), "g.npz")
			if err != nil {
				t.Fatal(err)
			}
			refused, harmless := 0, 0
			for bit := range 8 * len(whole) {
				if bit%race.Sample(5, 5) != 0 {
					continue
				}
				b := bytes.Clone(whole)
				b[bit/8] ^= 1 << (bit % 8)
				got, err := contents(t, memFS(t, map[string][]byte{"g.npz": b}), "g.npz")
				switch {
				case errors.Is(err, ingest.ErrInput):
					refused++
				case err != nil:
					t.Fatalf("bit %d of byte %d: %v is no error of the input", bit%8, bit/8, err)
				case got != want:
					t.Fatalf("bit %d of byte %d is accepted and changes\n%s\nto\n%s", bit%8, bit/8, want, got)
				default:
					harmless++
				}
			}
			t.Logf("%d bits: %d refused, %d without effect", 8*len(whole), refused, harmless)
		})
	}
}

// fortranBytes is an array whose columns stand one after another.
func fortranBytes(descr, shape string, data []byte) []byte {
	return bytes.Replace(npyBytes(descr, shape, data), []byte("False"), []byte(" True"), 1)
}

// Arrays in Fortran order, as numpy.save writes a transposed one, are read like any others:
// plain, packed, in archives.
func TestFortranOrder(t *testing.T) {
	i64 := func(x ...int64) []byte { return blocks.Bytes(x) }
	rows := map[string][]byte{
		"edge_index": npyBytes("<i8", "2, 3", i64(0, 1, 2, 1, 2, 0)),
		"node_feat":  npyBytes("<f4", "3, 2", blocks.Bytes([]float32{1, 2, 3, 4, 5, 6})),
	}
	columns := map[string][]byte{
		"edge_index": fortranBytes("<i8", "2, 3", i64(0, 1, 1, 2, 2, 0)),
		"node_feat":  fortranBytes("<f4", "3, 2", blocks.Bytes([]float32{1, 3, 5, 2, 4, 6})),
	}
	turned := map[string][]byte{ // [E, 2], columns
		"edge_index": fortranBytes("<i8", "3, 2", i64(0, 1, 2, 1, 2, 0)), "node_feat": columns["node_feat"],
	}
	folder := func(arrays map[string][]byte, suffix string) map[string][]byte {
		files := map[string][]byte{}
		for name, b := range arrays {
			if suffix == ".gz" {
				b = gzipped(t, b)
			}
			files["d/"+name+".npy"+suffix] = b
		}
		return files
	}
	want, err := contents(t, memFS(t, folder(rows, "")), "d")
	if err != nil {
		t.Fatal(err)
	}
	wantZ, err := contents(t, memFS(t, map[string][]byte{"g.npz": npzBytes(t, zip.Store, rows)}), "g.npz")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		files      map[string][]byte
		want       string
	}{
		{"columns", "d", folder(columns, ""), want},
		{"columns, packed", "d", folder(columns, ".gz"), want},
		{"edges one after another", "d", folder(turned, ""), want},
		{"stored", "g.npz", map[string][]byte{"g.npz": npzBytes(t, zip.Store, columns)}, wantZ},
		{"deflated", "g.npz", map[string][]byte{"g.npz": npzBytes(t, zip.Deflate, turned)}, wantZ},
	} {
		if got, err := contents(t, memFS(t, c.files), c.path); err != nil || got != c.want {
			t.Errorf("%s: %v\n%s\nexpected\n%s", c.name, err, got, c.want)
		}
	}
	triples := func(b []byte) map[string][]byte {
		return map[string][]byte{"d/train.npy": b, "d/test.npy": b}
	}
	want, err = contents(t, memFS(t, triples(npyBytes("<i8", "2, 3", i64(0, 1, 2, 2, 0, 1)))), "d")
	if err != nil {
		t.Fatal(err)
	}
	got, err := contents(t, memFS(t, triples(fortranBytes("<i8", "2, 3", i64(0, 2, 1, 0, 2, 1)))), "d")
	if err != nil || got != want {
		t.Errorf("triples: %v\n%s\nexpected\n%s", err, got, want)
	}
}

// A shape in a header makes nobody allocate what it says: packed [2, E] arrays are
// unpacked in pieces, and a row of a forged shape is refused.
func TestPackedShapes(t *testing.T) {
	var before, after runtime.MemStats
	for _, c := range []struct {
		name, path string
		files      map[string][]byte
		want       string
	}{
		{"edges of 2^57", "d", map[string][]byte{"d/edge_index.npy.gz": gzipped(t, npyBytes("<i8", "2, 144115188075855872", make([]byte, 64)))}, "is not there"},
		{"a row of 2^57", "d", map[string][]byte{"d/edge_index.npy": npyBytes("<i8", "2, 1", make([]byte, 16)),
			"d/node_feat.npy.gz": gzipped(t, npyBytes("<f4", "1, 144115188075855872", make([]byte, 64)))}, "rows of"},
		{"2^25 edges", "d", map[string][]byte{"d/edge_index.npy.gz": gzipped(t, npyBytes("<i8", "2, 4194304", make([]byte, 64<<20)))}, ""},
	} {
		fs := memFS(t, c.files)
		runtime.ReadMemStats(&before)
		scratch := discardFS{vfs.NewMem()}
		src, err := Open(c.path, Options{FS: fs})
		if err == nil {
			env := ingest.Env{Threads: 1, MemoryBytes: 1 << 20, ScratchDir: "scratch", FS: scratch}
			err = src.Edges(t.Context(), env, func(int, *ingest.EdgeBatch) error { return nil })
			for k := range src.Describe().NodeColumns {
				err = errors.Join(err, src.Rows(t.Context(), env, k, func([]byte, ingest.Position) error { return nil }))
			}
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
			t.Errorf("%s: %d bytes were allocated", c.name, got)
		}
		if c.want != "" && (!errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// discardFS forgets what is written to it and reads as zeros.
type discardFS struct{ vfs.FS }

func (discardFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return discardFile{}, nil }
func (discardFS) Open(string, ...vfs.OpenOption) (vfs.File, error)       { return discardFile{}, nil }

type discardFile struct{ vfs.File }

func (discardFile) Write(b []byte) (int, error)           { return len(b), nil }
func (discardFile) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (discardFile) Close() error                          { return nil }

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
