package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/source"
)

// Labels says what labels are.
type Labels string

// Kinds of labels.
const (
	LabelsAuto    Labels = "auto"    // "" too: what they are likely to be
	LabelsClasses Labels = "classes" // ids from 0, or names
	LabelsNumbers Labels = "numbers" // of any size, which models are fitted to by regression
	LabelsMulti   Labels = "multi"   // several a node: a row of 0 and 1, or names with | or ; between them
)

// Labels that could be class ids are numbers all the same where they have more values than fewClasses and fewer nodes for each than
// nodesPerClass, and either more values than manyClasses or gaps between them, which ids from 0 have not: a tenth of them is missing.
const (
	fewClasses    = 50
	manyClasses   = 1000
	nodesPerClass = 20
)

// labelling is what the labels of a node column are.
type labelling struct {
	numbers bool       // which models are fitted to by regression
	oneHot  bool       // rows of which one element is 1: the class
	sets    *labelSets // several labels a node; nil = one at most
}

// labelsOf says what the labels in node column c are. Where nobody says, a pass over them does, once.
func (r *Job) labelsOf(ctx context.Context, c int) (*labelling, error) {
	if r.labels != nil {
		return r.labels, nil
	}
	spec, asked, names := &r.Desc.NodeColumns[c], r.labelsAsked(), r.Desc.ClassNames
	l := &labelling{}
	switch old := r.Like[spec.Name]; {
	case spec.Coded:
		l.numbers = true // as they are
	case old != nil && old.Sets != nil:
		var err error
		if l.sets, err = r.setsLike(spec, old); err != nil {
			return nil, err
		}
	case old != nil:
		l.numbers = old.Numbers
	case spec.Dim > 1 && asked == LabelsNumbers:
		return nil, source.Inputf(r.Desc.Input, "labels of %d columns, expected one number a node", spec.Dim)
	case asked == LabelsNumbers && len(names) > 0:
		return nil, source.Inputf(r.Desc.Input, "labels are names of classes such as %.40q, expected numbers", names[0])
	case asked == LabelsNumbers:
		l.numbers = true
	case spec.Dim > 1:
		if err := r.rowsOfLabels(ctx, c, l); err != nil {
			return nil, err
		}
	case asked == LabelsMulti && len(names) == 0:
		return nil, source.Inputf(r.Desc.Input, "labels are numbers, one a node, expected rows of 0 and 1, or text with %s between the labels", separators)
	case asked == LabelsClasses && len(names) > 0:
	case len(names) > 0:
		if by := separatorOf(names); by != 0 || asked == LabelsMulti {
			between := separators
			if by != 0 {
				between = string(by)
			}
			l.sets = setsOfNames(names, between)
			if asked != LabelsMulti {
				r.note("nodes have several of %d labels, with %q between them; --labels classes takes each of the %d texts for a class", l.sets.labels, by, len(names))
			}
		}
	case asked != LabelsClasses:
		s, err := r.surveyLabels(ctx, c)
		if err != nil {
			return nil, err
		}
		l.numbers = s.numbers()
	}
	r.labels = l
	return l, nil
}

// labelsAsked is what labels are said to be, by the options or else by the source; "" = nobody says it.
func (r *Job) labelsAsked() Labels {
	if l := r.Options.Labels; l != "" && l != LabelsAuto {
		return l
	}
	return Labels(r.Desc.Labels)
}

