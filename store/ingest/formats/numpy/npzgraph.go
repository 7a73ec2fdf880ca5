package numpy

import (
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// OpenNPZ opens one .npz file that holds a graph: edges as edge_index int
// [2, E], or as a scipy matrix (adj_data, adj_indices, adj_indptr, adj_shape as
// in gnn-benchmark, or the same without adj_ as scipy.sparse.save_npz writes);
// features as node_feat, x or features [N, D] or as a matrix attr_*; labels;
// and a split by train_idx, valid_idx, test_idx or by boolean masks.
func OpenNPZ(fs vfs.FS, path string) (ingest.Source, error) {
	a, err := OpenArchive(fs, path)
	if err != nil {
		return nil, err
	}
	s := parts.New("npz", path)
	s.AddFiles(path)
	for _, step := range []func(*parts.Source, *Archive) error{npzEdges, npzFeatures, npzLabels, npzSplit} {
		if err := step(s, a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func npzEdges(s *parts.Source, a *Archive) error {
	ends, err := a.First("edge_index", "edges")
	if err != nil {
		return err
	}
	if ends != nil {
		types, err := a.First("edge_type", "edge_types")
		if err != nil {
			return err
		}
		x, err := a.First("edge_weight")
		if err != nil {
			return err
		}
		weights, err := Weights(x)
		if err != nil {
			return err
		}
		return AddEdges(s, ends, types, weights, FormColumns)
	}
	prefix := ""
	switch {
	case a.Has("adj_indptr"):
		prefix = "adj_"
	case a.Has("adj_matrix.indptr"):
		prefix = "adj_matrix."
	case a.Has("indptr"):
	default:
		return ingest.Inputf(a.Path, "no edges: expected the key edge_index, or a scipy matrix adj_indptr, adj_indices, … (there are: %s)", a.list())
	}
	m, transposed, err := a.csr(prefix)
	if err != nil {
		return err
	}
	if m.rows != m.cols {
		return ingest.Inputf(m.path, "shape (%d, %d), expected a square matrix of nodes", m.rows, m.cols)
	}
	uniform, err := m.uniform()
	if err != nil {
		return err
	}
	if !uniform {
		s.AddWeights()
	}
	s.Desc.Nodes, s.Desc.Edges = m.rows, m.nnz
	s.EdgeStreams = append(s.EdgeStreams, m.edges(transposed, !uniform))
	return nil
}

func npzFeatures(s *parts.Source, a *Archive) error {
	for _, prefix := range []string{"attr_", "attr_matrix.", "feature_"} {
		if !a.Has(prefix + "indptr") {
			continue
		}
		m, transposed, err := a.csr(prefix)
		if err != nil {
			return err
		}
		if transposed {
			return ingest.Inputf(m.path, "scipy format \"csc\", expected csr (.tocsr() converts)")
		}
		if s.Desc.Nodes >= 0 && m.rows != s.Desc.Nodes {
			return ingest.Inputf(m.path, "%d rows, expected %d (the number of nodes)", m.rows, s.Desc.Nodes)
		}
		rows, err := m.dense()
		if err != nil {
			return err
		}
		s.Desc.Nodes = m.rows
		s.AddColumn(ingest.ColumnSpec{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: int(m.cols), Rows: m.rows}, rows)
		return nil
	}
	x, err := a.First("node_feat", "x", "features", "feat", "attr_matrix")
	if err != nil || x == nil {
		return err
	}
	return AddColumn(s, x, "x", store.RoleFeature)
}

func npzLabels(s *parts.Source, a *Archive) error {
	y, err := a.First("node_label", "labels", "label", "y")
	if err != nil || y == nil {
		return err
	}
	return AddColumn(s, y, "label", store.RoleLabel)
}

func npzSplit(s *parts.Source, a *Archive) error {
	split := parts.Split{}
	for part, names := range map[uint8][]string{
		store.SplitTrain: {"train"}, store.SplitValid: {"valid", "val"}, store.SplitTest: {"test"},
	} {
		var ids, masks []string
		for _, n := range names {
			ids, masks = append(ids, n+"_idx", "idx_"+n, n+"_nodes"), append(masks, n+"_mask", n+"_masks")
		}
		list, err := a.First(ids...)
		if err != nil {
			return err
		}
		if list != nil {
			if split[part], err = IDs(list, 0, math.MaxInt64); err != nil {
				return err
			}
			continue
		}
		mask, err := a.First(masks...)
		if err != nil {
			return err
		}
		if mask != nil {
			if split[part], err = MaskIDs(mask, s.Desc.Nodes); err != nil {
				return err
			}
		}
	}
	if len(split) == 0 {
		return nil
	}
	if s.Desc.Task == "" {
		return ingest.Inputf(a.Path, "a split of nodes, but no labels (there are: %s)", a.list())
	}
	s.SplitStreams, s.Desc.Splits = append(s.SplitStreams, split), append(s.Desc.Splits, "split")
	return nil
}
