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
	LabelsAuto    Labels = "auto"    // "" too: numbers, where class ids they cannot be, or are no likely ones
	LabelsClasses Labels = "classes" // ids from 0, or names
	LabelsNumbers Labels = "numbers" // of any size, which models are fitted to by regression
)

// Labels that could be class ids are numbers all the same where they have more values than fewClasses and fewer nodes for each than
// nodesPerClass, and either more values than manyClasses or gaps between them, which ids from 0 have not: a tenth of them is missing.
const (
	fewClasses    = 50
	manyClasses   = 1000
	nodesPerClass = 20
)

// labelsAreNumbers reports whether the labels in node column c are numbers. Where nobody says, a pass over them does, once.
func (r *Job) labelsAreNumbers(ctx context.Context, c int) (bool, error) {
	spec := &r.Desc.NodeColumns[c]
	switch {
	case spec.Coded:
		return true, nil
	case r.Like[spec.Name] != nil:
		return r.Like[spec.Name].Numbers, nil
	case r.Options.Labels == LabelsNumbers && len(r.Desc.ClassNames) > 0:
		return false, source.Inputf(r.Desc.Input, "labels are names of classes such as %.40q, expected numbers", r.Desc.ClassNames[0])
	case r.Options.Labels == LabelsNumbers:
		return true, nil
	case r.Options.Labels == LabelsClasses || len(r.Desc.ClassNames) > 0 || spec.Dim != 1:
		return false, nil
	case r.labels == nil:
		s := &labelSurvey{least: math.Inf(1), most: math.Inf(-1)}
		r.Phase("look at labels", "rows", spec.Rows)
		err := r.eachRow(ctx, c, func(rows []byte, _ source.Position) error {
			for size := spec.Elem.Size(); len(rows) >= size; rows = rows[size:] {
				s.add(spec.Elem.Float64(rows))
			}
			return ctx.Err()
		})
		if err != nil {
			return false, err
		}
		if r.labels = s; s.numbers() {
			r.note("labels are numbers from %g to %g, which models are fitted to by regression%s", s.least, s.most, s.otherwise())
		} else if s.kinds > 0 && s.gaps() {
			r.note("labels are taken for class ids, of which %d occur of %d; --labels numbers has models fitted to them by regression", s.kinds, int(s.most)+1)
		}
	}
	return r.labels.numbers(), nil
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

// labels converts class ids, of which NaN and −1 mean none, or numbers, of which NaN does.
func (k *Converter) labels(out, rows []byte, at source.Position) ([]byte, error) {
	if k.spec.Coded {
		return append(out, rows...), nil
	}
	size := k.spec.Elem.Size()
	for i := 0; i*size < len(rows); i++ {
		x := k.spec.Elem.Float64(rows[i*size:])
		if k.asNumbers {
			code := blocks.NumberCode(float32(x))
			if code < 0 && !math.IsNaN(x) {
				return nil, source.Inputf(at.Of(i), "label %v, expected a number that float32 holds", x)
			}
			out = binary.LittleEndian.AppendUint32(out, uint32(code))
			continue
		}
		if math.IsNaN(x) {
			x = -1
		}
		if x != math.Trunc(x) || x < -1 || x > ClassesMax {
			return nil, source.Inputf(at.Of(i), "label %v, expected a class id ≥ 0, or −1 for none (--labels numbers takes any number)", x)
		}
		if k.classes > 0 && int(x) >= k.classes {
			return nil, source.Inputf(at.Of(i), "label %d, expected less than %d (the number of class names)", int(x), k.classes)
		}
		k.LabelMax = max(k.LabelMax, int32(x))
		out = binary.LittleEndian.AppendUint32(out, uint32(int32(x)))
	}
	return out, nil
}

// ClassesMax bounds class ids: a larger one is taken for damage.
const ClassesMax = 1 << 24
