package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Shape of the generated graph: partitions of 65536 nodes as a good
// partitioner leaves them, most neighbours in the own partition, one node in a
// hundred with a label to train on (as ogbn-papers100M has).
const (
	epochPartitionNodes = 1 << 16
	epochDegree         = 8
	epochLocalPercent   = 70
	epochTrainEvery     = 100
	epochClasses        = 50
)

// Flat copies of the topology that the naive trainer maps into memory.
const (
	naiveSpans   = "naive-spans.bin"
	naiveIndices = "naive-indices.bin"
)

// generator writes the benchmark's store.
type generator struct {
	w     *store.Writer
	m     *store.Manifest
	parts int
	dim   int
	err   error
}

// generateEpochStore writes a graph of the given number of partitions with
// float32 features of dim columns into a new store, and flat copies beside it. It
// is streamed: memory holds one partition.
func generateEpochStore(ctx context.Context, dir string, parts, dim int, progress func(string)) (err error) {
	w, err := store.Create(filepath.Join(dir, "store"), store.WriterOptions{})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	nodes := uint64(parts * epochPartitionNodes)
	g := &generator{w: w, parts: parts, dim: dim, m: &store.Manifest{
		Schema: store.Schema{
			NodeTypes: []store.NodeType{{Name: "node", Count: nodes}}, Relations: []store.Relation{{Name: "edge"}},
			Task: store.TaskNode, Classes: epochClasses,
		},
		Nodes: nodes, Ingest: map[string]string{"input": "gstore-lab bench epoch"},
	}}
	train := uint64((epochPartitionNodes + epochTrainEvery - 1) / epochTrainEvery)
	for p := range parts {
		g.m.Partitions = append(g.m.Partitions, store.PartitionInfo{First: store.NodeID(p * epochPartitionNodes), Nodes: epochPartitionNodes, Train: train})
	}
	progress("topology")
	if err := g.topology(ctx, dir); err != nil {
		return err
	}
	progress("features")
	g.columns(ctx)
	if g.err != nil {
		return g.err
	}
	g.m.Schema.Relations[0].Count = g.m.Edges
	if err := w.Commit(ctx, g.m); err != nil {
		return err
	}
	return w.Close()
}

// file writes a block file of the store and returns its name; the first error is kept.
func (g *generator) file(base string, h blocks.Header, fill func(*blocks.Writer) error) string {
	if g.err != nil {
		return ""
	}
	h.Partitions = uint32(g.parts)
	name, bw, err := g.w.CreateFile(base, h)
	if err != nil {
		g.err = err
		return ""
	}
	if err := fill(bw); err != nil {
		g.err = errors.Join(err, bw.Abort())
		return ""
	}
	info, err := bw.Close()
	g.err = err
	g.m.Files = append(g.m.Files, store.Ref(name, info))
	return name
}

