package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// newVersion begins a store of g and returns its writer and the manifest to commit, so that a test can add what it should not have.
func newVersion(t *testing.T, g *storetest.Graph) (*store.Writer, *store.Manifest) {
	t.Helper()
	w, err := store.Create(filepath.Join(t.TempDir(), "store"), store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	m, err := g.Write(w)
	if err != nil {
		t.Fatal(err)
	}
	return w, m
}

// TestEdgeListBounds: an edge list's src, dst and relation are below the store's numbers of them, with and without a relation; the
// first that is not is damage, and ends the list.
func TestEdgeListBounds(t *testing.T) {
	w, m := newVersion(t, storetest.Random(storetest.Options{Nodes: 24, Partitions: 2, Relations: 3}))
	n, r := m.Nodes, uint64(len(m.Schema.Relations))
	lists := []struct {
		edge []uint64
		ok   bool
	}{
		{[]uint64{n - 1, n - 1}, true}, {[]uint64{n, 0}, false}, {[]uint64{0, n}, false},
		{[]uint64{n - 1, r - 1, n - 1}, true}, {[]uint64{n, 0, 0}, false}, {[]uint64{0, r, 0}, false}, {[]uint64{0, 0, n}, false},
	}
	for i, l := range lists {
		name, bw, err := w.CreateFile(fmt.Sprint("list", i), blocks.Header{Kind: blocks.EdgeList, Elem: blocks.Uint64, Dim: uint32(len(l.edge)), Partitions: 2, Name: "list"})
		if err != nil {
			t.Fatal(err)
		}
		if err := bw.Append(0, 1, blocks.Bytes(l.edge)); err != nil {
			t.Fatal(err)
		}
		info, err := bw.Close()
		if err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, store.Ref(name, info))
		m.EdgeLists = append(m.EdgeLists, store.EdgeListInfo{Name: fmt.Sprint(i), Rows: 1, File: name})
	}
	if err := w.Commit(ctx, m); err != nil {
		t.Fatal(err)
	}
	s := storetest.Open(t, w.Dir(), store.Options{})
	for i, l := range lists {
		e, err := s.EdgeList(ctx, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		edges := 0
		for e.Next() {
			edges++
		}
		if err := e.Err(); l.ok && (err != nil || edges != 1) || !l.ok && (!errors.Is(err, store.ErrCorrupt) || edges != 0) {
			t.Errorf("edge %v of %d nodes and %d relations: %d edges, %v", l.edge, n, r, edges, err)
		}
	}
}

// TestStringOffsets: of ids whose offsets lead nowhere, though every checksum is right, those are read that do not begin or end
// there.
func TestStringOffsets(t *testing.T) {
	const n, spoilt = 40_000, 20_000 // so many that few are read one by one
	for name, offset := range map[string]uint64{"behind": 1 << 40, "before": 3, "negative": 1 << 63} {
		w, m := newVersion(t, storetest.Random(storetest.Options{Nodes: n, Edges: 10, Partitions: 1, Dim: 1, IDs: store.IDsStrings}))
		offsets, text := make([]uint64, n+1), bytes.Repeat([]byte("abcde"), n)
		for i := range offsets {
			offsets[i] = uint64(5 * i)
		}
		offsets[spoilt] = offset
		file, bw, err := w.CreateFile("external2", blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint8, Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := bw.Append(0, n, append(blocks.Bytes(offsets), text...)); err != nil {
			t.Fatal(err)
		}
		info, err := bw.Close()
		if err != nil {
			t.Fatal(err)
		}
		m.Files = slices.DeleteFunc(m.Files, func(f store.FileRef) bool { return f.Name == m.IDs.External[0] })
		m.Files, m.IDs.External = append(m.Files, store.Ref(file, info)), []string{file}
		if err := w.Commit(ctx, m); err != nil {
			t.Fatal(err)
		}
		s := storetest.Open(t, w.Dir(), store.Options{})
		for _, v := range []store.NodeID{0, spoilt - 2, spoilt - 1, spoilt, spoilt + 1, n - 1} {
			got, err := s.ExternalStrings(ctx, []store.NodeID{v})
			bad := v == spoilt && name != "before" || v == spoilt-1
			if bad && !errors.Is(err, store.ErrCorrupt) || !bad && v != spoilt && (err != nil || got[0] != "abcde") {
				t.Errorf("%s: node %d is %.20q, %v", name, v, got, err)
			}
		}
	}
}

// TestColumnPartitions: a column has rows of every partition of the store and of no other.
func TestColumnPartitions(t *testing.T) {
	w, m := newVersion(t, storetest.Tiny(1))
	for i, ids := range [][]uint64{{0}, {1}, {0, 1, 2}, {0, 1}} {
		name, bw, err := w.CreateFile(fmt.Sprint("y", i), blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Partitions: 3, Name: "y"})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			rows := uint64(1)
			if id < 2 {
				rows = m.Partitions[id].Nodes
			}
			if err := bw.Append(id, rows, make([]byte, rows)); err != nil {
				t.Fatal(err)
			}
		}
		info, err := bw.Close()
		if err != nil {
			t.Fatal(err)
		}
		next := m.Clone()
		next.Files = append(next.Files, store.Ref(name, info))
		next.Columns = append(next.Columns, store.ColumnInfo{Name: "y", Role: store.RoleFeature, Elem: blocks.Uint8, Dim: 1, Files: []string{name}})
		if err := w.Commit(ctx, next); len(ids) != 2 && !errors.Is(err, store.ErrCorrupt) || len(ids) == 2 && err != nil {
			t.Errorf("partitions %v of 2: %v", ids, err)
		}
	}
}

