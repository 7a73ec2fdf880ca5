package layouts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// processed is how the largest public graphs of papers lie: in the folder processed, one for each node type, with node_feat.npy and labels,
// and one for each edge type, with edge_index.npy. Two collections do so:
//
//   - IGB: folders SOURCE__NAME__DESTINATION, edges [E, 2]; labels of 19 or of 2,983 classes; the first 60 % of the nodes that have labels are
//     the training nodes, the next 20 % the validation nodes. Features and labels of its two largest graphs have no header.
//   - MAG240M: folders SOURCE___NAME___DESTINATION, edges [2, E]; numbers of nodes in meta.pt, the split in split_dict.pt.
type processed struct {
	typedFolder
	root string
	mag  bool
	told map[string]numpy.Saved // of meta.pt
}

// IsIGB reports whether dir is laid out as IGB's graphs are.
func IsIGB(fs vfs.FS, dir string) bool { return len(processedEdges(fs, dir, typedSeparator)) > 0 }

// IsMAG reports whether dir is laid out as MAG240M is.
func IsMAG(fs vfs.FS, dir string) bool { return len(processedEdges(fs, dir, ogbSeparator)) > 0 }

// processedEdges lists the folders of edge types, whose parts a separator keeps apart.
func processedEdges(fs vfs.FS, dir, separator string) (names []string) {
	root := fs.PathJoin(dir, "processed")
	entries, err := fs.List(root)
	if err != nil {
		return nil
	}
	sort.Strings(entries)
	for _, name := range entries {
		long := strings.Contains(name, ogbSeparator)
		if long == (separator == ogbSeparator) && len(strings.Split(name, separator)) == 3 && files.Find(fs, fs.PathJoin(root, name), "edge_index.npy") != "" {
			names = append(names, name)
		}
	}
	return names
}

// OpenIGB opens a graph of IGB. label is the name of the labels' file, "" = of 19 classes.
func OpenIGB(fs vfs.FS, dir, label string) (ingest.Source, error) {
	return openProcessed(fs, dir, "igb", label)
}

// OpenMAG opens MAG240M, or what is laid out as it is.
func OpenMAG(fs vfs.FS, dir, label string) (ingest.Source, error) {
	return openProcessed(fs, dir, "mag240m", label)
}

func openProcessed(fs vfs.FS, dir, format, label string) (ingest.Source, error) {
	s := &processed{typedFolder: typedFolder{typedGraph: newTypedGraph(format, fs, dir)}, root: fs.PathJoin(dir, "processed"), mag: format == "mag240m"}
	for _, step := range []func() error{s.openRelations, s.openMeta, s.openTypes, s.openEdges, s.addCategories, func() error { return s.openLabels(label) }} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *processed) openRelations() (err error) {
	separator, shape, form, pair := typedSeparator, "[E, 2]", numpy.FormPairs, 1
	if s.mag {
		separator, shape, form, pair = ogbSeparator, "[2, E]", numpy.FormColumns, 0
	}
	for _, name := range processedEdges(s.fs, s.dir, separator) {
		part := strings.Split(name, separator)
		r := relationEdges{where: s.fs.PathJoin(s.root, name), name: strings.Join(part, ":"), src: part[0], dst: part[2], edges: -1, form: form}
		path := files.Find(s.fs, r.where, "edge_index.npy")
		s.AddFiles(path)
		if r.ends, err = numpy.OpenArray(s.fs, path); err != nil {
			return err
		}
		if len(r.ends.Shape) != 2 || r.ends.Shape[pair] != 2 || !r.ends.Integer() {
			return ingest.Inputf(path, "%v of shape %v, expected integers of shape %s", r.ends.Elem, r.ends.Shape, shape)
		}
		s.use(path, "relation "+r.name)
		s.relations = append(s.relations, r)
		for _, t := range []string{r.src, r.dst} {
			if !slices.Contains(s.types, t) {
				s.types = append(s.types, t)
			}
		}
	}
	if len(s.relations) == 0 {
		return ingest.Inputf(s.root, "no folder SOURCE%sNAME%sDESTINATION with edge_index.npy", separator, separator)
	}
	sort.Strings(s.types)
	return nil
}

// openMeta reads how many nodes there are of each type, if a file says so.
func (s *processed) openMeta() (err error) {
	path := s.fs.PathJoin(s.dir, "meta.pt")
	if !files.IsFile(s.fs, path) {
		return nil
	}
	s.AddFiles(path)
	s.told, err = numpy.OpenSaved(s.fs, path)
	return err
}

