package generate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
)

// Format is how edges are written; node columns are .npy in every format.
type Format string

// Formats. The file names in brackets are for knowledge graphs.
const (
	Numpy  Format = "numpy"  // edge_index.npy int64 [2, edges] (train.npy, valid.npy, test.npy int64 [triples, 3])
	TSV    Format = "tsv"    // edges.tsv "src<TAB>dst" (train.tsv, …: "e1<TAB>r2<TAB>e3")
	Binary Format = "binary" // edges.i32: pairs of int32; edges.i64 from 2³¹ nodes on (no knowledge graphs)
)

// WriteOptions say how a graph becomes files. The zero value is the numpy
// layout with half the nodes for training.
type WriteOptions struct {
	Format  Format // "" means Numpy
	Threads int    // 0 means GOMAXPROCS
	// Train, Valid and Test are shares of the nodes; all 0 means .5, .2, .3.
	// Their sum may be below 1.
	Train, Valid, Test float64
	// Progress, if not nil, is told of every piece written, in bytes, concurrently.
	Progress func(bytes int64)
}

func (o *WriteOptions) defaults() error {
	if o.Format == "" {
		o.Format = Numpy
	}
	if o.Format != Numpy && o.Format != TSV && o.Format != Binary {
		return badf("format %q: want numpy, tsv or binary", o.Format)
	}
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Train == 0 && o.Valid == 0 && o.Test == 0 {
		o.Train, o.Valid, o.Test = .5, .2, .3
	}
	if !(min(o.Train, o.Valid, o.Test) >= 0 && o.Train+o.Valid+o.Test <= 1+1e-9) {
		return badf("train, valid and test shares %g, %g, %g: want none negative and a sum of at most 1", o.Train, o.Valid, o.Test)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	return nil
}

// Write writes g into the new folder out: edges in the chosen format,
// node_feat.npy float32 [nodes, dim], node_label.npy int64 [nodes],
// split/{train,valid,test}.npy int64 and meta.json. Everything is written
// to out.partial, which becomes out at the end or is removed, also when ctx ends.
// Memory: some 3 MiB a thread. It returns the number of bytes written.
func Write(ctx context.Context, out string, g Graph, o WriteOptions) (int64, error) {
	if err := o.defaults(); err != nil {
		return 0, err
	}
	info := g.Info()
	files := []file{edgeFile(g, o.Format)}
	if info.Dim > 0 {
		files = append(files, file{
			name: "node_feat.npy", header: npy.Append(nil, blocks.Float32, false, info.Nodes, uint64(info.Dim)),
			items: info.Nodes, itemBytes: 4 * info.Dim,
			fill: func(first uint64, n int, s *scratch) {
				s.floats = grow(s.floats, n*info.Dim)
				g.Features(first, s.floats)
				for i, x := range s.floats {
					binary.LittleEndian.PutUint32(s.bytes[4*i:], math.Float32bits(x))
				}
			},
		})
	}
	if info.Classes > 0 {
		files = append(files, file{
			name: "node_label.npy", header: npy.Append(nil, blocks.Int64, false, info.Nodes), items: info.Nodes, itemBytes: 8,
			fill: func(first uint64, n int, s *scratch) {
				s.ints = grow(s.ints, n)
				g.Labels(first, s.ints)
				for i, x := range s.ints {
					binary.LittleEndian.PutUint64(s.bytes[8*i:], uint64(x))
				}
			},
		})
		for k, name := range []string{"train", "valid", "test"} {
			from, to := o.part(k, info.Nodes)
			files = append(files, file{
				name: filepath.Join("split", name+".npy"), header: npy.Append(nil, blocks.Int64, false, to-from), items: to - from, itemBytes: 8,
				fill: func(at uint64, n int, s *scratch) {
					for i := range n {
						binary.LittleEndian.PutUint64(s.bytes[8*i:], g.Split(from+at+uint64(i)))
					}
				},
			})
		}
	}
	return folder(ctx, out, info, files, o)
}

// WriteKG writes a knowledge graph into the new folder out, as [Write] does:
// train, valid and test triples as head, relation, tail, and meta.json.
func WriteKG(ctx context.Context, out string, g *KG, o WriteOptions) (int64, error) {
	if err := o.defaults(); err != nil {
		return 0, err
	}
	if o.Format == Binary {
		return 0, badf("a knowledge graph in format binary: want numpy or tsv")
	}
	train, valid, test := g.Parts()
	return folder(ctx, out, g.Info(), []file{
		tripleFile(g, o.Format, "train", 0, train),
		tripleFile(g, o.Format, "valid", train, valid),
		tripleFile(g, o.Format, "test", train+valid, test),
	}, o)
}

// folder makes out by way of out.partial.
func folder(ctx context.Context, out string, info Info, files []file, o WriteOptions) (total int64, err error) {
	if _, err := os.Lstat(out); err == nil {
		return 0, fmt.Errorf("%s exists: name a new folder", out)
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	dir := filepath.Clean(out) + ".partial"
	if err := os.Mkdir(dir, 0o777); err != nil {
		return 0, fmt.Errorf("make the folder (one left by a killed run may be removed): %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, f := range files {
		n, err := f.write(ctx, dir, o)
		if err != nil {
			return 0, fmt.Errorf("write %s: %w", f.name, err)
		}
		total += n
	}
	meta, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, "meta.json"), append(meta, '\n'), 0o666); err != nil {
		return 0, err
	}
	return total, os.Rename(dir, out)
}

// edgeFile describes the edges of g.
func edgeFile(g Graph, format Format) file {
	info := g.Info()
	edges := func(first uint64, n int, s *scratch) ([]uint64, []uint64) {
		s.src, s.dst = grow(s.src, n), grow(s.dst, n)
		g.Edges(first, s.src, s.dst)
		return s.src, s.dst
	}
	switch format {
	case TSV:
		return file{name: "edges.tsv", items: info.Edges, text: func(first uint64, n int, s *scratch) []byte {
			b := s.bytes[:0]
			src, dst := edges(first, n, s)
			for i := range src {
				b = append(strconv.AppendUint(b, src[i], 10), '\t')
				b = append(strconv.AppendUint(b, dst[i], 10), '\n')
			}
			return b
		}}
	case Binary:
		width := intWidth(info.Nodes)
		return file{name: fmt.Sprintf("edges.i%d", 8*width), items: info.Edges, itemBytes: 2 * width, fill: func(first uint64, n int, s *scratch) {
			src, dst := edges(first, n, s)
			for i := range src {
				putInt(s.bytes, width, 2*i, src[i])
				putInt(s.bytes, width, 2*i+1, dst[i])
			}
		}}
	}
	return file{name: "edge_index.npy", header: npy.Append(nil, blocks.Int64, false, 2, info.Edges), items: info.Edges, itemBytes: 8, planes: 2,
		fill: func(first uint64, n int, s *scratch) {
			src, dst := edges(first, n, s)
			for i := range src {
				binary.LittleEndian.PutUint64(s.bytes[8*i:], src[i])
				binary.LittleEndian.PutUint64(s.bytes[8*(n+i):], dst[i])
			}
		}}
}

// tripleFile describes n triples from first on.
func tripleFile(g *KG, format Format, name string, from, count uint64) file {
	triples := func(first uint64, n int, s *scratch) []Triple {
		s.triples = grow(s.triples, n)
		g.Triples(from+first, s.triples)
		return s.triples
	}
	if format == TSV {
		return file{name: name + ".tsv", items: count, text: func(first uint64, n int, s *scratch) []byte {
			b := s.bytes[:0]
			for _, t := range triples(first, n, s) {
				b = strconv.AppendUint(append(b, 'e'), t.Head, 10)
				b = strconv.AppendUint(append(b, '\t', 'r'), t.Relation, 10)
				b = append(strconv.AppendUint(append(b, '\t', 'e'), t.Tail, 10), '\n')
			}
			return b
		}}
	}
	return file{name: name + ".npy", header: npy.Append(nil, blocks.Int64, false, count, 3), items: count, itemBytes: 24,
		fill: func(first uint64, n int, s *scratch) {
			for i, t := range triples(first, n, s) {
				putInt(s.bytes, 8, 3*i, t.Head)
				putInt(s.bytes, 8, 3*i+1, t.Relation)
				putInt(s.bytes, 8, 3*i+2, t.Tail)
			}
		}}
}

// intWidth is the bytes of a signed integer that holds every id.
func intWidth(nodes uint64) int {
	if nodes <= 1<<31 {
		return 4
	}
	return 8
}

func putInt(b []byte, width, i int, x uint64) {
	if width == 4 {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(x))
	} else {
		binary.LittleEndian.PutUint64(b[8*i:], x)
	}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
