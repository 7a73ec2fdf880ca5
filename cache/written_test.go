package cache

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWritten: whatever policy, batches, drops and flushes there are, each batch finds its rows as the batches before left them, and
// after a flush so does the host; what went back and what came is what the stats and a replay say.
func TestWritten(t *testing.T) {
	for _, name := range []string{NameNone, NameTracker, NameLookahead} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rows := rapid.IntRange(1, 120).Draw(t, "rows")
				o := Options{Policy: name, Rows: rows, Places: rapid.IntRange(0, 80).Draw(t, "places"), Written: true}
				if name == NameLookahead {
					o.Window = rapid.IntRange(1, 6).Draw(t, "window")
				}
				trace := &Trace{Rows: rows}
				for i := range rapid.IntRange(1, 30).Draw(t, "batches") {
					if i > 0 && rapid.IntRange(0, 5).Draw(t, "a step begins") == 0 {
						trace.Ends = append(trace.Ends, i)
						if rapid.Bool().Draw(t, "drop") {
							lo := rapid.Uint32Range(0, uint32(rows)).Draw(t, "lo")
							trace.Drops = append(trace.Drops, DropRows{Before: i, Lo: lo, Hi: rapid.Uint32Range(lo, uint32(rows)).Draw(t, "hi")})
						}
					}
					trace.Batches = append(trace.Batches, rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(rows-1)), 0, rows, rapid.ID).Draw(t, "batch"))
				}
				p := must(New(o))
				defer p.Close() //nolint:errcheck // memory only
				host, newest := make([]int, rows), make([]int, rows)
				places := make([]int, o.Places+o.batch())
				sent, back := 0, 0
				returned := func(tr *Transfer) {
					for i, r := range tr.Back {
						host[r] = places[tr.From[i]]
					}
					back += len(tr.Back)
				}
				var tr Transfer
				most := rapid.IntRange(1, 90).Draw(t, "rows a piece")
				flush := func() {
					for more := true; more; {
						if more = Flush(p, &tr, most); len(tr.Back) > most || more && len(tr.Back) < most {
							t.Fatalf("a piece of %d rows, expected %d", len(tr.Back), most)
						}
						returned(&tr)
					}
				}
				told, ends, drops := 0, trace.Ends, trace.Drops
				for i, batch := range trace.Batches {
					if len(ends) > 0 && ends[0] == i {
						flush()
						if !slices.Equal(host, newest) {
							t.Fatalf("batch %d: after a flush the host has %v, expected %v", i, host, newest)
						}
						ends = ends[1:]
					}
					for ; len(drops) > 0 && drops[0].Before == i; drops = drops[1:] {
						p.Drop(drops[0].Lo, drops[0].Hi)
						for r := drops[0].Lo; r < drops[0].Hi; r++ { // other nodes' rows
							host[r], newest[r] = 1000*i, 1000*i
						}
					}
					end := min(len(trace.Batches), i+p.Window()+1)
					if len(drops) > 0 {
						end = min(end, drops[0].Before)
					}
					for ; told < end; told++ {
						if err := p.Announce(trace.Batches[told]); err != nil {
							t.Fatal(err)
						}
					}
					if err := p.Next(batch, &tr); err != nil {
						t.Fatal(err)
					}
					returned(&tr)
					for k, r := range tr.Send {
						places[tr.To[k]] = host[r]
					}
					sent += len(tr.Send)
					for k, r := range batch {
						if places[tr.Loc[k]] != newest[r] {
							t.Fatalf("batch %d: row %d is %d in place %d, expected %d", i, r, places[tr.Loc[k]], tr.Loc[k], newest[r])
						}
						newest[r]++
						places[tr.Loc[k]]++
					}
				}
				flush()
				if !slices.Equal(host, newest) {
					t.Fatalf("at the end the host has %v, expected %v", host, newest)
				}
				s := p.Stats()
				if int(s.Misses) != sent || int(s.Returned) != back || s.Changed != s.Hits+s.Misses {
					t.Fatalf("%+v, sent %d, returned %d", s, sent, back)
				}
				q := must(New(o))
				defer q.Close() //nolint:errcheck // memory only
				if again := must(trace.Replay(q, nil)); again != s {
					t.Fatalf("replayed %+v, counted %+v", again, s)
				}
			})
		})
	}
}

// TestWrittenNeedsPlaces: a batch of rows that change is not read from where they are, as rows in places would be older.
func TestWrittenNeedsPlaces(t *testing.T) {
	p := must(New(Options{Policy: NameTracker, Rows: 10, Places: 2, Batch: 1, Written: true}))
	defer p.Close() //nolint:errcheck // memory only
	if err := p.Next([]uint32{1, 2, 3, 4}, &Transfer{}); !errors.Is(err, ErrDirect) {
		t.Errorf("four rows in three places: %v", err)
	}
}
