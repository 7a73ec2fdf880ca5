package database

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// What the columns of a table become: the features TABLE.x of its numbers and dates, TABLE.marks of what is 0 or 1, TABLE.season of the
// time of a row, TABLE.COLUMN of a text or a vector, and TABLE.COLUMN for a category's numbers.
const (
	numbersOf = ".x"
	marksOf   = ".marks"
	seasonOf  = ".season"
)

// column is a column of nodes made of some of a table's.
type column struct {
	spec ingest.ColumnSpec
	want []table.Want
	// row appends row i of a batch, whose wanted columns begin at first.
	row func(out []byte, b *table.Batch, first, i int) ([]byte, error)
}

// of lists the columns of the table that are of a kind.
func (r *rows) of(kinds ...Kind) (columns []int) {
	for k := range r.cols {
		if slices.Contains(kinds, r.kinds[k]) {
			columns = append(columns, k)
		}
	}
	return columns
}

// addColumns adds what the table's columns become.
func (s *Source) addColumns(r *rows) {
	add := func(c column) {
		c.spec.NodeType, c.spec.Keyed, c.spec.Rows = r.name, true, -1
		if c.spec.Role == "" {
			c.spec.Role = store.RoleFeature
		}
		for len(s.KeyedStreams) < len(s.RowStreams) {
			s.KeyedStreams = append(s.KeyedStreams, nil)
		}
		s.AddColumn(c.spec, nil)
		s.KeyedStreams = append(s.KeyedStreams, r.rowsOf(c))
	}
	if r.time >= 0 {
		add(r.rowTime())
		add(r.season())
	}
	if len(r.of(Number, Date)) > 0 {
		add(r.numbers())
	}
	if len(r.marked()) > 0 {
		add(r.marks())
	}
	for _, k := range r.of(Category) {
		add(r.category(k))
	}
	for _, k := range r.of(Set) {
		add(r.set(k))
	}
	for _, k := range r.of(Text) {
		add(r.text(k))
	}
	for _, k := range r.of(Vector) {
		add(r.vector(k))
	}
	for _, k := range r.of(Label) {
		if !slices.ContainsFunc(s.Desc.NodeColumns, func(c ingest.ColumnSpec) bool { return c.NodeType == r.name && c.Role == store.RoleFeature }) { // else rows would learn vectors of their own, by heart
			add(r.present())
		}
		c, classes := r.label(k, s.in.o.Like)
		if classes != nil {
			s.Desc.ClassNames = classes
		}
		add(c)
	}
}

// rowsOf streams a column.
func (r *rows) rowsOf(c column) parts.Keyed {
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var out []byte
		return r.read(ctx, env, c.want, func(ids *ingest.IDs, b *table.Batch, first int) (err error) {
			out = out[:0]
			for i := range b.Rows {
				if out, err = c.row(out, b, first, i); err != nil {
					return ingest.Inputf(b.At.Of(i), "%v", err)
				}
			}
			return emit(ids, out, b.At)
		})
	}
}

// use is what column k becomes, for people.
func (r *rows) use(k int) string {
	c, s := &r.cols[k], &r.stats[k]
	missing := ""
	if s.missing > 0 {
		missing = fmt.Sprintf(", with a mark of the %d that are missing", s.missing)
	}
	switch kind := r.kinds[k]; kind {
	case Number:
		return "number: feature " + r.name + numbersOf + missing
	case Label:
		if r.classes(k) {
			return "label: classes " + table.Listed(r.values(k))
		}
		return "label"
	case Date:
		return "date: feature " + r.name + numbersOf + ", in days since 1970" + missing
	case Boolean:
		return "boolean: feature " + r.name + marksOf
	case Category:
		return fmt.Sprintf("category of %d values: column %s.%s", len(r.values(k)), r.name, c.Name)
	case Set:
		return fmt.Sprintf("set of %d parts: feature %s.%s", len(r.parts(k)), r.name, c.Name)
	case Text:
		return fmt.Sprintf("text: feature %s.%s of %d hashed n-grams", r.name, c.Name, textDim)
	default:
		return fmt.Sprintf("vector: feature %s.%s [%d]", r.name, c.Name, c.Dim)
	}
}

// at is element i of wanted column k of a batch, of Float64.
func at(b *table.Batch, k, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b.Numbers[k][8*i:]))
}

func appendFloat(out []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
}

// rowTime is the time of each row.
func (r *rows) rowTime() column {
	return column{
		spec: ingest.ColumnSpec{Name: r.name + store.TimeSuffix, Role: store.RoleNode, Elem: blocks.Int64, Dim: 1},
		want: []table.Want{{At: r.time, Elem: blocks.Int64, Time: true}},
		row: func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			return append(out, b.Numbers[first][8*i:8*i+8]...), nil
		},
	}
}

