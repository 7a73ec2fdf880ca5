package ingest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

// TestAppendOfType: nodes that are appended with a column of a type are of that type, and take no room in others' columns; their type is known
// when the store is moved, too.
func TestAppendOfType(t *testing.T) {
	graph, _ := storetest.Typed(t)
	dir := ingesttest.Store(t, graph, ingest.Options{Partitions: 4})
	want := content(t, openStore(t, dir, 0))
	add := func(columns ...ingest.SliceColumn) error {
		n := uint64(openStore(t, dir, 0).Manifest().Nodes)
		src, err := ingest.FromSlices(&ingest.Slices{Src: []uint64{n, n + 1}, Dst: []uint64{170, n}, Relations: []uint32{0, 0}, RelationNames: []string{"paper:cites:paper"},
			EdgeColumns: []ingest.SliceColumn{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1, Data: blocks.Bytes([]float32{2, 3})}}, NodeColumns: columns})
		if err != nil {
			t.Fatal(err)
		}
		_, err = grow.Append(t.Context(), dir, src, grow.Options{})
		return err
	}
	papers := ingest.SliceColumn{Name: "paper.feat", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 16, Data: blocks.Bytes(slices.Repeat([]float32{5}, 32))}
	labels := ingest.SliceColumn{Name: "label", Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Data: blocks.Bytes([]int64{3, 1})}
	if err := add(papers, labels); err != nil {
		t.Fatal(err)
	}
	s := checkTyped(t, dir, nil)
	grown := keeps(t, s, want)
	of := []string{"paper.feat 242 paper", "label 242 paper", "venue.feat 20 venue", "node_type 0 ", "author.node 150 author", "split 242 paper"}
	if got := runsOf(s.Manifest()); !slices.Equal(got, of) || s.Manifest().Schema.NodeTypes[1].Count != 242 {
		t.Errorf("rows of one type %q, expected %q; types %v", got, of, s.Manifest().Schema.NodeTypes)
	}
	types, err := s.Features(t.Context(), store.TypeColumn, []store.NodeID{0, 410, 411}, nil)
	if err != nil || !bytes.Equal(types[4:], []byte{2, 0, 0, 0, 2, 0, 0, 0}) {
		t.Errorf("%v, types %v, expected 2 (paper) of both new nodes", err, types)
	}
	move(t, s, dir, 3, 4)
	s = checkTyped(t, dir, grown)
	if got := runsOf(s.Manifest()); !slices.Equal(got, of) {
		t.Errorf("moved: rows of one type %q, expected %q", got, of)
	}
	// Rows of two types: whose they are is not known, and nothing of them is lost.
	venues := ingest.SliceColumn{Name: "venue.feat", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 6, Data: blocks.Bytes(slices.Repeat([]float32{7}, 12))}
	if err := add(papers, venues); err != nil {
		t.Fatal(err)
	}
	s = checkTyped(t, dir, nil)
	grown = keeps(t, s, grown)
	move(t, s, dir, 5, 5)
	s = checkTyped(t, dir, grown)
	if got := runsOf(s.Manifest()); slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "paper.feat") }) || len(got) == 0 {
		t.Errorf("rows of one type %q, expected some, and all rows of paper.feat, which a venue has too", got)
	}
	if err := add(ingest.SliceColumn{Name: store.TypeColumn, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, Data: blocks.Bytes([]uint32{1, 1})}); err != nil {
		t.Fatal(err)
	}
	checkTyped(t, dir, nil)
}

// TestAppendOfTypeBeside: the type of appended nodes is known, too, where node_type is a file, as in a store of format 1, and where nodes of a type
// that is not known were appended before.
func TestAppendOfTypeBeside(t *testing.T) {
	_, dir := storetest.Typed(t)
	nodes := uint64(410)
	add := func(columns ...ingest.SliceColumn) {
		t.Helper()
		src, err := ingest.FromSlices(&ingest.Slices{Src: []uint64{nodes}, Dst: []uint64{170}, Relations: []uint32{0}, RelationNames: []string{"paper:cites:paper"},
			EdgeColumns: []ingest.SliceColumn{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1, Data: blocks.Bytes([]float32{2})}}, NodeColumns: columns})
		if err == nil {
			_, err = grow.Append(t.Context(), dir, src, grow.Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
		nodes++
	}
	paper := ingest.SliceColumn{Name: "paper.feat", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 16, Data: blocks.Bytes(slices.Repeat([]float32{5}, 16))}
	expect := func(papers uint64, kinds ...uint32) {
		t.Helper()
		s := checkTyped(t, dir, nil)
		got := s.Manifest().Schema.NodeTypes[1]
		found := make([]store.NodeID, len(kinds))
		if err := s.LookupInts(t.Context(), []uint64{410, 411, 412}[:len(kinds)], found); err != nil {
			t.Fatal(err)
		}
		types, err := s.Features(t.Context(), store.TypeColumn, found, nil)
		if err != nil || got.Count != papers || !bytes.Equal(types, blocks.Bytes(kinds)) {
			t.Errorf("%v, %d papers, types %v, expected %d and %v", err, got.Count, types, papers, kinds)
		}
	}
	add(paper)
	expect(241, 2)
	move(t, openStore(t, dir, 0), dir, 3, 4)
	expect(241, 2)
	if got := runsOf(openStore(t, dir, 0).Manifest()); !slices.Contains(got, "paper.feat 241 paper") || !slices.Contains(got, "node_type 0 ") {
		t.Errorf("moved: rows of one type %q", got)
	}
	add() // of no type
	add(paper)
	expect(242, 2, 0, 2)
}

// TestTypesInManyPieces: a store whose types lie in more pieces than are followed is moved with a row for every node, and says so; verify
// finds a type that there is none of.
func TestTypesInManyPieces(t *testing.T) {
	const nodes = 66_000
	dir := t.TempDir()
	kinds := slices.Repeat([]uint32{1, 2}, nodes/2)
	write := func(kinds []uint32) string {
		t.Helper()
		meta := fmt.Sprintf(`{"ingest": "gstore ingest a S", "columns": [{"file": "node_node_type.npy", "column": "node_type", "role": "node"}],
			"node_types": [{"name": "a", "count": %d}, {"name": "b", "count": %d}]}`, nodes/2, nodes/2)
		for name, b := range map[string][]byte{"edge_index.npy": npy("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 2, 4})), "meta.json": []byte(meta),
			"node_node_type.npy": npy("<u4", fmt.Sprint(nodes, ","), blocks.Bytes(kinds))} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		src, err := formats.Open(dir, formats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close() //nolint:errcheck // test
		out := filepath.Join(t.TempDir(), "s")
		if _, err := ingest.Run(t.Context(), out, src, ingest.Options{Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	s := openStore(t, write(kinds), 0)
	a, err := partitioner.NewRange(nodes, 2)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := repartition.Run(t.Context(), s, a, ingest.Options{})
	if err != nil || runsOf(rep.Manifest) != nil || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "more than 65536 pieces") {
		t.Errorf("%v, notes %q, expected that of many pieces", err, rep.Notes)
	}
	kinds[7] = 3
	if r, err := verify.Store(t.Context(), write(kinds), verify.Options{Engine: "pread"}); err != nil || len(r.Damage) != 1 || !strings.Contains(r.Damage[0].Error(), "number of a learned vector 3 of row") {
		t.Errorf("a third type of two: %v, %v", err, r.Damage)
	}
}
