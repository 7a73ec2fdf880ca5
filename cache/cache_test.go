package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func ExamplePolicy() {
	p, err := New(Options{Policy: NameTracker, Rows: 100, Places: 4})
	if err != nil {
		panic(err)
	}
	defer p.Close() //nolint:errcheck // memory only
	var t Transfer
	for _, rows := range [][]uint32{{7, 8, 9}, {8, 9, 10}, {20, 21, 9}} {
		if err := p.Next(rows, &t); err != nil {
			panic(err)
		}
		fmt.Println("send", t.Send, "to", t.To)
	}
	fmt.Printf("%+v\n", p.Stats())
	// Output:
	// send [7 8 9] to [0 1 2]
	// send [10] to [3]
	// send [20 21] to [0 1]
	// {Hits:3 Misses:6 Pinned:0 Changed:0 Returned:0}
}

// slab replays transfers on real places and checks that each batch finds its rows where the policy says.
type slab struct {
	t     *rapid.T
	holds []uint32 // by place: the row, with the version that it had
}

func (s *slab) send(tr *Transfer, version func(uint32) uint32) {
	places := map[uint32]bool{}
	for i, r := range tr.Send {
		if places[tr.To[i]] {
			s.t.Fatalf("two rows of one transfer go to place %d", tr.To[i])
		}
		places[tr.To[i]] = true
		s.holds[tr.To[i]] = version(r)
	}
}

// TestPoliciesAgainstASlab: whatever batches, drops, pins and windows there are, rows lie where the policy says, as they
// are now; nothing that was held is sent again within the batch; hits and misses add up.
func TestPoliciesAgainstASlab(t *testing.T) {
	for _, name := range []string{NameNone, NameTracker, NameLookahead, NamePreSC} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rows := rapid.IntRange(1, 200).Draw(t, "rows")
				places := rapid.IntRange(0, 60).Draw(t, "places")
				o := Options{Policy: name, Rows: rows, Places: places, Batch: rapid.IntRange(0, rows).Draw(t, "room")}
				if name == NameLookahead {
					o.Window = rapid.IntRange(1, WindowMax).Draw(t, "window")
				}
				if name == NamePreSC {
					o.Hot = rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(rows-1)), 0, rows, rapid.ID).Draw(t, "hot")
				}
				p := must(New(o))
				defer p.Close() //nolint:errcheck // memory only
				versions := make([]uint32, rows)
				version := func(r uint32) uint32 { return versions[r]<<8 | r + 1 }
				s := slab{t: t, holds: make([]uint32, places+o.batch())}
				trace := &Trace{Rows: rows}
				dropped := map[int][][2]uint32{}
				for i := range rapid.IntRange(1, 40).Draw(t, "batches") {
					if rapid.IntRange(0, 5).Draw(t, "drop") == 0 {
						lo := rapid.Uint32Range(0, uint32(rows)).Draw(t, "lo")
						hi := rapid.Uint32Range(lo, uint32(rows)).Draw(t, "hi")
						trace.Drops = append(trace.Drops, DropRows{i, lo, hi})
						dropped[i] = append(dropped[i], [2]uint32{lo, hi})
					}
					trace.Batches = append(trace.Batches, rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(rows-1)), 0, rows, rapid.ID).Draw(t, "batch"))
				}
				var sent, total uint64
				if tr, ok := p.(*Tracker); ok {
					var pin Transfer
					if err := tr.Pin(rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(rows-1)), 0, rows, rapid.ID).Draw(t, "pin"), &pin); err != nil {
						t.Fatal(err)
					}
					s.send(&pin, version)
				}
				stats, err := trace.Replay(p, func(i int, tr *Transfer) {
					for _, d := range dropped[i] { // contents change; what is not sent again would be stale
						for r := d[0]; r < d[1]; r++ {
							versions[r]++
						}
					}
					if tr.Direct {
						if len(trace.Batches[i]) <= o.Batch {
							t.Fatalf("batch %d of %d rows is read directly, there is room for %d", i, len(trace.Batches[i]), o.Batch)
						}
						sent, total = sent+uint64(len(trace.Batches[i])), total+uint64(len(trace.Batches[i]))
						return
					}
					s.send(tr, version)
					sent += uint64(len(tr.Send))
					total += uint64(len(trace.Batches[i]))
					for k, r := range trace.Batches[i] {
						if got := s.holds[tr.Loc[k]]; got != version(r) {
							t.Fatalf("batch %d, row %d version %d: place %d holds %d version %d", i, r, versions[r], tr.Loc[k], got&255-1, got>>8)
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if name == NamePreSC { // what is pinned is sent beside
					if sent < stats.Misses || sent > stats.Misses+stats.Pinned {
						t.Fatalf("%+v: %d rows were sent", stats, sent)
					}
					sent = stats.Misses
				}
				if stats.Misses != sent || stats.Hits+stats.Misses != total {
					t.Fatalf("%+v: %d rows were sent of %d", stats, sent, total)
				}
			})
		})
	}
}

