package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store"
)

// Text is a feature's name, and its value of a node of a type (−1: of none) as it was given.
func (f *Feature) Text(m *store.Manifest, kind int) (name, value string) {
	c, err := m.Column(f.Column)
	switch {
	case f.Column == VectorsColumn:
		return f.Column, ""
	case f.Column == store.TypeColumn:
		return "type of node", ""
	case f.Element < 0:
		return "learned vector of " + strings.TrimSuffix(f.Column, store.NodeSuffix), ""
	case err != nil:
		return f.Column, ""
	}
	switch {
	case len(c.Elements) == c.Dim:
		name = c.Elements[f.Element]
		if of, _, typed := strings.Cut(f.Column, "."); typed && of == c.NodeType {
			name = of + "." + name
		}
	case c.Dim == 1:
		name = f.Column
	default:
		name = fmt.Sprintf("%s[%d]", f.Column, f.Element)
	}
	if kind >= 0 && c.NodeType != "" && m.Schema.NodeTypes[kind].Name != c.NodeType {
		return name, ""
	}
	v := f.Value
	if s := c.Standard; s != nil {
		if v = v*s.Deviation[f.Element] + s.Mean[f.Element]; math.Abs(v) < 1e-6*s.Deviation[f.Element] { // of rounding
			v = 0
		}
	}
	return name, strconv.FormatFloat(v, 'g', 4, 64)
}

// RelationName is what an edge's relation is called; one against its direction has ^-1 behind it. "": the model reads none.
func (e Edge) RelationName(m *store.Manifest) string {
	rs, relation := m.Schema.Relations, e.Relation
	switch {
	case relation < 0:
		return ""
	case relation < len(rs):
		return rs[relation].Name
	case relation < 2*len(rs):
		return rs[relation-len(rs)].Name + "^-1"
	}
	return strconv.Itoa(relation)
}

// SharedEdge is an edge with its share, or Count parallel ones of one relation with theirs together.
type SharedEdge struct {
	Edge
	Count int
}

// Shared are the features and the edges that have a share, those of the largest first.
func (x *Explanation) Shared() (features []*Feature, edges []SharedEdge) {
	for i := range x.Features {
		if f := &x.Features[i]; f.Share() != 0 {
			features = append(features, f)
		}
	}
	parallel := map[Edge]int{} // edges without shares, in edges
	for _, e := range x.Edges {
		if e.Share == 0 {
			continue
		}
		key := e
		key.Share = 0
		if k, ok := parallel[key]; ok {
			edges[k].Share += e.Share
			edges[k].Count++
			continue
		}
		parallel[key] = len(edges)
		edges = append(edges, SharedEdge{e, 1})
	}
	larger := func(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) }
	slices.SortStableFunc(features, func(a, b *Feature) int { return larger(a.Share(), b.Share()) })
	slices.SortStableFunc(edges, func(a, b SharedEdge) int { return larger(a.Share, b.Share) })
	return features, edges
}
