package formats

import (
	"math"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// openNPZ opens one .npz file that holds a graph: edges as edge_index int
// [2, E], or as a scipy matrix (adj_data, adj_indices, adj_indptr, adj_shape as
// in gnn-benchmark, or the same without adj_ as scipy.sparse.save_npz writes);
// features as node_feat, x or features [N, D] or as a matrix attr_*; labels;
// and a split by train_idx, valid_idx, test_idx or by boolean masks.
func openNPZ(fs vfs.FS, path string) (ingest.Source, error) {
	a, err := openArchive(fs, path)
	if err != nil {
		return nil, err
	}
	s := newComposed("npz", path)
	s.file(path)
	for _, step := range []func(*archive) error{s.npzEdges, s.npzFeatures, s.npzLabels, s.npzSplit} {
		if err := step(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *composed) npzEdges(a *archive) error {
	ends, err := a.first("edge_index", "edges")
	if err != nil {
		return err
	}
	if ends != nil {
		types, err := a.first("edge_type", "edge_types")
		if err != nil {
			return err
		}
		x, err := a.first("edge_weight")
		if err != nil {
			return err
		}
		weights, err := weightArray(x)
		if err != nil {
			return err
		}
		return s.arrayEdges(ends, types, weights, formColumns)
	}
	prefix := ""
	switch {
	case a.has("adj_indptr"):
		prefix = "adj_"
	case a.has("adj_matrix.indptr"):
		prefix = "adj_matrix."
	case a.has("indptr"):
	default:
		return ingest.Inputf(a.path, "no edges: expected the key edge_index, or a scipy matrix adj_indptr, adj_indices, … (there are: %s)", a.list())
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
		s.weightColumn()
	}
	s.desc.Nodes, s.desc.Edges = m.rows, m.nnz
	s.edges = append(s.edges, m.edges(transposed, !uniform))
	return nil
}

func (s *composed) npzFeatures(a *archive) error {
	for _, prefix := range []string{"attr_", "attr_matrix.", "feature_"} {
		if !a.has(prefix + "indptr") {
			continue
		}
		m, transposed, err := a.csr(prefix)
		if err != nil {
			return err
		}
		if transposed {
			return ingest.Inputf(m.path, "scipy format \"csc\", expected csr (.tocsr() converts)")
		}
		if s.desc.Nodes >= 0 && m.rows != s.desc.Nodes {
			return ingest.Inputf(m.path, "%d rows, expected %d (the number of nodes)", m.rows, s.desc.Nodes)
		}
		rows, err := m.dense()
		if err != nil {
			return err
		}
		s.desc.Nodes = m.rows
		s.column(ingest.ColumnSpec{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: int(m.cols), Rows: m.rows}, rows)
		return nil
	}
	x, err := a.first("node_feat", "x", "features", "feat", "attr_matrix")
	if err != nil || x == nil {
		return err
	}
	return s.arrayColumn(x, "x", store.RoleFeature)
}

func (s *composed) npzLabels(a *archive) error {
	y, err := a.first("node_label", "labels", "label", "y")
	if err != nil || y == nil {
		return err
	}
	return s.arrayColumn(y, "label", store.RoleLabel)
}

func (s *composed) npzSplit(a *archive) error {
	split := parts{}
	for part, names := range map[uint8][]string{
		store.SplitTrain: {"train"}, store.SplitValid: {"valid", "val"}, store.SplitTest: {"test"},
	} {
		var ids, masks []string
		for _, n := range names {
			ids, masks = append(ids, n+"_idx", "idx_"+n, n+"_nodes"), append(masks, n+"_mask", n+"_masks")
		}
		list, err := a.first(ids...)
		if err != nil {
			return err
		}
		if list != nil {
			if split[part], err = arrayIDs(list, 0, math.MaxInt64); err != nil {
				return err
			}
			continue
		}
		mask, err := a.first(masks...)
		if err != nil {
			return err
		}
		if mask != nil {
			if split[part], err = maskIDs(mask, s.desc.Nodes); err != nil {
				return err
			}
		}
	}
	if len(split) == 0 {
		return nil
	}
	if s.desc.Task == "" {
		return ingest.Inputf(a.path, "a split of nodes, but no labels (there are: %s)", a.list())
	}
	s.splits, s.desc.Splits = append(s.splits, split), append(s.desc.Splits, "split")
	return nil
}

// openOGBBinary opens OGB's binary layout of one graph: raw/data.npz with
// edge_index, num_nodes_list, num_edges_list and, each optional, node_feat,
// edge_feat and edge_weight, raw/node-label.npz, and split/NAME/{train,valid,test}.csv.gz.
func openOGBBinary(fs vfs.FS, dir string) (ingest.Source, error) {
	raw := fs.PathJoin(dir, "raw")
	path := fs.PathJoin(raw, "data.npz")
	a, err := openArchive(fs, path)
	if err != nil {
		return nil, err
	}
	s := newComposed("ogb", dir)
	s.file(path)
	if err := s.ogbCounts(a); err != nil {
		return nil, err
	}
	want := s.desc.Edges
	columns, err := ogbEdgeArrays(a)
	if err != nil {
		return nil, err
	}
	ends, err := a.array("edge_index")
	if err == nil {
		err = s.arrayEdges(ends, nil, columns, formColumns)
	}
	if err != nil {
		return nil, err
	}
	if want >= 0 && want != s.desc.Edges {
		return nil, ingest.Inputf(ends.path, "%d edges, expected %d (num_edges_list)", s.desc.Edges, want)
	}
	x, err := a.first("node_feat")
	if err != nil {
		return nil, err
	}
	if x != nil {
		if err := s.arrayColumn(x, "x", store.RoleFeature); err != nil {
			return nil, err
		}
	}
	if labels := fs.PathJoin(raw, "node-label.npz"); isFile(fs, labels) {
		l, err := openArchive(fs, labels)
		if err != nil {
			return nil, err
		}
		s.file(labels)
		y, err := l.array("node_label")
		if err == nil {
			err = s.arrayColumn(y, "label", store.RoleLabel)
		}
		if err != nil {
			return nil, err
		}
	}
	// splits are those of the text layout
	text := &ogbFolder{edgeList: &edgeList{fs: fs, desc: ingest.Description{Task: s.desc.Task}}}
	if err := text.openSplits(fs.PathJoin(dir, "split")); err != nil {
		return nil, err
	}
	for k, name := range text.desc.Splits {
		split := parts{}
		for part := range store.SplitNames() {
			if part > 0 {
				split[uint8(part)] = text.splitIDs(k, uint8(part))
			}
		}
		s.splits, s.desc.Splits = append(s.splits, split), append(s.desc.Splits, name)
	}
	s.desc.Files = append(s.desc.Files, text.desc.Files...)
	return s, nil
}

// ogbEdgeArrays are the columns of edges of OGB's binary layout.
func ogbEdgeArrays(a *archive) ([]relationColumn, error) {
	w, err := a.first("edge_weight")
	if err != nil {
		return nil, err
	}
	columns, err := weightArray(w)
	if err != nil {
		return nil, err
	}
	x, err := a.first("edge_feat")
	if err == nil && x != nil {
		columns = append(columns, edgeArray("feat", x))
	}
	return columns, err
}

// ogbCounts reads the numbers of nodes and edges, lists of one as there is one graph.
func (s *composed) ogbCounts(a *archive) error {
	for key, to := range map[string]*int64{"num_nodes_list": &s.desc.Nodes, "num_edges_list": &s.desc.Edges} {
		if !a.has(key) {
			continue
		}
		counts, err := a.array(key)
		if err != nil {
			return err
		}
		if *to, err = counts.one(); err != nil {
			return err
		}
	}
	return nil
}

// isFile reports whether path is a file.
func isFile(fs vfs.FS, path string) bool {
	info, err := fs.Stat(path)
	return err == nil && !info.IsDir()
}

// findSuffix returns the only file of dir whose name has the suffix; "" if there is none, or more.
func findSuffix(fs vfs.FS, dir, suffix string) string {
	names, err := fs.List(dir)
	if err != nil {
		return ""
	}
	found := ""
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			if found != "" {
				return ""
			}
			found = fs.PathJoin(dir, n)
		}
	}
	return found
}
