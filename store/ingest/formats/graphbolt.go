package formats

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"gopkg.in/yaml.v3"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
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
	} `yaml:"graph"`
	Features []boltData `yaml:"feature_data"`
	Tasks    []struct {
		Classes int       `yaml:"num_classes"`
		Train   []boltSet `yaml:"train_set"`
		Valid   []boltSet `yaml:"validation_set"`
		Test    []boltSet `yaml:"test_set"`
	} `yaml:"tasks"`
}

// boltSet is the part of a set that has one type of nodes: seeds and labels in parallel.
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

// openGraphBolt opens the folder of a metadata.yaml, or that file. Edges of one
// type may stand in several entries; labels, which GraphBolt keeps beside the
// seeds of each set, become a column in which other nodes have none.
func openGraphBolt(fs vfs.FS, path string, outside bool) (ingest.Source, error) {
	if isFile(fs, path) {
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
	f, err := open(s.fs, s.metaPath())
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
	s.file(s.metaPath())
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
		if e.Type != "" {
			ends := strings.Split(e.Type, ":")
			if len(ends) != 3 {
				return ingest.Inputf(r.where, "type %q, expected source:relation:destination", e.Type)
			}
			r.src, r.dst = ends[0], ends[2]
		}
		path, err := s.path(r.where, e.Path)
		if err != nil {
			return err
		}
		s.file(path)
		switch e.Format {
		case "numpy":
			if r.ends, err = openArray(s.fs, path); err != nil {
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
	return s.addEdges(relations)
}

// path resolves a path of the file.
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
	if !isFile(s.fs, path) {
		return "", ingest.Inputf(where, "no file %s", path)
	}
	return path, nil
}

// array opens a .npy file.
func (s *boltFolder) array(where string, d boltData) (*array, error) {
	if d.Format != "numpy" {
		return nil, ingest.Inputf(where, "format %q, expected numpy (torch tensors: numpy.save(path, tensor.numpy()) converts)", d.Format)
	}
	path, err := s.path(where, d.Path)
	if err != nil {
		return nil, err
	}
	s.file(path)
	return openArray(s.fs, path)
}

func (s *boltFolder) openFeatures() error {
	taken := map[string]bool{}
	for k, d := range s.meta.Features {
		where := fmt.Sprintf("%s: feature_data[%d]", s.metaPath(), k)
		if d.Domain != "node" {
			return ingest.Inputf(where, "domain %q, expected node (features of edges are not read)", d.Domain)
		}
		first, count, err := s.nodeType(where, d.Type)
		if err != nil {
			return err
		}
		a, err := s.array(where, d)
		if err != nil {
			return err
		}
		if a.rows() != count || a.dim() == 0 {
			return ingest.Inputf(a.path, "shape %v, expected [%d, D] (the number of nodes of type %q)", a.shape, count, d.Type)
		}
		spec := ingest.ColumnSpec{Name: d.Name, Role: store.RoleFeature, Elem: a.elem, Dim: int(a.dim()), First: first, Rows: count}
		if len(s.count) > 1 {
			spec.Name, spec.NodeType = d.Type+"."+d.Name, d.Type
		}
		if spec.Name == "" || spec.Name == boltLabel || taken[spec.Name] {
			return ingest.Inputf(where, "name %q, expected one that no other column has", spec.Name)
		}
		taken[spec.Name] = true
		s.column(spec, arrayRows(a))
	}
	return nil
}

// boltLabel is the column that the sets' labels become.
const boltLabel = "label"

// openSets opens the sets of the first task.
func (s *boltFolder) openSets() error {
	if len(s.meta.Tasks) == 0 {
		return nil
	}
	task := s.meta.Tasks[0]
	if task.Classes < 0 || task.Classes > 1<<24 {
		return ingest.Inputf(s.metaPath(), "tasks[0].num_classes is %d", task.Classes)
	}
	labels := &boltLabels{nodes: s.desc.Nodes}
	split := parts{}
	for _, set := range []struct {
		name string
		part uint8
		data []boltSet
	}{{"train_set", store.SplitTrain, task.Train}, {"validation_set", store.SplitValid, task.Valid}, {"test_set", store.SplitTest, task.Test}} {
		var lists []idsFunc
		for k, d := range set.data {
			where := fmt.Sprintf("%s: tasks[0].%s[%d]", s.metaPath(), set.name, k)
			ids, err := s.openSet(where, d, labels)
			if err != nil {
				return err
			}
			lists = append(lists, ids)
		}
		if len(lists) > 0 {
			split[set.part] = joinIDs(lists)
		}
	}
	if len(split) == 0 {
		return nil
	}
	if len(labels.sets) == 0 {
		return ingest.Inputf(s.metaPath(), "the sets of tasks[0] have no labels")
	}
	s.splits, s.desc.Splits = append(s.splits, split), append(s.desc.Splits, "split")
	s.column(ingest.ColumnSpec{Name: boltLabel, Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Rows: s.desc.Nodes}, labels.rows)
	return nil
}

func (s *boltFolder) openSet(where string, set boltSet, labels *boltLabels) (idsFunc, error) {
	first, count, err := s.nodeType(where, set.Type)
	if err != nil {
		return nil, err
	}
	var seeds, y *array
	for _, d := range set.Data {
		switch d.Name {
		case "seeds", "seed_nodes":
			seeds, err = s.array(where, d)
		case "labels":
			y, err = s.array(where, d)
		case "node_pairs":
			return nil, ingest.Inputf(where, "node_pairs: sets of edges are not read")
		}
		if err != nil {
			return nil, err
		}
	}
	if seeds == nil {
		return nil, ingest.Inputf(where, "no data named seeds")
	}
	if seeds.dim() != 1 || !seeds.integer() {
		return nil, ingest.Inputf(seeds.path, "%v of shape %v, expected a list of node ids (sets of edges are not read)", seeds.elem, seeds.shape)
	}
	if y != nil {
		if y.rows() != seeds.rows() || y.dim() != 1 {
			return nil, ingest.Inputf(y.path, "shape %v, expected [%d] like the seeds", y.shape, seeds.rows())
		}
		labels.sets = append(labels.sets, labelSet{seeds: seeds, labels: y, first: first, count: count})
	}
	return arrayIDs(seeds, first, count)
}