// topology writes the edge buckets and the flat copies of the same edges.
func (g *generator) topology(ctx context.Context, dir string) (err error) {
	var flat [2]*bufio.Writer
	for i, name := range []string{naiveSpans, naiveIndices} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		flat[i] = bufio.NewWriterSize(f, 1<<20)
	}
	sizes := slices.Repeat([]uint32{epochPartitionNodes}, g.parts)
	name := g.file("topology", blocks.Header{Kind: blocks.Topology}, func(w *blocks.Writer) error {
		enc := blocks.NewStripeEncoder(w, sizes)
		var lists [][]uint32 // by local dst
		at := int64(0)
		for j := range g.parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := errors.Join(w.Begin(uint64(j)), enc.Begin(store.PartitionID(j))); err != nil {
				return err
			}
			lists = slices.Grow(lists[:0], epochPartitionNodes)[:epochPartitionNodes]
			for d := range lists {
				lists[d] = lists[d][:0]
			}
			for i := range g.parts {
				keys := randomBucket(i, j, g.parts)
				if err := enc.Bucket(store.PartitionID(i), keys); err != nil {
					return err
				}
				for _, k := range keys {
					lists[k>>32] = append(lists[k>>32], uint32(i*epochPartitionNodes)+uint32(k))
				}
			}
			edges, err := enc.End()
			if err != nil {
				return err
			}
			if err := w.End(edges); err != nil {
				return err
			}
			g.m.Partitions[j].Edges = edges
			g.m.Edges += edges
			for _, l := range lists {
				span := []buffer.Span{{Begin: at, End: at + int64(len(l))}}
				at += int64(len(l))
				if _, err := flat[0].Write(blocks.Bytes([]int64{span[0].Begin, span[0].End})); err != nil {
					return err
				}
				if _, err := flat[1].Write(blocks.Bytes(l)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	g.m.Topology = []string{name}
	return errors.Join(g.err, flat[0].Flush(), flat[1].Flush())
}

// randomBucket draws the edges from partition i to j, sorted and without
// repetition.
func randomBucket(i, j, parts int) []uint64 {
	rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
	n := epochPartitionNodes * epochDegree * (100 - epochLocalPercent) / 100 / max(1, parts-1)
	if i == j {
		n = epochPartitionNodes * epochDegree * epochLocalPercent / 100
	}
	keys := make([]uint64, n)
	for k := range keys {
		r := rng.Uint64()
		keys[k] = blocks.EdgeKey(uint32(r&(epochPartitionNodes-1)), uint32(r>>32&(epochPartitionNodes-1)))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// columns writes features, labels, split and ids.
func (g *generator) columns(ctx context.Context) {
	column := func(name string, role store.Role, elem blocks.ElemType, dim int, payload func(p int) []byte) {
		file := g.file(name, blocks.Header{Kind: blocks.NodeColumn, Elem: elem, Dim: uint32(dim), Name: name}, func(w *blocks.Writer) error {
			for p := range g.parts {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := w.Append(uint64(p), epochPartitionNodes, payload(p)); err != nil {
					return err
				}
			}
			return nil
		})
		g.m.Columns = append(g.m.Columns, store.ColumnInfo{Name: name, Role: role, Elem: elem, Dim: dim, Files: []string{file}})
	}
	rows := make([]float32, epochPartitionNodes*g.dim)
	column("x", store.RoleFeature, blocks.Float32, g.dim, func(p int) []byte {
		state := uint64(p)*0x9E3779B97F4A7C15 + 1
		for i := range rows {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			rows[i] = float32(int32(state)) / (1 << 31)
		}
		return blocks.Bytes(rows)
	})
	labels := make([]int32, epochPartitionNodes)
	column("label", store.RoleLabel, blocks.Int32, 1, func(p int) []byte {
		for v := range labels {
			labels[v] = int32((p + v) % epochClasses)
		}
		return blocks.Bytes(labels)
	})
	split := make([]uint8, epochPartitionNodes)
	for v := 0; v < len(split); v += epochTrainEvery {
		split[v] = store.SplitTrain
	}
	column("split", store.RoleSplit, blocks.Uint8, 1, func(int) []byte { return split })
	ids := make([]uint64, epochPartitionNodes)
	identity := func(p int) []byte {
		for v := range ids {
			ids[v] = uint64(p*epochPartitionNodes + v)
		}
		return blocks.Bytes(ids)
	}
	external := g.file("external", blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}, func(w *blocks.Writer) error {
		return g.each(w, identity)
	})
	internal := g.file("idmap", blocks.Header{Kind: blocks.IDMap, Elem: blocks.Uint64, Dim: 1, ExtentRows: epochPartitionNodes}, func(w *blocks.Writer) error {
		return g.each(w, identity)
	})
	g.m.IDs = store.IDInfo{Kind: store.IDsDense, External: []string{external}, Map: internal}
}

func (g *generator) each(w *blocks.Writer, payload func(p int) []byte) error {
	for p := range g.parts {
		if err := w.Append(uint64(p), epochPartitionNodes, payload(p)); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}
