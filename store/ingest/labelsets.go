package ingest

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// separators stand between the labels of a node in text, the likelier one first.
const separators = "|;"

// Texts are sets of labels where one of separators is in more than one of severalNames of them, and each label is in two of them or more, on
// average.
const severalNames = 10

// labelSets numbers the sets of labels that nodes have, in the order in which they occur.
type labelSets struct {
	labels int
	names  []string // of labels; nil = they have none
	bits   []byte   // as the store has them
	at     map[string]int32
	ofText []int32 // the set of each text, where labels are texts
}

func newLabelSets(labels int, names []string) *labelSets {
	return &labelSets{labels: labels, names: names, at: map[string]int32{}}
}

// number is that of a set, which it may be the first of.
func (s *labelSets) number(set []byte) (int32, error) {
	id, ok := s.at[string(set)]
	if !ok {
		if len(s.bits)+len(set) > store.LabelSetsBytesMax {
			return 0, source.Inputf("labels", "more than %d different sets of %d labels, which is what a store holds", len(s.at), s.labels)
		}
		id = int32(len(s.at))
		s.at[string(set)] = id
		s.bits = append(s.bits, set...)
	}
	return id, nil
}

// separatorOf is the separator between labels in texts of which each is a set of them; 0 where each is a class.
func separatorOf(texts []string) byte {
	for _, by := range []byte(separators) {
		several, all, parts := 0, 0, map[string]bool{}
		for _, t := range texts {
			if strings.IndexByte(t, by) >= 0 {
				several++
			}
			for _, p := range partsOf(t, by) {
				parts[p] = true
				all++
			}
		}
		if several*severalNames > len(texts) && all >= 2*len(parts) {
			return by
		}
	}
	return 0
}

// LabelsIn are the labels that texts are sets of, in order; nil where each text is likely a class.
func LabelsIn(texts []string) []string {
	if by := separatorOf(texts); by != 0 {
		return setsOfNames(texts, by).names
	}
	return nil
}

