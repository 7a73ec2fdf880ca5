package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/tools/recipe"
)

// ingestRequest says what becomes of arrays in memory.
type ingestRequest struct {
	Path          string        `json:"path"`
	Arrays        []ingestArray `json:"arrays"` // what the call's arrays are
	Folder        string        `json:"folder"` // of edges.parquet and perhaps nodes.parquet, instead of arrays
	Dense         bool          `json:"dense"`  // its edges name nodes by number
	fileRequest                 // a file, a folder or a database, instead of arrays
	Nodes         uint64        `json:"nodes"`
	NodeTypes     []nodeType    `json:"node_types"` // of nodes one after the other; none: one type
	RelationNames []string      `json:"relation_names"`
	ClassNames    []string      `json:"class_names"`
	Input         string        `json:"input"`

	Undirected     bool    `json:"undirected"`
	Dedup          string  `json:"dedup"`
	SelfLoops      string  `json:"self_loops"`
	Partitions     int     `json:"partitions"`
	Partitioner    string  `json:"partitioner"`
	Hubs           float64 `json:"hubs"`
	HubsAuto       bool    `json:"hubs_auto"`
	PrecomputeHops int     `json:"precompute_hops"`
	FeatureDtype   string  `json:"feature_dtype"`
	SplitRandom    string  `json:"split_random"`
	Missing        string  `json:"missing"`
	Normalize      string  `json:"normalize"`
	MemoryBytes    int64   `json:"memory_bytes"`
	Threads        int     `json:"threads"`
	Seed           uint64  `json:"seed"`
	Note           string  `json:"note"`
}

// ingestArray says what an array is: "src", "dst", "relation", "ids", "names" and its "ends", "node" and "edge" columns,
// and of splits "train", "valid" and "test".
type ingestArray struct {
	Use   string `json:"use"`
	Name  string `json:"name"` // of a column or a split
	Role  string `json:"role"`
	Dtype string `json:"dtype"`
	Dim   int    `json:"dim"`
	Of    string `json:"of"` // the type of nodes whose rows a column has alone; "": all
	// Measured says of a column of nodes that its elements are columns of a table.
	Measured bool `json:"measured"`
}

