package eval

import (
	"context"
	"math/bits"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/spill"
)

// RankDetail is what the ranks of a list are made of: of heads and of tails, by relation and by kind of relation. It is of
// filtered ranks among all nodes or a sample; negatives of the data set's own have none.
type RankDetail struct {
	Head      SideMetrics       `json:"head"` // of (?, r, tail)
	Tail      SideMetrics       `json:"tail"` // of (head, r, ?)
	Kinds     []KindMetrics     `json:"kinds"`
	Relations []RelationMetrics `json:"relations"` // in the schema's order, those that the list has
}

// SideMetrics are those of some questions: filtered, equal scores half a place. All but Queries are 0 without one.
type SideMetrics struct {
	Queries int64   `json:"queries"`
	MRR     float64 `json:"mrr"`
	Hits1   float64 `json:"hits1"`
	Hits3   float64 `json:"hits3"`
	Hits10  float64 `json:"hits10"`
}

// KindMetrics are those of relations of one kind, see [kindOf].
type KindMetrics struct {
	Kind      string      `json:"kind"`
	Relations int         `json:"relations"` // that the list has
	Head      SideMetrics `json:"head"`
	Tail      SideMetrics `json:"tail"`
}

// RelationMetrics are those of a relation.
type RelationMetrics struct {
	Relation string      `json:"relation"`
	Kind     string      `json:"kind"`
	Head     SideMetrics `json:"head"`
	Tail     SideMetrics `json:"tail"`
}

// kinds of relations, in the order in which they are told.
var kinds = []string{"1-1", "1-n", "n-1", "n-n"}

// kindMany is the mean from which on a relation has many heads a tail, or tails a head (Bordes et al., NIPS 2013,
// section 4.3).
const kindMany = 1.5

// kindOf is the kind of a relation of so many edges from so many different heads to so many different tails: "1-n" has
// many tails a head and one head a tail. One without edges is "1-1".
func kindOf(edges, heads, tails int64) string {
	many := func(ends int64) bool { return float64(edges) >= kindMany*float64(max(ends, 1)) && edges > 1 }
	switch headsOfTail, tailsOfHead := many(tails), many(heads); {
	case headsOfTail && tailsOfHead:
		return "n-n"
	case headsOfTail:
		return "n-1"
	case tailsOfHead:
		return "1-n"
	}
	return "1-1"
}

// relationCounts is what the store's edges say of a relation: how many there are, and of how many different ends.
type relationCounts struct{ edges, heads, tails int64 }

// countRelations counts the edges of the store, of which those of lists are none. It sets a bit a node and row of
// relations in seen, [words], 1 or more: where there is too little room, of some at a time, each with a pass over the edges.
func (v *Ranker) countRelations(ctx context.Context, seen []uint64) ([]relationCounts, error) {
	counts, rows := make([]relationCounts, v.relations), int(2*v.relations)
	for i := range v.e.tiles {
		for p := (part{tile: &v.e.tiles[i]}); p.first < p.tile.Nodes; p.first += p.nodes {
			p.nodes = min(p.tile.Nodes-p.first, 64*len(seen))
			for p.row = 0; p.row < rows; p.row += p.rows {
				p.rows = min(rows-p.row, 64*len(seen)/p.nodes)
				if err := v.countPart(ctx, p, seen, counts); err != nil {
					return nil, err
				}
			}
		}
	}
	return counts, nil
}

// part is some nodes of a tile and some rows of relations.
type part struct {
	tile         *Tile
	first, nodes int
	row, rows    int
}