// TestScratchFiles: of what lies in the scratch directory a commit takes the version's own complete tables only.
func TestScratchFiles(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 24, Partitions: 2, IDs: store.IDsStrings})
	w, m := newVersion(t, g)
	for _, name := range []string{"other.sst", "dictionary-000001-0007.part"} {
		if err := os.WriteFile(filepath.Join(w.TempDir(), name), []byte("no table"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(ctx, m); err != nil {
		t.Fatal(err)
	}
	storetest.Check(t, storetest.Open(t, w.Dir(), store.Options{}), g)
}

// TestScratchErrors: whichever operation fails on what earlier writers left or on the dictionary's tables, until the version is
// committed, it is told, and the version before stands.
func TestScratchErrors(t *testing.T) {
	base, old := storetest.NewDisk(t), storetest.Tiny(1)
	if err := storetest.CommitOn(base, old, true); err != nil {
		t.Fatal(err)
	}
	data, tmp := storetest.CrashDir+"/data", storetest.CrashDir+"/tmp"
	for k := 0; ; k++ {
		fs := base.CrashClone(vfs.CrashCloneCfg{})
		for _, left := range []string{data + "/left.gsb", tmp + "/left"} {
			f, err := fs.Create(left, vfs.WriteCategoryUnspecified)
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var hit *errorfs.Op
		n, committing, swept := 0, false, false
		inject := func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			swept = swept || committing && op.Kind == errorfs.OpList && op.Path == data // after the commit: of no matter
			// Pebble copies what it cannot link, and removes its link when the tables are in.
			ofPebble := op.Kind == errorfs.OpRemove || strings.HasSuffix(op.Path, ".link") && (op.Kind == errorfs.OpLink || op.Kind == errorfs.OpStat)
			sweeps := strings.HasPrefix(op.Path, data) && (op.Kind == errorfs.OpList || op.Kind == errorfs.OpRemoveAll)
			if swept || ofPebble || !sweeps && !strings.HasPrefix(op.Path, tmp) {
				return nil
			}
			if n++; n-1 == k {
				hit = &op
				return errorfs.ErrInjected
			}
			return nil
		}
		err := func(fs vfs.FS) error {
			w, err := store.OpenWriter(storetest.CrashDir, store.WriterOptions{FS: fs})
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			m, err := storetest.Tiny(2).Write(w)
			if err != nil {
				return err
			}
			mu.Lock()
			committing = true
			mu.Unlock()
			return w.Commit(ctx, m)
		}(errorfs.Wrap(fs, errorfs.InjectorFunc(inject)))
		mu.Lock()
		failed := hit
		mu.Unlock()
		if failed == nil {
			if err != nil || k < 10 {
				t.Fatalf("after %d operations: %v", k, err)
			}
			return
		}
		if !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("operation %d of %s (kind %d): %v, expected the error", k, failed.Path, failed.Kind, err)
			continue
		}
		if k%4 == 0 {
			checkAfter(t, fs, fmt.Sprintf("error at operation %d of %s", k, failed.Path), false, old)
		}
	}
}
