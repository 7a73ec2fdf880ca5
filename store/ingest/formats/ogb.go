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
// raw/num-node-list.csv.gz, and, each optional, node-feat, node-label,
// edge-weight… and split/NAME/{train,valid,test}.csv.gz. No file has a header.
type ogbFolder struct {
	*edgeList
	columns []string // files
	splits  []string // folders
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
	for _, c := range []struct {
		file, name string
		role       store.Role
		elem       blocks.ElemType
	}{{"node-feat.csv", "x", store.RoleFeature, blocks.Float32}, {"node-label.csv", "label", store.RoleLabel, blocks.Float64}} {
		path := find(fs, raw, c.file)
		if path == "" {
			continue
		}
		dim, err := s.firstRowFields(path)
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
		ls, err := lines(s.fs, path)
		if err != nil {
			return err
		}
		if len(ls) != 1 {
			return ingest.Inputf(path, "%d graphs, expected one", len(ls))
		}
		n, err := strconv.ParseInt(ls[0], 10, 64)
		if err != nil || n < 0 {
			return ingest.Inputf(path, "line 1: %.40q is no number", ls[0])
		}
		*to = n
	}
	return nil
}

func (s *ogbFolder) firstRowFields(path string) (int, error) {
	stop := errors.New("stop")
	n := 0
	err := serialBlocks(context.Background(), s.fs, path, dialect{}, func(b textBlock) error {
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
	counts := make([]int64, env.Threads)
	err := s.edgeList.Edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
		counts[worker] += int64(b.Len())
		return emit(worker, b)
	})
	if err != nil {
		return err
	}
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if s.desc.Edges >= 0 && total != s.desc.Edges {
		return ingest.Inputf(s.path, "%d edges, expected %d (num-edge-list)", total, s.desc.Edges)
	}
	return nil
}

// Rows implements ingest.Source.
func (s *ogbFolder) Rows(ctx context.Context, _ ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	path, spec := s.columns[c], s.desc.NodeColumns[c]
	var out []byte
	return serialBlocks(ctx, s.fs, path, dialect{}, func(b textBlock) error {
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
	return func(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		return s.streamSplit(ctx, k, part, emit)
	}
}

func (s *ogbFolder) streamSplit(ctx context.Context, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	path := find(s.fs, s.splits[k], store.SplitNames()[part]+".csv")
	if path == "" {
		return nil
	}
	var ids ingest.IDs
	return serialBlocks(ctx, s.fs, path, dialect{}, func(b textBlock) error {
		ids.Reset()
		number := b.line
		for rest := b.data; len(rest) > 0; number++ {
			var line []byte
			line, rest = nextLine(rest)
			id, ok := parseUint(line)
			if !ok {
				return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "%.40q is no node id", line)
			}
			ids.Ints = append(ids.Ints, id)
		}
		return emit(&ids, ingest.Position{File: path, Unit: "line", Index: b.line})
	})
}
