package ingest

import (
	"fmt"
	"math"
)

// scaleRatio is how much larger than another a column of one feature, or than 1 a vector beside standardised numbers, may be before a
// note says so: a linear layer that begins with weights of one size sees nothing of the smaller one.
const scaleRatio = 100

// measure notes the largest magnitude of each column that a feature is made of, or of a table's vectors as a whole. What is standardised is
// not measured.
func (k *Converter) measure(rows []byte) {
	dim := 1
	if k.spec.Measured && len(k.spec.Elements) > 1 {
		dim = k.spec.Dim
	}
	if k.standard != nil || dim == 1 && !k.spec.Keyed {
		return
	}
	if k.largest == nil {
		k.largest = make([]float64, dim)
	}
	size := k.spec.Elem.Size()
	for i := 0; i*size < len(rows); i++ {
		if x := math.Abs(k.spec.Elem.Float64(rows[i*size:])); x > k.largest[i%dim] {
			k.largest[i%dim] = x
		}
	}
}

// scaleNote says that columns that became one feature are of very different scale, or a feature as a whole is large; "" = they are not.
func (k *Converter) scaleNote() string {
	small, large := -1, -1
	for d, x := range k.largest {
		if x > 0 && (small < 0 || x < k.largest[small]) {
			small = d
		}
		if large < 0 || x > k.largest[large] {
			large = d
		}
	}
	switch {
	case small < 0:
		return ""
	case len(k.largest) == 1 && k.largest[0] >= scaleRatio:
		return fmt.Sprintf("values of %s reach %.4g, beside features of about 1 training may not see much else; --normalize=all brings every feature to one scale", k.spec.Name, k.largest[0])
	case k.largest[large] < scaleRatio*k.largest[small]:
		return ""
	}
	return fmt.Sprintf("columns of %s are of very different scale: %q up to %.4g, %q up to %.4g; --normalize=all brings them to one",
		k.spec.Name, k.spec.Elements[large], k.largest[large], k.spec.Elements[small], k.largest[small])
}

// standardNote says how a feature was brought to mean 0; "" = it is as it was.
func (k *Converter) standardNote(rule Normalize) string {
	switch {
	case k.bag:
		return fmt.Sprintf("%s is not standardised: its %d columns are 0 and 1, and mostly 0 (--normalize=all standardises them)", k.spec.Name, k.spec.Dim)
	case k.standard == nil:
		return ""
	case rule == NormalizeAll:
		return fmt.Sprintf("%s is standardised: each of its %d elements less its mean, over its deviation", k.spec.Name, k.spec.Dim)
	case k.spec.Dim == 1:
		return fmt.Sprintf("%s is standardised: its mean becomes 0 and its deviation 1 (--normalize=none takes it as it is)", k.spec.Name)
	}
	return fmt.Sprintf("%s is standardised: the means of its %d columns become 0 and their deviations 1 (--normalize=none takes them as they are)", k.spec.Name, k.spec.Dim)
}
