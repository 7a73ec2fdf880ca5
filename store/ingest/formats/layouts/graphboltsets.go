package layouts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// Columns that the sets become.
const (
	boltLabel = "label"
	boltSplit = "split"
)

// openSets opens the sets of the first task. Those of nodes become labels and a split, those of edges the edge lists valid, test and
// train_set, with their negatives beside them.
func (s *boltFolder) openSets() error {
	if len(s.meta.Tasks) == 0 {
		return nil
	}
	if n := len(s.meta.Tasks); n > 1 {
		s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("of %d tasks the first is read", n))
	}
	task := s.meta.Tasks[0]
	if task.Classes < 0 || task.Classes > 1<<24 {
		return ingest.Inputf(s.metaPath(), "tasks[0].num_classes is %d", task.Classes)
	}
	labels := &boltLabels{nodes: s.Desc.Nodes}
	split := parts.Split{}
	for _, set := range []struct {
		name, list string
		part       uint8
		data       []boltSet
	}{{"train_set", "train_set", store.SplitTrain, task.Train}, {"validation_set", "valid", store.SplitValid, task.Valid}, {"test_set", "test", store.SplitTest, task.Test}} {
		var nodes []parts.IDs
		var edges []*edgeSet
		for k, d := range set.data {
			where := fmt.Sprintf("%s: tasks[0].%s[%d]", s.metaPath(), set.name, k)
			arrays, err := s.setArrays(where, d)
			if err != nil {
				return err
			}
			if e := arrays["seeds"]; len(e.Shape) == 2 && e.Shape[1] == 2 {
				x, err := s.edgeSet(where, d.Type, arrays)
				if err != nil {
					return err
				}
				edges = append(edges, x)
				continue
			}
			ids, err := s.nodeSet(where, d.Type, arrays, labels)
			if err != nil {
				return err
			}
			nodes = append(nodes, ids)
		}
		if len(nodes) > 0 {
			split[set.part] = joinIDs(nodes)
		}
		if err := s.addLists(set.name, set.list, edges); err != nil {
			return err
		}
	}
	if len(split) == 0 {
		return nil
	}
	if len(labels.sets) == 0 {
		return ingest.Inputf(s.metaPath(), "the sets of tasks[0] have no labels")
	}
	s.AddSplit(boltSplit, split)
	s.AddColumn(ingest.ColumnSpec{Name: boltLabel, Role: store.RoleLabel, Elem: blocks.Float64, Dim: 1, Rows: s.Desc.Nodes}, labels.rows)
	return nil
}

// setArrays opens the arrays of a part of a set, by their names; nodes or edges, whatever they are called, are "seeds".
func (s *boltFolder) setArrays(where string, set boltSet) (map[string]*numpy.Array, error) {
	arrays := map[string]*numpy.Array{}
	for _, d := range set.Data {
		name := d.Name
		switch name {
		case "seed_nodes", "node_pairs":
			name = "seeds"
		case "seeds", "labels", "indexes", "negative_srcs", "negative_dsts":
		case "timestamp", "timestamps", "time", "ts":
			return nil, ingest.Inputf(where, "%q: times of a set have no place in a store: training on links to come splits the graph's edges by their own times (graph.feature_data); leave the entry out", name)
		default:
			return nil, ingest.Inputf(where, "%q has no place in a store, expected seeds (seed_nodes, node_pairs), labels, indexes, negative_srcs or negative_dsts; leave the entry out", name)
		}
		if arrays[name] != nil {
			return nil, ingest.Inputf(where, "%q: %s are there already", d.Name, name)
		}
		var err error
		if arrays[name], err = s.array(where, d); err != nil {
			return nil, err
		}
	}
	if arrays["seeds"] == nil {
		return nil, ingest.Inputf(where, "no data named seeds")
	}
	return arrays, nil
}

// nodeSet are nodes of a set, and their labels.
func (s *boltFolder) nodeSet(where, kind string, arrays map[string]*numpy.Array, labels *boltLabels) (parts.IDs, error) {
	seeds, y := arrays["seeds"], arrays["labels"]
	if seeds.Dim() != 1 || !seeds.Integer() {
		return nil, ingest.Inputf(seeds.Path, "%v of shape %v, expected a list of node ids, or of edges [N, 2]", seeds.Elem, seeds.Shape)
	}
	first, count, err := s.nodeType(where, kind)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"indexes", "negative_srcs", "negative_dsts"} {
		if arrays[name] != nil {
			return nil, ingest.Inputf(where, "%q of a set of nodes, expected labels", name)
		}
	}
	if y != nil {
		if y.Rows() != seeds.Rows() || y.Dim() != 1 {
			return nil, ingest.Inputf(y.Path, "shape %v, expected [%d] like the seeds", y.Shape, seeds.Rows())
		}
		labels.sets = append(labels.sets, labelSet{seeds: seeds, labels: y, first: first, count: count})
	}
	return numpy.IDs(seeds, first, count)
}

