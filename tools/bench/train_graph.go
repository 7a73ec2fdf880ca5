package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/generate"
)

// wideDim is the most feature columns that are stored as float32: 768 of them
// for 2 M nodes would be 6 GB that have to be resident beside everything else.
const wideDim = 256

// featureElem is the stored type of features of dim columns.
func featureElem(dim int) blocks.ElemType {
	if dim > wideDim {
		return blocks.Float16
	}
	return blocks.Float32
}

// open opens the store with features of dim columns, made first if it is not there.
func (o *TrainOptions) open(ctx context.Context, dim int) (*store.Store, error) {
	elem := featureElem(dim)
	dir := filepath.Join(o.Dir, fmt.Sprintf("rmat-%d-%d-%dx%v-%d-%d.gstore", o.Nodes, o.Edges, dim, elem, o.Classes, o.Seed))
	if s, err := store.Open(dir, store.Options{}); err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNoVersion) {
		return s, err
	}
	o.Log("making " + dir)
	options := generate.RMATOptions{Nodes: o.Nodes, Edges: o.Edges, Dim: dim, Classes: o.Classes, Seed: o.Seed}
	g, err := generate.NewRMAT(options)
	if err != nil {
		return nil, err
	}
	src, err := generate.Source(g, options, generate.WriteOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := ingest.Run(ctx, dir, src, ingest.Options{FeatureElem: elem, Seed: o.Seed}); err != nil {
		return nil, err
	}
	return store.Open(dir, store.Options{})
}

// trainDump describes a folder of batches: meta.json.
type trainDump struct {
	Nodes   int      `json:"nodes"` // rows of the feature table
	Dim     int      `json:"dim"`
	Elem    string   `json:"elem"` // of the feature table, which is not dumped: its values do not matter
	Classes int      `json:"classes"`
	Models  []string `json:"models"`
	Hidden  []int    `json:"hidden"`
	Fanouts []int    `json:"fanouts"`
	Size    int      `json:"batch_size"`
	Batches int      `json:"batches"` // folders 0 (to warm up) … batches
}

// dump writes the batches as numpy arrays: DumpDir/DIM/meta.json and, for
// batch i, i/input, i/seeds (rows), i/labels, and for layer l, the input's first,
// i/indptr_l and i/indices_l (sources by position; the destinations are the
// first sources). Beside them lies the whole graph by destination, whose rows
// another width numbers differently: indptr (int64), indices, and train, the seeds' rows.
func (o *TrainOptions) dump(mb *buffer.MacroBatch, batches []mini.Batch, dim int) error {
	dir := filepath.Join(o.DumpDir, fmt.Sprint(dim))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	meta, err := json.MarshalIndent(trainDump{Nodes: mb.Rows, Dim: dim, Elem: mb.Features[0].Type.String(), Classes: o.Classes, Models: o.Models,
		Hidden: o.Hidden, Fanouts: o.Fanouts, Size: o.BatchSize, Batches: o.Batches}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "meta.json"), append(meta, '\n'), 0o666); err != nil {
		return err
	}
	for i := range batches {
		b, to := &batches[i], filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(to, 0o777); err != nil {
			return err
		}
		labels := make([]int32, len(b.Seeds))
		for k, row := range b.Seeds {
			labels[k] = mb.Labels[row]
		}
		err := errors.Join(writeNpy(filepath.Join(to, "input.npy"), blocks.Uint32, b.Input), writeNpy(filepath.Join(to, "seeds.npy"), blocks.Uint32, b.Seeds),
			writeNpy(filepath.Join(to, "labels.npy"), blocks.Int32, labels))
		for l := range b.Blocks {
			err = errors.Join(err, writeNpy(filepath.Join(to, fmt.Sprintf("indptr_%d.npy", l)), blocks.Int32, b.Blocks[l].Indptr),
				writeNpy(filepath.Join(to, fmt.Sprintf("indices_%d.npy", l)), blocks.Int32, b.Blocks[l].Indices))
		}
		if err != nil {
			return err
		}
	}
	indptr := make([]int64, 1, mb.Rows+1)
	for _, s := range mb.In.Spans {
		indptr = append(indptr, indptr[len(indptr)-1]+s.End-s.Begin)
	}
	return errors.Join(writeNpy(filepath.Join(dir, "indptr.npy"), blocks.Int64, indptr), writeNpy(filepath.Join(dir, "train.npy"), blocks.Uint32, mb.Seeds),
		npyFile(filepath.Join(dir, "indices.npy"), blocks.Uint32, int(indptr[len(indptr)-1]), func(w io.Writer) error {
			for _, s := range mb.In.Spans {
				if _, err := w.Write(blocks.Bytes(mb.In.Indices[s.Begin:s.End])); err != nil {
					return err
				}
			}
			return nil
		}))
}

// writeNpy writes a one-dimensional numpy array (format 1.0), little-endian.
func writeNpy[T int32 | uint32 | int64](path string, elem blocks.ElemType, x []T) error {
	return npyFile(path, elem, len(x), func(w io.Writer) error {
		_, err := w.Write(blocks.Bytes(x))
		return err
	})
}

func npyFile(path string, elem blocks.ElemType, n int, body func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	_, _ = w.Write(npy.Append(nil, elem, false, uint64(n))) // a failure sticks until Flush
	return errors.Join(body(w), w.Flush(), f.Close())
}