// countPart counts the edges into a part's nodes, both ways, of its rows, and those nodes, which are tails of edges and, of inverse
// relations, heads.
func (v *Ranker) countPart(ctx context.Context, p part, seen []uint64, counts []relationCounts) error {
	m := v.st.Manifest()
	everything := Tile{Hi: len(m.Partitions), Nodes: int(m.Nodes)}
	clear(seen)
	err := v.filter.each(ctx, everything, *p.tile, func(d, _ uint32, e about) {
		node, row := int(d)-p.first, int(e.relation)-p.row
		if node < 0 || node >= p.nodes || row < 0 || row >= p.rows {
			return
		}
		at := row*p.nodes + node
		seen[at/64] |= 1 << (at % 64)
		if uint32(e.relation) < v.relations { // each edge once
			counts[e.relation].edges++
		}
	})
	if err != nil {
		return err
	}
	for row := range p.rows {
		ends := ones(seen, row*p.nodes, (row+1)*p.nodes)
		if r := uint32(p.row + row); r < v.relations {
			counts[r].tails += ends
		} else {
			counts[r-v.relations].heads += ends
		}
	}
	return nil
}

// ones counts the bits lo ≤ i < hi that are set.
func ones(b []uint64, lo, hi int) (n int64) {
	for lo < hi {
		end := min(hi, lo/64*64+64)
		word := b[lo/64] >> (lo % 64)
		if width := end - lo; width < 64 {
			word &= 1<<width - 1
		}
		n += int64(bits.OnesCount64(word))
		lo = end
	}
	return n
}

// detailOf is the detail of a list whose ranks were added up by row of relations, as sums.
func (v *Ranker) detailOf(ctx context.Context, rows []SideMetrics) (*RankDetail, error) {
	if v.counts == nil {
		if err := spill.Grow(&v.scores, v.scoreBytes); err != nil {
			return nil, err
		}
		seen, err := blocks.View[uint64](v.scores.Bytes())
		if err != nil {
			return nil, err
		}
		if v.counts, err = v.countRelations(ctx, seen); err != nil {
			return nil, err
		}
	}
	d := &RankDetail{}
	byKind := map[string]*KindMetrics{}
	schema := v.st.Manifest().Schema.Relations
	for r := range v.relations {
		tail, head := rows[r], rows[r+v.relations]
		if tail.Queries+head.Queries == 0 {
			continue
		}
		c := v.counts[r]
		x := RelationMetrics{Kind: kindOf(c.edges, c.heads, c.tails), Head: head.mean(), Tail: tail.mean()}
		if int(r) < len(schema) {
			x.Relation = schema[r].Name
		}
		d.Relations = append(d.Relations, x)
		k := byKind[x.Kind]
		if k == nil {
			k = &KindMetrics{Kind: x.Kind}
			byKind[x.Kind] = k
		}
		k.Relations++
		k.Head.sum(head)
		k.Tail.sum(tail)
		d.Head.sum(head)
		d.Tail.sum(tail)
	}
	d.Head, d.Tail = d.Head.mean(), d.Tail.mean()
	for _, kind := range kinds {
		if k := byKind[kind]; k != nil {
			k.Head, k.Tail = k.Head.mean(), k.Tail.mean()
			d.Kinds = append(d.Kinds, *k)
		}
	}
	return d, nil
}

// add counts one answer: the fields are sums until mean.
func (m *SideMetrics) add(rank float64) {
	m.Queries++
	m.MRR += 1 / rank
	for _, h := range []struct {
		at  float64
		sum *float64
	}{{1, &m.Hits1}, {3, &m.Hits3}, {10, &m.Hits10}} {
		if rank <= h.at {
			*h.sum++
		}
	}
}

// sum adds other sums.
func (m *SideMetrics) sum(o SideMetrics) {
	m.Queries += o.Queries
	m.MRR, m.Hits1, m.Hits3, m.Hits10 = m.MRR+o.MRR, m.Hits1+o.Hits1, m.Hits3+o.Hits3, m.Hits10+o.Hits10
}

func (m SideMetrics) mean() SideMetrics {
	n := float64(max(m.Queries, 1))
	m.MRR, m.Hits1, m.Hits3, m.Hits10 = m.MRR/n, m.Hits1/n, m.Hits3/n, m.Hits10/n
	return m
}
