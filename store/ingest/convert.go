package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// Converter turns rows of a source column into rows of the stored one, and
// checks each element.
type Converter struct {
	spec      source.ColumnSpec
	Elem      blocks.ElemType
	missing   []byte          // the stored row of a node the column says nothing about
	scale     []float32       // int8
	standard  *store.Standard // nil = values stay as they are
	bag       bool            // as they do since they are a bag of words
	rule      Missing         // for missing elements: not ""
	fill      []float64       // what a missing element becomes, by dimension; nil = it is refused
	filled    int64           // elements that were
	largest   []float64       // magnitude, as measure has it; nil = not measured
	classes   int             // labels: known number of classes, 0 = unknown
	LabelMax  int32
	labelling *labelling // of labels, else nil
}

// Converter plans the conversion of node column c, of one in r.Like to its rows; int8 features take a pass
// over the column, for the largest magnitude of each dimension.
func (r *Job) Converter(ctx context.Context, c int) (*Converter, error) {
	spec := r.Desc.NodeColumns[c]
	k := &Converter{spec: spec, Elem: spec.Elem, LabelMax: -1, rule: r.Options.missing(&spec)}
	if spec.Role == store.RoleLabel {
		k.Elem, k.classes = blocks.Int32, len(r.Desc.ClassNames)
		k.missing = binary.LittleEndian.AppendUint32(nil, math.MaxUint32) // −1
		var err error
		k.labelling, err = r.labelsOf(ctx, c)
		return k, err
	}
	if old := r.Like[spec.Name]; old != nil {
		if err := k.like(old); err != nil || old.Role != store.RoleFeature {
			return k, err
		}
		if r.Options.Missing == "" && k.standard == nil {
			k.rule = MissingError // the mean of what is appended says little
		}
		return k, r.fillMissing(ctx, c, k)
	}
	switch spec.Role {
	case store.RoleFeature:
		k.Elem = r.Options.FeatureElemOf(spec)
	case store.RoleNode:
		// Numbers of learned vectors; other columns keep their type, and so does what is carried over.
		if r.Kept == nil && (spec.Name == store.TypeColumn || strings.HasSuffix(spec.Name, store.NodeSuffix)) {
			k.Elem = blocks.Uint32
		}
	}
	k.missing = make([]byte, spec.Dim*k.Elem.Size())
	if spec.Role != store.RoleFeature {
		return k, nil
	}
	if r.Options.Standardises(&spec) && spec.Standard == nil && k.rule == MissingMean {
		k.fill = make([]float64, spec.Dim) // the means that standardise finds
	} else if err := r.fillMissing(ctx, c, k); err != nil {
		return nil, err
	}
	if err := r.standardise(ctx, c, k); err != nil {
		return nil, err
	}
	if k.Elem == blocks.Int8 {
		if err := r.int8Scales(ctx, c, k); err != nil {
			return nil, err
		}
	}
	return k, k.missingNode()
}

// FeatureElemOf is what a feature column is stored as.
func (o *Options) FeatureElemOf(spec source.ColumnSpec) blocks.ElemType {
	switch {
	case o.FeatureElem != blocks.Invalid:
		return o.FeatureElem
	case spec.Elem == blocks.Float16 || spec.Elem == blocks.BFloat16 || spec.Elem == blocks.Float32:
		return spec.Elem
	}
	return blocks.Float32
}

// nodeBytes is what a node's columns will take in the store.
func (r *Job) nodeBytes() int64 {
	n := int64(len(r.Desc.Splits))
	for _, c := range r.Desc.NodeColumns {
		switch c.Role {
		case store.RoleLabel:
			n += int64(blocks.Int32.Size())
		case store.RoleFeature:
			n += int64(c.Dim) * int64(r.Options.FeatureElemOf(c).Size())
		default:
			n += int64(c.RowBytes())
		}
	}
	return n
}

// Like makes k convert to the rows of a stored column.
func (k *Converter) like(old *store.ColumnInfo) error {
	if k.spec.Dim != old.Dim && (old.Elements == nil || k.spec.Elements == nil) {
		return source.Inputf(k.spec.Name, "%d numbers a row, the store's column has %d", k.spec.Dim, old.Dim)
	}
	if old.Elements != nil && k.spec.Elements != nil && !slices.Equal(old.Elements, k.spec.Elements) {
		return source.Inputf(k.spec.Name, "made of %q, the store's column of %q", k.spec.Elements, old.Elements)
	}
	k.Elem, k.scale, k.standard, k.missing = old.Elem, old.Scale, old.Standard, MissingRow(old)
	if old.Role != store.RoleFeature && k.Elem != k.spec.Elem {
		return source.Inputf(k.spec.Name, "numbers of type %v, the store's column has %v", k.spec.Elem, old.Elem)
	}
	return nil
}

// dim is how many elements a stored row has.
func (k *Converter) dim() int { return len(k.missing) / k.Elem.Size() }

// MissingRow is the row of a node that column c says nothing about.
func MissingRow(c *store.ColumnInfo) []byte {
	if c.Role == store.RoleLabel {
		return binary.LittleEndian.AppendUint32(nil, math.MaxUint32) // −1
	}
	return make([]byte, c.RowBytes())
}

