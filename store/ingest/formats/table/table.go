// Package table is what tables of edges and nodes have in common, whichever file they stand in: columns with names and
// types, batches of rows, and what columns mean, by the user's options or by the names that people give them. Packages
// text and parquet read the files.
package table

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// Column is a column of a table: a text file with a header, or Parquet.
type Column struct {
	Name string
	Text bool            // strings
	Elem blocks.ElemType // of numbers; Invalid = written as text
	Dim  int             // elements a row: 1 but for lists
	List bool
	// date says of numbers and text that they are times, as far as the type or the first rows tell; mixed and empty
	// that the first rows of a text table have numbers and text, or no values; example is such a text.
	Date, Mixed, Empty bool
	Example            string
	// strange says why the column cannot be read; "" = it can be.
	Strange string
	Boolean bool // text, all of it True or False
}

// Head is what a table says of its columns.
type Head interface {
	Where() string
	Columns() []Column
}

// Table is a file with rows of named columns.
type Table interface {
	Head
	// use says that the columns will be read, in this pass or another.
	Use(want []Want)
	// read streams the named columns, each a place in columns, batch by batch in
	// the order of rows. Numbers are wanted as the elem of want (Invalid = text).
	Read(ctx context.Context, env ingest.Env, want []Want, emit func(*Batch) error) error
}

// ListMark begins each element of a list that is read as text; where it stands alone the list is empty.
const ListMark = 0x1f

// SplitList takes a list apart: one that was read as text, or that people or Python wrote, with blanks, commas, semicolons or | between elements, in
// brackets or not. Blanks part those alone that nothing else does. ok is false where v is missing.
func SplitList(v []byte) (elements []string, ok bool) {
	if len(v) > 0 && v[0] == ListMark {
		if len(v) > 1 {
			elements = strings.Split(string(v[1:]), string(rune(ListMark)))
		}
		return elements, true
	}
	if MissingText(v) {
		return nil, false
	}
	text := strings.TrimSpace(string(v))
	if n := len(text); n > 1 && text[0] == '[' && text[n-1] == ']' {
		text = text[1 : n-1]
	}
	mark := " "
	for _, m := range []string{"|", ";", ","} {
		if strings.Contains(text, m) {
			mark = m
			break
		}
	}
	for _, e := range strings.Split(text, mark) {
		e = strings.TrimSpace(e)
		if n := len(e); n > 1 && (e[0] == '\'' || e[0] == '"') && e[n-1] == e[0] {
			e = e[1 : n-1]
		}
		if e != "" {
			elements = append(elements, e)
		}
	}
	return elements, true
}

// Skipper is a table that need not read its first rows.
type Skipper interface {
	// Skip leaves up to so many rows out of every Read to come, and says how many.
	Skip(rows uint64) (skipped uint64)
}

// Want asks for a column: its place, and the type its elements are to
// have; Invalid = as text.
type Want struct {
	At   int
	Elem blocks.ElemType
	Days bool // dates as days since 1970, of Float64
	// Time asks for dates as seconds since 1970, rounded up, of Int64; what is missing is math.MaxInt64, and a number is seconds.
	Time bool
}

// Batch is a run of rows; it is the receiver's until emit returns.
type Batch struct {
	Rows    int
	Numbers [][]byte     // by wanted column; nil for text
	Text    []ingest.IDs // by wanted column
	At      ingest.Position
}

// IDs are a batch's ids in its column c.
func (b *Batch) IDs(c int, room *ingest.IDs) *ingest.IDs {
	if b.Numbers[c] == nil {
		return &b.Text[c]
	}
	room.Reset()
	room.Ints = parts.Widen(room.Ints, blocks.Uint64, b.Numbers[c])
	return room
}

// Member reports whether row i of wanted column c says part.
func (b *Batch) Member(c, i int, part uint8) (bool, error) {
	if b.Numbers[c] != nil {
		return b.Numbers[c][i] != 0, nil
	}
	switch name := string(b.Text[c].At(i)); strings.ToLower(name) {
	case "train", "training":
		return part == store.SplitTrain, nil
	case "valid", "val", "validation":
		return part == store.SplitValid, nil
	case "test", "testing":
		return part == store.SplitTest, nil
	case "", "-", "none", "unlabeled", "unlabelled", "nan", "na", "null", "<na>", `\n`:
		return false, nil
	default:
		return false, ingest.Inputf(b.At.Of(i), "split %.40q, expected train, valid, test or none", name)
	}
}

// Add appends a row that line has parsed.
func (b *Batch) Add(fields [][]byte, want []Want, bits []uint64) {
	b.Rows++
	for c, w := range want {
		switch w.Elem.Size() {
		case 8:
			b.Numbers[c] = binary.LittleEndian.AppendUint64(b.Numbers[c], bits[c])
		case 4:
			b.Numbers[c] = binary.LittleEndian.AppendUint32(b.Numbers[c], uint32(bits[c]))
		case 1:
			b.Numbers[c] = append(b.Numbers[c], byte(bits[c]))
		default:
			b.Text[c].Append(fields[w.At])
		}
	}
}
