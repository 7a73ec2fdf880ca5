package ingest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// npy encodes an array as numpy does.
func npy(descr string, shape string, data []byte) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	return append(append(b, head...), data...)
}

// graph is a random test graph in memory.
type graph struct {
	nodes    int
	src, dst []int64
	types    []int64
	x        []float32
	labels   []int64
}

func randomGraph(seed uint64, nodes, edges int) *graph {
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &graph{nodes: nodes}
	for range edges { // squares: skewed, with duplicates and self loops
		g.src = append(g.src, rng.Int64N(int64(nodes)))
		g.dst = append(g.dst, int64(float64(nodes)*math.Pow(rng.Float64(), 3)))
		g.types = append(g.types, rng.Int64N(3))
	}
	for range nodes {
		g.x = append(g.x, rng.Float32(), rng.Float32()-1, 7)
		g.labels = append(g.labels, rng.Int64N(5)-1)
	}
	return g
}

// Write makes a numpy folder of the graph.
func (g *graph) write(t *testing.T, types bool) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, b []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	e := len(g.src)
	put("edge_index.npy", npy("<i8", fmt.Sprintf("2, %d", e), blocks.Bytes(slices.Concat(g.src, g.dst))))
	if types {
		put("edge_type.npy", npy("<i8", fmt.Sprintf("%d,", e), blocks.Bytes(g.types)))
	}
	put("node_feat.npy", npy("<f4", fmt.Sprintf("%d, 3", g.nodes), blocks.Bytes(g.x)))
	put("node_label.npy", npy("<i8", fmt.Sprintf("%d,", g.nodes), blocks.Bytes(g.labels)))
	put("split/train.npy", npy("<i8", "2,", blocks.Bytes([]int64{3, 1})))
	put("split/valid.npy", npy("<i8", "1,", blocks.Bytes([]int64{2})))
	put("split/test.npy", npy("<i8", "1,", blocks.Bytes([]int64{0})))
	return dir
}

// Job ingests input and returns the store's directory.
func run(t *testing.T, input string, o ingest.Options) (string, *ingest.Report) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	rep, err := ingest.Run(context.Background(), dir, src, o)
	if err != nil {
		t.Fatal(err)
	}
	return dir, rep
}

// edge is a stored edge by external ids.
type edge struct{ src, dst, relation uint64 }

