package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
	"github.com/gstore/gstore/store/storetest"
)

var ctx = context.Background()

func TestRoundTrip(t *testing.T) {
	for _, o := range []storetest.Options{
		{}, {Partitions: 1}, {Partitions: 7, Relations: 3, Seed: 5},
		{IDs: store.IDsStrings}, {IDs: store.IDsIntegers},
	} {
		t.Run(fmt.Sprintf("%d partitions %s", o.Partitions, o.IDs), func(t *testing.T) {
			g := storetest.Random(o)
			s := storetest.Open(t, storetest.Create(t, g), store.Options{})
			storetest.Check(t, s, g)
			for v := range g.Nodes() {
				p, err := s.Manifest().Partition(store.NodeID(v))
				info := s.Manifest().Partitions[p]
				if err != nil || uint64(v) < uint64(info.First) || uint64(v) >= uint64(info.First)+info.Nodes {
					t.Fatalf("node %d in partition %d (%+v), %v", v, p, info, err)
				}
			}
		})
	}
}

// TestTrainingClasses: training nodes are counted by partition and class; nodes without a class, and of other splits, are not.
func TestTrainingClasses(t *testing.T) {
	g := storetest.Random(storetest.Options{Partitions: 5})
	g.Labels[0], g.Split[0] = -1, store.SplitTrain
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	got, err := s.TrainingClasses(ctx, "split")
	if err != nil {
		t.Fatal(err)
	}
	v := 0
	for p, size := range g.Sizes {
		count := make([]uint64, g.Classes)
		for range size {
			if g.Split[v] == store.SplitTrain && g.Labels[v] >= 0 {
				count[g.Labels[v]]++
			}
			v++
		}
		var want []store.ClassNodes
		for c, n := range count {
			if n > 0 {
				want = append(want, store.ClassNodes{Class: uint32(c), Nodes: n})
			}
		}
		if !slices.Equal(got[p], want) {
			t.Errorf("partition %d: %v, want %v", p, got[p], want)
		}
	}
	if v != g.Nodes() || len(got) != len(g.Sizes) || len(got[0]) == 0 {
		t.Errorf("%d partitions, %v in the first", len(got), got)
	}
	if _, err := s.TrainingClasses(ctx, "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown split: %v", err)
	}
}

