package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// HopSuffix names the column that holds a feature's mean over neighbours: "x" → "x.hop1".
const HopSuffix = ".hop1"

// meanLayer passes the exact neighbourhood mean of its input through.
type meanLayer struct{ nn.SAGE }

// PrecomputeHop adds to the store in dir a version with one more feature
// column: for every node the exact mean of feature over its neighbours, 0 for
// nodes without any (FINDINGS, "First hop precomputed"). It streams over the
// store like an evaluation, within memoryBytes (0: no bound). It returns the
// column's name; a column that is there already is left alone.
func PrecomputeHop(ctx context.Context, dir, feature string, threads int, memoryBytes int64) (name string, err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	column, err := st.Manifest().Column(feature)
	if err != nil {
		return "", err
	}
	name = feature + HopSuffix
	if _, err := st.Manifest().Column(name); err == nil {
		return name, nil
	}
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if w.Base() == nil || w.Base().Version != st.Manifest().Version {
		return "", fmt.Errorf("train: precompute %s: the store got another version meanwhile; try again", name)
	}
	m := w.Base().Clone()
	file, bw, err := w.CreateFile("column-"+name, blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Float32, Dim: uint32(column.Dim), Partitions: uint32(len(m.Partitions)), Name: name})
	if err != nil {
		return "", err
	}
	if err := writeHop(ctx, st, bw, column, threads, memoryBytes); err != nil {
		return "", errors.Join(err, bw.Abort())
	}
	info, err := bw.Close()
	if err != nil {
		return "", err
	}
	m.Files = append(m.Files, store.Ref(file, info))
	m.Columns = append(m.Columns, store.ColumnInfo{Name: name, Role: store.RoleFeature, Elem: blocks.Float32, Dim: column.Dim, Files: []string{file}})
	m.Note = "neighbourhood mean of " + feature
	return name, w.Commit(ctx, m)
}

// writeHop computes the means tile by tile and appends them by partition.
func writeHop(ctx context.Context, st *store.Store, bw *blocks.Writer, column *store.ColumnInfo, threads int, memoryBytes int64) (err error) {
	dev := host.New(host.Options{Threads: threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return err
	}
	if memoryBytes > 0 {
		memoryBytes = max(memoryBytes-programBytes, 1)
	}
	e, err := NewEvaluator(st, dev, EvaluatorOptions{Features: []string{column.Name}, MemoryBytes: memoryBytes}, column.Dim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r := &evaluation{Evaluator: e, queue: q}
	params := nn.NewParams(dev) // the layer's own weights are not used
	layer := &meanLayer{*nn.NewSAGE(params, 0, column.Dim, column.Dim, nn.Activation{}, 0)}
	parts := st.Manifest().Partitions
	for i, t := range e.tiles {
		acc, degrees, free, err := r.accumulators(layer, t)
		if err != nil {
			return err
		}
		err = func() error {
			defer free()
			for from := range e.tiles {
				if err := r.accumulate(ctx, layer, from, i, acc, degrees); err != nil {
					return err
				}
			}
			deg, err := dev.Map(asBytes(degrees))
			if err != nil {
				return err
			}
			q.DivideRows(acc, gpu.VectorOf(deg, 0, len(degrees), blocks.Float32))
			for p := t.lo; p < t.hi; p++ {
				if err := writeRows(ctx, q, bw, uint64(p), acc.View(int(uint64(parts[p].First)-t.base), 0, int(parts[p].Nodes), acc.Cols), e.chunkRows); err != nil {
					return err
				}
			}
			return nil
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeRows appends a device matrix as an extent, chunk by chunk.
func writeRows(ctx context.Context, q *gpu.Queue, bw *blocks.Writer, id uint64, t gpu.Tensor, chunk int) error {
	if err := bw.Begin(id); err != nil {
		return err
	}
	buf := make([]float32, min(chunk, t.Rows)*t.Cols)
	for lo := 0; lo < t.Rows; lo += chunk {
		n := min(chunk, t.Rows-lo)
		q.Download(asBytes(buf[:n*t.Cols]), t.View(lo, 0, n, t.Cols))
		if err := q.Sync(ctx); err != nil {
			return err
		}
		if _, err := bw.Write(asBytes(buf[:n*t.Cols])); err != nil {
			return err
		}
	}
	return bw.End(uint64(t.Rows))
}
