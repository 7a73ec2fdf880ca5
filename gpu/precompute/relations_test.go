package precompute

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

// TestEachRelation: means by each relation are those that are added up edge by edge, of nodes at the relation's other end alone, 0 and
// said to be of none where there is no neighbour; made within a budget they have the same bytes, moved to other partitions the same
// rows by node; another type rounds them, verify finds nothing, and export and append
// leave them out.
func TestEachRelation(t *testing.T) {
	graph, old := storetest.Typed(t)
	o := ingest.Options{Partitions: 4, Seed: 1}
	dir, small := ingesttest.Store(t, graph, o), ingesttest.Store(t, graph, o)
	dev := host.New(host.Options{Threads: 2})
	defer dev.Close() //nolint:errcheck // test
	for d, o := range map[string]Options{dir: {}, small: {MemoryBytes: 106 << 20}} {
		o.EachRelation = true
		names, err := Hop(t.Context(), d, dev, o)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Hop(t.Context(), d, dev, o); err != nil || !slices.Equal(again, names) {
			t.Errorf("again: %q, %v", again, err)
		}
	}
	st := storetest.Open(t, dir, store.Options{})
	m := st.Manifest()
	hops := 0
	for _, f := range m.ColumnsOf(store.RoleFeature) {
		for _, x := range RelationMeans(m, f) {
			hops++
			c := x.Find(m)
			if c == nil || !c.Runs || c.Role != store.RoleNode {
				t.Fatalf("%s: column %+v", x.Column, c)
			}
			got, want := rowsByID(t, dir, x.Column), meansByHand(t, st, x)
			if len(got) != len(want) {
				t.Errorf("%s: %d nodes, expected %d", x.Column, len(got), len(want))
			}
			some := 0
			for id, row := range want {
				for k, v := range row {
					if math.Abs(float64(got[id][k]-v)) > 1e-5 {
						t.Fatalf("%s: node %d has %v, expected %v", x.Column, id, got[id], row)
					}
				}
				some += int(row[len(row)-1])
			}
			if some == 0 {
				t.Errorf("%s: no node has neighbours", x.Column)
			}
			for p := range m.Partitions {
				a, err := st.ReadColumn(t.Context(), x.Column, store.PartitionID(p), nil)
				b, berr := storetest.Open(t, small, store.Options{}).ReadColumn(t.Context(), x.Column, store.PartitionID(p), nil)
				if err != nil || berr != nil || !bytes.Equal(a, b) {
					t.Errorf("%s, partition %d: other bytes within a budget (%v, %v)", x.Column, p, err, berr)
				}
			}
		}
	}
	if want := 2 * len(m.Schema.Relations); hops < 3 || hops > want {
		t.Errorf("%d means of relations %v", hops, m.Schema.Relations)
	}
	checkMoved(t, dir, dev)
	checkLeftOut(t, dir)

	if _, err := Hop(t.Context(), dir, dev, Options{EachRelation: true, EdgeWeights: true}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("weighed by edges: %v", err)
	}
	for _, o := range []Options{{EachRelation: true, Model: "gcn"}, {Model: "gat"}, {Model: "gin", EdgeWeights: true}} {
		if _, err := Hop(t.Context(), dir, dev, o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, expected a refusal", o, err)
		}
	}
	if _, err := Hop(t.Context(), old, dev, Options{EachRelation: true}); err != nil { // of format 1: a row for each node
		t.Errorf("format 1: %v", err)
	}
	plain := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 60, Edges: 300, Partitions: 2, Relations: 2}))
	if _, err := Hop(t.Context(), plain, dev, Options{EachRelation: true}); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "one node type") {
		t.Errorf("one node type: %v", err)
	}
}

