package layouts

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// planetoid is a citation graph in the files of Planetoid (Yang et al., ICML 2016), which most libraries download: pickles of Python 2,
// ind.NAME.* in a folder or in its folder raw:
//
//	x, y         the training nodes, whose number is all that is read of them: they are the first of allx
//	allx, ally   scipy matrix [n, D] and one-hot labels [n, C] of the nodes 0 to n−1
//	tx, ty       the same of the test nodes
//	test.index   a line for each row of tx: the node that it is of
//	graph        a dictionary of each node's neighbours
//
// Nodes beyond n that are not in test.index, of which CiteSeer has 15, have features of 0 and no label.
type planetoid struct {
	*parts.Source
	fs         vfs.FS
	path       string // of the files, up to their ends
	all, tests *numpy.SparseRows
	labels     []int64
	rows       map[int64]int64 // rows of tests, by node
	order      []uint64        // the test nodes, as test.index lists them
	neighbours [][]uint64
}

// planetoidValid is how many nodes validate: those behind the training nodes, in all libraries.
const planetoidValid = 500

// planetoidNames are the graphs that a folder, or its folder raw, has files of, and where they are.
func planetoidNames(fs vfs.FS, dir string) (at string, names []string) {
	for _, at = range []string{dir, fs.PathJoin(dir, "raw")} {
		entries, err := fs.List(at)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if name := planetoidOf(e); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			return at, names
		}
	}
	return "", nil
}

// IsPlanetoid reports whether dir has files of Planetoid.
func IsPlanetoid(fs vfs.FS, dir string) bool {
	_, names := planetoidNames(fs, dir)
	return len(names) > 0
}

// planetoidOf is the graph that a file of this name is of; "" if it is none of Planetoid's.
func planetoidOf(base string) string {
	name, ok := strings.CutPrefix(base, "ind.")
	for _, end := range []string{".test.index", ".graph", ".allx", ".ally", ".tx", ".ty", ".x", ".y"} {
		if of, is := strings.CutSuffix(name, end); ok && is {
			return of
		}
	}
	return ""
}

// IsPlanetoidFile reports whether a file of this name is one of Planetoid's.
func IsPlanetoidFile(base string) bool { return planetoidOf(base) != "" }

// OpenPlanetoid opens the graph of a folder, or the one that a file is of.
func OpenPlanetoid(fs vfs.FS, path string) (ingest.Source, error) {
	at, names := fs.PathDir(path), []string{planetoidOf(fs.PathBase(path))}
	if !files.IsFile(fs, path) {
		at, names = planetoidNames(fs, path)
	}
	switch len(names) {
	case 0:
		return nil, ingest.Inputf(path, "no ind.NAME.graph, nor in a folder raw")
	case 1:
	default:
		return nil, ingest.Inputf(path, "files of %d graphs, %s: give one of a graph's files, such as %s", len(names), strings.Join(names, ", "), fs.PathJoin(at, "ind."+names[0]+".graph"))
	}
	s := &planetoid{Source: parts.New("planetoid", path), fs: fs, path: fs.PathJoin(at, "ind."+names[0]+".")}
	for _, end := range []string{"y", "allx", "ally", "tx", "ty", "test.index", "graph"} {
		if file := s.path + end; !files.IsFile(fs, file) {
			return nil, ingest.Inputf(path, "no %s", fs.PathBase(file))
		}
	}
	for _, step := range []func() error{s.openRows, s.openTests, s.openGraph, s.openLabels} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.describe()
	return s, nil
}

// pickle reads one of the files.
func (s *planetoid) pickle(end string) (any, error) {
	s.AddFiles(s.path + end)
	return numpy.OpenPickle(s.fs, s.path+end)
}

// matrix reads one of the files that are matrices.
func (s *planetoid) matrix(end string) (*numpy.SparseRows, error) {
	v, err := s.pickle(end)
	if err != nil {
		return nil, err
	}
	m := numpy.SparseIn(v)
	if m == nil {
		return nil, ingest.Inputf(s.path+end, "no matrix of scipy in compressed rows")
	}
	return m, nil
}

func (s *planetoid) openRows() (err error) {
	if s.all, err = s.matrix("allx"); err != nil {
		return err
	}
	if s.tests, err = s.matrix("tx"); err != nil {
		return err
	}
	if s.tests.Cols != s.all.Cols || s.all.Cols == 0 || s.all.Cols > numpy.RowBytesMax/4 {
		return ingest.Inputf(s.path+"tx", "rows of %d elements, those of allx have %d, expected as many, from 1 to %d", s.tests.Cols, s.all.Cols, numpy.RowBytesMax/4)
	}
	return nil
}

// openTests reads which nodes the rows of tests are of.
func (s *planetoid) openTests() error {
	path := s.path + "test.index"
	s.AddFiles(path)
	lines, err := files.Lines(s.fs, path)
	if err != nil {
		return err
	}
	s.rows, s.Desc.Nodes = map[int64]int64{}, s.all.Rows
	for i, l := range lines {
		v, err := strconv.ParseInt(strings.TrimSpace(l), 10, 64)
		if _, twice := s.rows[v]; err != nil || twice || v < s.all.Rows || v-s.all.Rows > 2*s.tests.Rows+1<<16 {
			return ingest.Inputf(fmt.Sprintf("%s: line %d", path, i+1), "%.40q, expected another node from %d on, behind those of allx", l, s.all.Rows)
		}
		s.rows[v] = int64(i)
		s.order, s.Desc.Nodes = append(s.order, uint64(v)), max(s.Desc.Nodes, v+1)
	}
	if int64(len(lines)) != s.tests.Rows {
		return ingest.Inputf(path, "%d lines, expected %d, a line for each row of tx", len(lines), s.tests.Rows)
	}
	return nil
}

