package layouts

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// openOGBBinary opens OGB's binary layout of one graph: raw/data.npz with
// edge_index, num_nodes_list, num_edges_list and, each optional, node_feat,
// edge_feat and edge_weight, raw/node-label.npz, and split/NAME/{train,valid,test}.csv.gz.
func openOGBBinary(fs vfs.FS, dir string) (ingest.Source, error) {
	raw := fs.PathJoin(dir, "raw")
	path := fs.PathJoin(raw, "data.npz")
	a, err := numpy.OpenArchive(fs, path)
	if err != nil {
		return nil, err
	}
	s := parts.New("ogb", dir)
	s.AddFiles(path)
	if err := ogbCounts(s, a); err != nil {
		return nil, err
	}
	want := s.Desc.Edges
	columns, err := ogbEdgeArrays(a)
	if err != nil {
		return nil, err
	}
	ends, err := a.Array("edge_index")
	if err == nil {
		err = numpy.AddEdges(s, ends, nil, columns, numpy.FormColumns)
	}
	if err != nil {
		return nil, err
	}
	if want >= 0 && want != s.Desc.Edges {
		return nil, ingest.Inputf(ends.Path, "%d edges, expected %d (num_edges_list)", s.Desc.Edges, want)
	}
	x, err := a.First("node_feat")
	if err != nil {
		return nil, err
	}
	if x != nil {
		if err := numpy.AddColumn(s, x, "x", store.RoleFeature); err != nil {
			return nil, err
		}
	}
	if labels := fs.PathJoin(raw, "node-label.npz"); files.IsFile(fs, labels) {
		l, err := numpy.OpenArchive(fs, labels)
		if err != nil {
			return nil, err
		}
		s.AddFiles(labels)
		y, err := l.Array("node_label")
		if err == nil {
			err = numpy.AddColumn(s, y, "label", store.RoleLabel)
		}
		if err != nil {
			return nil, err
		}
	}
	// splits are those of the text layout
	text := &ogbFolder{EdgeLines: &text.EdgeLines{FS: fs, Desc: ingest.Description{Task: s.Desc.Task}}}
	if err := text.openSplits(fs.PathJoin(dir, "split")); err != nil {
		return nil, err
	}
	for k, name := range text.Desc.Splits {
		split := parts.Split{}
		for part := range store.SplitNames() {
			if part > 0 {
				split[uint8(part)] = text.splitIDs(k, uint8(part))
			}
		}
		s.AddSplit(name, split)
	}
	s.Desc.Files = append(s.Desc.Files, text.Desc.Files...)
	return s, nil
}

// ogbEdgeArrays are the columns of edges of OGB's binary layout.
func ogbEdgeArrays(a *numpy.Archive) ([]numpy.EdgeColumn, error) {
	w, err := a.First("edge_weight")
	if err != nil {
		return nil, err
	}
	columns, err := numpy.Weights(w)
	if err != nil {
		return nil, err
	}
	x, err := a.First("edge_feat")
	if err == nil && x != nil {
		columns = append(columns, numpy.ColumnOf("feat", x))
	}
	return columns, err
}

// ogbCounts reads the numbers of nodes and edges, lists of one as there is one graph.
func ogbCounts(s *parts.Source, a *numpy.Archive) error {
	for key, to := range map[string]*int64{"num_nodes_list": &s.Desc.Nodes, "num_edges_list": &s.Desc.Edges} {
		if !a.Has(key) {
			continue
		}
		counts, err := a.Array(key)
		if err != nil {
			return err
		}
		if *to, err = counts.One(); err != nil {
			return err
		}
	}
	return nil
}
