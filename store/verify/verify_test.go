package verify_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/store/verify"
)

func TestWhole(t *testing.T) {
	for _, ids := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 1000, Relations: 3, IDs: ids}))
		for _, engine := range []string{"auto", "pread", "mmap"} {
			var passed atomic.Int64
			r, err := verify.Store(context.Background(), dir, verify.Options{Engine: engine, Progress: func(n int64) { passed.Add(n) }})
			if err != nil || len(r.Damage) > 0 {
				t.Fatalf("%s ids, %s: %v %v", ids, engine, r.Damage, err)
			}
			if r.Version != 1 || r.Files < 7 || r.Bytes == 0 || r.Bytes != passed.Load() || r.Engine == "" {
				t.Errorf("%+v, %d bytes of progress", r, passed.Load())
			}
		}
	}
}

// TestDamagedPayload flips a bit in the payload of two files: both are named,
// with extent and offset.
func TestDamagedPayload(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000}))
	names, err := filepath.Glob(filepath.Join(dir, "data", "*"+blocks.Extension))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	for _, name := range names[:2] {
		flip(t, name, blocks.HeaderBytes+3)
	}
	r, err := verify.Store(context.Background(), dir, verify.Options{})
	if err != nil || len(r.Damage) != 2 {
		t.Fatalf("%v, %v", r.Damage, err)
	}
	for i, name := range names[:2] {
		var c *blocks.CorruptError
		if !errors.As(r.Damage[i], &c) || c.Path != name || c.Offset != blocks.HeaderBytes || !strings.HasSuffix(c.Extent, " 0") {
			t.Errorf("%v, expected extent 0 of %s", r.Damage[i], name)
		}
	}
}

// TestDamagedEnds damages headers and footers, so that the store does not open:
// every file is named all the same.
func TestDamagedEnds(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	names, err := filepath.Glob(filepath.Join(dir, "data", "*"+blocks.Extension))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if i%2 == 0 {
			flip(t, name, 100)
		} else if err := os.Truncate(name, 5000); err != nil {
			t.Fatal(err)
		}
	}
	r, err := verify.Store(context.Background(), dir, verify.Options{})
	if err != nil || len(r.Damage) != len(names) {
		t.Fatalf("%d findings for %d files: %v, %v", len(r.Damage), len(names), r.Damage, err)
	}
}

func flip(t *testing.T, path string, offset int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[offset] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestContents writes stores whose checksums are right and whose values are not.
func TestContents(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(g *storetest.Graph)
		after  func(m *store.Manifest)
		reason string
	}{
		{name: "label", spoil: func(g *storetest.Graph) { g.Labels[7] = int32(g.Classes) }, reason: "label"},
		{name: "label below", spoil: func(g *storetest.Graph) { g.Labels[7] = -2 }, reason: "label -2"},
		{name: "split", spoil: func(g *storetest.Graph) { g.Split[7] = 9 }, reason: "split 9"},
		{name: "edge list", spoil: func(g *storetest.Graph) { g.Valid[1][0] = uint64(g.Nodes()) }, reason: "in a store of"},
		{name: "relation", after: func(m *store.Manifest) { m.Schema.Relations = m.Schema.Relations[:1] }, reason: "relation"},
		{name: "undirected", after: func(m *store.Manifest) { m.Schema.Undirected = true }, reason: "undirected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := storetest.Random(storetest.Options{Relations: 3})
			if c.spoil != nil {
				c.spoil(g)
			}
			dir := commit(t, g, c.after)
			r, err := verify.Store(context.Background(), dir, verify.Options{})
			if err != nil || len(r.Damage) == 0 || !strings.Contains(errors.Join(r.Damage...).Error(), c.reason) {
				t.Fatalf("%v, %v; expected %q", r.Damage, err, c.reason)
			}
		})
	}
}