// nodeType is a type of nodes and how many there are.
type nodeType struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// ingestGraph makes a store of a graph in memory, or of files.
func ingestGraph(ctx context.Context, c *call) (err error) {
	var q ingestRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	fo := q.options()
	file, done, err := fo.Beside(ctx, q.Path, q.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	src := ingest.Source(nil)
	if file != "" {
		src, err = formats.Open(file, fo)
	} else {
		src, err = q.source(c.arrays)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	o := ingest.Options{Undirected: q.Undirected, Dedup: ingest.Dedup(q.Dedup), SelfLoops: ingest.SelfLoops(q.SelfLoops), Partitions: q.Partitions,
		Hubs: q.Hubs, HubsAuto: q.HubsAuto, Missing: ingest.Missing(q.Missing), Normalize: ingest.Normalize(q.Normalize), MemoryBytes: q.MemoryBytes, Threads: q.Threads, Seed: q.Seed, Note: q.Note}
	if q.Partitioner != recipe.Auto {
		if o.Partitioner, err = partitioner.ParseMethod(q.Partitioner); err != nil {
			return err
		}
	}
	if q.FeatureDtype != "" {
		if o.FeatureElem, err = blocks.ParseElemType(q.FeatureDtype); err != nil {
			return fmt.Errorf("%w: feature_dtype: %w", store.ErrInvalid, err)
		}
	}
	switch {
	case file != "" && q.SplitRandom == "":
		o.SplitRandom = ingest.UnaskedSplit(src.Describe())
	case q.SplitRandom != "" && q.SplitRandom != "none":
		if o.SplitRandom, err = ingest.ParseRandomSplit(q.SplitRandom); err != nil {
			return fmt.Errorf("%w: split_random: %w", store.ErrInvalid, err)
		}
	}
	hop, why := q.PrecomputeHops > 0, ""
	if hop {
		o.Later = recipe.Hop(precompute.Options{MemoryBytes: q.MemoryBytes})
	}
	if q.Partitioner == recipe.Auto {
		o.Decide = recipe.Decide(recipe.Given{Hubs: q.HubsAuto || q.Hubs > 0, Hop: hop, Memory: q.MemoryBytes > 0}, func(c recipe.Choice) {
			hop, why = hop || c.Hop, c.Why
		})
	}
	rep, err := ingest.Run(ctx, q.Path, src, o)
	if err != nil {
		return err
	}
	if hop {
		dev := host.New(host.Options{Threads: runtime.GOMAXPROCS(0)})
		_, err := precompute.Hop(ctx, q.Path, dev, precompute.Options{MemoryBytes: q.MemoryBytes})
		if closed := dev.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("%s is made, its hop is not (gstore precompute does that alone): %w", q.Path, err)
		}
	}
	return c.answer(map[string]any{"nodes": rep.Nodes, "edges": rep.EdgesStored, "duplicates": rep.Duplicates, "self_loops": rep.SelfLoops, "bytes": rep.BytesStored, "why": why})
}

// source is the graph.
func (q *ingestRequest) source(arrays [][]byte) (ingest.Source, error) {
	if q.Folder != "" {
		o := formats.Options{Format: "parquet", Input: q.Input}
		if q.Dense {
			o.Text.IDs = store.IDsDense
		}
		return formats.Open(q.Folder, o)
	}
	g, err := q.slices(arrays)
	if err != nil {
		return nil, err
	}
	return ingest.FromSlices(g)
}

// slices views the call's arrays as a graph.
func (q *ingestRequest) slices(arrays [][]byte) (*ingest.Slices, error) {
	g := &ingest.Slices{Input: q.Input, Nodes: q.Nodes, RelationNames: q.RelationNames, ClassNames: q.ClassNames}
	if len(arrays) != len(q.Arrays) {
		return nil, fmt.Errorf("%w: %d arrays, %d are described", store.ErrInvalid, len(arrays), len(q.Arrays))
	}
	for _, t := range q.NodeTypes {
		g.NodeTypes = append(g.NodeTypes, ingest.NodeType(t))
	}
	var err error
	var text []byte
	split := func(name string) *ingest.SliceSplit {
		if n := len(g.Splits); n == 0 || g.Splits[n-1].Name != name {
			g.Splits = append(g.Splits, ingest.SliceSplit{Name: name})
		}
		return &g.Splits[len(g.Splits)-1]
	}
	for i, a := range q.Arrays {
		b := arrays[i]
		switch a.Use {
		case "src":
			g.Src, err = blocks.View[uint64](b)
		case "dst":
			g.Dst, err = blocks.View[uint64](b)
		case "relation":
			g.Relations, err = blocks.View[uint32](b)
			if g.Relations == nil {
				g.Relations = []uint32{}
			}
		case "ids":
			g.IDs, err = blocks.View[uint64](b)
		case "names":
			text = b
		case "ends":
			g.Names, err = texts(text, b)
		case "node", "edge":
			column := ingest.SliceColumn{Name: a.Name, Role: store.Role(a.Role), Dim: a.Dim, Data: b, NodeType: a.Of, Measured: a.Measured}
			if column.Elem, err = blocks.ParseElemType(a.Dtype); err != nil {
				err = fmt.Errorf("%w: column %q: %w", store.ErrInvalid, a.Name, err)
			}
			if a.Use == "node" {
				g.NodeColumns = append(g.NodeColumns, column)
			} else {
				g.EdgeColumns = append(g.EdgeColumns, column)
			}
		case "train":
			split(a.Name).Train, err = blocks.View[uint64](b)
		case "valid":
			split(a.Name).Valid, err = blocks.View[uint64](b)
		case "test":
			split(a.Name).Test, err = blocks.View[uint64](b)
		default:
			err = fmt.Errorf("%w: an array for %q", store.ErrInvalid, a.Use)
		}
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}