// int8Scales finds each dimension's scale: largest magnitude / 127.
func (r *Job) int8Scales(ctx context.Context, c int, k *Converter) error {
	r.Phase("scales of "+k.spec.Name, "rows", int64(r.Layout.Nodes))
	k.scale = make([]float32, k.spec.Dim)
	err := r.eachRow(ctx, c, func(rows []byte, at source.Position) error {
		size := k.spec.Elem.Size()
		for i := 0; i*size < len(rows); i++ {
			x, err := k.value(rows[i*size:], i, at)
			if err != nil {
				return err
			}
			d := i % k.spec.Dim
			k.scale[d] = max(k.scale[d], float32(math.Abs(x)))
		}
		r.Tick(int64(len(rows) / k.spec.RowBytes()))
		return ctx.Err()
	})
	for d := range k.scale {
		k.scale[d] /= 127
	}
	return err
}

// value decodes the element at the front of b, the i-th of the batch, fills in what is missing and standardises.
func (k *Converter) value(b []byte, i int, at source.Position) (float64, error) {
	x, err := k.given(b, i, at)
	if s := k.standard; s != nil {
		d := i % k.spec.Dim
		x = (x - s.Mean[d]) / s.Deviation[d]
	}
	return x, err
}

// given is value before it is standardised.
func (k *Converter) given(b []byte, i int, at source.Position) (float64, error) {
	x := k.spec.Elem.Float64(b)
	if !math.IsNaN(x) && !math.IsInf(x, 0) {
		return x, nil
	}
	name := fmt.Sprintf("column %d of %s", i%k.spec.Dim, k.spec.Name)
	if k.spec.Elements != nil {
		name = fmt.Sprintf("column %q", k.spec.Elements[i%k.spec.Dim])
	}
	switch {
	case math.IsInf(x, 0):
		return 0, source.Inputf(at.Of(i/k.spec.Dim), "%s is %v, expected a finite number", name, x)
	case k.fill == nil:
		return 0, source.Inputf(at.Of(i/k.spec.Dim), "%s has no value (NaN), expected a finite number; --missing mean or --missing zero puts one there", name)
	}
	return k.fill[i%k.spec.Dim], nil
}

// Convert appends the stored form of rows to out.
func (k *Converter) Convert(out, rows []byte, at source.Position) ([]byte, error) {
	if k.spec.Role == store.RoleLabel {
		return k.labels(out, rows, at)
	}
	if k.spec.Role == store.RoleNode && k.Elem != k.spec.Elem {
		return k.numbers(out, rows, at)
	}
	if k.spec.Role != store.RoleFeature {
		return append(out, rows...), nil
	}
	k.measure(rows)
	if k.Elem == k.spec.Elem && k.Elem != blocks.Int8 && k.standard == nil {
		if finite, err := k.checkFinite(rows, at); err != nil {
			return nil, err
		} else if finite {
			return append(out, rows...), nil
		}
	}
	size := k.spec.Elem.Size()
	le := binary.LittleEndian
	for i := 0; i*size < len(rows); i++ {
		x, err := k.value(rows[i*size:], i, at)
		if err != nil {
			return nil, err
		}
		if k.fill != nil && math.IsNaN(k.spec.Elem.Float64(rows[i*size:])) {
			k.filled++
		}
		fits := true
		switch k.Elem {
		case blocks.Float32:
			fits = !math.IsInf(float64(float32(x)), 0)
			out = le.AppendUint32(out, math.Float32bits(float32(x)))
		case blocks.Float64:
			out = le.AppendUint64(out, math.Float64bits(x))
		case blocks.Float16:
			h := blocks.Float16Bits(float32(x))
			fits = h&0x7c00 != 0x7c00
			out = le.AppendUint16(out, h)
		case blocks.BFloat16:
			h := blocks.BFloat16Bits(float32(x))
			fits = h&0x7f80 != 0x7f80
			out = le.AppendUint16(out, h)
		case blocks.Int8:
			q := 0.0
			if s := float64(k.scale[i%k.spec.Dim]); s > 0 {
				q = math.Max(-127, math.Min(127, math.RoundToEven(x/s)))
			}
			out = append(out, byte(int8(q)))
		default:
			return nil, fmt.Errorf("%w: features of type %v", source.ErrOptions, k.Elem)
		}
		if !fits {
			wider := "float32"
			if k.Elem == blocks.Float32 || math.Abs(x) > math.MaxFloat32 {
				wider = "float64"
			}
			return nil, source.Inputf(at.Of(i/k.spec.Dim), "column %d of %s is %g, too large for %v: --feature-dtype %s holds it", i%k.spec.Dim, k.spec.Name, x, k.Elem, wider)
		}
	}
	return out, nil
}

// numbers appends the stored form of numbers of learned vectors, as tables have them: integers below 2³².
func (k *Converter) numbers(out, rows []byte, at source.Position) ([]byte, error) {
	size := k.spec.Elem.Size()
	for i := 0; i*size < len(rows); i++ {
		x := k.spec.Elem.Float64(rows[i*size:])
		if !(x >= 0 && x <= math.MaxUint32) || x != math.Trunc(x) {
			return nil, source.Inputf(at.Of(i), "column %s is %g, expected an integer from 0 to %d", k.spec.Name, x, uint32(math.MaxUint32))
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(x))
	}
	return out, nil
}

// checkFinite refuses rows with NaN or infinity. Where they are not refused, finite says that there are none.
func (k *Converter) checkFinite(rows []byte, at source.Position) (finite bool, err error) {
	bad := source.NotFinite(k.Elem, rows)
	if bad < 0 {
		return true, nil
	}
	_, err = k.value(rows[bad*k.Elem.Size():], bad, at)
	return false, err
}
