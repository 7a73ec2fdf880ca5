package layouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

// typedFolder is a graph of several types: a folder for each node type that has data, nodes/TYPE/{feat,label}.npy, and one for each edge
// type, edges/SOURCE__NAME__DESTINATION/edge_index.npy [2, E] with ids that count from 0 in each node type. An edge type may have
// edge_weight.npy float32 [E], edge_time.npy int64 [E] and features, edge_NAME.npy [E, D]. split*/{train,valid,test}.npy list nodes of the type with labels.
//
// Nodes are numbered type by type, in the order of node_types.txt, else of the alphabet; edge types likewise. An edge of a type
// without weights has weight 1, one of a type without times was always there: its time is the least int64.
type typedFolder struct {
	*typedGraph
	relations []relationEdges
	types     []string
}

// typedSeparator stands between the parts of an edge type's folder.
const typedSeparator = "__"

// IsTyped reports whether dir is laid out so.
func IsTyped(fs vfs.FS, dir string) bool {
	for _, name := range typedFolders(fs, dir) {
		if files.Find(fs, fs.PathJoin(dir, "edges", name), "edge_index.npy") != "" {
			return true
		}
	}
	return false
}

// typedFolders lists the folders of edge types.
func typedFolders(fs vfs.FS, dir string) (names []string) {
	entries, err := fs.List(fs.PathJoin(dir, "edges"))
	if err != nil {
		return nil
	}
	sort.Strings(entries)
	for _, name := range entries {
		info, err := fs.Stat(fs.PathJoin(dir, "edges", name))
		if err == nil && info.IsDir() && len(strings.Split(name, typedSeparator)) == 3 {
			names = append(names, name)
		}
	}
	return names
}

