package targets

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
)

// TestCountsAreBounded: of tables that many others refer to not all of them are counted.
func TestCountsAreBounded(t *testing.T) {
	m := &store.Manifest{Schema: store.Schema{NodeTypes: []store.NodeType{{Name: "a"}, {Name: "b"}}}}
	for r := range 100 {
		m.Schema.Relations = append(m.Schema.Relations, store.Relation{Name: fmt.Sprintf("b:to%d:a", r)}, store.Relation{Name: fmt.Sprintf("a:of%d:b", r)})
	}
	d := describe(m, &Config{Counts: said}, "a")
	if len(d.counted[0]) != countedMost || len(d.counted[1]) != countedMost || len(d.through) != countedMost {
		t.Errorf("%d and %d relations and %d pairs are counted, expected %d of each", len(d.counted[0]), len(d.counted[1]), len(d.through), countedMost)
	}
	if d := describe(m, &Config{}, "a"); d.counted != nil || d.through != nil {
		t.Error("a model of before counts rows")
	}
}

// TestCounts: how many books an author has at a moment, and how many reviews those have, are counted as from the tables; a row that comes
// later, if by a second, is none.
func TestCounts(t *testing.T) {
	const authors, day = 30, 86400
	dir := t.TempDir()
	people, books, reviews := bytes.NewBufferString("id\n"), bytes.NewBufferString("id,author,at\n"), bytes.NewBufferString("book,at\n")
	r := keyed.New(3).Rand(0)
	type row struct {
		of   int
		time int64
	}
	var written, opinions []row
	for a := range authors {
		fmt.Fprintln(people, a)
		for range r.Below(300) / (1 + uint64(a%7)) { // of some more than are looked through
			written = append(written, row{a, int64(r.Below(800)) * day})
		}
	}
	for b, w := range written {
		fmt.Fprintf(books, "%d,%d,%d\n", b, w.of, w.time)
		for range r.Below(4) {
			opinions = append(opinions, row{b, w.time + int64(r.Below(200))*day})
			fmt.Fprintf(reviews, "%d,%d\n", b, opinions[len(opinions)-1].time)
		}
	}
	for name, text := range map[string]string{"author.csv": people.String(), "book.csv": books.String(), "review.csv": reviews.String(),
		"schema.yaml": "tables:\n  author: {key: id}\n  book: {key: id, time: at, references: [{columns: author, table: author}]}\n" +
			"  review: {time: at, references: [{columns: book, table: book}]}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(ingesttest.Store(t, dir, ingest.Options{Partitions: 3}), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close() //nolint:errcheck // test
	cfg := Config{Targets: "-", Fanouts: []int{4, 2}, Counts: said}
	if err := cfg.Normalize(); err != nil {
		t.Fatal(err)
	}
	o, err := open(t.Context(), st, dev, &cfg, use{entity: "author"})
	if err != nil {
		t.Fatal(err)
	}
	// columns are those of so many rows in all, and within each span.
	columns := func(all int, within [len(spans)]int) (want []float32) {
		for k := 1; k < len(knots); k++ {
			want = append(want, float32(min(max((float64(all)-knots[k-1])/(knots[k]-knots[k-1]), 0), 1)))
		}
		for _, n := range append([]int{all}, within[:]...) {
			want = append(want, float32(math.Log(float64(1+n))/4))
		}
		return want
	}
	kind := func(name string) int {
		for k, n := range o.names {
			if n == name {
				return k
			}
		}
		return -1
	}
	for a := range authors {
		id, err := st.Lookup(t.Context(), fmt.Sprintf("author:%d", a))
		if err != nil {
			t.Fatal(err)
		}
		at, err := o.row(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, moment := range []int64{-1, 0, 365 * day, int64(r.Below(800)) * day, 1000 * day} {
			var known []int
			for b, w := range written {
				if w.of == a && w.time <= moment {
					known = append(known, b)
				}
			}
			tell := func(rows []row, of func(k int) bool) []float32 {
				var all int
				var within [len(spans)]int
				for k, x := range rows {
					if x.time > moment || !of(k) {
						continue
					}
					all++
					for s, days := range spans {
						if x.time > moment-days*day {
							within[s]++
						}
					}
				}
				return columns(all, within)
			}
			same := func(what string, got, want []float32) {
				t.Helper()
				if len(got) != len(want) {
					t.Fatalf("%s: %d columns, expected %d", what, len(got), len(want))
				}
				for k := range want {
					if math.Abs(float64(got[k]-want[k])) > 1e-6 {
						t.Fatalf("%s of author %d at %d: column %d is %v, expected %v", what, a, moment, k, got[k], want[k])
					}
				}
			}
			same("books", o.appendCounts(nil, kind("author"), at, moment), tell(written, func(k int) bool { return written[k].of == a }))
			if len(known) <= throughMost {
				same("reviews", o.appendThrough(nil, at, moment), tell(opinions, func(k int) bool { return written[opinions[k].of].of == a }))
			}
		}
	}
	if got := o.countColumns(kind("review")); got != 0 {
		t.Errorf("%d columns of what nothing refers to", got)
	}
}
