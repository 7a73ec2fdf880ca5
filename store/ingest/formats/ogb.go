package formats

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// errNothing is returned where a source is asked for what it did not describe.
var errNothing = errors.New("formats: the source has none")

// ogbFolder is OGB's raw layout: raw/edge.csv.gz of "src,dst" lines,
// raw/num-node-list.csv.gz, and, each optional, node-feat, node-label, edge-feat,
// edge_weight and split/NAME/{train,valid,test}.csv.gz. No file has a header.
type ogbFolder struct {
	*edgeList
	columns     []string // files
	edgeColumns []relationColumn
	splits      []string // folders
}

// openOGB opens a folder in OGB's raw layout.
func openOGB(fs vfs.FS, dir string) (ingest.Source, error) {
	raw := fs.PathJoin(dir, "raw")
	edges := find(fs, raw, "edge.csv")
	if edges == "" {
		return nil, ingest.Inputf(raw, "no edge.csv.gz")
	}
	no := false
	e, err := openEdgeList(fs, edges, TextOptions{Delimiter: ',', Header: &no, IDs: store.IDsDense})
	if err != nil {
		return nil, err
	}
	s := &ogbFolder{edgeList: e}
	s.desc.Format, s.desc.Input = "ogb", dir
	if err := s.openCounts(raw); err != nil {
		return nil, err
	}
	if err := s.openEdgeColumns(raw); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		file, name string
		role       store.Role
		elem       blocks.ElemType
	}{{"node-feat.csv", "x", store.RoleFeature, blocks.Float32}, {"node-label.csv", "label", store.RoleLabel, blocks.Float64}} {
		path := find(fs, raw, c.file)
		if path == "" {
			continue
		}
		dim, err := firstRowFields(fs, path)
		if err != nil {
			return nil, err
		}
		s.columns = append(s.columns, path)
		s.desc.Files = append(s.desc.Files, path)
		s.desc.NodeColumns = append(s.desc.NodeColumns, ingest.ColumnSpec{Name: c.name, Role: c.role, Elem: c.elem, Dim: dim, Rows: s.desc.Nodes})
		if c.role == store.RoleLabel {
			s.desc.Task = store.TaskNode
		}
	}
	return s, s.openSplits(fs.PathJoin(dir, "split"))
}

// openEdgeColumns opens what edges have, a line each in the order of edge.csv.
func (s *ogbFolder) openEdgeColumns(raw string) error {
	for _, c := range []struct {
		file, name string
		role       store.Role
	}{{"edge_weight.csv", "weight", store.RoleWeight}, {"edge-feat.csv", "feat", store.RoleEdge}} {
		path := find(s.fs, raw, c.file)
		if path == "" {
			continue
		}
		dim, err := firstRowFields(s.fs, path)
		if err != nil {
			return err
		}
		if c.role == store.RoleWeight && dim != 1 {
			return ingest.Inputf(path, "%d numbers a line, expected one", dim)
		}
		spec := ingest.ColumnSpec{Name: c.name, Role: c.role, Elem: blocks.Float32, Dim: dim}
		s.edgeColumns = append(s.edgeColumns, relationColumn{spec: spec, path: path, rows: csvRows(s.fs, path, spec)})
		s.desc.Files, s.desc.EdgeColumns = append(s.desc.Files, path), append(s.desc.EdgeColumns, spec)
	}
	return noteUnread(s.fs, &s.desc, raw, "edge_", "edge-feat and edge_weight of edges")
}

// openCounts reads the numbers of nodes and edges: one line each, as the folder holds one graph.
func (s *ogbFolder) openCounts(raw string) error {
	for name, to := range map[string]*int64{"num-node-list.csv": &s.desc.Nodes, "num-edge-list.csv": &s.desc.Edges} {
		path := find(s.fs, raw, name)
		if path == "" {
			if name == "num-node-list.csv" {
				return ingest.Inputf(raw, "no num-node-list.csv.gz")
			}
			continue
		}
		n, err := oneCount(s.fs, path)
		if err != nil {
			return err
		}
		*to = n
	}
	return nil
}

// oneCount reads a list of sizes, which has one line where the folder holds one graph.
func oneCount(fs vfs.FS, path string) (int64, error) {
	ls, err := lines(fs, path)
	if err != nil {
		return 0, err
	}
	if len(ls) != 1 {
		return 0, ingest.Inputf(path, "%d graphs, expected one", len(ls))
	}
	n, err := strconv.ParseInt(ls[0], 10, 64)
	if err != nil || n < 0 {
		return 0, ingest.Inputf(path, "line 1: %.40q is no number", ls[0])
	}
	return n, nil
}

