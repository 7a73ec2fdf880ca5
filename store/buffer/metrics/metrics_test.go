package metrics_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/store/storetest"
)

// What a Writer writes, Read reads back.
func TestRoundTrip(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 1200, Edges: 1000, Partitions: 4})
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	it, err := buffer.Open(t.Context(), s, buffer.Options{Capacity: 1, Features: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	plan := buffer.Plan{Policy: "hanoi", Capacity: 1}
	for p := range store.PartitionID(4) {
		plan.Steps = append(plan.Steps, buffer.Step{Resident: []store.PartitionID{p}, Train: []store.PartitionID{p}})
	}
	var b bytes.Buffer
	w := metrics.NewWriter(&b)
	var bytesRead int64
	for range 2 {
		if err := it.Start(plan); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
		}
		st := it.Stats()
		bytesRead += st.BytesRead
		if err := w.Epoch(st); err != nil {
			t.Fatal(err)
		}
	}
	if it.BytesRead() != bytesRead {
		t.Errorf("BytesRead is %d, epochs add up to %d", it.BytesRead(), bytesRead)
	}
	if err := w.Event(map[string]any{"event": "summary", "note": 1}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	m, err := metrics.Read(strings.NewReader(text + `{"event":"st`)) // a run that was killed
	if err != nil {
		t.Fatal(err)
	}
	var steps, epochs int64
	last := 0.0
	for _, s := range m.Steps {
		steps += s.BytesRead
		if s.Begin < last || s.End < s.Begin || s.Ready > s.Begin {
			t.Errorf("step %d: ready %v, begin %v, end %v after %v", s.Step, s.Ready, s.Begin, s.End, last)
		}
		last = s.End
	}
	for _, e := range m.Epochs {
		epochs += e.BytesRead
	}
	if len(m.Steps) != 8 || len(m.Epochs) != 2 || steps != bytesRead || epochs != bytesRead {
		t.Errorf("%d steps of %d bytes, %d epochs of %d, expected 8 and 2 of %d", len(m.Steps), steps, len(m.Epochs), epochs, bytesRead)
	}
	if _, err := metrics.Read(strings.NewReader("no json\n" + text)); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a bad first line: %v", err)
	}
}
