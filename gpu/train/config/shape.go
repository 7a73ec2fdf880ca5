package config

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/stats"
)

// MeanDegree is the mean number of neighbours of a node of a store, in a direction.
func (c *Config) MeanDegree(m *store.Manifest) float64 {
	return float64(c.StoredEdges(m)) / float64(c.Directions(m)) / float64(max(1, m.Nodes))
}

// Shape is what the data decides of a model.
type Shape struct {
	In, Classes int              // 1 class of labels that are numbers
	Numbers     *nn.NumberScale  // of these, set by [Shape.ScaleNumbers]; until then of mean 0 and deviation 1
	Sets        *store.LabelSets // of nodes that have any number of Classes labels; else nil
	EdgeDim     int              // columns of Config.EdgeFeatures
	Relations   int              // edge types of the store
	Sampling    RelationSampling // [Config.RelationSampling]
	hops        []nn.RelationHop
	Degree      float64 // [Config.MeanDegree]
	categories  []int   // learned vectors that each column of categories names, the 0 for none counted
	nodeTypes   int     // one more than which of these says the nodes' types; 0: none does
	Vectors     bool    // learned vectors lie in a table
	Inverse     bool    // edges are read in both directions, those against theirs as relations of their own
}

// ModelConfig returns the model's description for a store.
func (c *Config) ModelConfig(s Shape) nn.Config {
	m := nn.Config{Model: c.Model, Heads: c.Heads, Aggregator: c.Aggregator, Norm: c.Norm, Residual: c.Residual, Jumping: c.Jumping, Bases: c.Bases,
		Layers: c.Layers, In: s.In, Hidden: c.Hidden, Out: s.Classes, Dropout: float32(*c.Dropout), InputDropout: float32(c.InputDropoutUsed()), PrecomputedHop: c.PrecomputedHop && !c.Relational(), EdgeWeights: c.EdgeWeights, EdgeDim: s.EdgeDim, Order: c.Order, Seed: c.Seed, Numbers: s.Numbers, MultiLabel: s.Sets != nil}
	m.SparseInput = c.MostlyZero && m.TakesSparse()
	if c.Relational() {
		m.Relations, m.Categories, m.Vectors, m.RelationHops = s.Relations, s.categories, s.Vectors, s.hops
		if s.Inverse {
			m.Relations *= 2
		}
		if c.Kind().NodeTypes {
			m.NodeTypes = s.nodeTypes
		}
	}
	return m
}

// ShapeOf checks that the store fits the task, fills in cfg.Features and returns what the
// model's shape depends on.
func ShapeOf(m *store.Manifest, cfg *Config) (s Shape, err error) {
	if m.Schema.Task != store.TaskNode {
		return s, fmt.Errorf("train: the store's task is %q, expected %q: ingest labels and a split", m.Schema.Task, store.TaskNode)
	}
	if m.Schema.Classes < 1 && !m.NumberLabels() {
		return s, fmt.Errorf("train: no node of the store has a label: ingest labels of the nodes to train")
	}
	if s.Sets = m.LabelSets(); cfg.ClassWeights == WeightsAuto && (m.NumberLabels() || s.Sets != nil) {
		return s, fmt.Errorf("train: the store's labels are %s: class weights are for classes", kindOf(m.NumberLabels(), s.Sets != nil))
	}
	if err := Options().CheckStore(cfg, m); err != nil {
		return s, err
	}
	cfg.FillFeatures(m)
	if len(cfg.Features) == 0 {
		other := "an ingest of the graph with its labels numbers the nodes, so that each learns a vector"
		if len(m.Categories()) > 0 {
			other = "--model " + relationsModel + " learns a vector for each node"
		}
		return s, fmt.Errorf("train: %w: the store has no feature columns: gstore append --features adds one; %s", store.ErrNotFound, other)
	}
	if err := s.readColumns(m, cfg); err != nil {
		return s, err
	}
	columns, err := buffer.EdgeFeatures(m, cfg.EdgeFeatures)
	if err != nil {
		return s, fmt.Errorf("train: features of edges: %w", err)
	}
	for _, c := range columns {
		s.EdgeDim += c.Dim
	}
	if s.Vectors = len(cfg.VectorTypes) > 0; s.Vectors && len(s.categories) == 0 {
		return s, fmt.Errorf("train: %w: learned vectors of types %q in a table need feature %s", store.ErrNotFound, cfg.VectorTypes, store.TypeColumn)
	}
	if s.hops, err = cfg.relationHops(m); err != nil {
		return s, err
	}
	if s.Sampling, err = cfg.RelationSampling(m); err != nil {
		return s, err
	}
	s.Degree = cfg.MeanDegree(m)
	s.Classes, s.Relations, s.Inverse = m.Schema.Classes, len(m.Schema.Relations), !m.Schema.Undirected && !cfg.Forward
	if m.NumberLabels() {
		s.Classes, s.Numbers = 1, &nn.NumberScale{Deviation: 1}
	}
	return s, nil
}