// TestIDsDisagree exchanges the external ids of two nodes in the arrays only.
func TestIDsDisagree(t *testing.T) {
	for _, ids := range []store.IDKind{store.IDsDense, store.IDsIntegers} {
		g := storetest.Random(storetest.Options{IDs: ids})
		dir := filepath.Join(t.TempDir(), "store")
		w, err := store.Create(dir, store.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := g.Write(w)
		if err != nil {
			t.Fatal(err)
		}
		name := m.IDs.External[0]
		ref := store.Ref(name, swapFirst(t, filepath.Join(dir, "data", name)))
		for i := range m.Files {
			if m.Files[i].Name == name {
				m.Files[i] = ref
			}
		}
		if err := errors.Join(w.Commit(context.Background(), m), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := verify.Store(context.Background(), dir, verify.Options{})
		if err != nil || len(r.Damage) != 1 || !strings.Contains(r.Damage[0].Error(), map[store.IDKind]string{
			store.IDsDense: "disagree", store.IDsIntegers: "leads to node"}[ids]) {
			t.Fatalf("%v, %v", r.Damage, err)
		}
	}
}

// swapFirst writes a file of integers again with the first two exchanged.
func swapFirst(t *testing.T, path string) blocks.FileInfo {
	t.Helper()
	f, err := blocks.Open(vfs.Default, path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := blocks.Create(vfs.Default, path, f.Header()) // f keeps the old file
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range f.Extents() {
		b, err := f.ReadExtent(e, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x, _ := blocks.View[uint64](b); i == 0 {
			x[0], x[1] = x[1], x[0]
		}
		if err := w.Append(e.ID, e.Rows, b); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return info
}

func commit(t *testing.T, g *storetest.Graph, change func(*store.Manifest)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	w, err := store.Create(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Write(w)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(m)
	}
	if err := errors.Join(w.Commit(context.Background(), m), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRefuses(t *testing.T) {
	if _, err := verify.Store(context.Background(), t.TempDir(), verify.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := verify.Store(ctx, dir, verify.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := verify.Store(context.Background(), dir, verify.Options{Engine: "none"}); err == nil {
		t.Error("an unknown engine")
	}
}

// TestLongExtents verifies extents of many pieces, and finds damage in the last one.
func TestLongExtents(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 40_000, Partitions: 2, Dim: 128, Edges: 50_000})
	dir := storetest.Create(t, g)
	r, err := verify.Store(context.Background(), dir, verify.Options{MemoryBytes: 1})
	if err != nil || len(r.Damage) > 0 || r.Bytes < 40_000*512 {
		t.Fatalf("%+v, %v", r, err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "data", "*x*"+blocks.Extension))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.LastIndex(raw, blocks.Bytes(g.Features[len(g.Features)-4:])); i > 0 {
			flip(t, name, i)
			r, err := verify.Store(context.Background(), dir, verify.Options{})
			if err != nil || len(r.Damage) != 1 || !strings.Contains(r.Damage[0].Error(), filepath.Base(name)) {
				t.Fatalf("%v, %v", r.Damage, err)
			}
			return
		}
	}
	t.Fatal("the features are in no file")
}

// TestTables finds every damaged byte of a table's file but those of slots that hold nothing.
func TestTables(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 60}))
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tab, err := table.Create(context.Background(), s, table.Options{Name: "e", Dim: 6, States: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Checkpoint(context.Background(), table.Blob{Name: "model", Data: []byte("m")}); err != nil {
		t.Fatal(err)
	}
	r, err := verify.Store(context.Background(), dir, verify.Options{})
	if err != nil || len(r.Damage) > 0 || len(r.Busy) != 1 || r.Tables != 0 {
		t.Fatalf("an open table: %+v, %v", r, err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	r, err = verify.Store(context.Background(), dir, verify.Options{})
	if err != nil || len(r.Damage) > 0 || r.Tables != 1 || len(r.Busy) > 0 || r.Files != len(s.Manifest().Files)+1 {
		t.Fatalf("%+v, %v", r, err)
	}
	path := filepath.Join(dir, "data", "table-e.gsb")
	l, err := blocks.OpenEmbedding(vfs.Default, path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step := int64(storetest.Every(41))
	used := l.Offset(0, 0, 1) // slot 0 holds the checkpoint
	var b [1]byte
	for at := int64(0); at < l.Size(); at += step {
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1 << (at % 8)
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		r, err := table.Verify(context.Background(), dir, store.Options{}, nil)
		if err != nil && !errors.Is(err, blocks.ErrCorrupt) && !errors.Is(err, blocks.ErrFormatVersion) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if found := err != nil || len(r.Damage) > 0; found != (at < used) {
			t.Fatalf("byte %d of %d (slot 1 begins at %d): found is %t", at, l.Size(), used, found)
		}
		b[0] ^= 1 << (at % 8)
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(path, l.Size()-1); err != nil {
		t.Fatal(err)
	}
	if r, err = verify.Store(context.Background(), dir, verify.Options{}); err != nil || len(r.Damage) != 1 {
		t.Fatalf("a short table: %+v, %v", r, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r, err = verify.Store(context.Background(), dir, verify.Options{}); err != nil || len(r.Damage) != 1 || !strings.Contains(r.Damage[0].Error(), "missing") {
		t.Fatalf("no table: %+v, %v", r, err)
	}
}

// TestOddities: numbers that are not finite are a warning, split counts other than the manifest's damage.
func TestOddities(t *testing.T) {
	g := storetest.Random(storetest.Options{})
	g.Features[5], g.Features[9] = float32(math.NaN()), float32(math.Inf(-1))
	dir := commit(t, g, nil)
	r, err := verify.Store(context.Background(), dir, verify.Options{})
	if err != nil || len(r.Damage) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "column x: 2 numbers") {
		t.Fatalf("%+v, %v", r, err)
	}
	dir = commit(t, storetest.Random(storetest.Options{}), func(m *store.Manifest) {
		m.Partitions[1].Train--
		m.Partitions[1].Valid++
	})
	r, err = verify.Store(context.Background(), dir, verify.Options{})
	if err != nil || len(r.Damage) != 1 || !strings.Contains(r.Damage[0].Error(), "to train, validate and test") {
		t.Fatalf("%+v, %v", r, err)
	}
}
