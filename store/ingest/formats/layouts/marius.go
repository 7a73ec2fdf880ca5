package layouts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
	"gopkg.in/yaml.v3"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// mariusMeta is what MariusGNN's dataset.yaml says; −1 = there is none.
type mariusMeta struct {
	Edges      int64 `yaml:"num_edges"`
	Nodes      int64 `yaml:"num_nodes"`
	Relations  int64 `yaml:"num_relations"`
	FeatureDim int64 `yaml:"node_feature_dim"`
	Classes    int64 `yaml:"num_classes"`
}

// mariusFolder is a preprocessed data set of MariusGNN while it is opened.
type mariusFolder struct {
	*parts.Source
	fs      vfs.FS
	dir     string
	meta    mariusMeta
	elem    blocks.ElemType // of ids
	triples bool
}

// IsMarius reports whether dir is one that marius_preprocess wrote.
func IsMarius(fs vfs.FS, dir string) bool {
	return files.IsFile(fs, fs.PathJoin(dir, "dataset.yaml")) && files.IsFile(fs, fs.PathJoin(dir, "edges", "train_edges.bin"))
}

// OpenMarius opens a folder that marius_preprocess wrote: dataset.yaml,
// edges/train_edges.bin of [source, destination] or [source, relation,
// destination] in 32 or 64 bits, row after row, and each optional
// edges/train_edges_weights.bin float32, edges/{validation,test}_edges.bin,
// nodes/features.bin float32 [N, D], nodes/labels.bin, nodes/{train,
// validation,test}_nodes.bin, and the names behind the ids,
// nodes/node_mapping.txt and edges/relation_mapping.txt. Its partitions are
// not kept: gstore makes its own.
func OpenMarius(fs vfs.FS, dir string) (ingest.Source, error) {
	s := &mariusFolder{Source: parts.New("marius", dir), fs: fs, dir: dir}
	for _, step := range []func() error{s.readMeta, s.openEdges, s.openNames, s.openNodes, s.openSets} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

const mariusMetaMax = 1 << 20 // bytes of dataset.yaml

func (s *mariusFolder) readMeta() (err error) {
	path := s.fs.PathJoin(s.dir, "dataset.yaml")
	f, err := files.Open(s.fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, mariusMetaMax+1))
	if err != nil {
		return err
	}
	if len(b) > mariusMetaMax {
		return ingest.Inputf(path, "more than %d bytes", mariusMetaMax)
	}
	s.meta = mariusMeta{Edges: -1, Nodes: -1, Relations: 1, FeatureDim: -1, Classes: -1}
	if err := yaml.Unmarshal(b, &s.meta); err != nil {
		return ingest.Inputf(path, "%v", err)
	}
	for key, n := range map[string]int64{"num_edges": s.meta.Edges, "num_nodes": s.meta.Nodes, "num_relations": s.meta.Relations} {
		if n < 0 || n >= 1<<48 {
			return ingest.Inputf(path, "%s is %d, expected their number", key, n)
		}
	}
	if s.meta.FeatureDim > 1<<20 || s.meta.Relations > ingest.RelationsMax {
		return ingest.Inputf(path, "node_feature_dim %d, num_relations %d: expected at most %d and %d", s.meta.FeatureDim, s.meta.Relations, 1<<20, ingest.RelationsMax)
	}
	s.AddFiles(path)
	s.Desc.Nodes = s.meta.Nodes
	return nil
}

// raw is the array in a file without a header; nil if there is no file. A shape of −1 is as
// many rows as there are.
func (s *mariusFolder) raw(elem blocks.ElemType, rows, dim int64, names ...string) (*numpy.Array, error) {
	for _, name := range names {
		path := s.fs.PathJoin(s.dir, name)
		if !files.IsFile(s.fs, path) {
			continue
		}
		info, err := s.fs.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		row := dim * int64(elem.Size())
		if rows < 0 && info.Size()%row == 0 {
			rows = info.Size() / row
		}
		a := &numpy.Array{FS: s.fs, Path: path, Elem: elem, Shape: []int64{rows, dim}}
		if dim == 1 {
			a.Shape = a.Shape[:1]
		}
		if rows < 0 || info.Size() != rows*row {
			return nil, ingest.Inputf(path, "%d bytes, expected %d rows of %d %v", info.Size(), rows, dim, elem)
		}
		s.AddFiles(path)
		return a, nil
	}
	return nil, nil
}

