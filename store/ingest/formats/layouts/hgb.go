package layouts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// hgb is a data set of the Heterogeneous Graph Benchmark (Lv et al., "Are we really making much progress?", KDD 2021), of which nodes are
// classified. Fields are separated by tabs, nodes count from 0 and have their types in order:
//
//	node.dat         node, name, type, and of some types features, separated by commas
//	link.dat         source, destination, type, weight
//	label.dat        node, name, type, class, or classes separated by commas: those that train
//	label.dat.test   the same of those that test
//	info.dat         optional: an object that names the types
type hgb struct {
	*typedGraph
	types  []hgbType
	links  [][2]int // types of the ends of the edges of each type
	labels map[uint64][]int
	split  [2][]uint64 // nodes of label.dat and label.dat.test, in order
}

// hgbType is a type of nodes.
type hgbType struct {
	name  string
	count int64
	dim   int // of its features; 0 = it has none
}

const (
	hgbTypesMax = 1 << 16 // of nodes, and of edges
	hgbLineMax  = 64 << 20
	hgbHeldOf   = 5 // one of so many training nodes validates, as in the benchmark's own scripts
)

// hgbFiles are those that a data set must have.
var hgbFiles = []string{"node.dat", "link.dat", "label.dat", "label.dat.test"}

// IsHGB reports whether dir, or its folder raw, has the files of a data set of HGB.
func IsHGB(fs vfs.FS, dir string) bool { return rawFolder(fs, dir, hgbFiles...) != "" }