// season is the place of each row's time in the year, in the week and in the day: sine and cosine of each. How long ago it was is not
// the row's to say.
func (r *rows) season() column {
	return column{
		spec: ingest.ColumnSpec{Name: r.name + seasonOf, Elem: blocks.Float32, Dim: 6, Indicator: true,
			Elements: []string{"sin year", "cos year", "sin week", "cos week", "sin day", "cos day"}},
		want: []table.Want{{At: r.time, Elem: blocks.Int64, Time: true}},
		row: func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			seconds := int64(binary.LittleEndian.Uint64(b.Numbers[first][8*i:]))
			if seconds == never {
				return append(out, make([]byte, 4*6)...), nil
			}
			t := time.Unix(seconds, 0).UTC()
			day := float64(t.Hour()*3600+t.Minute()*60+t.Second()) / 86400
			for _, turn := range []float64{(float64(t.YearDay()) - 1 + day) / 366, (float64(t.Weekday()) + day) / 7, day} {
				sin, cos := math.Sincos(2 * math.Pi * turn)
				out = appendFloat(appendFloat(out, sin), cos)
			}
			return out, nil
		},
	}
}

// numbers are the table's numbers and dates side by side.
func (r *rows) numbers() column {
	c := column{spec: ingest.ColumnSpec{Name: r.name + numbersOf, Elem: blocks.Float64, Measured: true}}
	for _, k := range r.inOrder(r.of(Number, Date), numbersOf) {
		days := r.kinds[k] == Date
		c.want = append(c.want, table.Want{At: k, Elem: blocks.Float64, Days: days})
		c.spec.Elements = append(c.spec.Elements, r.cols[k].Name)
	}
	c.spec.Dim = len(c.want)
	c.row = func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
		for k := range c.want {
			out = append(out, b.Numbers[first+k][8*i:8*i+8]...)
		}
		return out, nil
	}
	return c
}

// isMissing ends the name of an element of marks that says so of a number or a date.
const isMissing = " is missing"

// marked lists the columns that have an element of marks: booleans, and numbers and dates of which some are missing, or were when a store was made.
func (r *rows) marked() (columns []int) {
	if _, ok := r.elements(marksOf); ok {
		return r.inOrder(r.of(Boolean, Number, Date), marksOf)
	}
	for _, k := range r.of(Boolean, Number, Date) {
		if r.kinds[k] == Boolean || r.stats[k].missing > 0 {
			columns = append(columns, k)
		}
	}
	return columns
}

// marks are what is 0 or 1: booleans, of which what is missing is a half, and whether a number is missing.
func (r *rows) marks() column {
	c := column{spec: ingest.ColumnSpec{Name: r.name + marksOf, Elem: blocks.Float32, Indicator: true}}
	columns := r.marked()
	for _, k := range columns {
		c.want = append(c.want, table.Want{At: k, Elem: blocks.Float64, Days: r.kinds[k] == Date})
		name := r.cols[k].Name
		if r.kinds[k] != Boolean {
			name += isMissing
		}
		c.spec.Elements = append(c.spec.Elements, name)
	}
	c.spec.Dim = len(columns)
	c.row = func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
		for n, k := range columns {
			x := at(b, first+n, i)
			none := math.IsNaN(x)
			switch {
			case r.kinds[k] == Boolean && none:
				x = .5
			case r.kinds[k] == Boolean && x != 0:
				x = 1
			case r.kinds[k] != Boolean && none:
				x = 1
			case r.kinds[k] != Boolean:
				x = 0
			}
			out = appendFloat(out, x)
		}
		return out, nil
	}
	return c
}

// present is a feature of a table that has no other: it is 1.
func (r *rows) present() column {
	return column{
		spec: ingest.ColumnSpec{Name: r.name + marksOf, Elem: blocks.Float32, Dim: 1, Indicator: true, Elements: []string{"is there"}},
		row:  func(out []byte, _ *table.Batch, _, _ int) ([]byte, error) { return appendFloat(out, 1), nil },
	}
}

// classes reports whether a column of labels is text, which names classes.
func (r *rows) classes(k int) bool { return surveyed(&r.cols[k]) && r.stats[k].words }

