package serve

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/webpage"
)

// featuresData is how the values of features are spread, of nodes that are drawn.
type featuresData struct {
	webpage.Head
	What    string
	Columns []featureColumn
}

type featureColumn struct {
	Name   string
	Charts []template.HTML
	More   int // elements that are not drawn
}

// The values of so many nodes are read for the page, and so many elements of a column are drawn.
const (
	drawnNodes    = 1000
	drawnElements = 24
	drawnBins     = 24
)

// longTail is how many times the middle value the largest is where values are drawn by their logarithms.
const longTail = 30

// featuresPage answers GET /features.
func (s *server) featuresPage(ctx context.Context, x *state, r *http.Request) (page, error) {
	m := x.st.Manifest()
	d := featuresData{Head: s.head(x, pathFeatures, "features")}
	drawn, all := x.sample(drawnNodes)
	d.What = fmt.Sprintf("%d nodes, drawn at random", len(drawn))
	if all {
		d.What = "all nodes"
	}
	for _, c := range m.ColumnsOf(store.RoleFeature) {
		f := featureColumn{Name: c.Name}
		if c.NodeType != "" {
			f.Name += " of " + c.NodeType
		}
		nodes := slices.DeleteFunc(slices.Clone(drawn), func(v store.NodeID) bool { return !hasRows(c, typeOf(m, v)) })
		columns, err := x.numbersOf(ctx, s, c, nodes)
		if err != nil {
			return page{}, err
		}
		for k, values := range columns {
			if k == drawnElements {
				f.More = len(columns) - drawnElements
				break
			}
			name, unit := "all elements", "values"
			if k < len(c.Elements) {
				name, unit = c.Elements[k], "nodes"
			}
			if chart := spread(name, unit, values); chart != "" {
				f.Charts = append(f.Charts, chart)
			}
		}
		d.Columns = append(d.Columns, f)
	}
	return page{template: "features.html", data: d}, nil
}

// numbersOf are a feature's values of nodes: of each element apart where they have names, else of all together.
func (x *state) numbersOf(ctx context.Context, s *server, c *store.ColumnInfo, nodes []store.NodeID) ([][]float64, error) {
	list := make([][]float64, max(1, len(c.Elements)))
	for part := range slices.Chunk(nodes, 1+mostNumbers/16/max(1, c.Dim)) {
		done, err := s.answers.carry(ctx, int64(len(part)*c.Dim)*numberBytes)
		if err != nil {
			return nil, err
		}
		rows, err := x.st.Features(ctx, c.Name, part, nil)
		for i := 0; err == nil && i < len(part); i++ {
			eachNumber(c, rows[i*c.RowBytes():(i+1)*c.RowBytes()], func(d int, v float64) {
				switch {
				case len(list) == c.Dim:
					list[d] = append(list[d], v)
				case len(list[0]) < drawnNodes*drawnBins:
					list[0] = append(list[0], v)
				}
			})
		}
		done()
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// spread draws how values are spread; it is empty of none.
func spread(name, unit string, values []float64) template.HTML {
	values = slices.DeleteFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(values) == 0 {
		return ""
	}
	lo, hi := slices.Min(values), slices.Max(values)
	whole := !slices.ContainsFunc(values, func(v float64) bool { return v != math.Trunc(v) })
	h := webpage.Histogram{Title: name, Y: unit}
	width := (hi - lo) / drawnBins
	bounds := func(k int) float64 { return lo + float64(k)*width }
	switch middle := slices.Sorted(slices.Values(values))[len(values)/2]; {
	case hi == lo:
		h.Note = fmt.Sprintf("Always %.5g.", lo)
		lo, width = lo-.5, 1
	case whole && hi-lo < 2*drawnBins:
		lo, width = lo-.5, 1
	case lo > 0 && hi > longTail*middle:
		h.LogX = true
		lo, width = math.Log10(lo), math.Log10(hi/lo)/drawnBins
		hi = math.Log10(hi)
		bounds = func(k int) float64 { return math.Pow(10, lo+float64(k)*width) }
	}
	bins := int(math.Ceil((hi-lo)/width - 1e-9))
	for k := range max(1, bins) {
		h.Bins = append(h.Bins, webpage.Bin{Lo: bounds(k), Hi: bounds(k + 1)})
	}
	for _, v := range values {
		if h.LogX {
			v = math.Log10(v)
		}
		h.Bins[max(0, min(len(h.Bins)-1, int((v-lo)/width)))].N++
	}
	return h.HTML()
}