// addLists makes edge lists of a set's edges and of their negatives.
func (s *boltFolder) addLists(set, name string, edges []*edgeSet) error {
	if len(edges) == 0 {
		return nil
	}
	add := func(name string, negatives bool) {
		s.Desc.EdgeLists = append(s.Desc.EdgeLists, name)
		s.ListStreams = append(s.ListStreams, func(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
			for _, e := range edges {
				if err := e.stream(ctx, env, negatives, emit); err != nil {
					return err
				}
			}
			return nil
		})
	}
	add(name, false)
	if s.Desc.Task == "" {
		s.Desc.Task = store.TaskLink
	}
	if name == "train_set" {
		s.Desc.Notes = append(s.Desc.Notes, "the edges of train_set are edge list train_set; training on links takes the graph's edges")
	}
	k := edges[0].negatives
	for _, e := range edges {
		if e.negatives != k {
			return ingest.Inputf(e.pairs.Path, "%d negatives an edge, expected %d as of the other edges of %s", e.negatives, k, set)
		}
	}
	if k > 0 {
		add(name+store.NegativesSuffix, true)
		s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("negatives of %s are edge list %s%s, %d for each edge in order: edges of %s are ranked against them; training draws its own", set, name, store.NegativesSuffix, k, name))
	}
	return nil
}

// edgeSet are edges of one type in a set, with as many negatives for each. Both forms of GraphBolt: labels that are 0 where a pair is a
// negative, and indexes that say of which edge; or negative sources and destinations beside the pairs.
type edgeSet struct {
	ids             *idsWithin
	pairs           *numpy.Array // [N, 2]
	labels, indexes *numpy.Array // [N]
	srcNeg, dstNeg  *numpy.Array // [N] or [N, K]
	negatives       int64        // an edge
}

// edgeSet opens a set's edges of a type, which are some of the graph's.
func (s *boltFolder) edgeSet(where, kind string, arrays map[string]*numpy.Array) (*edgeSet, error) {
	e := &edgeSet{ids: &idsWithin{relation: -1}, pairs: arrays["seeds"], labels: arrays["labels"], indexes: arrays["indexes"], srcNeg: arrays["negative_srcs"], dstNeg: arrays["negative_dsts"]}
	src, dst, err := boltTriple(where, kind)
	if err != nil {
		return nil, err
	}
	if e.ids.srcFirst, e.ids.srcCount, err = s.nodeType(where, src); err != nil {
		return nil, err
	}
	if e.ids.dstFirst, e.ids.dstCount, err = s.nodeType(where, dst); err != nil {
		return nil, err
	}
	relation := slices.Index(s.Desc.Relations, kind)
	if relation < 0 && (kind != "" || s.Desc.HasRelation) {
		return nil, ingest.Inputf(where, "edges of type %q, expected one of graph.edges (%q)", kind, s.Desc.Relations)
	}
	if s.Desc.HasRelation {
		e.ids.relation = relation
	}
	if !e.pairs.Integer() {
		return nil, ingest.Inputf(e.pairs.Path, "%v, expected integers", e.pairs.Elem)
	}
	edges := e.pairs.Rows()
	for _, a := range []*numpy.Array{e.labels, e.indexes, e.srcNeg, e.dstNeg} {
		if a != nil && a.Rows() != edges {
			return nil, ingest.Inputf(a.Path, "shape %v, expected %d rows like the edges", a.Shape, edges)
		}
	}
	switch {
	case (e.labels == nil) != (e.indexes == nil):
		return nil, ingest.Inputf(where, "labels of edges have no place in a store: expected labels and indexes, which say of which edge each pair is a negative, or neither")
	case e.labels != nil && (e.srcNeg != nil || e.dstNeg != nil):
		return nil, ingest.Inputf(where, "negatives in two forms: labels with indexes, and negative_srcs or negative_dsts")
	case e.labels != nil:
		return e, e.count()
	}
	for _, a := range []*numpy.Array{e.srcNeg, e.dstNeg} {
		if a != nil {
			if !a.Integer() {
				return nil, ingest.Inputf(a.Path, "%v, expected integers", a.Elem)
			}
			e.negatives += a.Dim()
		}
	}
	return e, nil
}

// boltTriple returns the types of an edge's ends by its own.
func boltTriple(where, kind string) (src, dst string, err error) {
	if kind == "" {
		return "", "", nil
	}
	parts := strings.Split(kind, ":")
	if len(parts) != 3 {
		return "", "", ingest.Inputf(where, "type %q, expected source:relation:destination", kind)
	}
	return parts[0], parts[2], nil
}

