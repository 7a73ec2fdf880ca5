package numpy

import (
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// OpenNPZ opens one .npz file that holds a graph: edges as edge_index int
// [2, E], or as a scipy matrix (adj_data, adj_indices, adj_indptr, adj_shape as
// in gnn-benchmark, or the same without adj_ as scipy.sparse.save_npz writes);
// features as node_feat, x or features [N, D] or as a matrix attr_*; labels;
// and a split by train_idx, valid_idx, test_idx or by boolean masks, of which there
// may be those of several splits ([MaskIDs]); masks of integers are lists of nodes.
// Keys that are not read are noted.
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
	if left := a.unread(); left != nil {
		s.Desc.Notes = append(s.Desc.Notes, "not read: "+table.Listed(left))
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
		columns, err := Weights(x)
		if err != nil {
			return err
		}
		further, err := npzEdgeColumns(a)
		if err != nil {
			return err
		}
		columns = append(columns, further...)
		// Platonov et al., "A critical look at the evaluation of GNNs under heterophily" (ICLR 2023), store each edge once.
		s.Desc.Undirected = a.Has("edges", "node_features", "node_labels", "train_masks")
		return AddEdges(s, ends, types, columns, FormColumns)
	}
	prefix := ""
	switch {
	case a.Has("adj_indptr"):
		prefix = "adj_"
	case a.Has("adj_matrix.indptr"):
		prefix = "adj_matrix."
	case a.Has("indptr"), a.Has("row", "col", "shape"):
	default:
		return ingest.Inputf(a.Path, "no edges: expected the key edge_index, or a scipy matrix adj_indptr, adj_indices, … (there are: %s)", a.list())
	}
	return AddMatrix(s, a, prefix)
}

// npzEdgeColumns are the features and times of edges.
func npzEdgeColumns(a *Archive) (columns []EdgeColumn, err error) {
	x, err := a.First("edge_attr", "edge_feat", "edge_features")
	if err != nil {
		return nil, err
	}
	if x != nil {
		columns = append(columns, ColumnOf("edge_attr", x))
	}
	t, err := a.First("edge_time", "edge_timestamp", "edge_times", "edge_timestamps", "timestamp", "timestamps")
	if err == nil && t != nil && t.Elem == blocks.Int64 && t.Dim() == 1 {
		columns = append(columns, ColumnOf("timestamp", t))
	}
	return columns, err
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
	x, err := a.First("node_feat", "x", "features", "feat", "attr_matrix", "node_features", "feature")
	if err != nil || x == nil {
		return err
	}
	return AddColumn(s, x, "x", store.RoleFeature)
}

func npzLabels(s *parts.Source, a *Archive) error {
	y, err := a.First("node_label", "labels", "label", "y", "node_labels")
	if err != nil || y == nil {
		return err
	}
	return AddColumn(s, y, "label", store.RoleLabel)
}

func npzSplit(s *parts.Source, a *Archive) error {
	found := map[uint8][]parts.IDs{}
	for part, names := range map[uint8][]string{
		store.SplitTrain: {"train"}, store.SplitValid: {"valid", "val"}, store.SplitTest: {"test"},
	} {
		var lists, masks []string
		for _, n := range names {
			lists, masks = append(lists, n+"_idx", "idx_"+n, n+"_nodes"), append(masks, n+"_mask", n+"_masks")
		}
		list, err := a.First(lists...)
		if err != nil {
			return err
		}
		mask, err := a.First(masks...)
		if err != nil {
			return err
		}
		if list == nil && mask != nil && len(mask.Shape) == 1 && mask.Integer() && mask.Rows() != s.Desc.Nodes { // as DGraph-Fin has them
			list = mask
		}
		switch {
		case (list != nil || mask != nil) && s.Desc.Task == "":
			return ingest.Inputf(a.Path, "a split of nodes, but no labels (there are: %s)", a.list())
		case list != nil:
			ids, err := IDs(list, 0, math.MaxInt64)
			if err != nil {
				return err
			}
			found[part] = []parts.IDs{ids}
		case mask != nil:
			if found[part], err = MaskIDs(mask, 0, s.Desc.Nodes); err != nil {
				return err
			}
		}
	}
	return AddSplits(s, a.Path, found)
}
