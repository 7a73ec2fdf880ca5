package layouts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"gopkg.in/yaml.v3"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
)

// The parts of GraphBolt's metadata.yaml that say what a graph is. Paths are
// relative to the folder of the file.
type boltMeta struct {
	Graph struct {
		Nodes []struct {
			Type string `yaml:"type"`
			Num  int64  `yaml:"num"`
		} `yaml:"nodes"`
		Edges []struct {
			Type   string `yaml:"type"` // source:relation:destination
			Format string `yaml:"format"`
			Path   string `yaml:"path"`
		} `yaml:"edges"`
		Features []boltData `yaml:"feature_data"`
	} `yaml:"graph"`
	Features []boltData `yaml:"feature_data"`
	Tasks    []struct {
		Classes int       `yaml:"num_classes"`
		Train   []boltSet `yaml:"train_set"`
		Valid   []boltSet `yaml:"validation_set"`
		Test    []boltSet `yaml:"test_set"`
	} `yaml:"tasks"`
}

// boltSet is the part of a set that has one type of nodes or edges: arrays in parallel.
type boltSet struct {
	Type string     `yaml:"type"`
	Data []boltData `yaml:"data"`
}

// boltData is an array in a file.
type boltData struct {
	Domain string `yaml:"domain"` // "node", "edge", "graph"
	Type   string `yaml:"type"`
	Name   string `yaml:"name"`
	Format string `yaml:"format"`
	Path   string `yaml:"path"`
}

const boltMetaMax = 1 << 20 // bytes of metadata.yaml

// boltFolder is a GraphBolt data set while it is opened.
type boltFolder struct {
	*typedGraph
	meta boltMeta
	// outside allows paths that lead out of dir.
	outside bool
}

// IsGraphBolt reports whether dir is a data set of GraphBolt's.
func IsGraphBolt(fs vfs.FS, dir string) bool {
	return files.IsFile(fs, fs.PathJoin(dir, "metadata.yaml"))
}

// OpenGraphBolt opens the folder of a metadata.yaml, or that file. Edges of one
// type may stand in several entries; labels, which GraphBolt keeps beside the
// seeds of each set, become a column in which other nodes have none.
func OpenGraphBolt(fs vfs.FS, path string, outside bool) (ingest.Source, error) {
	if files.IsFile(fs, path) {
		path = fs.PathDir(path)
	}
	s := &boltFolder{typedGraph: newTypedGraph("graphbolt", fs, path), outside: outside}
	for _, step := range []func() error{s.readMeta, s.openNodes, s.openEdges, s.openFeatures, s.openSets, s.addCategories} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *boltFolder) metaPath() string { return s.fs.PathJoin(s.dir, "metadata.yaml") }

func (s *boltFolder) readMeta() (err error) {
	f, err := files.Open(s.fs, s.metaPath())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, boltMetaMax+1))
	if err != nil {
		return err
	}
	if len(b) > boltMetaMax {
		return ingest.Inputf(s.metaPath(), "more than %d bytes", boltMetaMax)
	}
	if err := yaml.Unmarshal(b, &s.meta); err != nil {
		return ingest.Inputf(s.metaPath(), "%v", err)
	}
	s.AddFiles(s.metaPath())
	return nil
}

func (s *boltFolder) openNodes() error {
	if len(s.meta.Graph.Nodes) == 0 {
		return ingest.Inputf(s.metaPath(), "graph.nodes is empty, expected the number of nodes of each type")
	}
	for k, n := range s.meta.Graph.Nodes {
		if err := s.addType(fmt.Sprintf("%s: graph.nodes[%d]", s.metaPath(), k), n.Type, n.Num); err != nil {
			return err
		}
	}
	return nil
}

func (s *boltFolder) openEdges() error {
	var relations []relationEdges
	for k, e := range s.meta.Graph.Edges {
		r := relationEdges{where: fmt.Sprintf("%s: graph.edges[%d]", s.metaPath(), k), name: e.Type, edges: -1}
		var err error
		if r.src, r.dst, err = boltTriple(r.where, e.Type); err != nil {
			return err
		}
		path, err := s.path(r.where, e.Path)
		if err != nil {
			return err
		}
		s.AddFiles(path)
		switch e.Format {
		case "numpy":
			if r.ends, err = numpy.OpenArray(s.fs, path); err != nil {
				return err
			}
		case "csv":
			r.text = path
		default:
			return ingest.Inputf(r.where, "format %q, expected csv or numpy", e.Format)
		}
		relations = append(relations, r)
	}
	if len(relations) == 0 {
		return ingest.Inputf(s.metaPath(), "graph.edges is empty")
	}
	if err := s.edgeColumns(relations); err != nil {
		return err
	}
	return s.addEdges(relations)
}