// firstRowFields counts the fields of a file's first line.
func firstRowFields(fs vfs.FS, path string) (int, error) {
	stop := errors.New("stop")
	n := 0
	err := serialBlocks(context.Background(), fs, path, dialect{}, func(b textBlock) error {
		line, _ := nextLine(b.data)
		if n = bytes.Count(line, []byte{','}) + 1; len(line) == 0 {
			n = 0
		}
		return stop
	})
	if err != nil && !errors.Is(err, stop) {
		return 0, err
	}
	if n == 0 {
		return 0, ingest.Inputf(path, "line 1: empty, expected numbers")
	}
	return n, nil
}

func (s *ogbFolder) openSplits(dir string) error {
	names, err := s.fs.List(dir)
	if err != nil {
		return nil // there are none
	}
	sort.Strings(names)
	for _, name := range names {
		d := s.fs.PathJoin(dir, name)
		if find(s.fs, d, "train.csv") == "" {
			continue
		}
		if s.desc.Task == "" {
			return ingest.Inputf(d, "a split of nodes, but no node-label.csv.gz")
		}
		for _, part := range store.SplitNames()[1:] {
			if f := find(s.fs, d, part+".csv"); f != "" {
				s.desc.Files = append(s.desc.Files, f)
			}
		}
		s.splits, s.desc.Splits = append(s.splits, d), append(s.desc.Splits, name)
	}
	return nil
}

// Edges implements ingest.Source and counts.
func (s *ogbFolder) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	edges := edgesFunc(s.edgeList.Edges)
	if len(s.edgeColumns) > 0 {
		edges = zipped(edges, s.edgeColumns)
	}
	return counted(edges, s.desc.Edges, s.path)(ctx, env, emit)
}

// Rows implements ingest.Source.
func (s *ogbFolder) Rows(ctx context.Context, env ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	return csvRows(s.fs, s.columns[c], s.desc.NodeColumns[c])(ctx, env, emit)
}

// csvRows streams a file of lines of comma-separated numbers, as many as the column has elements.
func csvRows(fs vfs.FS, path string, spec ingest.ColumnSpec) rowsFunc {
	return func(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
		var out []byte
		return serialBlocks(ctx, fs, path, dialect{}, func(b textBlock) error {
			out = out[:0]
			number := b.line
			for rest := b.data; len(rest) > 0; number++ {
				var line []byte
				line, rest = nextLine(rest)
				var err error
				if out, err = appendNumbers(out, line, spec); err != nil {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%v", err)
				}
			}
			if len(out) == 0 {
				return nil
			}
			return emit(out, ingest.Position{File: path, Unit: "line", Index: b.line})
		})
	}
}

// appendNumbers parses a line of comma-separated numbers.
func appendNumbers(out, line []byte, spec ingest.ColumnSpec) ([]byte, error) {
	at, n := 0, 0
	for ; ; n++ {
		end := bytes.IndexByte(line[at:], ',')
		text := line[at:]
		if end >= 0 {
			text = line[at : at+end]
		}
		x, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("column %d: %.40q is no number", at+1, text)
		}
		if spec.Elem == blocks.Float64 {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		} else {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
		}
		if end < 0 {
			break
		}
		at += end + 1
	}
	if n+1 != spec.Dim {
		return nil, fmt.Errorf("%d numbers, expected %d like the first line", n+1, spec.Dim)
	}
	return out, nil
}

// Split implements ingest.Source.
func (s *ogbFolder) Split(ctx context.Context, env ingest.Env, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	return s.splitIDs(k, part)(ctx, env, emit)
}

// splitIDs streams one part of a split.
func (s *ogbFolder) splitIDs(k int, part uint8) idsFunc {
	path := find(s.fs, s.splits[k], store.SplitNames()[part]+".csv")
	if path == "" {
		return func(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error { return nil }
	}
	return csvIDs(s.fs, path, 0, math.MaxInt64)
}

// csvIDs streams the node ids, less than count, that a file has a line of each, plus offset.
func csvIDs(fs vfs.FS, path string, offset uint64, count int64) idsFunc {
	return func(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var ids ingest.IDs
		return serialBlocks(ctx, fs, path, dialect{}, func(b textBlock) error {
			ids.Reset()
			number := b.line
			for rest := b.data; len(rest) > 0; number++ {
				var line []byte
				line, rest = nextLine(rest)
				id, ok := parseUint(line)
				if !ok {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%.40q is no node id", line)
				}
				if id >= uint64(count) {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "node %d, expected 0 ≤ id < %d", id, count)
				}
				ids.Ints = append(ids.Ints, id+offset)
			}
			return emit(&ids, ingest.Position{File: path, Unit: "line", Index: b.line})
		})
	}
}
