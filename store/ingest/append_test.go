package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/source"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

// textEdges makes a TSV of random edges between nodes lo ≤ id < hi; name gives a
// node's id. Edges have a relation and a weight.
func textEdges(seed uint64, lo, hi, edges int, name func(int) string) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	b.WriteString("src\tdst\trelation\tweight\n")
	for k := range edges {
		s, d := lo+rng.IntN(hi-lo), rng.IntN(hi)
		if k < hi-lo {
			s = lo + k // every new node has an edge
		}
		fmt.Fprintf(&b, "%s\t%s\tr%d\t%d\n", name(s), name(d), rng.IntN(2+lo%3), rng.IntN(3))
	}
	return b.String()
}

func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edges.tsv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func openText(t *testing.T, text string, ids store.IDKind) source.Source {
	t.Helper()
	var o formats.Options
	o.Text.IDs, o.Text.Columns = ids, []string{"src", "dst"}
	header := strings.HasPrefix(text, "src")
	if o.Text.Header = &header; header {
		o.Text.Columns = strings.Split(text[:strings.Index(text, "\n")], "\t")
	}
	src, err := formats.Open(textFile(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	return src
}

func openStore(t *testing.T, dir string, version uint64) *store.Store {
	t.Helper()
	s, err := store.Open(dir, store.Options{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// body is a text without its header line.
func body(text string) string { return text[strings.Index(text, "\n")+1:] }

func whole(t *testing.T, dir string, version uint64) {
	t.Helper()
	r, err := verify.Store(context.Background(), dir, verify.Options{Open: store.Options{Version: version}})
	if err != nil || len(r.Damage) > 0 {
		t.Fatalf("version %d: %v %v", version, r.Damage, err)
	}
}

// TestAppendEqualsIngest appends twice, new edges among old nodes and to new ones, and
// compares with an ingest of everything: for each kind of ids, and for the rules that drop edges.
func TestAppendEqualsIngest(t *testing.T) {
	for i, c := range []struct {
		name string
		ids  store.IDKind
		o    ingest.Options
	}{
		{"dense", store.IDsDense, ingest.Options{}},
		{"integers", store.IDsIntegers, ingest.Options{}},
		{"strings", store.IDsStrings, ingest.Options{}},
		{"undirected", store.IDsStrings, ingest.Options{Undirected: true, SelfLoops: ingest.SelfLoopsDrop}},
		{"dedup, loops added", store.IDsIntegers, ingest.Options{Dedup: ingest.DedupRelation, SelfLoops: ingest.SelfLoopsAdd}},
		{"many partitions", store.IDsDense, ingest.Options{Partitions: 40}},
	} {
		if i%race.Every(3) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			name := func(k int) string { return fmt.Sprint(k) }
			if c.ids == store.IDsIntegers {
				name = func(k int) string { return fmt.Sprint(7 + 1_000_003*(k*7919%1000)) }
			} else if c.ids == store.IDsStrings {
				name = func(k int) string { return fmt.Sprintf("n%d é", k*7919%1000) }
			}
			parts := []string{textEdges(1, 0, 300, 2000, name), textEdges(2, 300, 470, 700, name), textEdges(3, 400, 472, 900, name)}
			o := c.o
			if o.Partitions == 0 {
				o.Partitions = 4
			}
			o.MemoryBytes = 256 << 20
			ctx, dir := context.Background(), filepath.Join(t.TempDir(), "s")
			if _, err := ingest.Run(ctx, dir, openText(t, parts[0], c.ids), o); err != nil {
				t.Fatal(err)
			}
			before := storetest.Lines(t, openStore(t, dir, 1), nil)
			for k, text := range parts[1:] {
				r, err := grow.Append(ctx, dir, openText(t, text, c.ids), grow.Options{MemoryBytes: 256 << 20, KeepVersions: 3})
				if err != nil {
					t.Fatal(err)
				}
				if want := []uint64{170, 2}[k]; r.NewNodes != want || r.NewPartitions < 1 || r.Manifest.Version != uint64(2+k) {
					t.Errorf("%+v, expected %d new nodes", r, want)
				}
				whole(t, dir, 0)
			}
			all := parts[0] + body(parts[1]) + body(parts[2])
			once := filepath.Join(t.TempDir(), "once")
			if _, err := ingest.Run(ctx, once, openText(t, all, c.ids), o); err != nil {
				t.Fatal(err)
			}
			got, want := storetest.Lines(t, openStore(t, dir, 0), nil), storetest.Lines(t, openStore(t, once, 0), nil)
			if c.o.Dedup != "" || c.o.Undirected { // which of duplicates stays may differ in the weight
				got, want = withoutWeight(got), withoutWeight(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d lines, expected %d: %s", len(got), len(want), difference(got, want))
			}
			counts := func(dir string) (out []string) {
				for _, r := range openStore(t, dir, 0).Manifest().Schema.Relations {
					out = append(out, fmt.Sprint(r))
				}
				return out
			}
			a, b := counts(dir), counts(once)
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Errorf("relations %v, expected %v", a, b)
			}
			// The first version reads as it did.
			if now := storetest.Lines(t, openStore(t, dir, 1), nil); !slices.Equal(now, before) {
				t.Fatalf("version 1 changed: %s", difference(now, before))
			}
			whole(t, dir, 1)
		})
	}
}

func withoutWeight(lines []string) (out []string) {
	for _, l := range lines {
		if i := strings.Index(l, " weight="); i > 0 {
			l = l[:i]
		}
		out = append(out, l)
	}
	return out
}

func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing " + want[i]
		case i >= len(want):
			return "more: " + got[i]
		case got[i] != want[i]:
			return got[i] + ", expected " + want[i]
		}
	}
	return "none"
}