// misses is Belady's MIN with bypass as it is defined: the places keep what is used soonest of all that was there.
func misses(t *Trace, places int) (n uint64) {
	held := map[uint32]bool{}
	drops := t.Drops
	next := func(i int, r uint32) int {
		for j := i + 1; j < len(t.Batches); j++ {
			for _, d := range t.Drops {
				if d.Before == j && r >= d.Lo && r < d.Hi {
					return len(t.Batches)
				}
			}
			if slices.Contains(t.Batches[j], r) {
				return j
			}
		}
		return len(t.Batches)
	}
	for i, b := range t.Batches {
		for ; len(drops) > 0 && drops[0].Before <= i; drops = drops[1:] {
			for r := drops[0].Lo; r < drops[0].Hi; r++ {
				delete(held, r)
			}
		}
		for _, r := range b {
			if !held[r] {
				n++
				held[r] = true
			}
		}
		for len(held) > places {
			worst, far := uint32(0), -1
			for r := range held {
				if u := next(i, r); u > far {
					worst, far = r, u
				}
			}
			delete(held, worst)
		}
	}
	return n
}

// TestOracleIsOptimal compares with the definition, and no policy does better.
func TestOracleIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, places := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.IntRange(0, 20).Draw(t, "places")
		trace := &Trace{Rows: rows}
		for i := range rapid.IntRange(1, 30).Draw(t, "batches") {
			if i%7 == 6 {
				trace.Drops = append(trace.Drops, DropRows{i, 0, uint32(rapid.IntRange(0, rows).Draw(t, "dropped"))})
			}
			trace.Batches = append(trace.Batches, rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(rows-1)), 0, rows, rapid.ID).Draw(t, "batch"))
		}
		oracle := must(NewOracle(trace, places))
		defer oracle.Close() //nolint:errcheck // memory only
		stats := must(trace.Replay(oracle, nil))
		if want := misses(trace, places); stats.Misses != want {
			t.Fatalf("the oracle misses %d rows, MIN %d", stats.Misses, want)
		}
		for _, o := range []Options{{Policy: NameTracker}, {Policy: NameLookahead, Window: 3}, {Policy: NameLookahead, Window: WindowMax}} {
			o.Rows, o.Places = rows, places
			p := must(New(o))
			defer p.Close() //nolint:errcheck // memory only
			got := must(trace.Replay(p, nil))
			if got.Misses < stats.Misses {
				t.Fatalf("%s misses %d rows, the oracle %d", p.Name(), got.Misses, stats.Misses)
			}
			if o.Window == WindowMax && len(trace.Drops) == 0 && got.Misses != stats.Misses {
				t.Fatalf("with all batches announced %d rows are missed, the oracle misses %d", got.Misses, stats.Misses)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, o := range []Options{{Policy: "lru"}, {Rows: -1}, {Places: -1}, {Window: WindowMax + 1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	var tr Transfer
	for _, name := range []string{NameTracker, NameLookahead} {
		p := must(New(Options{Policy: name, Rows: 10, Places: 2}))
		if err := p.Next([]uint32{10}, &tr); !errors.Is(err, ErrRow) {
			t.Errorf("%s: row 10 of 10: %v", name, err)
		}
	}
	b := must(New(Options{Rows: 10, Places: 2, Window: 1}))
	for _, rows := range [][]uint32{{1}, {2}} {
		if err := b.Announce(rows); err != nil {
			t.Error(err)
		}
	}
	if err := b.Announce([]uint32{3}); !errors.Is(err, ErrAnnounced) {
		t.Errorf("a batch beyond the window: %v", err)
	}
	if err := b.Next([]uint32{2}, &tr); !errors.Is(err, ErrAnnounced) {
		t.Errorf("another batch than announced: %v", err)
	}
	oracle := must(NewOracle(&Trace{Rows: 3, Batches: [][]uint32{{1}}}, 1))
	if err := oracle.Next([]uint32{1, 2}, &tr); !errors.Is(err, ErrAnnounced) {
		t.Errorf("a batch of another trace: %v", err)
	}
}

// TestDropKeepsPinnedRows: a macro-batch whose other partitions change keeps its hubs on the device.
func TestDropKeepsPinnedRows(t *testing.T) {
	p := must(NewTracker(Options{Rows: 100, Places: 10}))
	var tr Transfer
	if err := p.Pin([]uint32{90, 91, 92}, &tr); err != nil || !slices.Equal(tr.Send, []uint32{90, 91, 92}) {
		t.Fatalf("pin sends %v, %v", tr.Send, err)
	}
	next := func(rows []uint32, want ...uint32) {
		t.Helper()
		if err := p.Next(rows, &tr); err != nil || !slices.Equal(tr.Send, want) {
			t.Errorf("batch %v sends %v, %v; expected %v", rows, tr.Send, err, want)
		}
	}
	next([]uint32{90, 1, 2}, 1, 2)
	p.Drop(0, 90)
	next([]uint32{91, 1, 2, 92}, 1, 2)
	p.Drop(92, 93) // the fixed region ends before it
	next([]uint32{90, 91, 92}, 92)
	if err := p.Pin([]uint32{92, 50}, &tr); err != nil || !slices.Equal(tr.Send, []uint32{92, 50}) && !slices.Equal(tr.Send, []uint32{50}) {
		t.Errorf("pin sends %v, %v", tr.Send, err)
	}
	for r := range uint32(40) {
		next([]uint32{r, r + 40}, slices.DeleteFunc([]uint32{r, r + 40}, func(r uint32) bool { return r == 50 || (r == 1 || r == 2) && p.at(r) != 0 })...)
	}
	next([]uint32{90, 91, 92, 50})
}

// TestReorderFollowsTheMatrix compares with Algorithm 1 as written: the whole
// matrix of match degrees.
func TestReorderFollowsTheMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const rows = 3000 // counters of 8 bits run over within a batch
	o := must(NewReorder(rows))
	for n := range ReorderMax + 1 {
		batches := make([][]uint32, n)
		for i := range batches {
			for r := range uint32(rows) {
				if rng.IntN(4) == 0 {
					batches[i] = append(batches[i], r)
				}
			}
		}
		for range 2 { // the second time over the marks of the first
			if got, want := must(o.Order(batches)), reorderByMatrix(batches); !slices.Equal(got, want) {
				t.Errorf("%d batches: order %v, Algorithm 1 gives %v", n, got, want)
			}
		}
	}
	if _, err := o.Order(make([][]uint32, ReorderMax+1)); err == nil {
		t.Error("a window too large was accepted")
	}
	if _, err := o.Order([][]uint32{{rows}}); !errors.Is(err, ErrRow) {
		t.Errorf("row %d of %d: %v", rows, rows, err)
	}
	batches := [][]uint32{{1, 2}, {3}, {2}}
	if n := testing.AllocsPerRun(100, func() { _ = must(o.Order(batches)) }); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func reorderByMatrix(batches [][]uint32) []int {
	order := []int{}
	for z := 0; len(order) < len(batches); {
		order = append(order, z)
		best := -1
		for k := range batches {
			if !slices.Contains(order, k) && (best < 0 || match(batches[z], batches[k]) > match(batches[z], batches[best])) {
				best = k
			}
		}
		z = best
	}
	return order
}

func match(a, b []uint32) (n int) {
	for _, r := range a {
		if _, ok := slices.BinarySearch(b, r); ok {
			n++
		}
	}
	return n
}

func TestHotness(t *testing.T) {
	h := must(NewHotness(6))
	for _, b := range [][]uint32{{1, 3}, {3, 5}, {3, 1, 0}} {
		h.Observe(b)
	}
	if got := h.Hottest(3); !slices.Equal(got, []uint32{3, 1, 0}) {
		t.Errorf("hottest three: %v", got)
	}
	if got := h.Hottest(99); !slices.Equal(got, []uint32{3, 1, 0, 5}) {
		t.Errorf("all visited: %v", got)
	}
	if got := must(NewHotness(3)).Hottest(2); len(got) != 0 {
		t.Errorf("nothing was visited: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		h := must(NewHotness(50))
		copy(h.visits, rapid.SliceOfN(rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32Range(1<<16-2, 1<<16+2)), 50, 50).Draw(t, "visits"))
		var all []uint32
		for r, v := range h.visits {
			if v > 0 {
				all = append(all, uint32(r))
			}
		}
		slices.SortStableFunc(all, func(a, b uint32) int { return int(h.visits[b]) - int(h.visits[a]) })
		n := rapid.IntRange(0, 60).Draw(t, "count")
		if got, want := h.Hottest(n), all[:min(n, len(all))]; !slices.Equal(got, want) {
			t.Fatalf("hottest %d: %v, expected %v", n, got, want)
		}
	})
}

// TestDivide: the two caches save at least what each alone saves with the room, nothing exceeds the room, and lists that
// nobody reads get none.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "rows")
		number := func(most uint32, what string) []uint32 {
			return rapid.SliceOfN(rapid.Uint32Range(0, most), n, n).Draw(t, what)
		}
		w := Workload{RowBytes: 16, Visits: number(9, "visits"), ListBytes: number(60, "lists"), ListReads: number(200, "reads")}
		room := rapid.Int64Range(0, 1000).Draw(t, "room")
		d := Divide(room, w)
		if d.RoomBytes[0]+d.RoomBytes[1] > room || d.RoomBytes[0] != int64(len(d.Features))*16 {
			t.Fatalf("%v of %d bytes for %d rows", d.RoomBytes, room, len(d.Features))
		}
		one := Divide(room, Workload{RowBytes: 16, Visits: w.Visits})
		if d.benefit(&w) < one.benefit(&w) || len(one.Lists) > 0 {
			t.Fatalf("two caches save %v, one saves %v", d.SavedBytes, one.SavedBytes)
		}
		// One cache of equal rows is the hottest of them.
		h := must(NewHotness(n))
		copy(h.visits, w.Visits)
		var saved int64
		for _, r := range h.Hottest(int(room / 16)) {
			saved += int64(w.Visits[r]) * 16
		}
		if one.SavedBytes[0] != saved {
			t.Fatalf("one cache saves %d bytes, the hottest rows %d", one.SavedBytes[0], saved)
		}
		clear(w.ListReads)
		if d := Divide(room, w); len(d.Lists) > 0 {
			t.Fatalf("%d lists are kept that nobody reads", len(d.Lists))
		}
	})
	// Room goes where a byte of it saves most.
	w := Workload{RowBytes: 100, Visits: []uint32{5, 1}, ListBytes: []uint32{40, 40}, ListReads: []uint32{120, 400}}
	if d := Divide(180, w); !slices.Equal(d.Features, []uint32{0}) || !slices.Equal(d.Lists, []uint32{0, 1}) {
		t.Errorf("%+v", d)
	}
}

// TestLookaheadGrows: a long window is asked for by and by, and anew where announced batches ran out; it is as good for what it knows.
func TestLookaheadGrows(t *testing.T) {
	p := must(New(Options{Policy: NameLookahead, Rows: 10, Places: 4, Window: 40}))
	defer p.Close() //nolint:errcheck // memory only
	var tr Transfer
	rows := []uint32{1, 2}
	for pass := range 2 {
		told := 0
		for batch := range 100 {
			want := min(WindowDefault+batch, 40)
			if w := p.Window(); w != want {
				t.Fatalf("pass %d, batch %d: a window of %d, expected %d", pass, batch, w, want)
			}
			for ; told <= min(batch+want, 99); told++ {
				if err := p.Announce(rows); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Next(rows, &tr); err != nil {
				t.Fatal(err)
			}
		}
	}
}