// openGraph reads the neighbours of each node, each once.
func (s *planetoid) openGraph() error {
	path := s.path + "graph"
	v, err := s.pickle("graph")
	if err != nil {
		return err
	}
	d, _ := v.(*numpy.Dict)
	if o, ok := v.(*numpy.Object); ok { // a dictionary with defaults
		d = &o.Items
	}
	if d == nil {
		return ingest.Inputf(path, "no dictionary of each node's neighbours")
	}
	s.neighbours, s.Desc.Edges = make([][]uint64, s.Desc.Nodes), 0
	for i, key := range d.Keys {
		v, is := key.(int64)
		list, listed := d.Values[i].(*numpy.List)
		if !is || !listed || v < 0 || v >= s.Desc.Nodes {
			return ingest.Inputf(path, "entry %d: key %v, expected a node from 0 to %d and the list of its neighbours", i, key, s.Desc.Nodes-1)
		}
		for _, x := range list.Items {
			n, is := x.(int64)
			if !is || n < 0 || n >= s.Desc.Nodes {
				return ingest.Inputf(path, "node %d: neighbour %v, expected a node from 0 to %d", v, x, s.Desc.Nodes-1)
			}
			s.neighbours[v] = append(s.neighbours[v], uint64(n))
		}
	}
	for v, list := range s.neighbours {
		slices.Sort(list)
		s.neighbours[v] = slices.Compact(list)
		s.Desc.Edges += int64(len(s.neighbours[v]))
	}
	return nil
}

// openLabels takes each node's class from its row of 0 and 1.
func (s *planetoid) openLabels() error {
	s.labels = make([]int64, s.Desc.Nodes)
	for v := range s.labels {
		s.labels[v] = -1
	}
	for end, of := range map[string]struct {
		rows int64
		node func(row int64) int64
	}{
		"ally": {s.all.Rows, func(row int64) int64 { return row }},
		"ty":   {s.tests.Rows, func(row int64) int64 { return int64(s.order[row]) }},
	} {
		v, err := s.pickle(end)
		if err != nil {
			return err
		}
		a := numpy.ArrayIn(v)
		if a == nil || len(a.Shape) != 2 || a.Shape[0] != of.rows {
			return ingest.Inputf(s.path+end, "expected an array of numpy of %d rows, of 0 and a 1 for the class", of.rows)
		}
		for i, x := range a.Floats() {
			if x != 0 {
				s.labels[of.node(int64(i)/a.Shape[1])] = int64(i) % a.Shape[1]
			}
		}
	}
	v, err := s.pickle("y")
	if err != nil {
		return err
	}
	a := numpy.ArrayIn(v)
	if a == nil || len(a.Shape) != 2 || a.Shape[0] > s.all.Rows {
		return ingest.Inputf(s.path+"y", "expected an array of numpy of at most %d rows", s.all.Rows)
	}
	span := func(from, to int64) (ids []uint64) {
		for v := from; v < to; v++ {
			ids = append(ids, uint64(v))
		}
		return ids
	}
	train := a.Shape[0]
	s.AddSplit("split", parts.Split{
		store.SplitTrain: parts.Listed(span(0, train), s.path+"y"),
		store.SplitValid: parts.Listed(span(train, min(train+planetoidValid, s.all.Rows)), s.path+"y"),
		store.SplitTest:  parts.Listed(s.order, s.path+"test.index"),
	})
	s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("split as Planetoid's: the first %d nodes train, the next %d validate, those of test.index test", train, min(planetoidValid, s.all.Rows-train)))
	return nil
}

// describe adds the columns and the edges.
func (s *planetoid) describe() {
	s.AddColumn(ingest.ColumnSpec{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: int(s.all.Cols), Rows: s.Desc.Nodes}, s.features)
	s.AddColumn(ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Rows: s.Desc.Nodes},
		func(_ context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
			return emit(blocks.Bytes(s.labels), ingest.Position{File: s.path + "ally"})
		})
	s.EdgeStreams = append(s.EdgeStreams, s.edges)
}

// features streams rows, with their zeros.
func (s *planetoid) features(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
	row := make([]float32, s.all.Cols)
	for v := range s.Desc.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(row)
		if v < s.all.Rows {
			s.all.Add(v, row)
		} else if k, ok := s.rows[v]; ok {
			s.tests.Add(k, row)
		}
		if err := emit(blocks.Bytes(row), ingest.Position{File: s.path + "allx", Unit: "row", Index: uint64(v)}); err != nil {
			return err
		}
	}
	return nil
}

// edges streams an edge from each node to each of its neighbours.
func (s *planetoid) edges(ctx context.Context, _ ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	b := &ingest.EdgeBatch{At: ingest.Position{File: s.path + "graph", Unit: "edge"}}
	flush := func() error {
		n := b.Len()
		if n == 0 {
			return ctx.Err()
		}
		err := emit(0, b)
		b.Src.Ints, b.Dst.Ints, b.At.Index = b.Src.Ints[:0], b.Dst.Ints[:0], b.At.Index+uint64(n)
		return err
	}
	for v, list := range s.neighbours {
		for _, n := range list {
			b.Src.Ints, b.Dst.Ints = append(b.Src.Ints, uint64(v)), append(b.Dst.Ints, n)
		}
		if b.Len() >= 1<<14 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