// readBack returns a store's edges, and checks features and labels on the way.
func readBack(t *testing.T, dir string, g *graph) map[edge]int {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := s.Manifest()
	external := map[uint64]uint64{}
	for p, info := range m.Partitions {
		id := store.PartitionID(p)
		x, err := s.ReadColumn(ctx, "x", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		label, err := s.ReadColumn(ctx, "label", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		last := int64(-1)
		for k := range info.Nodes {
			name, err := s.External(ctx, info.First+store.NodeID(k))
			if err != nil {
				t.Fatal(err)
			}
			var e int64
			if _, err := fmt.Sscan(name, &e); err != nil {
				t.Fatal(err)
			}
			if e <= last {
				t.Fatalf("partition %d: external id %d after %d", p, e, last)
			}
			last = e
			external[uint64(info.First)+k] = uint64(e)
			if !bytes.Equal(x[k*12:k*12+12], blocks.Bytes(g.x[3*e:3*e+3])) {
				t.Fatalf("features of node %d are another's", e)
			}
			if got := int64(int32(binary.LittleEndian.Uint32(label[4*k:]))); got != g.labels[e] {
				t.Fatalf("label of node %d is %d, expected %d", e, got, g.labels[e])
			}
		}
	}
	if len(external) != g.nodes {
		t.Fatalf("%d nodes, expected %d", len(external), g.nodes)
	}
	edges := map[edge]int{}
	for j := range m.Partitions {
		stripe, _, err := s.ReadStripe(ctx, store.PartitionID(j), nil)
		if err != nil {
			t.Fatal(err)
		}
		var relations []byte
		if len(m.ColumnsOf(store.RoleRelation)) > 0 {
			if relations, err = s.ReadColumn(ctx, "relation", store.PartitionID(j), nil); err != nil {
				t.Fatal(err)
			}
		}
		at := 0
		for i := range m.Partitions {
			b, err := stripe.Bucket(i)
			if err != nil {
				t.Fatal(err)
			}
			for d, s := range b.All() {
				e := edge{src: external[uint64(m.Partitions[i].First)+uint64(s)], dst: external[uint64(m.Partitions[j].First)+uint64(d)]}
				if relations != nil {
					e.relation = uint64(relations[at])
				}
				at++
				edges[e]++
			}
		}
	}
	return edges
}

// want computes the stored edges the plain way. Undirected edges are compared
// with both ends sorted.
func (g *graph) want(o ingest.Options, types bool) map[edge]int {
	edges := map[edge]int{}
	for k := range g.src {
		e := edge{src: uint64(g.src[k]), dst: uint64(g.dst[k])}
		if types {
			e.relation = uint64(g.types[k])
		}
		if e.src == e.dst && o.SelfLoops != "" && o.SelfLoops != ingest.SelfLoopsKeep {
			continue
		}
		if o.Undirected {
			e.src, e.dst = min(e.src, e.dst), max(e.src, e.dst)
		}
		edges[e]++
		if o.Undirected || o.Dedup == ingest.DedupRelation {
			edges[e] = 1
		}
	}
	if o.SelfLoops == ingest.SelfLoopsAdd {
		for v := range g.nodes {
			edges[edge{src: uint64(v), dst: uint64(v)}] = 1
		}
	}
	return edges
}

func TestIngestEqualsPlainReference(t *testing.T) {
	g := randomGraph(1, 500, 6000)
	for _, types := range []bool{false, true} {
		input := g.write(t, types)
		for name, o := range map[string]ingest.Options{
			"as it is":         {Partitions: 7},
			"one partition":    {Partitions: 1},
			"a node each":      {Partitions: 500},
			"dedup":            {Partitions: 7, Dedup: ingest.DedupRelation},
			"undirected":       {Partitions: 7, Undirected: true},
			"loops dropped":    {Partitions: 5, SelfLoops: ingest.SelfLoopsDrop},
			"loops added":      {Partitions: 5, SelfLoops: ingest.SelfLoopsAdd},
			"undirected loops": {Partitions: 3, Undirected: true, SelfLoops: ingest.SelfLoopsAdd},
		} {
			t.Run(fmt.Sprintf("types=%v/%s", types, name), func(t *testing.T) {
				dir, _ := run(t, input, o)
				got := readBack(t, dir, g)
				if o.Undirected {
					sorted := map[edge]int{}
					for e, n := range got {
						sorted[edge{min(e.src, e.dst), max(e.src, e.dst), e.relation}] += n
					}
					got = sorted
				}
				if want := g.want(o, types); !maps.Equal(got, want) {
					t.Fatalf("%d distinct edges stored, expected %d", len(got), len(want))
				}
			})
		}
	}
}

// Files returns the contents of a store's data files.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "data", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = string(b)
	}
	return out
}

func sameFiles(t *testing.T, want, got map[string]string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%d files, expected %d", len(got), len(want))
	}
	for name := range want {
		if want[name] != got[name] {
			t.Errorf("file %s differs", name)
		}
	}
}

// Threads, memory and interruptions leave no trace in the files. The smallest
// budget makes the sort spill.
func TestFilesDependOnInputAndSeedOnly(t *testing.T) {
	g := randomGraph(2, 3000, 3_000_000)
	input := g.write(t, true)
	for _, dedup := range []ingest.Dedup{ingest.DedupNo, ingest.DedupRelation}[race.Every(2)-1:] {
		o := ingest.Options{Partitions: 9, Seed: 5, Threads: 1, MemoryBytes: 1 << 30, Dedup: dedup}
		dir, rep := run(t, input, o)
		if rep.BytesSpilled != 0 {
			t.Errorf("%d bytes spilled in 1 GiB", rep.BytesSpilled)
		}
		want := files(t, dir)
		o.Threads, o.MemoryBytes = 4, 97<<20
		dir, rep = run(t, input, o)
		if rep.BytesSpilled == 0 {
			t.Error("nothing was spilled in the smallest budget: the test tests nothing")
		}
		sameFiles(t, want, files(t, dir))
		o.Seed = 6
		dir, _ = run(t, input, o)
		if maps.Equal(want, files(t, dir)) {
			t.Error("another seed made the same files")
		}
	}
}

func TestBudgetTooSmallNamesTheSmallest(t *testing.T) {
	input := randomGraph(3, 100, 100).write(t, false)
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	_, err = ingest.Run(context.Background(), dir, src, ingest.Options{MemoryBytes: 8 << 20})
	if !errors.Is(err, store.ErrBudget) {
		t.Fatalf("got %v, expected ErrBudget", err)
	}
	var mib int64
	if _, err := fmt.Sscanf(err.Error()[strings.Index(err.Error(), "works is"):], "works is %dMiB", &mib); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused ingest left %s behind (%v)", dir, err)
	}
	if _, err := ingest.Run(context.Background(), dir, src, ingest.Options{MemoryBytes: mib << 20}); err != nil {
		t.Errorf("the budget that was named does not do: %v", err)
	}
}
