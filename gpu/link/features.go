package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// columns are c's features in a store.
func (c *Config) columns(m *store.Manifest) (columns []*store.ColumnInfo, err error) {
	for i, name := range c.Features {
		if slices.Contains(c.Features[:i], name) {
			return nil, store.Invalid(fmt.Errorf("train: feature %s is named twice", name))
		}
		x, err := m.Column(name)
		if err != nil {
			return nil, fmt.Errorf("train: features: %w", err)
		}
		if x.Role != store.RoleFeature {
			return nil, fmt.Errorf("train: features: column %s is of role %s, expected %s", name, x.Role, store.RoleFeature)
		}
		if err := nn.CheckFeature(name, x.Elem); err != nil {
			return nil, err
		}
		columns = append(columns, x)
	}
	return columns, nil
}

// predicted is the relation whose edges are predicted; nil: all are.
func (c *Config) predicted(m *store.Manifest) (*store.RelationID, error) {
	if c.Relation == "" {
		return nil, nil
	}
	id, err := m.Schema.RelationNamed(c.Relation)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return &id, nil
}

// CheckStore says which of c's features, or that its relation, is not a store's.
func (c *Config) CheckStore(m *store.Manifest) error {
	if _, err := c.columns(m); err != nil {
		return err
	}
	_, err := c.predicted(m)
	return err
}

// examplesOf is how many edges an epoch trains.
func (c *Config) examplesOf(m *store.Manifest) (uint64, error) {
	r, err := c.predicted(m)
	if err != nil || r == nil {
		return m.Edges, err
	}
	return m.Schema.Relations[*r].Count, nil
}

// inputRows are how many nodes' inputs are computed at a time.
const inputRows = 4096

// inputs computes the inputs of a model with features, a partition at a time, from embeddings and features.
type inputs struct {
	queue      *gpu.Queue
	model      *nn.LinkModel
	arena      *gpu.Arena
	columns    []*store.ColumnInfo
	m          *store.Manifest
	embeddings eval.Embeddings // nil: the model has none
	features   featureRows
	out        *blockio.Slab // of a partition; nil until used
}

// featureRows returns a partition's rows of a model's i-th feature, stride bytes apart, valid until the next call for that feature.
type featureRows func(ctx context.Context, p store.PartitionID, i int) (rows []byte, stride int, err error)

// residentFeatures are those of a macro-batch that holds all partitions, valid as long as it is.
func residentFeatures(mb *buffer.MacroBatch) featureRows {
	return func(_ context.Context, id store.PartitionID, i int) ([]byte, int, error) {
		c := &mb.Features[i]
		for _, p := range mb.Partitions {
			if p.ID == id {
				return c.Data[int(p.Base)*c.Stride:][:int(p.Nodes)*c.Stride], c.Stride, nil
			}
		}
		return nil, 0, fmt.Errorf("evaluation: partition %d is not in memory: %w", id, store.ErrNotFound)
	}
}

// storedFeatures reads features from a store, a partition at a time into one buffer each.
type storedFeatures struct {
	st      *store.Store
	columns []*store.ColumnInfo
	room    []*blockio.Slab
}

// read is a [featureRows].
func (f *storedFeatures) read(ctx context.Context, p store.PartitionID, i int) ([]byte, int, error) {
	c, m := f.columns[i], f.st.Manifest()
	if f.room == nil {
		f.room = make([]*blockio.Slab, len(f.columns))
	}
	if f.room[i] == nil {
		var err error
		if f.room[i], err = blockio.AllocSlab(max(largestPartition(m)*int64(c.RowBytes()), 1), blockio.SlabOptions{Threads: 1}); err != nil {
			return nil, 0, err
		}
	}
	size := int64(m.Partitions[p].Nodes) * int64(c.RowBytes())
	b, err := f.st.ReadColumn(ctx, c.Name, p, f.room[i].Bytes()[:size:size])
	if err == nil && int64(len(b)) != size {
		err = fmt.Errorf("%w: column %s of partition %d has %d bytes, expected %d", store.ErrCorrupt, c.Name, p, len(b), size)
	}
	return b, c.RowBytes(), err
}

func (f *storedFeatures) close() (err error) {
	for _, s := range f.room {
		err = errors.Join(err, s.Free())
	}
	f.room = nil
	return err
}

