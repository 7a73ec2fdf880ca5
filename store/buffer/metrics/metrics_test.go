package metrics_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestBound: of a run with more steps and samples than are kept, whole epochs of steps are left out, and epochs stay.
func TestBound(t *testing.T) {
	var b bytes.Buffer
	w := metrics.NewWriter(&b)
	w.Bound(9)
	for e := range 4 {
		s := buffer.Stats{Epoch: e, Policy: "hanoi"}
		for k := range 4 {
			s.Steps = append(s.Steps, buffer.StepStats{Epoch: e, Step: k, Partitions: []store.PartitionID{2, 7}, Loads: []store.PartitionID{7}})
		}
		for k := range 6 {
			s.Samples = append(s.Samples, buffer.BandwidthSample{At: time.Duration(5*e+k) * buffer.SampleInterval})
		}
		if err := w.Epoch(s); err != nil {
			t.Fatal(err)
		}
	}
	m, err := metrics.Read(&b)
	if err != nil || len(m.Epochs) != 4 || len(m.Steps) != 8 || len(m.Samples) != 9 {
		t.Fatalf("%v: %d epochs, %d steps, %d samples", err, len(m.Epochs), len(m.Steps), len(m.Samples))
	}
	if s := m.Steps[7]; s.Epoch != 2 || !slices.Equal(s.Partitions, []int{2, 7}) || !slices.Equal(s.Loads, []int{7}) {
		t.Errorf("%+v", s)
	}
}