func TestLookupMany(t *testing.T) {
	g := storetest.Random(storetest.Options{IDs: store.IDsStrings})
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	names := append(slices.Clone(g.External), "nobody")
	ids := make([]store.NodeID, len(names))
	if err := s.LookupStrings(ctx, names, ids); err != nil {
		t.Fatal(err)
	}
	for v := range g.External {
		if ids[v] != store.NodeID(v) {
			t.Fatalf("%q is %d, expected %d", names[v], ids[v], v)
		}
	}
	if ids[len(names)-1] != store.NoNode {
		t.Errorf("an absent id became %d", ids[len(names)-1])
	}
	if err := s.LookupInts(ctx, []uint64{1}, ids[:1]); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("integers in a store of strings: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.LookupStrings(ended, names[:1], ids[:1]); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestNotFound(t *testing.T) {
	g := storetest.Random(storetest.Options{})
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	empty := t.TempDir()
	unfinished := t.TempDir()
	w, err := store.Create(unfinished, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fn      func() error
		says    string // what is not found
		missing bool   // a whole store
	}{
		"no directory":    {func() error { _, err := store.Open(empty+"/none", store.Options{}); return err }, empty + "/none", true},
		"not a store":     {func() error { _, err := store.Open(empty, store.Options{}); return err }, empty, true},
		"no version":      {func() error { _, err := store.Open(unfinished, store.Options{}); return err }, unfinished, false},
		"version 9":       {func() error { _, err := store.Open(s.Dir(), store.Options{Version: 9}); return err }, "version 9", false},
		"writer":          {func() error { _, err := store.OpenWriter(empty, store.WriterOptions{}); return err }, empty, true},
		"history":         {func() error { _, err := store.ReadHistory(ctx, empty, store.Options{}); return err }, empty, true},
		"column":          {func() error { _, err := s.ReadColumn(ctx, "y", 0, nil); return err }, `"y"`, false},
		"partition":       {func() error { _, err := s.ReadColumn(ctx, "x", 99, nil); return err }, "partition 99 of column x", false},
		"topology":        {func() error { _, _, err := s.ReadStripe(ctx, 99, nil); return err }, "partition 99 of topology", false},
		"edge list":       {func() error { _, err := s.EdgeList(ctx, "none"); return err }, `"none"`, false},
		"file":            {func() error { _, err := s.Files().File("none"); return err }, `"none"`, false},
		"external id":     {func() error { _, err := s.Lookup(ctx, "100000"); return err }, "100000", false},
		"internal id":     {func() error { _, err := s.External(ctx, 100000); return err }, "100000", false},
		"internal id 200": {func() error { _, err := s.External(ctx, 200); return err }, "200", false},
	} {
		err := c.fn()
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected ErrNotFound that names %s", name, err, c.says)
		}
		if errors.Is(err, fs.ErrNotExist) != c.missing {
			t.Errorf("%s: %v matches fs.ErrNotExist: %v, expected %v", name, err, !c.missing, c.missing)
		}
	}
	if _, err := store.Open(unfinished, store.Options{}); !errors.Is(err, store.ErrNoVersion) {
		t.Errorf("%v, expected ErrNoVersion", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"column":    func() error { _, err := s.ReadColumn(ctx, "x", 0, nil); return err },
		"topology":  func() error { _, _, err := s.ReadStripe(ctx, 0, nil); return err },
		"ids":       func() error { _, _, err := s.ReadExternal(ctx, 0, nil); return err },
		"rows":      func() error { _, err := s.Features(ctx, "x", []store.NodeID{0}, nil); return err },
		"lookup":    func() error { _, err := s.Lookup(ctx, "1"); return err },
		"an extent": func() error { _, _, err := s.Files().Topology(0); return err },
		"a list":    func() error { _, err := s.EdgeList(ctx, "valid"); return err },
	} {
		if err := read(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s of a closed store: %v", name, err)
		}
	}
	if err := s.Close(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(full+"/letter.txt", []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	taken := storetest.Create(t, storetest.Random(storetest.Options{}))
	for _, dir := range []string{full, full + "/letter.txt", taken} {
		if _, err := store.Create(dir, store.WriterOptions{}); !errors.Is(err, store.ErrExists) {
			t.Errorf("%s: %v, expected ErrExists", dir, err)
		}
	}
	storetest.Open(t, taken, store.Options{}) // still there
}

// TestVersions commits three versions and looks at what is kept, swept and
// still readable through an old snapshot.
func TestVersions(t *testing.T) {
	graphs := []*storetest.Graph{}
	for seed := range 3 {
		graphs = append(graphs, storetest.Random(storetest.Options{Seed: uint64(seed), Partitions: 2 + seed, IDs: store.IDsIntegers}))
	}
	dir := storetest.Create(t, graphs[0])
	old := storetest.Open(t, dir, store.Options{})
	w, err := store.OpenWriter(dir, store.WriterOptions{KeepVersions: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range graphs[1:] {
		m, err := g.Write(w)
		if err != nil {
			t.Fatal(err)
		}
		m.Note = fmt.Sprintf("graph %d", i+1)
		if err := w.Commit(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Check(t, storetest.Open(t, dir, store.Options{}), graphs[2])
	storetest.Check(t, storetest.Open(t, dir, store.Options{Version: 2}), graphs[1])
	if _, err := store.Open(dir, store.Options{Version: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("version 1: %v", err)
	}
	// The old snapshot's files have lost their names, not their bytes.
	for p := range graphs[0].Sizes {
		if _, err := old.ReadColumn(ctx, "x", store.PartitionID(p), nil); err != nil {
			t.Error(err)
		}
	}
	engine, _, err := blockio.New("pread", blockio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	c, _ := old.Manifest().Column("x")
	f, err := old.Files().Open(engine, c.Files[0], blockio.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 4096)
	if err := engine.Do(ctx, []blockio.Request{{File: f, Buf: b}}, nil); err != nil || binary.LittleEndian.Uint64(b) == 0 {
		t.Errorf("header of a swept file: %x, %v", b[:8], err)
	}
	if _, err := old.Lookup(ctx, graphs[0].External[0]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the dictionary of a swept version: %v", err)
	}
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range h.Versions {
		got = append(got, fmt.Sprintf("%d %d %q %t %d", v.Version, v.Parent, v.Note, v.Readable, v.Partitions))
	}
	if want := []string{`1 0 "" false 2`, `2 1 "graph 1" true 3`, `3 2 "graph 2" true 4`}; !slices.Equal(got, want) {
		t.Errorf("history %q, expected %q", got, want)
	}
	names, err := os.ReadDir(dir + "/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if match, _ := filepath.Match("*-000001.gsb", n.Name()); match {
			t.Errorf("%s was not swept", n.Name())
		}
	}
}

func TestAbort(t *testing.T) {
	g := storetest.Random(storetest.Options{})
	parent := t.TempDir()
	w, err := store.Create(parent+"/s", store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	dir := storetest.Create(t, g)
	before, _ := os.ReadDir(dir + "/data")
	if w, err = store.OpenWriter(dir, store.WriterOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadDir(dir + "/data"); len(after) != len(before) {
		t.Errorf("%d files, expected %d", len(after), len(before))
	}
	storetest.Check(t, storetest.Open(t, dir, store.Options{}), g)
}

func TestRuns(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	for i := range 3 {
		n, err := store.RecordRun(ctx, dir, store.Run{Version: 1, Command: "train", Config: []byte(`{"seed":1}`)}, store.Options{})
		if err != nil || n != uint64(i+1) {
			t.Fatalf("run %d: %v", n, err)
		}
	}
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil || len(h.Runs) != 3 || h.Runs[2].Number != 3 || string(h.Runs[0].Config) != `{"seed":1}` {
		t.Errorf("%+v, %v", h, err)
	}
	// A run is dropped once, and one that never was not at all.
	if err := store.DropRun(ctx, dir, 2, store.Options{}); err != nil {
		t.Error(err)
	}
	for _, n := range []uint64{2, 9} {
		if err := store.DropRun(ctx, dir, n, store.Options{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("drop run %d: %v, expected ErrNotFound", n, err)
		}
	}
}

// TestVisits: counts are kept for a version and a kind of runs, read back as they were, while the store is open; those of older
// versions are dropped, too few are refused, and damage is found.
func TestVisits(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Partitions: 5}))
	s := storetest.Open(t, dir, store.Options{})
	a, b := [16]byte{1}, [16]byte{1, 2}
	if v, err := s.Visits(ctx, a); v != nil || err != nil {
		t.Fatalf("%v, %v before any were kept", v, err)
	}
	visits := make([]uint32, s.Manifest().Nodes)
	for i := range visits {
		visits[i] = uint32(i*i) << (i % 20)
	}
	if err := s.KeepVisits(ctx, a, visits); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Visits(ctx, a); err != nil || !slices.Equal(v, visits) {
		t.Errorf("%d of %d counts: %v", len(v), len(visits), err)
	}
	if v, err := s.Visits(ctx, b); v != nil || err != nil {
		t.Errorf("%v, %v of another kind", v, err)
	}
	if err := s.KeepVisits(ctx, a, visits[1:]); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("too few counts: %v", err)
	}
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := *w.Base()
	if err := errors.Join(w.Commit(ctx, &m), w.Close()); err != nil {
		t.Fatal(err)
	}
	next := storetest.Open(t, dir, store.Options{})
	if v, err := next.Visits(ctx, a); v != nil || err != nil {
		t.Errorf("%v, %v of another version", v, err)
	}
	if err := next.KeepVisits(ctx, b, visits); err != nil {
		t.Fatal(err)
	}
	if v, err := next.Visits(ctx, b); err != nil || !slices.Equal(v, visits) {
		t.Errorf("%d of %d counts: %v", len(v), len(visits), err)
	}
	if v, err := s.Visits(ctx, a); v != nil || err != nil {
		t.Errorf("%v, %v of the older version", v, err)
	}
	for what, counts := range map[string][]byte{"fewer": {1}, "more": append(make([]byte, next.Manifest().Partitions[1].Nodes), 0), "endless": bytes.Repeat([]byte{0xff}, 4000)} {
		db, err := meta.Open(ctx, meta.NewEnv(dir, nil, 0), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Pebble.Set(meta.VisitsKey(next.Manifest().Version, b, 1), counts, nil), db.Close()); err != nil {
			t.Fatal(err)
		}
		var corrupt *blocks.CorruptError
		if _, err := next.Visits(ctx, b); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "partition 1") {
			t.Errorf("%s counts than nodes: %v", what, err)
		}
	}
}
