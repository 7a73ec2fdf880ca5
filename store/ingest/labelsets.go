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
			for _, p := range partsOf(t, string(by)) {
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
		return setsOfNames(texts, string(by)).names
	}
	return nil
}

// LabelParts are the labels in a text, between any of the separators.
func LabelParts(text string) []string { return partsOf(text, separators) }

// partsOf are the labels in a text, of which each of by may be between them.
func partsOf(text, by string) (parts []string) {
	for _, p := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(by, r) }) {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// setsOfNames are the sets that texts say, whose labels are all that occur, in order.
func setsOfNames(texts []string, by string) *labelSets {
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
func (s *labelSets) addTexts(input string, texts []string, by string) error {
	known := make(map[string]int, len(s.names))
	for j, n := range s.names {
		known[n] = j
	}
	set := make([]byte, store.LabelSetBytes(s.labels))
	for _, t := range texts {
		clear(set)
		for _, p := range partsOf(t, by) {
			j, ok := known[p]
			if s.names == nil {
				var err error
				j, err = strconv.Atoi(p)
				ok = err == nil && j >= 0 && j < s.labels
			}
			switch {
			case !ok && s.names == nil:
				return source.Inputf(input, "label %.40q, expected one of the store's: numbers from 0 to %d", p, s.labels-1)
			case !ok:
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
	kept := len(s.at)
	switch {
	case spec.Dim > 1 && spec.Dim == s.labels:
		return s, nil
	case spec.Dim > 1 || len(r.Desc.ClassNames) == 0 && !labels.Own:
		return nil, source.Inputf(r.Desc.Input, "labels of %d columns, the store's nodes have any of %d labels: expected rows of 0 and 1, or names with %s between them", spec.Dim, s.labels, separators)
	}
	by := strings.Map(func(sep rune) rune {
		if slices.ContainsFunc(s.names, func(n string) bool { return strings.ContainsRune(n, sep) }) {
			return -1 // a part of names, and so between none
		}
		return sep
	}, separators)
	if err := s.addTexts(r.Desc.Input, r.Desc.ClassNames, by); err != nil {
		return nil, err
	}
	if labels.Own {
		for id := range kept {
			s.ofText = append(s.ofText, int32(id))
		}
	}
	return s, nil
}

// SetOfText is the number of the set that text k of the source's labels says, which were converted: as the store has it, if it does.
func (r *Job) SetOfText(k int) int32 { return r.labels.sets.ofText[k] }

// LabelNames are the labels of a store whose nodes have several.
type LabelNames struct {
	Count int
	Names []string // nil = they have none
	Own   bool     // the source numbers the store's own sets behind its texts
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
