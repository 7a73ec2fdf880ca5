package rows

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWindowByHand: row 4 makes room first, as nothing uses it again, then row 3, which is used again last.
func TestWindowByHand(t *testing.T) {
	l, err := newWindow(windowOptions{Rows: 100, Slots: 4, BatchRows: 2, Entries: 8, Held: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loads := 0
	decide := func() {
		var d decision
		l.Decide(&d)
		loads += len(d.Loads)
	}
	for _, rows := range [][]uint32{{1, 2}, {3, 4}, {1, 2}, {5, 6}, {1, 2}, {3, 5}} {
		for !l.Fits(len(rows)) {
			decide()
		}
		l.Push(rows)
	}
	for l.Pending() > 0 {
		decide()
	}
	if loads != 7 {
		t.Errorf("%d of 12 rows are loaded, expected 7", loads)
	}
}

// TestWindowKeepsWhatItSays replays random batches on a slab: each batch finds its rows where the decision says, what batches
// that may be in use hold is overwritten only behind After, and Fits keeps the window within Entries.
func TestWindowKeepsWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := windowOptions{Rows: rapid.IntRange(1, 60).Draw(t, "rows"), Held: rapid.IntRange(1, 3).Draw(t, "held")}
		o.BatchRows = rapid.IntRange(1, min(12, o.Rows)).Draw(t, "batch")
		o.Slots = o.BatchRows + rapid.IntRange(0, 30).Draw(t, "slots")
		o.Entries = o.BatchRows + rapid.IntRange(0, 60).Draw(t, "entries")
		if kinds := rapid.IntRange(0, 3).Draw(t, "kinds"); kinds > 0 { // row r is of kind r modulo these
			o.Slots = 0
			for k := range kinds {
				o.Kinds = append(o.Kinds, min(o.BatchRows, (o.Rows+kinds-1-k)/kinds)+rapid.IntRange(0, 10).Draw(t, "more"))
				o.Slots += o.Kinds[k]
			}
		}
		l, err := newWindow(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for row := range l.kind {
			l.kind[row] = uint8(row % len(o.Kinds))
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		slab := make([]uint32, o.Slots)
		var pushed [][]uint32
		var decided []decision // the last Held+1
		decide := func() {
			var d decision
			l.Decide(&d)
			if want := pushed[d.Batch]; !slices.Equal(d.Rows, want) {
				t.Fatalf("batch %d has rows %v, pushed were %v", d.Batch, d.Rows, want)
			}
			for _, i := range d.Loads {
				for _, e := range decided { // may be in use, unless d.After says to wait
					if e.Batch > d.After && slices.Contains(e.Slots, d.Slots[i]) {
						t.Fatalf("batch %d loads into slot %d of batch %d, after %d", d.Batch, d.Slots[i], e.Batch, d.After)
					}
				}
				slab[d.Slots[i]] = d.Rows[i]
			}
			for i, row := range d.Rows {
				if got := slab[d.Slots[i]]; got != row {
					t.Fatalf("batch %d: slot %d has row %d, expected %d", d.Batch, d.Slots[i], got, row)
				}
				if first := 0; o.Kinds != nil {
					kind := int(row) % len(o.Kinds)
					for _, n := range o.Kinds[:kind] {
						first += n
					}
					if s := int(d.Slots[i]); s < first || s >= first+o.Kinds[kind] {
						t.Fatalf("batch %d: row %d of kind %d lies in slot %d of %v", d.Batch, row, kind, s, o.Kinds)
					}
				}
			}
			if decided = append(decided, d); len(decided) > o.Held {
				decided = decided[1:]
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "batches") {
			rows := make([]uint32, 0, o.BatchRows)
			for _, v := range r.Perm(o.Rows)[:r.IntN(o.BatchRows+1)] {
				rows = append(rows, uint32(v))
			}
			for !l.Fits(len(rows)) {
				decide()
			}
			l.Push(rows)
			pushed = append(pushed, rows)
			sum := 0
			for _, b := range pushed[len(pushed)-l.Pending():] {
				sum += len(b)
			}
			if sum > o.Entries {
				t.Fatalf("%d rows are known and not decided, expected at most %d", sum, o.Entries)
			}
		}
		for l.Pending() > 0 {
			decide()
		}
	})
}

// loads runs batches of one row each through a cache and counts what it loads.
func loads(t *testing.T, o windowOptions, rows []uint32) (n int) {
	t.Helper()
	l, err := newWindow(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	decide := func() {
		var d decision
		l.Decide(&d)
		n += len(d.Loads)
	}
	for _, r := range rows {
		for !l.Fits(1) {
			decide()
		}
		l.Push([]uint32{r})
	}
	for l.Pending() > 0 {
		decide()
	}
	return n
}

// belady is the fewest loads that any cache makes which must keep the last held rows.
func belady(rows []uint32, slots, held int) (n int) {
	in := map[uint32]int{} // last use
	for t, r := range rows {
		if _, ok := in[r]; !ok {
			n++
			if len(in) == slots {
				worst, far := uint32(0), -1
				for c, used := range in {
					next := slices.Index(rows[t:], c)
					if next < 0 {
						next = len(rows)
					}
					if used < t-held && next > far {
						worst, far = c, next
					}
				}
				delete(in, worst)
			}
		}
		in[r] = t
	}
	return n
}

// TestWindowIsBelady: where all batches are known nothing loads less; where few are, it is between that and knowing none.
func TestWindowIsBelady(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		zipf := rand.NewZipf(r, 1.1, 4, 199)
		rows := make([]uint32, 1500)
		for i := range rows {
			rows[i] = uint32(zipf.Uint64())
		}
		o := windowOptions{Rows: 200, Slots: 20, BatchRows: 1, Entries: len(rows), Held: 2}
		all := loads(t, o, rows)
		if want := belady(rows, o.Slots, o.Held); all != want {
			t.Errorf("seed %d: %d loads where everything is known, the fewest are %d", seed, all, want)
		}
		o.Entries = 1
		none := loads(t, o, rows)
		o.Entries = 40
		some := loads(t, o, rows)
		if !(all < some && some < none) {
			t.Errorf("seed %d: %d loads where all batches are known, %d where 40 are, %d where none is: expected more each time", seed, all, some, none)
		}
		if lru := lruLoads(rows, o.Slots); none >= lru {
			t.Errorf("seed %d: counted uses load %d rows, least recent use %d", seed, none, lru)
		}
	}
}

func lruLoads(rows []uint32, slots int) (n int) {
	var in []uint32
	for _, r := range rows {
		if i := slices.Index(in, r); i >= 0 {
			in = slices.Delete(in, i, i+1)
		} else if n++; len(in) == slots {
			in = in[1:]
		}
		in = append(in, r)
	}
	return n
}

// TestWindowAllocatesNothing in steady state.
func TestWindowAllocatesNothing(t *testing.T) {
	l, err := newWindow(windowOptions{Rows: 1000, Slots: 100, BatchRows: 50, Entries: 200, Held: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, d, at := make([]uint32, 50), new(decision), uint32(0)
	step := func() {
		for i := range rows {
			rows[i] = (at + uint32(i)*7) % 1000
		}
		at += 13
		for !l.Fits(len(rows)) {
			l.Decide(d)
		}
		l.Push(rows)
	}
	for range 100 {
		step()
	}
	if n := testing.AllocsPerRun(200, step); n > .1 {
		t.Errorf("%.2f allocations a batch", n)
	}
}