// TestAppendNodeColumns appends new nodes with features, labels and a split from a numpy
// folder, then edges alone; derived columns go, an int8 column keeps its scale.
func TestAppendNodeColumns(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "s")
	first := randomGraph(3, 50, 400)
	in := first.write(t, false)
	src, err := formats.Open(in, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Run(ctx, dir, src, ingest.Options{Partitions: 3, FeatureElem: blocks.Int8}); err != nil {
		t.Fatal(err)
	}
	markDerived(t, dir)
	more := randomGraph(4, 20, 100) // its nodes become 50 … 69
	for i := range more.src {
		more.src[i] += 50
	}
	split := map[string][]int64{"train": {50, 51}, "valid": {60}, "test": {69, 61}}
	folder := more.write(t, false)
	for part, ids := range split {
		if err := os.WriteFile(filepath.Join(folder, "split", part+".npy"), npy("<i8", fmt.Sprintf("%d,", len(ids)), blocks.Bytes(ids)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	add, err := formats.Open(folder, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := grow.Append(ctx, dir, add, grow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.NewNodes != 20 || r.NewPartitions != 2 || r.EdgesAdded != 100 || !slices.Equal(r.Dropped, []string{"derived"}) {
		t.Errorf("%+v", r)
	}
	whole(t, dir, 0)
	s := openStore(t, dir, 0)
	m := s.Manifest()
	var train, valid, test uint64
	for _, p := range m.Partitions[3:] {
		train, valid, test = train+p.Train, valid+p.Valid, test+p.Test
	}
	if train != 2 || valid != 1 || test != 2 || m.Nodes != 70 {
		t.Errorf("split of new nodes %d, %d, %d of %d nodes", train, valid, test, m.Nodes)
	}
	c, err := m.Column("x")
	if err != nil {
		t.Fatal(err)
	}
	for k := range 20 {
		id, err := s.Lookup(ctx, fmt.Sprint(50+k))
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Partition(id)
		if err != nil {
			t.Fatal(err)
		}
		local := int(id - m.Partitions[p].First)
		b, err := s.ReadColumn(ctx, "x", p, nil)
		if err != nil {
			t.Fatal(err)
		}
		for d := range 3 {
			got := float32(int8(b[3*local+d])) * c.Scale[d]
			if want := max(-127*c.Scale[d], min(127*c.Scale[d], more.x[3*k+d])); got < want-c.Scale[d] || got > want+c.Scale[d] {
				t.Errorf("feature %d of node %d is %g, expected %g", d, 50+k, got, want)
			}
		}
		labels, err := s.ReadColumn(ctx, "label", p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if l, _ := blocks.View[int32](labels); int64(l[local]) != more.labels[k] {
			t.Errorf("label of node %d is %d, expected %d", 50+k, l[local], more.labels[k])
		}
	}
}

// markDerived commits a version with a column that says it is derived.
func markDerived(t *testing.T, dir string) {
	t.Helper()
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := w.Base().Clone()
	x, err := m.Column("x")
	if err != nil {
		t.Fatal(err)
	}
	derived := *x
	derived.Name, derived.Derived = "derived", "mean of x over neighbours"
	m.Columns = append(m.Columns, derived)
	if err := errors.Join(w.Commit(context.Background(), m), w.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAppendWritesWhatItTouches adds edges into one partition of many: the bytes written
// are about those of its stripe, and no extent of another is in a new file.
func TestAppendWritesWhatItTouches(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "s")
	g := randomGraph(5, 6000, 120_000)
	src, err := formats.Open(g.write(t, false), formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Partitions of consecutive ids, so that the test knows which are touched.
	if _, err := ingest.Run(ctx, dir, src, ingest.Options{Partitions: 30, Partitioner: "range"}); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, 0)
	topology := int64(0)
	for _, f := range s.Manifest().Files {
		if f.Name == s.Manifest().Topology[0] {
			topology = f.Size
		}
	}
	_, stripe, err := s.Files().Topology(17)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for k := range 50 {
		fmt.Fprintf(&text, "%d\t%d\n", k*100, 17*200+k) // into partition 17 alone
	}
	r, err := grow.Append(ctx, dir, openText(t, text.String(), store.IDsDense), grow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.StripesRewritten != 1 || r.EdgesAdded != 50 || r.BytesWritten > stripe.Length+64<<10 || r.BytesWritten > topology/4 {
		t.Errorf("%+v: wrote %d bytes; the stripe has %d, the topology %d", r, r.BytesWritten, stripe.Length, topology)
	}
	whole(t, dir, 0)
	s = openStore(t, dir, 0)
	for p := range s.Manifest().Partitions {
		f, _, err := s.Files().Topology(store.PartitionID(p))
		if err != nil {
			t.Fatal(err)
		}
		if touched := strings.HasSuffix(f.Path(), "-000002.gsb"); touched != (p == 17) {
			t.Errorf("stripe %d lies in %s", p, f.Path())
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "s")
	if _, err := ingest.Run(ctx, dir, openText(t, "0\t1\n1\t2\n", store.IDsDense), ingest.Options{}); err != nil {
		t.Fatal(err)
	}
	before := storetest.Lines(t, openStore(t, dir, 0), nil)
	for text, reason := range map[string]string{
		"src\tdst\trelation\n0\t1\tx\n": "relations",
		"src\tdst\tweight\n0\t1\t1\n":   "edge column weight",
		"0\t99999999\n":                 "no gaps",
	} {
		_, err := grow.Append(ctx, dir, openText(t, text, store.IDsDense), grow.Options{})
		if !errors.Is(err, source.ErrInput) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, expected %q", text, err, reason)
		}
	}
	if _, err := grow.Append(ctx, dir, openText(t, "a\tb\n", store.IDsStrings), grow.Options{}); !errors.Is(err, source.ErrInput) {
		t.Error(err)
	}
	if _, err := grow.Append(ctx, dir, openText(t, "0\t1\n", store.IDsDense), grow.Options{MemoryBytes: 1 << 20}); !errors.Is(err, store.ErrBudget) {
		t.Error(err)
	}
	if _, err := grow.Append(ctx, t.TempDir(), openText(t, "0\t1\n", store.IDsDense), grow.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	s := openStore(t, dir, 0)
	if now := storetest.Lines(t, s, nil); s.Manifest().Version != 1 || !slices.Equal(now, before) {
		t.Errorf("version %d: %s", s.Manifest().Version, difference(now, before))
	}
}

// TestAppendErrorAtEveryOperation fails every operation on the store that an append does,
// once or for good: a clear error, the old version or (of a commit) the new one whole, and the append
// run again gives what an undisturbed one gives.
func TestAppendErrorAtEveryOperation(t *testing.T) {
	base, more := textEdges(1, 0, 40, 200, func(k int) string { return fmt.Sprintf("n%d", k) }), textEdges(2, 40, 50, 60, func(k int) string { return fmt.Sprintf("n%d", k) })
	source := func(text string) source.Source { return openText(t, text, store.IDsStrings) }
	fresh := func() *vfs.MemFS {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("/disk", 0o777); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Create(faultInput+".tsv", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(body(base))); err != nil {
			t.Fatal(err)
		}
		o := formats.Options{FS: mem}
		o.Text.IDs, o.Text.Columns = store.IDsStrings, []string{"src", "dst", "relation", "weight"}
		src, err := formats.Open(faultInput+".tsv", o)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := ingest.Run(context.Background(), faultStore, src, ingest.Options{FS: mem, Partitions: 3}); err != nil {
			t.Fatal(err)
		}
		return mem
	}
	names := []string{"n0", "n39"}
	before := storedOn(t, fresh(), names)
	appendOn := func(fs vfs.FS) error {
		_, err := grow.Append(context.Background(), faultStore, source(more), grow.Options{FS: fs, MemoryBytes: 256 << 20, KeepVersions: 1})
		return err
	}
	undisturbed := fresh()
	if err := appendOn(undisturbed); err != nil {
		t.Fatal(err)
	}
	want := storedOn(t, undisturbed, append(names, "n49"))
	injected := errors.New("injected")
	step := int64(storetest.Every(13))
	for _, lasting := range []bool{false, true} {
		for k := int64(0); ; k += step {
			mem := fresh()
			inject := &injector{k: k, lasting: lasting, err: injected, of: func(op errorfs.Op) bool { return lasting && writes(op) || !lasting }}
			err := appendOn(errorfs.Wrap(mem, inject))
			if inject.what() == "" {
				if err != nil || k < 50 {
					t.Fatalf("after %d operations: %v", k, err)
				}
				break
			}
			when := fmt.Sprintf("operation %d, %s", k, inject.what())
			if err == nil { // what cannot be removed is removed by the next writer; probes may fail
				if got := storedOn(t, mem, append(names, "n49")); !contains(got, want) {
					t.Fatalf("%s: no error, and another store", when)
				}
				continue
			}
			if !errors.Is(err, injected) {
				t.Fatalf("%s: %v", when, err)
			}
			s, openErr := store.Open(faultStore, store.Options{FS: mem})
			if openErr != nil {
				t.Fatalf("%s (%v): the store does not open: %v", when, err, openErr)
			}
			version := s.Manifest().Version
			if cerr := s.Close(); cerr != nil {
				t.Fatal(cerr)
			}
			if version == 2 {
				if got := storedOn(t, mem, append(names, "n49")); !contains(got, want) {
					t.Fatalf("%s (%v): version 2 is not whole", when, err)
				}
				continue
			}
			if got := storedOn(t, mem, names); !contains(got, before) {
				t.Fatalf("%s (%v): version 1 changed", when, err)
			}
			if err := appendOn(mem); err != nil {
				t.Fatalf("%s, then undisturbed: %v", when, err)
			}
			if got := storedOn(t, mem, append(names, "n49")); !contains(got, want) || len(got) != len(want) {
				t.Fatalf("%s, then undisturbed: another store", when)
			}
		}
	}
}

// contains reports whether got holds all of want.
func contains(got, want map[string]string) bool {
	for k, v := range want {
		if got[k] != v {
			return false
		}
	}
	return true
}
