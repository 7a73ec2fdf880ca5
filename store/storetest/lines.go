package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/gstore/gstore/store"
)

// Lines lists a store's edges, edge lists and nodes as sorted lines of text, by
// external ids. name translates these; nil = as they are.
func Lines(t testing.TB, s *store.Store, name func(string) string) []string {
	t.Helper()
	ctx, m := context.Background(), s.Manifest()
	if name == nil {
		name = func(x string) string { return x }
	}
	var ids []string
	for p := range m.Partitions {
		x, _, err := s.ReadExternal(ctx, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Len() {
			ids = append(ids, name(string(x.Append(nil, i))))
		}
	}
	var lines []string
	for j, info := range m.Partitions {
		stripe, _, err := s.ReadStripe(ctx, store.PartitionID(j), nil)
		if err != nil {
			t.Fatal(err)
		}
		extra := make([]string, stripe.Edges())
		for _, c := range m.Columns {
			if !c.Role.OnEdges() {
				continue
			}
			b, err := s.ReadColumn(ctx, c.Name, store.PartitionID(j), nil)
			if err != nil {
				t.Fatal(err)
			}
			for k := range extra {
				v := fmt.Sprint(c.Elem.Float64(b[k*c.RowBytes():]))
				if c.Role == store.RoleRelation {
					v = m.Schema.Relations[int(c.Elem.Float64(b[k*c.RowBytes():]))].Name
				}
				extra[k] += " " + c.Name + "=" + v
			}
		}
		k := 0
		for i, from := range m.Partitions {
			b, err := stripe.Bucket(i)
			if err != nil {
				t.Fatal(err)
			}
			for d, src := range b.All() {
				a, z := ids[uint64(from.First)+uint64(src)], ids[uint64(info.First)+uint64(d)]
				if m.Schema.Undirected && a > z {
					a, z = z, a
				}
				lines = append(lines, "edge "+a+" "+z+extra[k])
				k++
			}
		}
		for n, text := range nodeLines(t, s, store.PartitionID(j)) {
			lines = append(lines, "node "+ids[uint64(info.First)+uint64(n)]+text)
		}
	}
	for _, l := range m.EdgeLists {
		r, err := s.EdgeList(ctx, l.Name)
		if err != nil {
			t.Fatal(err)
		}
		for k := 0; r.Next(); k++ {
			e := r.Edge()
			lines = append(lines, fmt.Sprintf("%s %06d: %s %s %s", l.Name, k, ids[e.Src], m.Schema.Relations[e.Relation].Name, ids[e.Dst]))
		}
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lines)
	return lines
}

// nodeLines lists the columns of each node of a partition.
func nodeLines(t testing.TB, s *store.Store, p store.PartitionID) []string {
	t.Helper()
	lines := make([]string, s.Manifest().Partitions[p].Nodes)
	for _, c := range s.Manifest().Columns {
		if c.Role.OnEdges() {
			continue
		}
		b, err := s.ReadColumn(context.Background(), c.Name, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range lines {
			line := []byte(lines[n] + " " + c.Name)
			for d := range c.Dim {
				line = strconv.AppendFloat(append(line, ' '), c.Elem.Float64(b[n*c.RowBytes()+d*c.Elem.Size():]), 'g', -1, 64)
			}
			lines[n] = string(line)
		}
	}
	return lines
}
