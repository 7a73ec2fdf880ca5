package layouts

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// edge reads a line of link.dat.
func (s *hgb) edge(fields [][]byte) (src, dst, kind uint64, weight float32, err error) {
	nodes := uint64(s.Desc.Nodes)
	if src, err = number(fields, 0, nodes, "source"); err != nil {
		return
	}
	if dst, err = number(fields, 1, nodes, "destination"); err != nil {
		return
	}
	if kind, err = number(fields, 2, hgbTypesMax, "type"); err != nil || len(fields) < 4 {
		return src, dst, kind, 1, err
	}
	w, err := table.ParseFloat(fields[3], 32)
	if err != nil {
		err = badf("%.40q, expected the weight", fields[3])
	}
	return src, dst, kind, float32(w), err
}

// openLinks finds the types of edges, and whether they have weights.
func (s *hgb) openLinks() error {
	s.Desc.Edges = 0
	weighted := false
	err := s.lines("link.dat", func(_ int, fields [][]byte) error {
		src, dst, kind, weight, err := s.edge(fields)
		if err != nil {
			return err
		}
		for int(kind) >= len(s.links) {
			s.links = append(s.links, [2]int{-1, -1})
		}
		if ends := [2]int{s.typeOf(src), s.typeOf(dst)}; s.links[kind][0] < 0 {
			s.links[kind] = ends
		} else if s.links[kind] != ends {
			return badf("an edge of type %d between types %d and %d of nodes, others are between %d and %d", kind, ends[0], ends[1], s.links[kind][0], s.links[kind][1])
		}
		s.Desc.Edges++
		weighted = weighted || weight != 1
		return nil
	})
	if err != nil {
		return err
	}
	about, taken := s.info("link.dat", "link type"), map[string]bool{}
	for k, ends := range s.links {
		name := fmt.Sprint(k)
		if ends[0] < 0 { // a number that no edge has
			ends = [2]int{0, 0}
		}
		if a, ok := about[name].(map[string]any); ok {
			if meaning, _ := a["meaning"].(string); meaning != "" {
				name = meaning
			}
		}
		name = s.types[ends[0]].name + ":" + name + ":" + s.types[ends[1]].name
		if taken[name] {
			name += fmt.Sprintf(" (%d)", k)
		}
		taken[name] = true
		s.Desc.Relations = append(s.Desc.Relations, name)
	}
	if s.Desc.HasRelation = s.hasRelation(); weighted {
		s.AddWeights()
	}
	s.EdgeStreams = append(s.EdgeStreams, s.edges(weighted))
	return nil
}

// edges streams the edges, with their weights if they have any but 1.
func (s *hgb) edges(weighted bool) parts.Edges {
	return func(ctx context.Context, _ ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		b := &ingest.EdgeBatch{At: ingest.Position{File: s.path("link.dat"), Unit: "edge"}}
		var weights []float32
		flush := func() error {
			n := b.Len()
			if weighted {
				b.Columns = [][]byte{blocks.Bytes(weights)}
			}
			err := emit(0, b)
			b.Src.Ints, b.Dst.Ints, b.Relations, weights = b.Src.Ints[:0], b.Dst.Ints[:0], b.Relations[:0], weights[:0]
			b.At.Index += uint64(n)
			return err
		}
		err := s.lines("link.dat", func(_ int, fields [][]byte) error {
			src, dst, kind, weight, err := s.edge(fields)
			if err != nil {
				return err
			}
			b.Src.Ints, b.Dst.Ints, weights = append(b.Src.Ints, src), append(b.Dst.Ints, dst), append(weights, weight)
			if s.Desc.HasRelation {
				b.Relations = append(b.Relations, uint32(kind))
			}
			if b.Len() < 1<<14 {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return flush()
		})
		if err != nil || b.Len() == 0 {
			return err
		}
		return flush()
	}
}