// OpenHGB opens a data set of HGB, or PyG's folder of it. One training node of five validates.
func OpenHGB(fs vfs.FS, dir string) (ingest.Source, error) {
	at := rawFolder(fs, dir, hgbFiles...)
	if at == "" {
		return nil, ingest.Inputf(dir, "no node.dat with link.dat, label.dat and label.dat.test")
	}
	s := &hgb{typedGraph: newTypedGraph("hgb", fs, at), labels: map[uint64][]int{}}
	s.Desc.Input = dir
	for _, name := range hgbFiles {
		s.AddFiles(fs.PathJoin(at, name))
	}
	for _, step := range []func() error{s.openNodes, s.openLinks, s.openLabels, s.addCategories} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// path is one of the data set's files.
func (s *hgb) path(name string) string { return s.fs.PathJoin(s.dir, name) }

// lines calls fn with the fields of each line of a file, which counts from 1. They are fn's until it returns.
func (s *hgb) lines(name string, fn func(line int, fields [][]byte) error) error {
	f, err := files.Open(s.fs, s.path(name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 1<<16), hgbLineMax)
	var fields [][]byte
	line := 1
	for ; in.Scan(); line++ {
		fields = fields[:0]
		for rest, more := bytes.TrimRight(in.Bytes(), "\r"), true; more; {
			var field []byte
			field, rest, more = bytes.Cut(rest, []byte{'\t'})
			fields = append(fields, bytes.TrimSpace(field))
		}
		if len(fields) == 1 && len(fields[0]) == 0 {
			continue
		}
		err := fn(line, fields)
		if bad := malformed(""); errors.As(err, &bad) {
			return ingest.Inputf(fmt.Sprintf("%s: line %d", s.path(name), line), "%v", bad)
		}
		if err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return ingest.Inputf(fmt.Sprintf("%s: line %d", s.path(name), line), "%v", err)
	}
	return nil
}

// malformed is what is wrong with a line.
type malformed string

func (m malformed) Error() string { return string(m) }

func badf(format string, args ...any) error { return malformed(fmt.Sprintf(format, args...)) }

// number is a field that is a number from 0 to below max.
func number(fields [][]byte, k int, max uint64, what string) (uint64, error) {
	if k >= len(fields) {
		return 0, badf("%d fields, expected field %d, the %s", len(fields), k+1, what)
	}
	v, ok := table.ParseID(fields[k])
	if !ok || v >= max {
		return 0, badf("%.40q, expected the %s, 0 ≤ x < %d", fields[k], what, max)
	}
	return v, nil
}

// openNodes counts the nodes and features of each type.
func (s *hgb) openNodes() error {
	next := uint64(0)
	err := s.lines("node.dat", func(_ int, fields [][]byte) error {
		v, err := number(fields, 0, 1<<62, "node")
		if err != nil {
			return err
		}
		t, err := number(fields, 2, hgbTypesMax, "type")
		switch {
		case err != nil:
			return err
		case v != next:
			return badf("node %d, expected %d: nodes count from 0, in order", v, next)
		case int(t) != len(s.types)-1 && int(t) != len(s.types):
			return badf("type %d, expected %d or %d: nodes of a type follow each other, and types are in order", t, max(len(s.types)-1, 0), len(s.types))
		}
		next++
		dim := 0
		if len(fields) > 3 && len(fields[3]) > 0 {
			dim = bytes.Count(fields[3], []byte{','}) + 1
		}
		if int(t) == len(s.types) {
			s.types = append(s.types, hgbType{name: fmt.Sprint(t), dim: dim})
		}
		of := &s.types[t]
		if dim != of.dim || dim > numpy.RowBytesMax/4 {
			return badf("%d features, expected %d as of other nodes of type %d, at most %d", dim, of.dim, t, numpy.RowBytesMax/4)
		}
		of.count++
		return nil
	})
	if err != nil {
		return err
	}
	if next == 0 {
		return ingest.Inputf(s.path("node.dat"), "no nodes")
	}
	s.nameTypes()
	for k := range s.types {
		if err := s.addType(s.path("node.dat"), s.types[k].name, s.types[k].count); err != nil {
			return err
		}
	}
	for k, t := range s.types {
		if t.dim > 0 {
			s.typeColumn(t.name, t.name+".feat", store.RoleFeature, blocks.Float32, int64(t.dim), s.path("node.dat"), s.features(k))
		}
	}
	return nil
}

// nameTypes calls the types as info.dat does, if it has a name for each; they keep their numbers if it is no object, or repeats one.
func (s *hgb) nameTypes() {
	names := s.info("node.dat", "node type")
	if len(names) != len(s.types) {
		return
	}
	for k := range s.types {
		name, ok := names[strconv.Itoa(k)].(string)
		if !ok || name == "" || slices.ContainsFunc(s.types[:k], func(t hgbType) bool { return t.name == name }) {
			for i := range s.types {
				s.types[i].name = fmt.Sprint(i)
			}
			return
		}
		s.types[k].name = name
	}
}

// info is what info.dat says of the types of a file; nil = nothing.
func (s *hgb) info(file, of string) map[string]any {
	path := s.path("info.dat")
	if !files.IsFile(s.fs, path) {
		return nil
	}
	f, err := files.Open(s.fs, path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var all map[string]any
	if json.NewDecoder(bufio.NewReader(f)).Decode(&all) != nil {
		return nil
	}
	about, _ := all[file].(map[string]any)
	types, _ := about[of].(map[string]any)
	return types
}

// features streams the features of type k.
func (s *hgb) features(k int) parts.Rows {
	return func(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
		rows := []float32{}
		at := ingest.Position{File: s.path("node.dat"), Unit: "row"}
		flush := func() error {
			err := emit(blocks.Bytes(rows), at)
			at.Index += uint64(len(rows) / s.types[k].dim)
			rows = rows[:0]
			return err
		}
		err := s.lines("node.dat", func(line int, fields [][]byte) error {
			if line%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if t, err := number(fields, 2, hgbTypesMax, "type"); err != nil || int(t) != k {
				return err
			}
			begin := len(rows)
			for rest, more := fields[3], true; more; {
				var field []byte
				field, rest, more = bytes.Cut(rest, []byte{','})
				v, err := table.ParseFloat(field, 32)
				if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
					return badf("feature %d is %.40q, expected a finite number", len(rows)-begin, field)
				}
				rows = append(rows, float32(v))
			}
			if len(rows) < files.ReadBytes/4 {
				return nil
			}
			return flush()
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		return flush()
	}
}

// typeOf is the type of a node.
func (s *hgb) typeOf(node uint64) int {
	return slices.IndexFunc(s.types, func(t hgbType) bool { return node < s.first[t.name]+uint64(t.count) })
}

// openLabels reads the labels, which nodes of one type have, and the split.
func (s *hgb) openLabels() error {
	of, classes, several := -1, 0, false
	for k, name := range []string{"label.dat", "label.dat.test"} {
		err := s.lines(name, func(_ int, fields [][]byte) error {
			v, err := number(fields, 0, uint64(s.Desc.Nodes), "node")
			if err != nil {
				return err
			}
			if t := s.typeOf(v); of >= 0 && t != of {
				return badf("node %d is of type %d, those before it of %d: nodes of one type have labels", v, t, of)
			} else {
				of = t
			}
			if _, twice := s.labels[v]; twice {
				return badf("a second line of node %d", v)
			}
			if len(fields) < 4 {
				return badf("%d fields, expected 4: node, name, type and label", len(fields))
			}
			var has []int
			for _, f := range bytes.Split(fields[3], []byte{','}) {
				c, err := number([][]byte{f}, 0, ingest.ClassesMax, "label")
				if err != nil {
					return err
				}
				has, classes = append(has, int(c)), max(classes, int(c)+1)
			}
			several = several || len(has) > 1
			s.labels[v], s.split[k] = has, append(s.split[k], v)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if of < 0 {
		return ingest.Inputf(s.path("label.dat"), "no labels")
	}
	dim := 1
	if several {
		dim = classes
	}
	t := s.types[of]
	s.typeColumn(t.name, "label", store.RoleLabel, blocks.Float64, int64(dim), s.path("label.dat"), s.labelRows(t, dim))
	var train, valid []uint64
	for k, v := range s.split[0] {
		if k%hgbHeldOf == hgbHeldOf-1 {
			valid = append(valid, v)
		} else {
			train = append(train, v)
		}
	}
	s.AddSplit("split", parts.Split{
		store.SplitTrain: parts.Listed(train, s.path("label.dat")),
		store.SplitValid: parts.Listed(valid, s.path("label.dat")),
		store.SplitTest:  parts.Listed(s.split[1], s.path("label.dat.test")),
	})
	s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("every %dth node of label.dat validates, the others train; those of label.dat.test test", hgbHeldOf))
	return nil
}

// labelRows streams the labels of a type: the class, or 0 and 1 of each of dim; NaN of nodes without.
func (s *hgb) labelRows(t hgbType, dim int) parts.Rows {
	return func(_ context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
		rows := make([]float64, t.count*int64(dim))
		for i := range t.count {
			row := rows[i*int64(dim):][:dim]
			has := s.labels[s.first[t.name]+uint64(i)]
			if has == nil {
				for c := range row {
					row[c] = math.NaN()
				}
				continue
			}
			for _, c := range has {
				if dim == 1 {
					row[0] = float64(c)
				} else {
					row[c] = 1
				}
			}
		}
		return emit(blocks.Bytes(rows), ingest.Position{File: s.path("label.dat"), Unit: "row"})
	}
}