// label is the column of labels: numbers, or the places of classes among their names; NaN where none is said.
func (r *rows) label(k int, like *store.Store) (c column, classes []string) {
	c = column{spec: ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: 1, Elements: []string{r.cols[k].Name}}}
	if !r.classes(k) {
		c.want = []table.Want{{At: k, Elem: blocks.Float64}}
		c.row = func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			return append(out, b.Numbers[first][8*i:8*i+8]...), nil
		}
		return c, nil
	}
	if classes = r.values(k); like != nil {
		classes = like.Manifest().Schema.ClassNames
	}
	places := map[string]float64{}
	for i, v := range classes {
		places[v] = float64(i)
	}
	c.want = []table.Want{{At: k}}
	c.row = func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
		v := b.Text[first].At(i)
		x, ok := places[string(v)]
		switch {
		case r.absent(v):
			x = math.NaN()
		case !ok:
			return nil, fmt.Errorf("label %.40q, which none of the classes is called: %s", v, table.Listed(classes))
		}
		return binary.LittleEndian.AppendUint64(out, math.Float64bits(x)), nil
	}
	return c, classes
}

// values are those of a category: the column's in order, or the store's.
func (r *rows) values(k int) []string {
	if c := r.stored[r.name+"."+r.cols[k].Name]; c != nil {
		return c.Categories
	}
	return slices.Sorted(maps.Keys(r.stats[k].values))
}

// category is the place, from 1, of each value among the column's in order.
func (r *rows) category(k int) column {
	values := r.values(k)
	places := map[string]uint32{}
	for i, v := range values {
		places[v] = uint32(i + 1)
	}
	return column{
		spec: ingest.ColumnSpec{Name: r.name + "." + r.cols[k].Name, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, Values: values},
		want: []table.Want{{At: k}},
		row: func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			return binary.LittleEndian.AppendUint32(out, places[string(b.Text[first].At(i))]), nil
		},
	}
}

// parts are those that a column's texts are sets of: the column's in order, or the store's.
func (r *rows) parts(k int) []string {
	if c := r.stored[r.name+"."+r.cols[k].Name]; c != nil {
		return c.Elements
	}
	return partsOf(r.stats[k].values)
}

// set has an element for each part that is in the column's texts: 1 where a text has it.
func (r *rows) set(k int) column {
	parts := r.parts(k)
	places := map[string]int{}
	for i, p := range parts {
		places[p] = i
	}
	return column{
		spec: ingest.ColumnSpec{Name: r.name + "." + r.cols[k].Name, Elem: blocks.Float32, Dim: len(parts), Indicator: true, Elements: parts},
		want: []table.Want{{At: k}},
		row: func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			begin := len(out)
			out = append(out, make([]byte, 4*len(parts))...)
			if v := b.Text[first].At(i); !r.absent(v) {
				for _, p := range ingest.LabelParts(string(v)) {
					if at, ok := places[p]; ok {
						binary.LittleEndian.PutUint32(out[begin+4*at:], math.Float32bits(1))
					}
				}
			}
			return out, nil
		},
	}
}

// vector is a list of numbers.
func (r *rows) vector(k int) column {
	elem := table.NumberElem(r.cols[k].Elem)
	size := r.cols[k].Dim * elem.Size()
	return column{
		spec: ingest.ColumnSpec{Name: r.name + "." + r.cols[k].Name, Elem: elem, Dim: r.cols[k].Dim},
		want: []table.Want{{At: k, Elem: elem}},
		row: func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			return append(out, b.Numbers[first][i*size:(i+1)*size]...), nil
		},
	}
}

// Of text.
const (
	textDim   = 32 // elements
	textGrams = 3  // bytes of an n-gram
)

// text is a text as its n-grams of three letters, hashed with signs into textDim elements (Weinberger and others, "Feature hashing for
// large scale multitask learning", ICML 2009), of length 1.
func (r *rows) text(k int) column {
	return column{
		spec: ingest.ColumnSpec{Name: r.name + "." + r.cols[k].Name, Elem: blocks.Float32, Dim: textDim},
		want: []table.Want{{At: k}},
		row: func(out []byte, b *table.Batch, first, i int) ([]byte, error) {
			var sums [textDim]float64
			if v := b.Text[first].At(i); !r.absent(v) {
				hashText(v, &sums)
			}
			for _, x := range sums {
				out = appendFloat(out, x)
			}
			return out, nil
		},
	}
}

// hashText sets sums to a text's n-grams.
func hashText(v []byte, sums *[textDim]float64) {
	text := make([]byte, 0, len(v)+2)
	text = append(text, ' ')
	for _, c := range v {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		text = append(text, c)
	}
	text = append(text, ' ')
	for k := 0; k+textGrams <= len(text); k++ {
		h := uint64(14695981039346656037) // FNV-1a
		for _, c := range text[k : k+textGrams] {
			h = (h ^ uint64(c)) * 1099511628211
		}
		h ^= h >> 32
		sign := 1.
		if h>>8&1 != 0 {
			sign = -1
		}
		sums[h%textDim] += sign
	}
	length := 0.
	for _, x := range sums {
		length += x * x
	}
	if length == 0 {
		return
	}
	for k := range sums {
		sums[k] /= math.Sqrt(length)
	}
}