// partsOf are the labels in a text, of which by is between them; 0: any separator is.
func partsOf(text string, by byte) (parts []string) {
	cut := func(r rune) bool { return by == 0 && strings.ContainsRune(separators, r) || by != 0 && r == rune(by) }
	for _, p := range strings.FieldsFunc(text, cut) {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// setsOfNames are the sets that texts say, whose labels are all that occur, in order.
func setsOfNames(texts []string, by byte) *labelSets {
	var labels []string
	for _, t := range texts {
		labels = append(labels, partsOf(t, by)...)
	}
	slices.Sort(labels)
	s := newLabelSets(0, slices.Compact(labels))
	s.labels = len(s.names)
	if err := s.addTexts("", texts, by); err != nil { // no label is missing, and there are fewer sets than texts
		panic(err)
	}
	return s
}

// addTexts finds the set of each text.
func (s *labelSets) addTexts(input string, texts []string, by byte) error {
	set := make([]byte, store.LabelSetBytes(s.labels))
	for _, t := range texts {
		clear(set)
		for _, p := range partsOf(t, by) {
			j := slices.Index(s.names, p)
			if n, err := strconv.Atoi(p); s.names == nil && err == nil && n < s.labels {
				j = n
			}
			switch {
			case j < 0 && s.names == nil:
				return source.Inputf(input, "label %.40q, expected one of the store's: numbers from 0 to %d", p, s.labels-1)
			case j < 0:
				return source.Inputf(input, "label %.40q, expected one of the store's: %.200q", p, s.names)
			}
			set[j/8] |= 1 << (j % 8)
		}
		id, err := s.number(set)
		if err != nil {
			return err
		}
		s.ofText = append(s.ofText, id)
	}
	return nil
}

// ofName is the set of the text number x, −1 of none.
func (s *labelSets) ofName(x float64, at source.Position, i int) (int32, error) {
	switch {
	case x < 0:
		return -1, nil
	case int(x) >= len(s.ofText):
		return 0, source.Inputf(at.Of(i), "label %v, expected less than %d (the number of texts)", x, len(s.ofText))
	}
	return s.ofText[int(x)], nil
}

// setsLike are the sets of a store's column, for more rows of it.
func (r *Job) setsLike(spec *source.ColumnSpec, old *store.ColumnInfo) (*labelSets, error) {
	labels := r.LabelNames
	s := newLabelSets(labels.Count, labels.Names)
	for width := store.LabelSetBytes(s.labels); len(s.bits) < len(old.Sets); {
		if _, err := s.number(old.Sets[len(s.bits):][:width]); err != nil {
			return nil, err
		}
	}
	switch {
	case spec.Dim == s.labels:
		return s, nil
	case spec.Dim > 1 || len(r.Desc.ClassNames) == 0:
		return nil, source.Inputf(r.Desc.Input, "labels of %d columns, the store's nodes have any of %d labels: expected rows of 0 and 1, or names with %s between them", spec.Dim, s.labels, separators)
	}
	return s, s.addTexts(r.Desc.Input, r.Desc.ClassNames, 0)
}

// LabelNames are the labels of a store whose nodes have several.
type LabelNames struct {
	Count int
	Names []string // nil = they have none
}

// rowsOfLabels says what rows of several elements are: sets of labels, or, where each has one, classes.
func (r *Job) rowsOfLabels(ctx context.Context, c int, l *labelling) error {
	spec := &r.Desc.NodeColumns[c]
	names := r.Desc.ClassNames
	if names == nil && len(spec.Elements) == spec.Dim {
		names = spec.Elements
	}
	if names != nil && len(names) != spec.Dim {
		return source.Inputf(r.Desc.Input, "labels of %d columns and %d names of classes, expected as many", spec.Dim, len(names))
	}
	r.Desc.ClassNames = names
	l.sets = newLabelSets(spec.Dim, names)
	if r.labelsAsked() == LabelsMulti {
		return nil
	}
	several, size := 0, spec.RowBytes()
	var most int32
	r.Phase("look at labels", "rows", spec.Rows)
	err := r.eachRow(ctx, c, func(rows []byte, at source.Position) error {
		for i := 0; i*size < len(rows); i++ {
			set, err := l.ofRow(spec, rows[i*size:(i+1)*size], &most, at, i)
			if err != nil {
				return err
			}
			if set >= 0 && !l.oneHot && l.sets.count(set) != 1 {
				several++
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if l.oneHot = several == 0; l.oneHot {
		l.sets = nil
		r.note("each node has one of %d labels at most, which are its class; --labels multi takes them for labels of which others may have several", spec.Dim)
	} else if r.labelsAsked() == LabelsClasses {
		return source.Inputf(r.Desc.Input, "%d nodes have none or several of %d labels, expected one; --labels multi takes them", several, spec.Dim)
	} else {
		r.note("nodes have any number of %d labels", spec.Dim)
	}
	return nil
}

// ofRow is the number of the set of labels in a row, or its class, −1 where the row says none: all of it is NaN or −1.
func (l *labelling) ofRow(spec *source.ColumnSpec, row []byte, classMax *int32, at source.Position, i int) (int32, error) {
	size, class, none := spec.Elem.Size(), int32(-1), 0
	set := make([]byte, store.LabelSetBytes(spec.Dim))
	for j := range spec.Dim {
		switch x := spec.Elem.Float64(row[j*size:]); {
		case math.IsNaN(x) || x == -1:
			none++
		case x == 1:
			set[j/8] |= 1 << (j % 8)
			class = int32(j)
		case x != 0:
			return 0, source.Inputf(at.Of(i), "label %v in column %d of %d, expected 0 or 1", x, j, spec.Dim)
		}
	}
	switch {
	case none == spec.Dim:
		return -1, nil
	case none > 0:
		return 0, source.Inputf(at.Of(i), "%d of %d labels are not known (NaN or −1): expected all of them, or none", none, spec.Dim)
	case l.oneHot:
		*classMax = int32(spec.Dim) - 1
		return class, nil
	}
	return l.sets.number(set)
}

// count is how many labels a set has.
func (s *labelSets) count(id int32) (n int) {
	width := store.LabelSetBytes(s.labels)
	for _, b := range s.bits[int(id)*width:][:width] {
		n += bits.OnesCount8(b)
	}
	return n
}