// ScaleNumbers reads labels and split, where labels are numbers, for what brings those of the training nodes to mean 0 and deviation 1.
func (s *Shape) ScaleNumbers(ctx context.Context, st *store.Store, split string) error {
	if s.Numbers == nil {
		return nil
	}
	_, parts, err := stats.NumbersOf(ctx, st, split)
	if err != nil {
		return fmt.Errorf("train: labels of the training nodes: %w", err)
	}
	of := parts[store.SplitTrain]
	s.Numbers = &nn.NumberScale{Mean: float32(of.Mean), Deviation: float32(of.Deviation)}
	if s.Numbers.Deviation <= 0 { // all are one number
		s.Numbers.Deviation = 1
	}
	return nil
}

// readColumns checks cfg.Features, and sets what of the shape depends on them.
func (s *Shape) readColumns(m *store.Manifest, cfg *Config) error {
	own, hops := cfg.OwnAndHops()
	first := len(cfg.Features) - len(hops)
	for i, name := range cfg.Features {
		c, err := m.Column(name)
		if err != nil && i >= first {
			return fmt.Errorf("train: %w: make it with %s --feature %s", err, cfg.PrecomputeCommand(), own[i-first])
		}
		if err != nil {
			return fmt.Errorf("train: %w: feature %q (the store's features are %q)", store.ErrNotFound, name, m.ColumnNames(store.RoleFeature))
		}
		if k, ok := m.Category(name); ok && cfg.Relational() {
			s.categories = append(s.categories, int(k.Nodes)+1)
			if name == store.TypeColumn {
				s.nodeTypes = len(s.categories)
			}
			continue
		}
		if len(s.categories) > 0 {
			return fmt.Errorf("train: feature %s behind categories of nodes: name it before them", name)
		}
		if err := cfg.checkFeature(m, i, c); err != nil {
			return err
		}
		if i < len(own) {
			s.In += c.Dim
		}
		if i < first {
			continue
		}
		if x, err := m.Column(own[i-first]); err == nil && c.Dim != x.Dim {
			return fmt.Errorf("train: feature %s has %d columns, %s has %d", c.Name, c.Dim, x.Name, x.Dim)
		} else if err := cfg.HopKind().Check(c); err != nil {
			return store.Invalid(fmt.Errorf("train: %w", err))
		}
	}
	return nil
}

// checkFeature checks column i of c.Features, which is x.
func (c *Config) checkFeature(m *store.Manifest, i int, x *store.ColumnInfo) error {
	if x.Role != store.RoleFeature {
		return fmt.Errorf("train: column %s is a %s, no feature (the store's features are %q)", x.Name, x.Role, m.ColumnNames(store.RoleFeature))
	}
	if slices.Contains(c.Features[:i], x.Name) {
		return fmt.Errorf("train: feature %s is named twice", x.Name)
	}
	return nn.CheckFeature(x.Name, x.Elem)
}

// Directions is how many lists of neighbours a node is drawn for: models of relations read a directed graph's edges both ways,
// unless Forward.
func (c *Config) Directions(m *store.Manifest) int64 {
	if c.Relational() && !m.Schema.Undirected && !c.Forward {
		return 2
	}
	return 1
}

// StoredEdges is the number of edges in memory, where an undirected one is two, and so is one that is read both ways.
func (c *Config) StoredEdges(m *store.Manifest) int64 {
	if m.Schema.Undirected {
		return 2 * int64(m.Edges)
	}
	return c.Directions(m) * int64(m.Edges)
}

// DrawnFrom bounds the edges of a block, of so many that are in memory: nodes that walks find are not bounded by these.
func (c *Config) DrawnFrom(edges int64) int64 {
	if c.Sampler == mini.Pinsage {
		return math.MaxInt64
	}
	return edges
}