// Count tells by the labels how many pairs are edges, and how many are negatives of each.
func (e *edgeSet) count() error {
	if e.labels.Dim() != 1 || e.indexes.Dim() != 1 || !e.indexes.Integer() {
		return ingest.Inputf(e.indexes.Path, "shapes %v of labels and %v of %v, expected [%d] and integers [%[4]d]", e.labels.Shape, e.indexes.Shape, e.indexes.Elem, e.pairs.Rows())
	}
	edges := int64(0)
	err := e.labels.Elements(context.Background(), func(_ int64, b []byte) error {
		for size := e.labels.Elem.Size(); len(b) > 0; b = b[size:] {
			if nonzero(b[:size]) {
				edges++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rest := e.pairs.Rows() - edges
	if edges == 0 && rest > 0 || edges > 0 && rest%edges != 0 {
		return ingest.Inputf(e.labels.Path, "%d edges and %d negatives, expected as many for each edge", edges, rest)
	}
	if edges > 0 {
		e.negatives = rest / edges
	}
	return nil
}

// nonzero reports whether a number of any type has a bit that is set; −0 is no label.
func nonzero(b []byte) bool { return slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }

// edgeSetBatch is how many pairs of a set go on at once.
const edgeSetBatch = 1 << 14

// Stream streams the edges, or their negatives: those of an edge one after another, edges in order.
func (e *edgeSet) stream(ctx context.Context, env ingest.Env, negatives bool, emit func(*ingest.EdgeBatch) error) error {
	out := &ingest.EdgeBatch{At: ingest.Position{File: e.pairs.Path, Unit: "row"}}
	var relations []uint32
	flush := func() error {
		if out.Src.Len() == 0 {
			return nil
		}
		var err error
		if relations, err = e.ids.apply(out, relations); err == nil {
			err = emit(out)
		}
		out.Src.Ints, out.Dst.Ints, out.At.Lines = out.Src.Ints[:0], out.Dst.Ints[:0], out.At.Lines[:0]
		return err
	}
	add := func(row int64, src, dst uint64) error {
		out.Src.Ints, out.Dst.Ints, out.At.Lines = append(out.Src.Ints, src), append(out.Dst.Ints, dst), append(out.At.Lines, uint64(row))
		if out.Src.Len() < edgeSetBatch {
			return nil
		}
		return flush()
	}
	var readers []*rowReader
	for i, a := range []*numpy.Array{e.labels, e.indexes, e.srcNeg, e.dstNeg} {
		if a == nil || i >= 2 && !negatives { // the largest ones, which say nothing of edges
			readers = append(readers, nil)
			continue
		}
		c := numpy.ColumnOf("", a)
		r := pullRows(ctx, env, &c)
		defer r.stop()
		readers = append(readers, r)
	}
	var room []byte
	var ids []uint64
	row := int64(0)
	// next reads the numbers that stand beside the pair that is looked at.
	next := func(r *rowReader) (raw []byte, numbers []uint64, err error) {
		if r == nil {
			return nil, nil, nil
		}
		if room, err = r.take(1, room[:0]); err != nil {
			return nil, nil, err
		}
		ids = parts.Widen(ids[:0], r.column.Spec.Elem, room)
		return room, ids, nil
	}
	found := int64(0) // pairs that are what is asked for
	err := numpy.ListEdges(ctx, env, e.pairs, false, func(b *ingest.EdgeBatch) error {
		for i, src := range b.Src.Ints {
			dst := b.Dst.Ints[i]
			label, _, err := next(readers[0])
			if err != nil {
				return err
			}
			isEdge := e.labels == nil || nonzero(label)
			_, index, err := next(readers[1])
			if err != nil {
				return err
			}
			if e.labels != nil && isEdge != negatives {
				want := found
				if negatives {
					want /= e.negatives
				}
				if index[0] != uint64(want) {
					return ingest.Inputf(e.indexes.Path, "row %d: index %d, expected %d: edges in order, then negatives in the order of their edges", row, int64(index[0]), want)
				}
			}
			if isEdge != negatives {
				found++
				err = add(row, src, dst)
			}
			for side, r := range readers[2:] {
				_, wrong, numbersErr := next(r)
				if err == nil {
					err = numbersErr
				}
				for _, w := range wrong {
					if err != nil {
						break
					}
					if side == 0 {
						err = add(row, w, dst)
					} else {
						err = add(row, src, w)
					}
				}
			}
			if err != nil {
				return err
			}
			row++
		}
		return nil
	})
	for _, r := range readers {
		if err == nil && r != nil {
			err = r.end(row)
		}
	}
	if err != nil {
		return err
	}
	return flush()
}