// checkMoved checks columns in other partitions, and rounded.
func checkMoved(t *testing.T, dir string, dev *host.Device) {
	t.Helper()
	const name = "paper.feat.hop1.cites"
	want := rowsByID(t, dir, name)
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := partitioner.NewRandom(st.Manifest().Nodes, 3, 5)
	if err == nil {
		_, err = repartition.Run(t.Context(), st, a, ingest.Options{})
	}
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	for id, row := range rowsByID(t, dir, name) {
		if !slices.Equal(row, want[id]) {
			t.Fatalf("moved: node %d has %v, expected %v", id, row, want[id])
		}
	}
	if _, err := Hop(t.Context(), dir, dev, Options{EachRelation: true, Elem: blocks.Float16}); err != nil {
		t.Fatal(err)
	}
	for id, row := range rowsByID(t, dir, name) {
		for k, v := range row {
			if math.Abs(float64(v-want[id][k])) > 1e-3*(1+math.Abs(float64(want[id][k]))) {
				t.Fatalf("float16: node %d has %v, expected %v", id, row, want[id])
			}
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "data", "*"+name+"-*")); err != nil || len(files) > 1 {
		t.Errorf("files %v, %v: expected the last alone", files, err)
	}
	if r, err := verify.Store(t.Context(), dir, verify.Options{}); err != nil || len(r.Damage) > 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// checkLeftOut checks that what is exported is ingested without means, and that an append drops them.
func checkLeftOut(t *testing.T, dir string) {
	t.Helper()
	out, again := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "again")
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = export.Run(t.Context(), st, out, export.Options{})
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	src, err := formats.Open(out, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	if _, err := ingest.Run(t.Context(), again, src, ingest.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range storetest.Open(t, again, store.Options{}).Manifest().Columns {
		if strings.Contains(c.Name, suffix) {
			t.Errorf("column %s came back", c.Name)
		}
	}
	more, err := ingest.FromSlices(&ingest.Slices{Src: []uint64{1}, Dst: []uint64{2}, Relations: []uint32{0}, RelationNames: []string{"paper:cites:paper"},
		EdgeColumns: []ingest.SliceColumn{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1, Data: blocks.Bytes([]float32{2})}}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := grow.Append(t.Context(), dir, more, grow.Options{}); err != nil || !slices.Contains(r.Dropped, "paper.feat.hop1.cites") || len(r.Dropped) != 5 {
		t.Errorf("append dropped %q, %v: expected the means", r.Dropped, err)
	}
}

// rowsByID are the rows of a column's node type, as floats, by external id.
func rowsByID(t *testing.T, dir, name string) map[uint64][]float32 {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	m, rows := st.Manifest(), map[uint64][]float32{}
	c, err := m.Column(name)
	if err != nil {
		t.Fatal(err)
	}
	for p := range m.Partitions {
		ids, _, err := st.ReadExternal(t.Context(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := st.ReadColumn(t.Context(), name, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids.Ints {
			row := make([]float32, c.Dim)
			c.Elem.Widen(row, b[i*c.RowBytes():(i+1)*c.RowBytes()], c.Scale)
			if k, ok := m.TypeOf(store.PartitionID(p), uint64(i)); ok && m.Schema.NodeTypes[k].Name == c.NodeType {
				rows[id] = row
			} else if slices.ContainsFunc(row, func(v float32) bool { return v != 0 }) {
				t.Fatalf("%s: node %d of another type has %v", name, id, row)
			}
		}
	}
	return rows
}

// meansByHand adds a mean up edge by edge.
func meansByHand(t *testing.T, st *store.Store, x RelationMean) map[uint64][]float32 {
	t.Helper()
	m := st.Manifest()
	var ids []uint64
	var features [][]float32
	sums, counts := map[uint64][]float32{}, map[uint64]float32{}
	for p := range m.Partitions {
		names, _, err := st.ReadExternal(t.Context(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := st.ReadColumn(t.Context(), x.Feature.Name, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range names.Ints {
			row := make([]float32, x.Feature.Dim)
			x.Feature.Elem.Widen(row, b[i*x.Feature.RowBytes():(i+1)*x.Feature.RowBytes()], x.Feature.Scale)
			ids, features = append(ids, id), append(features, row)
			if k, ok := m.TypeOf(store.PartitionID(p), uint64(i)); ok && m.Schema.NodeTypes[k].Name == x.Type {
				sums[id] = make([]float32, x.Feature.Dim+1)
			}
		}
	}
	relation := m.ColumnsOf(store.RoleRelation)[0]
	stripes := st.ReadStripes([]*store.ColumnInfo{relation}, 1<<20, 0)
	defer stripes.Close() //nolint:errcheck // test
	for j := range m.Partitions {
		err := stripes.Stripe(t.Context(), store.PartitionID(j), 0, len(m.Partitions), func(b *store.BucketPart) error {
			e := 0
			for d, s := range b.All() {
				kind := int(b.Columns[0][e*relation.RowBytes()])
				if relation.RowBytes() == 2 {
					kind = int(binary.LittleEndian.Uint16(b.Columns[0][2*e:]))
				}
				e++
				from, to := int(m.Partitions[b.Src].First)+int(s), int(m.Partitions[j].First)+int(d)
				if x.Relation >= len(m.Schema.Relations) {
					from, to, kind = to, from, kind+len(m.Schema.Relations)
				}
				if kind != x.Relation {
					continue
				}
				counts[ids[to]]++
				for k, v := range features[from] {
					sums[ids[to]][k] += v
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, n := range counts {
		for k := range sums[id] {
			sums[id][k] /= n
		}
		sums[id][x.Feature.Dim] = 1
	}
	return sums
}
