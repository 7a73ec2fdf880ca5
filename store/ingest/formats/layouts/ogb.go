package layouts

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
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// ogbFolder is OGB's raw layout: raw/edge.csv.gz of "src,dst" lines,
// raw/num-node-list.csv.gz, and, each optional, node-feat, node-label, edge-feat,
// edge_weight and split/NAME/{train,valid,test}.csv.gz. No file has a header.
type ogbFolder struct {
	*text.EdgeLines
	columns     []string // files
	edgeColumns []numpy.EdgeColumn
	splits      []string // folders
}

// IsOGB reports whether dir is laid out as OGB's downloads are.
func IsOGB(fs vfs.FS, dir string) bool {
	return files.Find(fs, fs.PathJoin(dir, "raw"), "edge.csv", "data.npz") != "" || isOGBTyped(fs, dir)
}

// OpenOGB opens OGB's download of a graph: text or arrays, of one type of nodes or of several.
func OpenOGB(fs vfs.FS, dir string) (ingest.Source, error) {
	switch {
	case isOGBTyped(fs, dir):
		return openOGBTyped(fs, dir)
	case files.IsFile(fs, fs.PathJoin(dir, "raw", "data.npz")):
		return openOGBBinary(fs, dir)
	}
	return openOGBText(fs, dir)
}

// openOGBText opens a folder in OGB's raw layout.
func openOGBText(fs vfs.FS, dir string) (ingest.Source, error) {
	raw := fs.PathJoin(dir, "raw")
	edges := files.Find(fs, raw, "edge.csv")
	if edges == "" {
		return nil, ingest.Inputf(raw, "no edge.csv.gz")
	}
	no := false
	e, err := text.OpenEdgeLines(fs, edges, table.Options{Delimiter: ',', Header: &no, IDs: store.IDsDense})
	if err != nil {
		return nil, err
	}
	s := &ogbFolder{EdgeLines: e}
	s.Desc.Format, s.Desc.Input = "ogb", dir
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
		path := files.Find(fs, raw, c.file)
		if path == "" {
			continue
		}
		dim, err := firstRowFields(fs, path)
		if err != nil {
			return nil, err
		}
		s.columns = append(s.columns, path)
		s.Desc.Files = append(s.Desc.Files, path)
		s.Desc.NodeColumns = append(s.Desc.NodeColumns, ingest.ColumnSpec{Name: c.name, Role: c.role, Elem: c.elem, Dim: dim, Rows: s.Desc.Nodes})
		if c.role == store.RoleLabel {
			s.Desc.Task = store.TaskNode
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
		path := files.Find(s.FS, raw, c.file)
		if path == "" {
			continue
		}
		dim, err := firstRowFields(s.FS, path)
		if err != nil {
			return err
		}
		if c.role == store.RoleWeight && dim != 1 {
			return ingest.Inputf(path, "%d numbers a line, expected one", dim)
		}
		spec := ingest.ColumnSpec{Name: c.name, Role: c.role, Elem: blocks.Float32, Dim: dim}
		s.edgeColumns = append(s.edgeColumns, numpy.EdgeColumn{Spec: spec, Path: path, Rows: csvRows(s.FS, path, spec)})
		s.Desc.Files, s.Desc.EdgeColumns = append(s.Desc.Files, path), append(s.Desc.EdgeColumns, spec)
	}
	return noteUnread(s.FS, &s.Desc, raw, "edge_", "edge-feat and edge_weight of edges")
}

// openCounts reads the numbers of nodes and edges: one line each, as the folder holds one graph.
func (s *ogbFolder) openCounts(raw string) error {
	for name, to := range map[string]*int64{"num-node-list.csv": &s.Desc.Nodes, "num-edge-list.csv": &s.Desc.Edges} {
		path := files.Find(s.FS, raw, name)
		if path == "" {
			if name == "num-node-list.csv" {
				return ingest.Inputf(raw, "no num-node-list.csv.gz")
			}
			continue
		}
		n, err := oneCount(s.FS, path)
		if err != nil {
			return err
		}
		*to = n
	}
	return nil
}

// oneCount reads a list of sizes, which has one line where the folder holds one graph.
func oneCount(fs vfs.FS, path string) (int64, error) {
	ls, err := files.Lines(fs, path)
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
	err := text.SerialBlocks(context.Background(), fs, path, text.Dialect{}, func(b text.Block) error {
		line, _ := text.NextLine(b.Data)
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
	names, err := s.FS.List(dir)
	if err != nil {
		return nil // there are none
	}
	sort.Strings(names)
	for _, name := range names {
		d := s.FS.PathJoin(dir, name)
		if files.Find(s.FS, d, "train.csv") == "" {
			continue
		}
		if s.Desc.Task == "" {
			return ingest.Inputf(d, "a split of nodes, but no node-label.csv.gz")
		}
		for _, part := range store.SplitNames()[1:] {
			if f := files.Find(s.FS, d, part+".csv"); f != "" {
				s.Desc.Files = append(s.Desc.Files, f)
			}
		}
		s.splits, s.Desc.Splits = append(s.splits, d), append(s.Desc.Splits, name)
	}
	return nil
}

// Edges implements ingest.Source and counts.
func (s *ogbFolder) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	edges := parts.Edges(s.EdgeLines.Edges)
	if len(s.edgeColumns) > 0 {
		edges = zipped(edges, s.edgeColumns)
	}
	return counted(edges, s.Desc.Edges, s.Path)(ctx, env, emit)
}

// Rows implements ingest.Source.
func (s *ogbFolder) Rows(ctx context.Context, env ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	return csvRows(s.FS, s.columns[c], s.Desc.NodeColumns[c])(ctx, env, emit)
}

// csvRows streams a file of lines of comma-separated numbers, as many as the column has elements.
func csvRows(fs vfs.FS, path string, spec ingest.ColumnSpec) parts.Rows {
	return func(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
		var out []byte
		return text.SerialBlocks(ctx, fs, path, text.Dialect{}, func(b text.Block) error {
			out = out[:0]
			number := b.Line
			for rest := b.Data; len(rest) > 0; number++ {
				var line []byte
				line, rest = text.NextLine(rest)
				var err error
				if out, err = appendNumbers(out, line, spec); err != nil {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%v", err)
				}
			}
			if len(out) == 0 {
				return nil
			}
			return emit(out, ingest.Position{File: path, Unit: "line", Index: b.Line})
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
func (s *ogbFolder) splitIDs(k int, part uint8) parts.IDs {
	path := files.Find(s.FS, s.splits[k], store.SplitNames()[part]+".csv")
	if path == "" {
		return func(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error { return nil }
	}
	return csvIDs(s.FS, path, 0, math.MaxInt64)
}

// csvIDs streams the node ids, less than count, that a file has a line of each, plus offset.
func csvIDs(fs vfs.FS, path string, offset uint64, count int64) parts.IDs {
	return func(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var ids ingest.IDs
		return text.SerialBlocks(ctx, fs, path, text.Dialect{}, func(b text.Block) error {
			ids.Reset()
			number := b.Line
			for rest := b.Data; len(rest) > 0; number++ {
				var line []byte
				line, rest = text.NextLine(rest)
				id, ok := table.ParseUint(line)
				if !ok {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%.40q is no node id", line)
				}
				if id >= uint64(count) {
					return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "node %d, expected 0 ≤ id < %d", id, count)
				}
				ids.Ints = append(ids.Ints, id+offset)
			}
			return emit(&ids, ingest.Position{File: path, Unit: "line", Index: b.Line})
		})
	}
}
