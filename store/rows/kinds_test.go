package rows_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/rows"
	"github.com/gstore/gstore/store/storetest"
)

// TestTypesHaveSlots: where columns have rows of one node type alone, slots are for a type's rows: batches find the rows that they find
// in slots for rows of any type, in less memory, and what is read is what a forecast says; a batch with more rows of a type than was said
// is refused.
func TestTypesHaveSlots(t *testing.T) {
	graph, _ := storetest.Typed(t)
	s := storetest.Open(t, ingesttest.Store(t, graph, ingest.Options{Partitions: 4, Seed: 1}), store.Options{})
	m := s.Manifest()
	base := rows.Options{Options: buffer.Options{Threads: 2, GapBytes: -1, RequestBytes: 64 << 10}}
	for _, c := range m.ColumnsOf(store.RoleFeature) {
		base.Features = append(base.Features, c.Name)
	}
	for _, c := range m.Categories() {
		base.Features = append(base.Features, c.Column)
	}
	list := batches(int(m.Nodes), 60, int(m.Nodes)/6)
	most := make([]int, len(m.Schema.NodeTypes))
	for _, b := range list {
		base.BatchRows = max(base.BatchRows, len(b))
		counts := make([]int, len(most))
		for _, v := range b {
			counts[typeOf(m, v)]++
		}
		for k, n := range counts {
			most[k] = max(most[k], n)
		}
	}
	// bring returns every batch's rows, column by column.
	bring := func(o rows.Options) (found []byte, z rows.Sizes) {
		t.Helper()
		o.Forecast = true
		f, err := rows.Open(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			f.Push(0, b)
		}
		f.End()
		o.Forecast = false
		r, err := rows.Open(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		pushed := pushAll(r, list)
		if err := r.StartAt(plan(m), 0); err != nil || !r.Next() {
			t.Fatal(err, r.Err())
		}
		for _, b := range list {
			slots, err := r.Take(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Features() {
				for _, slot := range slots {
					if c.Runs != nil {
						slot = c.Runs.Place(slot)
					}
					found = append(found, c.Data[int(slot)*c.Stride:][:c.Stride]...)
				}
			}
			r.Done()
		}
		<-pushed
		if got, want := r.Stats().BytesRead, f.Forecast(0); got != want.Bytes() {
			t.Errorf("%d bytes read, the forecast says %d", got, want.Bytes())
		}
		z = r.Sizes()
		if err := errors.Join(r.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		return found, z
	}
	want, any := bring(base)
	o := base
	o.Runs, o.KindRows = true, most
	got, all := bring(o)
	if !bytes.Equal(got, want) || all.SlotBytes() >= any.SlotBytes() || all.Slots != int(m.Nodes) {
		t.Errorf("all rows in %+v: as in slots for any type %v, which take %+v", all, bytes.Equal(got, want), any)
	}
	o.MemoryBytes = all.LeastBytes
	got, least := bring(o)
	if !bytes.Equal(got, want) || !slices.Equal(least.KindSlots, most) || least.MemoryBytes() > o.MemoryBytes {
		t.Errorf("least memory: %+v for batches of %v, as in slots for any type %v", least, most, bytes.Equal(got, want))
	}
	o.KindRows = slices.Clone(most)
	o.KindRows[typeOf(m, list[0][0])] = 0
	r, err := rows.Open(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if r.Push(0, list[0]) || !strings.Contains(r.Err().Error(), "expected at most 0") {
		t.Errorf("error %v, expected that a batch with too many rows of a type is refused", r.Err())
	}
}

// typeOf is the number of a node's type.
func typeOf(m *store.Manifest, node uint32) int {
	for p := range m.Partitions {
		if first := uint64(m.Partitions[p].First); uint64(node) < first+m.Partitions[p].Nodes {
			t, _ := m.TypeOf(store.PartitionID(p), uint64(node)-first)
			return t
		}
	}
	return -1
}
