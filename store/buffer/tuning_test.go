package buffer_test

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// TestTuning checks what decides how an iterator reads, and that the metrics say it.
func TestTuning(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 2000, Partitions: 4, Dim: 8}))
	for _, c := range []struct {
		name     string
		store    store.ReadTuning
		o        buffer.Options
		want     store.ReadTuning
		why      string
		inflight uint64
	}{
		{name: "small store", want: store.ReadTuning{GapBytes: 64 << 10, RequestBytes: 1 << 20, Depth: blockio.DefaultDepth}, why: "not worth a measurement"},
		{name: "by the store", store: store.ReadTuning{GapBytes: 4096, RequestBytes: 64 << 10, Depth: 3},
			want: store.ReadTuning{GapBytes: 4096, RequestBytes: 64 << 10, Depth: 3}, why: "given"},
		{name: "by the iterator", store: store.ReadTuning{GapBytes: 4096, RequestBytes: 64 << 10, Depth: 3}, o: buffer.Options{GapBytes: -1, Depth: 1},
			want: store.ReadTuning{GapBytes: 0, RequestBytes: 64 << 10, Depth: 1}, why: "given", inflight: 1},
		{name: "page cache", o: buffer.Options{Buffered: true}, want: store.ReadTuning{GapBytes: 64 << 10, RequestBytes: 1 << 20, Depth: blockio.DefaultDepth}, why: "page cache"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := storetest.Open(t, dir, store.Options{Reads: c.store})
			c.o.EngineName, c.o.Features, c.o.Capacity = "pread", []string{"x"}, 2
			it, err := buffer.Open(ctx, s, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			f, err := buffer.OpenForecaster(ctx, s, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			plan := buffer.Plan{Capacity: 2, Steps: []buffer.Step{{Resident: []store.PartitionID{0, 1}}, {Resident: []store.PartitionID{1, 3}}}}
			if err := it.Start(plan); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			st := it.Stats()
			got := st.Tuning
			if got != f.Tuning() || !strings.Contains(got.Why, c.why) {
				t.Errorf("iterator %+v, forecast %+v, expected %q", got, f.Tuning(), c.why)
			}
			if got.Why = ""; got != c.want {
				t.Errorf("%+v, expected %+v", got, c.want)
			}
			if c.inflight > 0 && st.IO.InFlightMax > c.inflight {
				t.Errorf("%d requests in flight, expected at most %d", st.IO.InFlightMax, c.inflight)
			}
			_, epochs, err := f.Epochs(2, 0, 0, plan)
			if err != nil {
				t.Fatal(err)
			}
			if e := epochs[0].Total; e.Bytes() != st.BytesRead || int64(e.Requests) != st.Requests {
				t.Errorf("read %d bytes in %d requests, forecast %d in %d", st.BytesRead, st.Requests, e.Bytes(), e.Requests)
			}
		})
	}
}

// TestForecasterRefuses: what no buffer would be opened with has no forecast.
func TestForecasterRefuses(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{})), store.Options{})
	for name, o := range map[string]buffer.Options{"capacity": {Capacity: -1}, "engine": {EngineName: "none", Depth: 1}, "requests": {RequestBytes: 5}} {
		if _, err := buffer.OpenForecaster(ctx, s, o); (err == nil) != (name == "engine") { // which a forecast does not read by
			t.Errorf("%s: %v", name, err)
		}
	}
}
