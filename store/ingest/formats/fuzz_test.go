package formats

import (
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// Whatever the text, every line of an edge list is an edge, is skipped, or an error; the
// fast path reads what the plain one reads.
func FuzzEdgeListLines(f *testing.F) {
	f.Add([]byte("1\t2\n3\t4\n# x\n\n5\t6"), byte('\t'))
	f.Add([]byte("18446744073709551615 0\n"), byte(' '))
	f.Fuzz(func(t *testing.T, b []byte, delimiter byte) {
		if delimiter == 0 || delimiter == '\n' || delimiter >= '0' && delimiter <= '9' {
			return
		}
		parse := func(columns []string) *lineParser {
			s := &edgeList{}
			if err := s.setOptions(TextOptions{Columns: columns, Delimiter: delimiter, SkipBadMax: 1 << 40}); err != nil {
				t.Fatal(err)
			}
			s.desc.IDs = store.IDsIntegers
			p := &lineParser{}
			if err := s.parse(p, "f", textBlock{data: b, line: 1}); err != nil {
				t.Fatal(err)
			}
			return p
		}
		p := parse([]string{"src", "dst"})
		q := parse([]string{"dst", "src"}) // has no fast path
		if p.batch.Len() != q.batch.Len() || len(p.lines) != p.batch.Len() {
			t.Fatalf("%d and %d edges", p.batch.Len(), q.batch.Len())
		}
		for i, s := range p.batch.Src.Ints {
			if s != q.batch.Dst.Ints[i] || p.batch.Dst.Ints[i] != q.batch.Src.Ints[i] {
				t.Fatalf("edge %d differs between the fast and the plain path", i)
			}
		}
	})
}

var _ ingest.Source = (*ogbFolder)(nil)
