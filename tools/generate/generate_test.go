package generate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func smallSBM(t testing.TB, nodes uint64) Graph {
	t.Helper()
	g, err := NewSBM(SBMOptions{Nodes: nodes, Edges: 15 * nodes, Classes: 16, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// all returns every edge, label and feature of g.
func all(g Graph) (src, dst []uint64, labels []int64, rows []float32) {
	i := g.Info()
	src, dst = make([]uint64, i.Edges), make([]uint64, i.Edges)
	g.Edges(0, src, dst)
	labels, rows = make([]int64, i.Nodes), make([]float32, i.Nodes*uint64(i.Dim))
	if i.Classes > 0 {
		g.Labels(0, labels)
	}
	g.Features(0, rows)
	return src, dst, labels, rows
}

// nearest classifies rows by the nearest class mean of the training half and
// returns the accuracy on the other half: what a model sees that looks at one row.
func nearest(rows []float32, dim int, labels []int64, classes int) float64 {
	means, counts := make([]float64, classes*dim), make([]float64, classes)
	half := len(labels) / 2
	for v, c := range labels[:half] {
		counts[c]++
		for j, x := range rows[v*dim : (v+1)*dim] {
			means[int(c)*dim+j] += float64(x)
		}
	}
	for i := range means {
		means[i] /= max(1, counts[i/dim])
	}
	right := 0
	for v := half; v < len(labels); v++ {
		best, where := math.Inf(1), 0
		for c := range classes {
			d := 0.0
			for j, x := range rows[v*dim : (v+1)*dim] {
				d += (float64(x) - means[c*dim+j]) * (float64(x) - means[c*dim+j])
			}
			if d < best {
				best, where = d, c
			}
		}
		if int64(where) == labels[v] {
			right++
		}
	}
	return float64(right) / float64(len(labels)-half)
}

// A node's own features say little, the mean of its neighbours' much.
func TestSBMLabelsNeedNeighbours(t *testing.T) {
	g := smallSBM(t, 20_000)
	src, dst, labels, rows := all(g)
	dim := g.Info().Dim
	mean, degree := slices.Clone(rows), make([]float32, len(labels))
	for e := range src {
		degree[src[e]]++ // messages along both directions
		degree[dst[e]]++
		for j := range dim {
			mean[int(dst[e])*dim+j] += rows[int(src[e])*dim+j]
			mean[int(src[e])*dim+j] += rows[int(dst[e])*dim+j]
		}
	}
	for i := range mean {
		mean[i] /= 1 + degree[i/dim]
	}
	alone, together := nearest(rows, dim, labels, 16), nearest(mean, dim, labels, 16)
	t.Logf("accuracy from a node's features %.3f, with its neighbours' mean %.3f, by chance %.3f", alone, together, 1./16)
	if alone < .15 || alone > .55 || together < alone+.3 {
		t.Errorf("accuracy %.3f alone, %.3f with neighbours: want a clear gap", alone, together)
	}
}

func TestSBMHomophilyAndDegrees(t *testing.T) {
	g := smallSBM(t, 20_000)
	src, dst, labels, _ := all(g)
	same, loops := 0, 0
	degree := make([]int, len(labels))
	for e := range src {
		if labels[src[e]] == labels[dst[e]] {
			same++
		}
		if src[e] == dst[e] {
			loops++
		}
		degree[dst[e]]++
	}
	// .7 stay, of the rest a sixteenth meets its class by chance.
	if share := float64(same) / float64(len(src)); math.Abs(share-(.7+.3/16)) > .01 {
		t.Errorf("%.3f of the edges join nodes of one class, want .719", share)
	}
	if loops != 0 {
		t.Errorf("%d loops", loops)
	}
	if most := slices.Max(degree); most < 150 || most > 5000 {
		t.Errorf("largest in-degree %d of mean 15: want a skew", most)
	}
	counts := make([]int, 16)
	for _, c := range labels {
		counts[c]++
	}
	if slices.Max(counts)-slices.Min(counts) > 1010 {
		t.Errorf("class sizes %v", counts)
	}
}

// The quadrants' shares at the first level, and the skew, are R-MAT's.
func TestRMATShape(t *testing.T) {
	const n, m = 1 << 14, 300_000
	o := RMATOptions{Nodes: n, Edges: m, Classes: 2, Dim: 1, Seed: 4}
	g, err := NewRMAT(o)
	if err != nil {
		t.Fatal(err)
	}
	src, dst, labels, _ := all(g)
	var quadrant [4]int
	degree := make([]int, n)
	for e := range src {
		quadrant[labels[src[e]]*2+labels[dst[e]]]++ // two classes are the halves of the matrix
		degree[dst[e]]++
	}
	for i, want := range []float64{.57, .19, .19, .05} {
		if got := float64(quadrant[i]) / m; math.Abs(got-want) > .005 {
			t.Errorf("quadrant %d holds %.4f of the edges, want %.2f", i, got, want)
		}
	}
	slices.Sort(degree)
	top := 0
	for _, d := range degree[n-n/100:] {
		top += d
	}
	if share := float64(top) / m; share < .12 || share > .5 {
		t.Errorf("the top percent of nodes has %.2f of the edges", share)
	}
	// Not a power of two nodes, an odd number of levels: all in range.
	o.Nodes = 20_011
	if g, err = NewRMAT(o); err != nil {
		t.Fatal(err)
	}
	src, dst, _, _ = all(g)
	if v := max(slices.Max(src), slices.Max(dst)); v >= o.Nodes {
		t.Errorf("node %d of %d", v, o.Nodes)
	}
}

// TestRMATClassSizes: every class has its share of the nodes, also where their number is
// no power of two (as a share of the matrix, 12 of 16 classes had nodes at 100 M).
func TestRMATClassSizes(t *testing.T) {
	for _, o := range []RMATOptions{{Nodes: 1 << 14, Classes: 16}, {Nodes: 12_000, Classes: 16}, {Nodes: 8200, Classes: 5}, {Nodes: 7, Classes: 7}} {
		g, err := NewRMAT(o)
		if err != nil {
			t.Fatal(err)
		}
		labels, count := make([]int64, o.Nodes), make([]int, o.Classes)
		g.Labels(0, labels)
		for _, l := range labels {
			count[l]++
		}
		if slices.Max(count)-slices.Min(count) > 1 {
			t.Errorf("%+v: class sizes %v", o, count)
		}
	}
	g, err := NewRMAT(RMATOptions{Nodes: 100_000_000, Classes: 16})
	if err != nil {
		t.Fatal(err)
	}
	if c := g.(*rmat).class(100_000_000 - 1); c != 15 {
		t.Errorf("the last place of 100 M is of class %d, expected 15", c)
	}
}

// A chunk's edges do not depend on where it begins: what makes threads invisible.
func TestChunksAgree(t *testing.T) {
	rmat, _ := NewRMAT(RMATOptions{Nodes: 999, Edges: 500, Dim: 3, Classes: 4})
	sbm, _ := NewSBM(SBMOptions{Nodes: 999, Edges: 500, Dim: 3})
	for _, g := range []Graph{rmat, sbm} {
		src, dst, labels, rows := all(g)
		s, d, l, r := make([]uint64, 100), make([]uint64, 100), make([]int64, 100), make([]float32, 300)
		g.Edges(250, s, d)
		g.Labels(250, l)
		g.Features(250, r)
		if !slices.Equal(s, src[250:350]) || !slices.Equal(d, dst[250:350]) || !slices.Equal(l, labels[250:350]) || !slices.Equal(r, rows[750:1050]) {
			t.Errorf("%s: a chunk differs from the same range of the whole", g.Info().Kind)
		}
	}
}

func TestKGIsDistinctAndLearnable(t *testing.T) {
	g, err := NewKG(KGOptions{Entities: 2000, Relations: 10, Triples: 50_000, Valid: 1000, Test: 1000, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	train, valid, test := g.Parts()
	triples := make([]Triple, train+valid+test)
	g.Triples(0, triples)
	seen := map[Triple]bool{}
	tails := map[[2]uint64]map[uint64]bool{}
	for _, x := range triples {
		if seen[x] {
			t.Fatalf("triple %v occurs twice", x)
		}
		seen[x] = true
		if x.Head >= 2000 || x.Tail >= 2000 || x.Relation >= 10 {
			t.Fatalf("triple %v out of range", x)
		}
		k := [2]uint64{x.Head, x.Relation}
		if tails[k] == nil {
			tails[k] = map[uint64]bool{}
		}
		tails[k][x.Tail] = true
	}
	// A rule learnt from training alone answers the test: entities of a ring and a
	// relation share their tails' ring, so two hops through training find candidates.
	co := map[[2]uint64][]uint64{} // (relation, tail) → heads
	by := map[[2]uint64][]uint64{} // (relation, head) → tails
	for _, x := range triples[:train] {
		co[[2]uint64{x.Relation, x.Tail}] = append(co[[2]uint64{x.Relation, x.Tail}], x.Head)
		by[[2]uint64{x.Relation, x.Head}] = append(by[[2]uint64{x.Relation, x.Head}], x.Tail)
	}
	found, candidates := 0, 0
	for _, x := range triples[train+valid:] {
		c := map[uint64]bool{}
		for _, tail := range by[[2]uint64{x.Relation, x.Head}] {
			for _, h := range co[[2]uint64{x.Relation, tail}] {
				for _, t := range by[[2]uint64{x.Relation, h}] {
					c[t] = true
				}
			}
		}
		candidates += len(c)
		if c[x.Tail] {
			found++
		}
	}
	if recall, mean := float64(found)/float64(test), float64(candidates)/float64(test); recall < .3 || mean > 20 {
		t.Errorf("a two-hop rule finds %.2f of the test tails among %.0f candidates of 2000: nothing to learn", recall, mean)
	}
}

func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		files[rel], err = os.ReadFile(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// int64s decodes a .npy file of int64, checking its header.
func int64s(t *testing.T, b []byte, shape string) []uint64 {
	t.Helper()
	if len(b) < 10 || string(b[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("no NumPy file: % x", b[:min(10, len(b))])
	}
	h := int(binary.LittleEndian.Uint16(b[8:]))
	if head := string(b[10 : 10+h]); (10+h)%64 != 0 || !strings.Contains(head, "'shape': "+shape) || !strings.Contains(head, "'<i8'") {
		t.Fatalf("header %q, want shape %s", head, shape)
	}
	var x []uint64
	for b = b[10+h:]; len(b) > 0; b = b[8:] {
		x = append(x, binary.LittleEndian.Uint64(b))
	}
	return x
}

func TestWriteIsDeterministicAndComplete(t *testing.T) {
	g := smallSBM(t, 30_000)
	dir := t.TempDir()
	var first map[string][]byte
	for i, threads := range []int{1, 4} {
		out := filepath.Join(dir, string(rune('a'+i)))
		n, err := Write(t.Context(), out, g, WriteOptions{Threads: threads, Train: .1, Valid: .1, Test: .2})
		if err != nil {
			t.Fatal(err)
		}
		files := tree(t, out)
		size := -len(files["meta.json"])
		for _, b := range files {
			size += len(b)
		}
		if int64(size) != n {
			t.Errorf("Write says %d bytes, the files hold %d", n, size)
		}
		if first == nil {
			first = files
		}
		for name, b := range files {
			if !bytes.Equal(b, first[name]) {
				t.Errorf("%s differs between 1 and %d threads", name, threads)
			}
		}
	}
	src, dst, labels, _ := all(g)
	if got := int64s(t, first["edge_index.npy"], "(2, 450000)"); !slices.Equal(got, slices.Concat(src, dst)) {
		t.Error("edge_index.npy does not hold the graph's edges")
	}
	got := int64s(t, first["node_label.npy"], "(30000,)")
	for v, c := range labels {
		if got[v] != uint64(c) {
			t.Fatalf("node_label.npy: node %d has class %d, want %d", v, got[v], c)
		}
	}
	if want := 64*2 + 30_000*64*4 - 64; len(first["node_feat.npy"])-want > 128 {
		t.Errorf("node_feat.npy has %d bytes", len(first["node_feat.npy"]))
	}
	dealt := map[uint64]bool{}
	for name, n := range map[string]string{"train": "(3000,)", "valid": "(3000,)", "test": "(6000,)"} {
		for _, v := range int64s(t, first[filepath.Join("split", name+".npy")], n) {
			if dealt[v] || v >= 30_000 {
				t.Fatalf("split %s: node %d out of range or dealt twice", name, v)
			}
			dealt[v] = true
		}
	}
	if len(dealt) != 12_000 {
		t.Errorf("%d nodes dealt, want 12000", len(dealt))
	}
}

func TestTextAndBinaryHoldTheSameEdges(t *testing.T) {
	g, _ := NewRMAT(RMATOptions{Nodes: 5000, Edges: 150_000})
	dir := t.TempDir()
	for _, f := range []Format{TSV, Binary} {
		if _, err := Write(t.Context(), filepath.Join(dir, string(f)), g, WriteOptions{Format: f, Threads: 3}); err != nil {
			t.Fatal(err)
		}
	}
	src, dst, _, _ := all(g)
	lines := strings.Split(strings.TrimSuffix(string(tree(t, filepath.Join(dir, "tsv"))["edges.tsv"]), "\n"), "\n")
	b := tree(t, filepath.Join(dir, "binary"))["edges.i32"]
	if len(lines) != len(src) || len(b) != 8*len(src) {
		t.Fatalf("%d lines, %d bytes for %d edges", len(lines), len(b), len(src))
	}
	for e := range src {
		var buf []byte
		buf = append(appendUint(buf, src[e]), '\t')
		if want := string(appendUint(buf, dst[e])); lines[e] != want {
			t.Fatalf("line %d is %q, want %q", e, lines[e], want)
		}
		if s, d := binary.LittleEndian.Uint32(b[8*e:]), binary.LittleEndian.Uint32(b[8*e+4:]); uint64(s) != src[e] || uint64(d) != dst[e] {
			t.Fatalf("pair %d is %d %d, want %d %d", e, s, d, src[e], dst[e])
		}
	}
}

func appendUint(b []byte, x uint64) []byte {
	if x >= 10 {
		b = appendUint(b, x/10)
	}
	return append(b, byte('0'+x%10))
}

func TestWriteKG(t *testing.T) {
	g, err := NewKG(KGOptions{Entities: 1000, Relations: 5, Triples: 3000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kg")
	if _, err := WriteKG(t.Context(), dir, g, WriteOptions{Threads: 2}); err != nil {
		t.Fatal(err)
	}
	files := tree(t, dir)
	got := int64s(t, files["train.npy"], "(3000, 3)")
	want := make([]Triple, 3000)
	g.Triples(0, want)
	for i, x := range want {
		if (Triple{got[3*i], got[3*i+1], got[3*i+2]}) != x {
			t.Fatalf("triple %d is %v, want %v", i, got[3*i:3*i+3], x)
		}
	}
	int64s(t, files["valid.npy"], "(150, 3)")
	int64s(t, files["test.npy"], "(150, 3)")
}

func TestWriteLeavesNothingHalfMade(t *testing.T) {
	g := smallSBM(t, 30_000)
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Write(ctx, out, g, WriteOptions{Threads: 2, Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	left, _ := filepath.Glob(out + "*")
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), out, g, WriteOptions{}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("an existing folder: %v", err)
	}
}

func TestRefusesImpossibleOptions(t *testing.T) {
	rmat := func(o RMATOptions) error { _, err := NewRMAT(o); return err }
	sbm := func(o SBMOptions) error { _, err := NewSBM(o); return err }
	kg := func(o KGOptions) error { _, err := NewKG(o); return err }
	tests := []struct {
		err  error
		want string
	}{
		{rmat(RMATOptions{}), "0 nodes"},
		{rmat(RMATOptions{Nodes: 10, A: .8, B: .3}), "leave -0.1"},
		{rmat(RMATOptions{Nodes: 10, Classes: 11}), "11 classes of 10 nodes"},
		{sbm(SBMOptions{Nodes: 10, Homophily: 1.5}), "homophily 1.5"},
		{sbm(SBMOptions{Nodes: 10, Homophily: math.NaN()}), "homophily NaN"},
		{sbm(SBMOptions{Nodes: 10, Skew: .5}), "skew 0.5"},
		{sbm(SBMOptions{Nodes: 10, Communities: 40}), "40 communities of 10 nodes"},
		{kg(KGOptions{Entities: 10, Relations: 1, Triples: 41}), "of 40 possible ones"},
		{kg(KGOptions{Entities: 10, Ring: 11}), "window ≤ ring ≤ entities"},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, ErrOptions) || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("error %v, want one about %q", tt.err, tt.want)
		}
	}
}

func BenchmarkRMATEdges(b *testing.B) {
	g, _ := NewRMAT(RMATOptions{Nodes: 100_000_000, Edges: 1 << 40})
	src, dst := make([]uint64, 4096), make([]uint64, 4096)
	for i := uint64(0); b.Loop(); i++ {
		g.Edges(i*4096, src, dst)
	}
	b.ReportMetric(4096*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
}

func BenchmarkSBM(b *testing.B) {
	g, _ := NewSBM(SBMOptions{Nodes: 100_000_000, Edges: 1 << 40, Dim: 32})
	src, dst, rows := make([]uint64, 4096), make([]uint64, 4096), make([]float32, 4096*32)
	b.Run("edges", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			g.Edges(i*4096, src, dst)
		}
		b.ReportMetric(4096*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
	})
	b.Run("features", func(b *testing.B) {
		for b.Loop() {
			g.Features(4096, rows)
		}
		b.SetBytes(4096 * 32 * 4)
	})
}