// largestPartition is the nodes of the largest one.
func largestPartition(m *store.Manifest) (most int64) {
	for _, p := range m.Partitions {
		most = max(most, int64(p.Nodes))
	}
	return most
}

// rowsBytes is what an evaluation's inputs take at most while they are read and computed.
func (c *Config) rowsBytes(m *store.Manifest) int64 {
	n := table.ReaderBytes(uint64(largestPartition(m)), c.TableDim())
	columns, err := c.columns(m)
	if err != nil || len(columns) == 0 {
		return n // an error is told where the model is made
	}
	nodes, rows, floats := largestPartition(m), int64(0), int64(0)
	for _, x := range columns {
		rows += blocks.AlignUp(nodes * int64(x.RowBytes()))
		floats += int64(x.Dim)
	}
	return n + rows + blocks.AlignUp(4*nodes*int64(c.Dim)) + 4*min(nodes, inputRows)*(floats+int64(c.Dim)) + 4*gpu.ArenaAlign
}

// newInputs prepares computing the inputs of model, whose columns are those of its configuration.
func newInputs(q *gpu.Queue, model *nn.LinkModel, m *store.Manifest, columns []*store.ColumnInfo) *inputs {
	return &inputs{queue: q, model: model, arena: gpu.NewArena(q.Device()), columns: columns, m: m}
}

// of returns the inputs that follow from embeddings, nil without, and features.
func (x *inputs) of(embeddings eval.Embeddings, features featureRows) eval.Embeddings {
	x.embeddings, x.features = embeddings, features
	return x.read
}

// read implements [eval.Embeddings].
func (x *inputs) read(ctx context.Context, p store.PartitionID) (_ []byte, err error) {
	q, n, dim := x.queue, int(x.m.Partitions[p].Nodes), x.model.Config().Dim
	var tables []gpu.Tensor
	add := func(name string, b []byte, cols, stride int, elem blocks.ElemType, scale []float32) (release func(), err error) {
		t, release, err := nn.MapTable(q.Device(), name, b, n, cols, stride, elem, scale)
		tables = append(tables, t)
		return release, err
	}
	if x.out == nil {
		if x.out, err = blockio.AllocSlab(max(4*largestPartition(x.m)*int64(dim), 1), blockio.SlabOptions{Threads: 1}); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	if x.embeddings != nil {
		b, err := x.embeddings(ctx, p)
		if err != nil {
			return nil, err
		}
		release, err := add("embeddings", b, dim, 4*dim, blocks.Float32, nil)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	for i, c := range x.columns {
		b, stride, err := x.features(ctx, p, i)
		if err != nil {
			return nil, err
		}
		release, err := add(c.Name, b, c.Dim, stride, c.Elem, c.Scale)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	out := x.out.Bytes()[:4*n*dim]
	for lo := 0; lo < n; lo += inputRows {
		rows := min(inputRows, n-lo)
		var in nn.Input
		for _, t := range tables {
			in.Tables = append(in.Tables, t.View(lo, 0, rows, t.Cols))
		}
		q.Download(out[4*lo*dim:][:4*rows*dim], x.model.Inputs(&nn.Pass{Queue: q, Arena: x.arena}, rows, in))
		if err := errors.Join(q.Sync(ctx), x.arena.Reset()); err != nil {
			return nil, fmt.Errorf("evaluation: inputs of partition %d: %w", p, err)
		}
	}
	return out, nil
}

func (x *inputs) close() error {
	err := x.arena.Close()
	if x.out != nil {
		err = errors.Join(err, x.out.Free())
		x.out = nil
	}
	return err
}

// openInputs makes what evaluation needs of features.
func (s *session) openInputs(m *store.Manifest) error {
	columns, err := s.cfg.columns(m)
	if err != nil || len(columns) == 0 {
		return err
	}
	s.stored = &storedFeatures{st: s.st, columns: columns}
	s.inputs = newInputs(s.t.queue, s.t.model, m, columns)
	return nil
}

// inputsOf returns the inputs that follow from embeddings and, in a run with features, features.
func (s *session) inputsOf(embeddings eval.Embeddings, features featureRows) eval.Embeddings {
	if s.inputs == nil {
		return embeddings
	}
	if s.cfg.NoEmbeddings {
		embeddings = nil
	}
	return s.inputs.of(embeddings, features)
}
