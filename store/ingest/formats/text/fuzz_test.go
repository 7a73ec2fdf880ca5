package text

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Whatever the text, every line of an edge list is an edge, is skipped, or an error; the
// fast path reads what the plain one reads.
func FuzzEdgeListLines(f *testing.F) {
	f.Add([]byte("1\t2\n3\t4\n# x\n\n5\t6"), byte('\t'))
	f.Add([]byte("18446744073709551615 0\n"), byte(' '))
	f.Add([]byte("\"1\",2\n3,\"4\n\"\n5,6\n"), byte(','))
	f.Fuzz(func(t *testing.T, b []byte, delimiter byte) {
		if delimiter == 0 || delimiter == '\n' || delimiter >= '0' && delimiter <= '9' {
			return
		}
		parse := func(columns []string) *lineParser {
			s := &EdgeLines{o: table.Options{SkipBadMax: 1 << 40}, text: Dialect{delimiter: delimiter, quotes: delimiter == ','}}
			if err := s.setFields(columns); err != nil {
				t.Fatal(err)
			}
			s.Desc.IDs = store.IDsIntegers
			p := &lineParser{}
			if err := s.parse(p, "f", Block{Data: bytes.Clone(b), Line: 1}); err != nil {
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

// Records cut from a block of whole records are those that encoding/csv reads, wherever it reads any.
func FuzzQuotedRecords(f *testing.F) {
	f.Add([]byte("a,\"b\nc\"\n\"d\"\"e\",f\n"))
	f.Add([]byte("\"a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.ContainsAny(b, "\r \t#") {
			return // blanks are cut off here, and returns kept there
		}
		d := Dialect{delimiter: ',', quotes: true}
		r := csv.NewReader(bytes.NewReader(b))
		r.FieldsPerRecord = -1
		want, err := r.ReadAll()
		if err != nil {
			return
		}
		if whole := d.wholeRecords(b); whole > 0 && b[whole-1] != '\n' || whole < 0 || !bytes.HasSuffix(b, []byte("\n")) && bytes.IndexByte(b[whole:], '"') < 0 && bytes.IndexByte(b[whole:], '\n') >= 0 {
			t.Fatalf("%d whole bytes of %q", whole, b)
		}
		var got [][]string
		for rest := bytes.Clone(b); len(rest) > 0; {
			var line []byte
			line, rest, _, _ = d.next(rest)
			if len(line) == 0 {
				continue
			}
			fields, err := d.split(nil, line)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			var row []string
			for _, f := range fields {
				row = append(row, string(f))
			}
			got = append(got, row)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q of %q, expected %q", got, b, want)
		}
	})
}
