package generate

import (
	"math"

	"github.com/gstore/gstore/sampler/keyed"
)

// normalBits is the resolution of the table of normal quantiles: 2¹² values,
// 16 KiB, so that drawing costs a load from the first-level cache. The values are the
// quantiles' midpoints: |x| ≤ 3.67, variance .998.
const normalBits = 12

// features draws node features: signal times the class's mean vector plus a
// standard normal number in every column.
type features struct {
	dim   int
	key   keyed.Key
	table []float32 // normal quantiles
	means []float32 // classes × dim; one row of zeros without classes
}

// newFeatures makes mean vectors with ±signal/√dim in every column, so that
// the distance between two classes does not depend on dim.
func newFeatures(root keyed.Key, dim, classes int, signal float64) features {
	f := features{dim: dim, key: root.With(keyFeatures), table: make([]float32, 1<<normalBits), means: make([]float32, max(1, classes)*dim)}
	for i := range f.table {
		p := (float64(i) + .5) / float64(len(f.table))
		f.table[i] = float32(math.Sqrt2 * math.Erfinv(2*p-1))
	}
	if classes > 0 {
		signs := root.With(keyMeans)
		for i := range f.means {
			f.means[i] = float32(signal / math.Sqrt(float64(dim)))
			if signs.At(uint64(i))>>63 != 0 {
				f.means[i] = -f.means[i]
			}
		}
	}
	return f
}

// row fills in node v's features.
func (f *features) row(v uint64, class int64, row []float32) {
	r := f.key.Rand(v)
	mean := f.means[int(class)*f.dim:][:len(row)]
	var x uint64
	for j := range row {
		if j%5 == 0 { // 64 bits hold five indices
			x = r.Uint64()
		}
		row[j] = mean[j] + f.table[x&(1<<normalBits-1)]
		x >>= normalBits
	}
}