// Path resolves a path of the file.
func (s *boltFolder) path(where, rel string) (string, error) {
	if rel == "" {
		return "", ingest.Inputf(where, "no path")
	}
	// metadata.yaml comes with the data, from anybody: what else lies on this machine is not its business.
	if !s.outside && !filepath.IsLocal(filepath.FromSlash(rel)) {
		return "", ingest.Inputf(where, "path %q leads out of %s; --allow-outside reads it", rel, s.dir)
	}
	path := rel
	if !filepath.IsAbs(rel) {
		path = s.fs.PathJoin(s.dir, rel)
	}
	if !files.IsFile(s.fs, path) {
		return "", ingest.Inputf(where, "no file %s", path)
	}
	if !s.outside {
		in, err := within(s.dir, path)
		if err != nil && !in {
			return "", fmt.Errorf("open input: %w", err)
		}
		if !in {
			return "", ingest.Inputf(where, "path %q leads out of %s by a symbolic link; --allow-outside reads it", rel, s.dir)
		}
	}
	return path, nil
}

// within reports whether path lies in dir once symbolic links are followed, which file systems in memory do not have.
func within(dir, path string) (bool, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return errors.Is(err, os.ErrNotExist), err
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel), nil
}

// Array opens a .npy file.
func (s *boltFolder) array(where string, d boltData) (*numpy.Array, error) {
	if d.Format != "numpy" {
		return nil, ingest.Inputf(where, "format %q, expected numpy (torch tensors: numpy.save(path, tensor.numpy()) converts)", d.Format)
	}
	path, err := s.path(where, d.Path)
	if err != nil {
		return nil, err
	}
	s.AddFiles(path)
	return numpy.OpenArray(s.fs, path)
}

// features are the entries of feature_data, and of graph.feature_data, which GraphBolt samples with the graph: times and weights of edges.
func (s *boltFolder) features(domain string, each func(where string, d boltData) error) error {
	for _, list := range []struct {
		name string
		data []boltData
	}{{"graph.feature_data", s.meta.Graph.Features}, {"feature_data", s.meta.Features}} {
		for k, d := range list.data {
			where := fmt.Sprintf("%s: %s[%d]", s.metaPath(), list.name, k)
			if d.Domain != "node" && d.Domain != "edge" {
				return ingest.Inputf(where, "domain %q, expected node or edge: a store has no features of other things", d.Domain)
			}
			if d.Domain != domain {
				continue
			}
			if err := each(where, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// openFeatures opens the features of nodes.
func (s *boltFolder) openFeatures() error {
	return s.features("node", func(where string, d boltData) error {
		_, count, err := s.nodeType(where, d.Type)
		if err != nil {
			return err
		}
		a, err := s.array(where, d)
		if err != nil {
			return err
		}
		if a.Rows() != count || a.Dim() == 0 {
			return ingest.Inputf(a.Path, "shape %v, expected [%d, D] (the number of nodes of type %q)", a.Shape, count, d.Type)
		}
		name := s.nodeColumn(d)
		if d.Name == "" || name == boltLabel || slices.ContainsFunc(s.Desc.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Name == name }) {
			return ingest.Inputf(where, "name %q, expected one that no other column has", name)
		}
		if len(s.count) > 1 {
			s.typeColumn(d.Type, name, store.RoleFeature, a.Elem, a.Dim(), a.Path, numpy.Rows(a))
			return nil
		}
		s.AddColumn(ingest.ColumnSpec{Name: name, Role: store.RoleFeature, Elem: a.Elem, Dim: int(a.Dim()), Rows: count}, numpy.Rows(a))
		s.use(a.Path, fmt.Sprintf("feature %s [%d]", name, a.Dim()))
		return nil
	})
}

// nodeColumn is what a feature of nodes is called: in a graph of several types, TYPE.NAME.
func (s *boltFolder) nodeColumn(d boltData) string {
	if len(s.count) > 1 {
		return d.Type + "." + d.Name
	}
	return d.Name
}

// edgeColumns adds the features of edges to the entries that they are of.
func (s *boltFolder) edgeColumns(relations []relationEdges) error {
	taken := []string{boltLabel, boltSplit}
	err := s.features("node", func(_ string, d boltData) error {
		taken = append(taken, s.nodeColumn(d))
		return nil
	})
	if err != nil {
		return err
	}
	return s.features("edge", func(where string, d boltData) error {
		at := -1
		for k, r := range relations {
			if r.name != d.Type {
				continue
			}
			if at >= 0 {
				return ingest.Inputf(where, "edges of type %q stand in several entries of graph.edges, expected one where they have features", d.Type)
			}
			at = k
		}
		if at < 0 || d.Name == "" {
			return ingest.Inputf(where, "features %q of edges of type %q, expected a name, and a type of graph.edges", d.Name, d.Type)
		}
		a, err := s.array(where, d)
		if err != nil {
			return err
		}
		name := d.Name
		if slices.Contains(taken, name) { // columns of nodes and of edges have names of their own
			name = "edge_" + name
		}
		relations[at].columns = append(relations[at].columns, numpy.ColumnOf(name, a))
		return nil
	})
}