// surveyLabels looks at labels, one number a node, and tells what they are taken for.
func (r *Job) surveyLabels(ctx context.Context, c int) (*labelSurvey, error) {
	spec := &r.Desc.NodeColumns[c]
	s := &labelSurvey{least: math.Inf(1), most: math.Inf(-1)}
	r.Phase("look at labels", "rows", spec.Rows)
	err := r.eachRow(ctx, c, func(rows []byte, _ source.Position) error {
		for size := spec.Elem.Size(); len(rows) >= size; rows = rows[size:] {
			s.add(spec.Elem.Float64(rows))
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if s.numbers() {
		r.note("labels are numbers from %g to %g, which models are fitted to by regression%s", s.least, s.most, s.otherwise())
	} else if s.kinds > 0 && s.gaps() {
		r.note("labels are taken for class ids, of which %d occur of %d; --labels numbers has models fitted to them by regression", s.kinds, int(s.most)+1)
	}
	return s, nil
}

// labelSurvey is what labels are like.
type labelSurvey struct {
	least, most  float64
	nodes, kinds int  // that have one; different ones
	noClass      bool // one can be no class id
	seen         []uint64
}

func (s *labelSurvey) add(x float64) {
	if math.IsNaN(x) {
		return
	}
	if x != math.Trunc(x) || x < -1 || x > ClassesMax {
		s.noClass = true
	}
	s.least, s.most = min(s.least, x), max(s.most, x)
	if s.nodes++; s.noClass || x < 0 {
		return
	}
	if s.seen == nil {
		s.seen = make([]uint64, ClassesMax/64+1)
	}
	if id := uint(x); s.seen[id/64]>>(id%64)&1 == 0 {
		s.seen[id/64] |= 1 << (id % 64)
		s.kinds++
	}
}

// gaps reports whether ids from 0 to the largest are missing.
func (s *labelSurvey) gaps() bool { return float64(s.kinds) < .9*(s.most+1) }

func (s *labelSurvey) numbers() bool {
	return s.noClass || s.kinds > fewClasses && s.nodes < nodesPerClass*s.kinds && (s.kinds > manyClasses || s.gaps())
}

// otherwise says how to have them as classes, where they may be.
func (s *labelSurvey) otherwise() string {
	if s.noClass {
		return ""
	}
	return fmt.Sprintf(", since %d nodes have %d different ones; --labels classes takes them for class ids", s.nodes, s.kinds)
}

// labelled reports whether a row of the source's labels says one.
func (l *labelling) labelled(spec *source.ColumnSpec, row []byte) bool {
	x := spec.Elem.Float64(row)
	return x >= 0 || l.numbers && !math.IsNaN(x)
}

// labels converts rows of the source's labels to what the store has: class ids, of which NaN and −1 mean none, codes of numbers, of which
// NaN does, or numbers of sets.
func (k *Converter) labels(out, rows []byte, at source.Position) ([]byte, error) {
	if k.spec.Coded {
		return append(out, rows...), nil
	}
	size := k.spec.Elem.Size()
	for i := 0; i*size*k.spec.Dim < len(rows); i++ {
		row := rows[i*size*k.spec.Dim : (i+1)*size*k.spec.Dim]
		label, err := k.label(row, at, i)
		if err != nil {
			return nil, err
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(label))
	}
	return out, nil
}

// label is what the store has of row i.
func (k *Converter) label(row []byte, at source.Position, i int) (int32, error) {
	if l := k.labelling; l.oneHot || l.sets != nil && k.spec.Dim > 1 {
		return l.ofRow(&k.spec, row, &k.LabelMax, at, i)
	}
	x := k.spec.Elem.Float64(row)
	if k.labelling.numbers {
		code := blocks.NumberCode(float32(x))
		if code < 0 && !math.IsNaN(x) {
			return 0, source.Inputf(at.Of(i), "label %v, expected a number that float32 holds", x)
		}
		return code, nil
	}
	if math.IsNaN(x) {
		x = -1
	}
	if x != math.Trunc(x) || x < -1 || x > ClassesMax {
		return 0, source.Inputf(at.Of(i), "label %v, expected a class id ≥ 0, or −1 for none (--labels numbers takes any number)", x)
	}
	if s := k.labelling.sets; s != nil {
		return s.ofName(x, at, i)
	}
	if k.classes > 0 && int(x) >= k.classes {
		return 0, source.Inputf(at.Of(i), "label %d, expected less than %d (the number of class names)", int(x), k.classes)
	}
	k.LabelMax = max(k.LabelMax, int32(x))
	return int32(x), nil
}

// ClassesMax bounds class ids: a larger one is taken for damage.
const ClassesMax = 1 << 24