func (s *mariusFolder) openEdges() error {
	path := s.fs.PathJoin(s.dir, "edges", "train_edges.bin")
	info, err := s.fs.Stat(path)
	if err != nil || info.IsDir() {
		return ingest.Inputf(path, "is not there, expected the edges")
	}
	s.elem, s.triples = blocks.Int32, s.meta.Relations > 1
	switch row := max(s.meta.Edges, 1); info.Size() {
	case 8 * row:
		s.triples = false
	case 12 * row:
		s.triples = true
	case 16 * row:
		s.elem, s.triples = blocks.Int64, false
	case 24 * row:
		s.elem, s.triples = blocks.Int64, true
	}
	ends, err := s.raw(s.elem, s.meta.Edges, s.edgeWidth(), "edges/train_edges.bin")
	if err != nil {
		return err
	}
	w, err := s.raw(blocks.Float32, s.meta.Edges, 1, "edges/train_edges_weights.bin")
	if err != nil {
		return err
	}
	weights, err := numpy.Weights(w)
	if err != nil {
		return err
	}
	if s.triples {
		s.Desc.HasRelation = true
	}
	return numpy.AddEdges(s.Source, ends, nil, weights, s.form())
}

func (s *mariusFolder) edgeWidth() int64 {
	if s.triples {
		return 3
	}
	return 2
}

func (s *mariusFolder) form() numpy.EdgeForm {
	if s.triples {
		return numpy.FormTriples
	}
	return numpy.FormPairs
}

func (s *mariusFolder) openNames() error {
	if path := files.Find(s.fs, s.dir, "nodes/node_mapping.txt"); path != "" {
		m, err := text.OpenMapped(s.fs, path, 0)
		if err != nil {
			return err
		}
		if m.Count != s.meta.Nodes {
			return ingest.Inputf(path, "%d names, expected %d (num_nodes)", m.Count, s.meta.Nodes)
		}
		s.AddFiles(path)
		s.Desc.Named, s.NameStream = true, m.Names
	}
	if !s.triples {
		return nil
	}
	path := files.Find(s.fs, s.dir, "edges/relation_mapping.txt")
	if path == "" {
		for k := range s.meta.Relations {
			s.Desc.Relations = append(s.Desc.Relations, fmt.Sprint(k))
		}
		return nil
	}
	m, err := text.OpenMapped(s.fs, path, 0)
	if err != nil {
		return err
	}
	if m.Count != s.meta.Relations {
		return ingest.Inputf(path, "%d names, expected %d (num_relations)", m.Count, s.meta.Relations)
	}
	s.AddFiles(path)
	s.Desc.Relations, err = m.List()
	return err
}

func (s *mariusFolder) openNodes() error {
	if s.meta.FeatureDim > 0 {
		x, err := s.raw(blocks.Float32, s.meta.Nodes, s.meta.FeatureDim, "nodes/features.bin")
		if err != nil {
			return err
		}
		if x == nil {
			return ingest.Inputf(s.fs.PathJoin(s.dir, "nodes", "features.bin"), "is not there, expected %d features a node", s.meta.FeatureDim)
		}
		if err := numpy.AddColumn(s.Source, x, "x", store.RoleFeature); err != nil {
			return err
		}
	}
	elem := blocks.Int32
	if info, err := s.fs.Stat(s.fs.PathJoin(s.dir, "nodes", "labels.bin")); err == nil && info.Size() == 8*s.meta.Nodes {
		elem = blocks.Int64
	}
	y, err := s.raw(elem, s.meta.Nodes, 1, "nodes/labels.bin")
	if err != nil || y == nil {
		return err
	}
	return numpy.AddColumn(s.Source, y, "label", store.RoleLabel)
}

// openSets opens the split of nodes, if there is one, or else the edges to validate and test with.
func (s *mariusFolder) openSets() error {
	split := parts.Split{}
	for part, names := range map[uint8][]string{
		store.SplitTrain: {"nodes/train_nodes.bin"}, store.SplitValid: {"nodes/validation_nodes.bin", "nodes/valid_nodes.bin"}, store.SplitTest: {"nodes/test_nodes.bin"},
	} {
		ids, err := s.raw(s.elem, -1, 1, names...)
		if err != nil {
			return err
		}
		if ids == nil {
			continue
		}
		if split[part], err = numpy.IDs(ids, 0, math.MaxInt64); err != nil {
			return err
		}
	}
	if len(split) > 0 && s.Desc.Task == store.TaskNode {
		s.AddSplit("split", split)
		return nil
	}
	if len(split) > 0 {
		return ingest.Inputf(s.fs.PathJoin(s.dir, "nodes"), "a split of nodes, but no labels.bin")
	}
	for _, list := range []struct{ name, file, other string }{
		{"valid", "edges/validation_edges.bin", "edges/valid_edges.bin"}, {"test", "edges/test_edges.bin", "edges/test_edges.bin"},
	} {
		a, err := s.raw(s.elem, -1, s.edgeWidth(), list.file, list.other)
		if err != nil {
			return err
		}
		if a != nil {
			s.Desc.EdgeLists, s.ListStreams = append(s.Desc.EdgeLists, list.name), append(s.ListStreams, s.arrayList(a))
			s.Desc.Task = store.TaskLink
		}
	}
	return nil
}

// arrayList streams an edge list's rows.
func (s *mariusFolder) arrayList(a *numpy.Array) parts.List {
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
		return numpy.ListEdges(ctx, env, a, s.triples, emit)
	}
}
