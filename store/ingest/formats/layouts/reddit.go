package layouts

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// Files of DGL's Reddit.
const (
	redditData  = "reddit_data.npz"
	redditGraph = "reddit_graph.npz"
)

// IsReddit reports whether dir is laid out as DGL's Reddit is.
func IsReddit(fs vfs.FS, dir string) bool { return rawFolder(fs, dir, redditData, redditGraph) != "" }

// OpenReddit opens Reddit (Hamilton et al., GraphSAGE, NeurIPS 2017) as DGL packs it, and PyG downloads it:
//
//	reddit_graph.npz  the scipy matrix of all edges
//	reddit_data.npz   feature [N, D], label [N], node_types [N]: 1 for training nodes, 2 for validation nodes, 3 for test nodes
func OpenReddit(fs vfs.FS, dir string) (ingest.Source, error) {
	at := rawFolder(fs, dir, redditData, redditGraph)
	if at == "" {
		return nil, ingest.Inputf(dir, "no %s with %s", redditData, redditGraph)
	}
	s := parts.New("reddit", dir)
	s.AddFiles(fs.PathJoin(at, redditGraph), fs.PathJoin(at, redditData))
	graph, err := numpy.OpenArchive(fs, fs.PathJoin(at, redditGraph))
	if err != nil {
		return nil, err
	}
	if err := numpy.AddMatrix(s, graph, ""); err != nil {
		return nil, err
	}
	data, err := numpy.OpenArchive(fs, fs.PathJoin(at, redditData))
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		key, column string
		role        store.Role
	}{{"feature", "x", store.RoleFeature}, {"label", "label", store.RoleLabel}} {
		x, err := data.Array(c.key)
		if err == nil {
			err = numpy.AddColumn(s, x, c.column, c.role)
		}
		if err != nil {
			return nil, err
		}
	}
	types, err := data.Array("node_types")
	if err != nil {
		return nil, err
	}
	split := parts.Split{}
	for part, value := range map[uint8]uint64{store.SplitTrain: 1, store.SplitValid: 2, store.SplitTest: 3} {
		if split[part], err = numpy.ValueIDs(types, s.Desc.Nodes, value); err != nil {
			return nil, err
		}
	}
	s.AddSplit("split", split)
	return s, nil
}