// OpenTyped opens the folder.
func OpenTyped(fs vfs.FS, dir string) (ingest.Source, error) {
	s := &typedFolder{typedGraph: newTypedGraph("typed", fs, dir)}
	for _, step := range []func() error{s.openRelations, s.openTypes, s.openEdges, s.openColumns, s.addCategories, s.openSplits} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Array opens an array that need not be there.
func (s *typedFolder) array(parts ...string) (*numpy.Array, error) {
	path := files.Find(s.fs, s.fs.PathJoin(append([]string{s.dir}, parts[:len(parts)-1]...)...), parts[len(parts)-1])
	if path == "" {
		return nil, nil
	}
	s.AddFiles(path)
	return numpy.OpenArray(s.fs, path)
}

// ordered puts names in the order of a file, if there is one that lists them all.
func (s *typedFolder) ordered(file string, names []string, key func(line string) string) ([]string, error) {
	path := files.Find(s.fs, s.dir, file)
	if path == "" {
		return names, nil
	}
	s.AddFiles(path)
	ls, err := files.Lines(s.fs, path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range ls {
		if l = key(l); l != "" {
			out = append(out, l)
		}
	}
	for _, n := range names {
		if !slices.Contains(out, n) {
			return nil, ingest.Inputf(path, "%q is not listed", n)
		}
	}
	return out, nil
}

func (s *typedFolder) openRelations() error {
	names, err := s.ordered("edge_types.txt", typedFolders(s.fs, s.dir), func(l string) string { return strings.Join(strings.Fields(l), typedSeparator) })
	if err != nil {
		return err
	}
	for _, name := range names {
		parts := strings.Split(name, typedSeparator)
		where := s.fs.PathJoin(s.dir, "edges", name)
		if len(parts) != 3 {
			return ingest.Inputf(where, "edge type %q, expected source%sname%sdestination", name, typedSeparator, typedSeparator)
		}
		if err := folderName(where, name); err != nil {
			return err
		}
		r := relationEdges{where: where, name: strings.Join(parts, ":"), src: parts[0], dst: parts[2], edges: -1}
		if r.ends, err = s.array("edges", name, "edge_index.npy"); err != nil {
			return err
		}
		switch {
		case r.ends == nil:
			return ingest.Inputf(where, "no edge_index.npy")
		case len(r.ends.Shape) != 2 || r.ends.Shape[0] != 2 || !r.ends.Integer():
			return ingest.Inputf(r.ends.Path, "%v of shape %v, expected integers of shape [2, E]", r.ends.Elem, r.ends.Shape)
		}
		s.use(r.ends.Path, "relation "+r.name)
		if r.columns, err = s.edgeColumns(name, r.ends.Dim()); err != nil {
			return err
		}
		s.relations = append(s.relations, r)
		for _, t := range []string{r.src, r.dst} {
			if !slices.Contains(s.types, t) {
				s.types = append(s.types, t)
			}
		}
	}
	if len(s.relations) == 0 {
		return ingest.Inputf(s.dir, "no folder edges/SOURCE%sNAME%sDESTINATION", typedSeparator, typedSeparator)
	}
	return nil
}

// plainColumns are the columns of edges that are one number, of a type of their own.
var plainColumns = map[string]blocks.ElemType{"weight": blocks.Float32, "time": blocks.Int64}

// edgeColumns opens what lies beside the edges of a type: edge_weight.npy float32 [E], edge_time.npy int64 [E] and features edge_NAME.npy [E, D].
func (s *typedFolder) edgeColumns(folder string, edges int64) (columns []numpy.EdgeColumn, err error) {
	entries, err := s.fs.List(s.fs.PathJoin(s.dir, "edges", folder))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	sort.Strings(entries)
	for _, file := range entries {
		name, ok := strings.CutPrefix(strings.TrimSuffix(files.PlainName(file), ".npy"), "edge_")
		if !ok || name == "index" || !strings.HasSuffix(files.PlainName(file), ".npy") {
			continue
		}
		a, err := s.array("edges", folder, files.PlainName(file))
		if err != nil {
			return nil, err
		}
		if a == nil {
			return nil, ingest.Inputf(s.fs.PathJoin(s.dir, "edges", folder, file), "it is no file, expected an array")
		}
		if elem := plainColumns[name]; elem != 0 && (a.Elem != elem || a.Dim() != 1 || a.Rows() != edges) {
			return nil, ingest.Inputf(a.Path, "%v of shape %v, expected %v of shape [%d] (the number of edges)", a.Elem, a.Shape, elem, edges)
		}
		columns = append(columns, numpy.ColumnOf(name, a))
	}
	return columns, nil
}

// openTypes counts the nodes of each type: by its features or labels, else as meta.json says under "node_types", else by the largest id.
func (s *typedFolder) openTypes() error {
	if entries, err := s.fs.List(s.fs.PathJoin(s.dir, "nodes")); err == nil {
		for _, name := range entries {
			if info, err := s.fs.Stat(s.fs.PathJoin(s.dir, "nodes", name)); err == nil && info.IsDir() && !slices.Contains(s.types, name) {
				s.types = append(s.types, name)
			}
		}
	}
	sort.Strings(s.types)
	var err error
	if s.types, err = s.ordered("node_types.txt", s.types, strings.TrimSpace); err != nil {
		return err
	}
	told, err := s.toldCounts()
	if err != nil {
		return err
	}
	for _, t := range s.types {
		if err := folderName(s.dir, t); err != nil {
			return err
		}
		n := int64(-1)
		for _, file := range []string{"feat.npy", "label.npy"} {
			a, err := s.array("nodes", t, file)
			if err != nil {
				return err
			}
			if a != nil && n >= 0 && a.Rows() != n {
				return ingest.Inputf(a.Path, "%d rows, expected %d as of the features", a.Rows(), n)
			}
			if a != nil {
				n = a.Rows()
			}
		}
		if c, ok := told[t]; ok && n < 0 && c >= 0 && c < 1<<62 {
			n = c
		}
		if n < 0 {
			if n, err = s.largest(t); err != nil {
				return err
			}
		}
		if err := s.addType(s.dir, t, n); err != nil {
			return err
		}
	}
	return nil
}

// toldCounts are the counts of meta.json, if it has any.
func (s *typedFolder) toldCounts() (map[string]int64, error) {
	path := s.fs.PathJoin(s.dir, "meta.json")
	if !files.IsFile(s.fs, path) {
		return nil, nil
	}
	f, err := files.Open(s.fs, path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, boltMetaMax))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var meta struct {
		NodeTypes map[string]int64 `json:"node_types"`
	}
	if json.Unmarshal(b, &meta) != nil { // another program's
		return nil, nil
	}
	s.AddFiles(path)
	return meta.NodeTypes, nil
}

// largest is one more than the largest id of a type among all edges.
func (s *typedFolder) largest(t string) (n int64, err error) {
	for _, r := range s.relations {
		var ids []uint64
		err := r.ends.Elements(context.Background(), func(first int64, b []byte) error {
			ids = parts.Widen(ids[:0], r.ends.Elem, b)
			for i, id := range ids {
				at := first + int64(i)
				isDst := at%2 == 1
				if rows := r.form == numpy.FormColumns && r.ends.Shape[0] == 2; rows != r.ends.Columns { // first all sources, then all destinations
					isDst = at >= r.ends.Rows()*r.ends.Dim()/2
				}
				if isDst && r.dst != t || !isDst && r.src != t {
					continue
				}
				if id >= math.MaxInt32<<16 {
					return ingest.Inputf(r.ends.Path, "id %d, expected one of a node", int64(id))
				}
				n = max(n, int64(id)+1)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (s *typedFolder) openEdges() error { return s.addEdges(s.relations) }

// openColumns opens each type's features, and the labels of one.
func (s *typedFolder) openColumns() error {
	labelled := ""
	for _, t := range s.types {
		feat, err := s.array("nodes", t, "feat.npy")
		if err != nil {
			return err
		}
		if feat != nil {
			if feat.Dim() == 0 {
				return ingest.Inputf(feat.Path, "shape %v, expected [%d, D ≥ 1]", feat.Shape, s.count[t])
			}
			s.typeColumn(t, t+".feat", store.RoleFeature, feat.Elem, feat.Dim(), feat.Path, numpy.Rows(feat))
		}
		label, err := s.array("nodes", t, "label.npy")
		if err != nil || label == nil {
			if err != nil {
				return err
			}
			continue
		}
		if labelled != "" {
			return ingest.Inputf(label.Path, "labels of a second type of nodes: %s has some already", labelled)
		}
		if labelled = t; label.Dim() == 0 {
			return ingest.Inputf(label.Path, "shape %v, expected [%d, D ≥ 1]", label.Shape, s.count[t])
		}
		s.typeColumn(t, "label", store.RoleLabel, label.Elem, label.Dim(), label.Path, numpy.Rows(label))
	}
	if path := files.Find(s.fs, s.dir, "classes.txt"); path != "" && labelled != "" {
		var err error
		s.AddFiles(path)
		if s.Desc.ClassNames, err = files.Lines(s.fs, path); err != nil {
			return err
		}
	}
	return nil
}

// openSplits opens the splits of the nodes that have labels.
func (s *typedFolder) openSplits() error {
	labelled := s.labelled()
	entries, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", s.dir, err)
	}
	sort.Strings(entries) // "split" before "split_…": the default first
	for _, name := range entries {
		dir := s.fs.PathJoin(s.dir, name)
		if info, err := s.fs.Stat(dir); err != nil || !info.IsDir() || !strings.HasPrefix(name, "split") {
			continue
		}
		if files.Find(s.fs, dir, "train.npy") == "" {
			return ingest.Inputf(dir, "a split without train.npy")
		}
		if labelled == nil {
			s.Desc.Notes = append(s.Desc.Notes, dir+" is not read: no type of nodes has labels; edges are split by time where they are trained on")
			continue
		}
		split := parts.Split{}
		for file, part := range map[string]uint8{"train.npy": store.SplitTrain, "valid.npy": store.SplitValid, "test.npy": store.SplitTest} {
			a, err := s.array(name, file)
			if err != nil {
				return err
			}
			if a == nil {
				continue
			}
			if split[part], err = numpy.IDs(a, labelled.First, labelled.Rows); err != nil {
				return err
			}
		}
		s.AddSplit(name, split)
	}
	return nil
}
