package numpy

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// MaskIDs streams, for each split that an array has masks of, the nodes whose element is not 0: of shape [N] for one split, [S, N] (or [N, S], as
// PyG's data sets have it) for S splits. Node 0 of the array is offset.
func MaskIDs(a *Array, offset uint64, nodes int64) ([]parts.IDs, error) {
	splits, byNode := int64(0), false // byNode: the elements of a node stand together
	switch {
	case len(a.Shape) == 1 && a.Rows() == nodes:
		splits = 1
	case len(a.Shape) == 2 && a.Dim() == nodes:
		splits, byNode = a.Rows(), a.Columns
	case len(a.Shape) == 2 && a.Rows() == nodes:
		splits, byNode = a.Dim(), !a.Columns
	}
	if a.Elem.Size() != 1 || splits == 0 {
		return nil, ingest.Inputf(a.Path, "%v of shape %v, expected bool of shape [%d], or of several splits [S, %d]", a.Elem, a.Shape, nodes, nodes)
	}
	each, step := nodes, int64(1) // elements between the masks of two splits, and between those of two nodes
	if byNode {
		each, step = 1, splits
	}
	out := make([]parts.IDs, splits)
	for k := range out {
		from := int64(k) * each
		out[k] = func(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
			var ids ingest.IDs
			return a.Elements(ctx, func(first int64, b []byte) error {
				ids.Ints = ids.Ints[:0]
				for i, x := range b {
					if at := first + int64(i) - from; x != 0 && at >= 0 && at%step == 0 && at/step < nodes {
						ids.Ints = append(ids.Ints, offset+uint64(at/step))
					}
				}
				if len(ids.Ints) == 0 {
					return nil
				}
				return emit(&ids, ingest.Position{File: a.Path, Unit: "element", Index: uint64(first)})
			})
		}
	}
	return out, nil
}

// AddSplits adds as many splits as a part has lists of nodes; a part with one list has it in all of them.
func AddSplits(s *parts.Source, where string, found map[uint8][]parts.IDs) error {
	splits := 0
	for _, ids := range found {
		splits = max(splits, len(ids))
	}
	for k := range splits {
		split, name := parts.Split{}, "split"
		for part, ids := range found {
			if n := len(ids); n != 1 && n != splits {
				return ingest.Inputf(where, "masks of %d splits beside those of %d", n, splits)
			}
			split[part] = ids[min(k, len(ids)-1)]
		}
		if k > 0 {
			name = fmt.Sprintf("split_%d", k)
		}
		s.AddSplit(name, split)
	}
	return nil
}

// ValueIDs streams the nodes of which an array of a small integer each has the value.
func ValueIDs(a *Array, nodes int64, value uint64) (parts.IDs, error) {
	if a.Dim() != 1 || !a.Integer() && a.Elem.Size() != 1 || a.Rows() != nodes {
		return nil, ingest.Inputf(a.Path, "%v of shape %v, expected integers of shape [%d]", a.Elem, a.Shape, nodes)
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var ids ingest.IDs
		var values []uint64
		return a.Stream(ctx, env, files.ReadBytes, func(first int64, b []byte) error {
			values, ids.Ints = parts.Widen(values[:0], a.Elem, b), ids.Ints[:0]
			for i, x := range values {
				if x == value {
					ids.Ints = append(ids.Ints, uint64(first)+uint64(i))
				}
			}
			if len(ids.Ints) == 0 {
				return nil
			}
			return emit(&ids, ingest.Position{File: a.Path, Unit: "row", Index: uint64(first)})
		})
	}, nil
}
