package buffer_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

// TestRuns: a buffer that holds columns of one node type without rows of others has the rows of one that fills these in, in every step
// of every plan, reads the same bytes and takes as much as was forecast, which is less. Partitions that come next lie where they are said to.
func TestRuns(t *testing.T) {
	graph, _ := storetest.Typed(t)
	dir := ingesttest.Store(t, graph, ingest.Options{Partitions: 6, Seed: 1})
	st := storetest.Open(t, dir, store.Options{})
	features := []string{"paper.feat", "venue.feat", "node_type", "author.node"}
	for _, capacity := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			var its [2]*buffer.Buffer
			together := capacity
			if together == 0 {
				together = 6
			}
			plan := buffer.Plan{Policy: "hanoi"}
			for p := 0; p+together <= 6; p += together {
				var s buffer.Step
				for k := range together {
					s.Resident = append(s.Resident, store.PartitionID(p+k))
				}
				s.Train = s.Resident
				plan.Steps = append(plan.Steps, s)
			}
			for i, runs := range []bool{false, true} {
				o := buffer.Options{Capacity: capacity, Features: features, Runs: runs, Labels: true, RequestBytes: 64 << 10, Threads: 1}
				f, err := buffer.OpenForecaster(t.Context(), st, o)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close() //nolint:errcheck // test
				want, err := f.DoubleBytes(capacity, 0)
				if err != nil {
					t.Fatal(err)
				}
				if its[i], err = buffer.Open(t.Context(), st, o); err != nil {
					t.Fatal(err)
				}
				defer its[i].Close() //nolint:errcheck // test
				if got := its[i].MemoryBytes(); got != want {
					t.Errorf("runs %v: %d bytes, forecast %d", runs, got, want)
				}
			}
			if whole, runs := its[0].MemoryBytes(), its[1].MemoryBytes(); runs >= whole {
				t.Errorf("%d bytes by runs, %d with all rows", runs, whole)
			}
			for range 2 { // again, when slots have held others
				for _, it := range its {
					if err := it.Start(plan); err != nil {
						t.Fatal(err)
					}
				}
				steps := 0
				for its[0].Next() && its[1].Next() {
					steps++
					sameRows(t, its[0].MacroBatch(), its[1].MacroBatch())
					checkNext(t, its[1])
				}
				for _, it := range its {
					if err := it.Err(); err != nil {
						t.Fatal(err)
					}
				}
				if steps != len(plan.Steps) {
					t.Errorf("%d steps of %d", steps, len(plan.Steps))
				}
			}
			if whole, runs := its[0].BytesRead(), its[1].BytesRead(); whole != runs {
				t.Errorf("%d bytes read by runs, %d with all rows", runs, whole)
			}
		})
	}
}

// sameRows compares the features of a macro-batch's nodes with those of one whose columns have all rows.
func sameRows(t *testing.T, whole, runs *buffer.MacroBatch) {
	t.Helper()
	for i := range whole.Features {
		w, r := &whole.Features[i], &runs.Features[i]
		if (r.Runs == nil) != (w.Name == "node_type") || w.Runs != nil {
			t.Fatalf("column %s: runs %v", w.Name, r.Runs)
		}
		if r.Runs != nil && r.Rows() >= w.Rows() && whole.Rows > 64*len(whole.Partitions) {
			t.Errorf("column %s: %d rows, of all nodes %d", w.Name, r.Rows(), w.Rows())
		}
		width := w.Dim * w.Type.Size()
		stored := 0
		for k, p := range whole.Partitions {
			own := runs.Partitions[k]
			if own.ID != p.ID || own.Nodes != p.Nodes {
				t.Fatalf("partitions %v and %v", whole.Partitions, runs.Partitions)
			}
			for n := range p.Nodes {
				at := own.Base + n
				if r.Runs != nil {
					if at = r.Runs.Place(at); at > 0 {
						stored++
					}
				}
				a, b := w.Data[int(p.Base+n)*w.Stride:][:width], r.Data[int(at)*r.Stride:][:width]
				if !bytes.Equal(a, b) {
					t.Fatalf("column %s, partition %d, node %d: %v, expected %v", w.Name, p.ID, n, b, a)
				}
			}
		}
		if r.Runs != nil && (stored == 0 || stored > r.Rows()) {
			t.Errorf("column %s: %d nodes have one of %d rows", r.Name, stored, r.Rows())
		}
	}
}

// checkNext waits for the partitions of the next step, if one is to come, whose rows lie where those of no other do.
func checkNext(t *testing.T, it *buffer.Buffer) {
	t.Helper()
	mb := it.MacroBatch()
	taken := map[uint32]bool{}
	for _, ps := range [][]buffer.ResidentPartition{mb.Partitions, it.Upcoming()} {
		for _, p := range ps {
			first, rows, place := mb.Features[0].Runs.Of(p)
			if first < p.Base || first+rows > p.Base+p.Nodes {
				t.Errorf("partition %v: rows %d … %d", p, first, first+rows)
			}
			for k := range rows {
				if at := place + k; at == 0 || taken[at] {
					t.Errorf("partition %d: row %d is another's", p.ID, at)
				} else {
					taken[at] = true
				}
			}
		}
	}
}