// openTypes counts each type's nodes: by their features, else as meta.pt says, else by the largest id. Features become columns.
func (s *processed) openTypes() error {
	for _, t := range s.types {
		if err := folderName(s.root, t); err != nil {
			return err
		}
		feat, err := s.flat(t, "node_feat.npy", igbDim)
		if err != nil {
			return err
		}
		n, told := int64(-1), s.told[t]
		switch {
		case feat != nil && feat.Dim() == 0:
			return ingest.Inputf(feat.Path, "shape %v, expected [N, D ≥ 1]", feat.Shape)
		case feat != nil:
			if n = feat.Rows(); told.Number > 0 && told.Number != n {
				return ingest.Inputf(feat.Path, "%d rows, expected %d as meta.pt says", n, told.Number)
			}
		case told.Number > 0 && told.List == nil:
			n = told.Number
		default:
			if n, err = s.largest(t); err != nil {
				return err
			}
		}
		if err := s.addType(s.dir, t, n); err != nil {
			return err
		}
		if feat != nil {
			s.typeColumn(t, t+".feat", store.RoleFeature, feat.Elem, feat.Dim(), feat.Path, numpy.Rows(feat))
		}
	}
	return nil
}

// igbDim is how many elements rows of features have where no header says it.
const igbDim = 1024

// flat opens an array of a node type; nil if it has none.
func (s *processed) flat(t, name string, dim int64) (*numpy.Array, error) {
	path := files.Find(s.fs, s.fs.PathJoin(s.root, t), name)
	if path == "" {
		return nil, nil
	}
	s.AddFiles(path)
	return numpy.OpenFlat(s.fs, path, blocks.Float32, dim)
}

// openLabels opens the labels of the type that has some, and the split of its nodes.
func (s *processed) openLabels(want string) error {
	want = strings.TrimSuffix(want, ".npy")
	for _, t := range s.types {
		var names []string
		for _, name := range []string{"node_label", "node_label_19", "node_label_2K"} {
			if files.Find(s.fs, s.fs.PathJoin(s.root, t), name+".npy") != "" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		name := names[0]
		if slices.Contains(names, want) {
			name = want
		}
		label, err := s.flat(t, name+".npy", 1)
		if err != nil {
			return err
		}
		if label.Rows() != s.count[t] || label.Dim() != 1 {
			return ingest.Inputf(label.Path, "shape %v, expected [%d], the number of nodes of type %s", label.Shape, s.count[t], t)
		}
		s.typeColumn(t, "label", store.RoleLabel, label.Elem, 1, label.Path, numpy.Rows(label))
		s.Desc.Uses[len(s.Desc.Uses)-1].Names = names
		for _, other := range names {
			if other != name {
				s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("%s.npy is left out: --label %s takes it as the labels", other, other))
			}
		}
		if s.mag {
			return s.openSaved()
		}
		s.openShares(name)
		return nil
	}
	return nil
}

// igbLabelled is how many nodes of IGB's largest graph have labels; those of the others all have some.
var igbLabelled = map[string]int64{"node_label_19": 227130858, "node_label_2K": 157675969}

const igbLargest = 269346174

// openShares splits nodes in the order of their ids, as igb's loader does.
func (s *processed) openShares(label string) {
	c := s.labelled()
	n := c.Rows
	if n == igbLargest {
		n = igbLabelled[label]
	}
	train, valid := int64(.6*float64(n)), int64(.2*float64(n))
	span := func(from, to int64) parts.IDs {
		return func(_ context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
			for from := from; from < to; {
				var ids ingest.IDs
				for next := min(to, from+1<<16); from < next; from++ {
					ids.Ints = append(ids.Ints, c.First+uint64(from))
				}
				if err := emit(&ids, ingest.Position{File: s.root}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	s.AddSplit("split", parts.Split{store.SplitTrain: span(0, train), store.SplitValid: span(train, train+valid), store.SplitTest: span(train+valid, n)})
	s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("split as by IGB's loader: of %d nodes with labels the first 60 %% train, the next 20 %% validate, the rest test", n))
}

// openSaved takes the split from split_dict.pt.
func (s *processed) openSaved() error {
	path := s.fs.PathJoin(s.dir, "split_dict.pt")
	if !files.IsFile(s.fs, path) {
		s.Desc.Notes = append(s.Desc.Notes, "there is no split_dict.pt")
		return nil
	}
	s.AddFiles(path)
	saved, err := numpy.OpenSaved(s.fs, path)
	if err != nil {
		return err
	}
	c, split := s.labelled(), parts.Split{}
	for _, key := range slices.Sorted(maps.Keys(saved)) {
		part, ok := map[string]uint8{"train": store.SplitTrain, "valid": store.SplitValid, "test": store.SplitTest}[key]
		if !ok {
			s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("%q of split_dict.pt is left out", key))
			continue
		}
		var ids []uint64
		for i, id := range saved[key].List {
			if id < 0 || id >= c.Rows {
				return ingest.Inputf(path, "%s, entry %d: node %d, expected 0 ≤ id < %d", key, i, id, c.Rows)
			}
			ids = append(ids, c.First+uint64(id))
		}
		split[part] = parts.Listed(ids, path)
	}
	s.AddSplit("split", split)
	return nil
}
