package history

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/bound"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
)

// Cost is what [config.Config.History] takes, by the plan alone.
type Cost struct {
	RowBytes     int   `json:"row_bytes"`     // of a training node
	WindowRows   int   `json:"window_rows"`   // the most training nodes that a step may have
	MemoryBytes  int64 `json:"memory_bytes"`  // held for the whole run
	EpochBytes   int64 `json:"epoch_bytes"`   // of rows, in a temporary file: an epoch's steps read them
	TrainingRows int64 `json:"training_rows"` // one a training node
	// Of models that tell relations apart, where a node has a row for each relation that it has edges of: bytes are bounds. The layers
	// below the last have rows of all nodes of a step.
	Relations      int   `json:"relations,omitempty"` // inverse ones counted
	NodeWindowRows int   `json:"node_window_rows,omitempty"`
	NodeRows       int64 `json:"node_rows,omitempty"` // nodes an epoch: pinned ones once a step

	edgeBytes int64 // of the edges of one addition
}

// CostOf forecasts histories of a store's partitions with training nodes as parts say,
// at most resident of them in memory at once, pinned ones included, in so many steps an epoch. relations is the most relations
// that so many nodes have, each its own, or of these that are read from no precomputed hop.
func CostOf(parts []store.PartitionInfo, pinned []store.PartitionID, relations func(nodes int64, unread bool) int64, of []Options, resident, steps int) (c Cost) {
	for _, o := range of {
		counts, nodes, all := make([]int, len(parts)), int64(0), uint64(0)
		for p, info := range parts {
			counts[p] = int(info.Train)
			if o.every {
				counts[p] = int(info.Nodes)
			}
			nodes, all = nodes+int64(counts[p]), all+info.Nodes
		}
		if o.every {
			for _, p := range pinned {
				nodes += int64(max(0, steps-1)) * int64(counts[p])
			}
		}
		window := Fullest(counts, resident)
		rows, windowRows := nodes, window
		if o.Relations > 0 {
			unread := o.without != nil
			most := relations(int64(all), unread) * int64(max(1, steps))
			rows, windowRows = min(nodes*int64(o.Relations), most), int(min(int64(window*o.Relations), relations(int64(window), unread)))
			c.Relations = o.Relations
		}
		c.MemoryBytes += o.bytes(windowRows, parts, steps)
		if c.edgeBytes = max(c.edgeBytes, historyEdgeBytes); o.symmetric {
			c.edgeBytes = historyEdgeBytes + 4*historyEdges // what they weigh
		}
		c.EpochBytes += rows * int64(o.RowBytes())
		if o.every {
			c.NodeRows, c.NodeWindowRows = nodes, window
			if o.Layer == 0 {
				groups := func(unread bool) int64 {
					return 4*int64(all+uint64(len(parts))) + 2*min(int64(all)*int64(o.Relations), relations(int64(all), unread))
				}
				if c.MemoryBytes += groups(false); o.without != nil { // other layers' are its own no more
					c.MemoryBytes += groups(true)
				}
			}
		} else {
			c.RowBytes, c.WindowRows, c.TrainingRows = o.RowBytes(), window, nodes
		}
	}
	return c
}

// BudgetBytes is what a run's budget counts for it: with the edges of one addition.
func (c Cost) BudgetBytes() int64 {
	return c.MemoryBytes + c.edgeBytes
}

// String says what it takes.
func (c Cost) String() string {
	const mib = 1 << 20
	if c.Relations > 0 {
		return fmt.Sprintf("history holds at most %.2f MiB: rows of %d bytes for each relation of at most %d training nodes a step, and in the layers below the last of at most %d nodes; an epoch's steps read at most %.1f MiB of them, which lie in a temporary file",
			float64(c.MemoryBytes)/mib, c.RowBytes, c.WindowRows, c.NodeWindowRows, float64(c.EpochBytes)/mib)
	}
	return fmt.Sprintf("history holds %.2f MiB: rows of %d bytes of at most %d training nodes a step; an epoch's steps read the rows of all %d, %.1f MiB, which lie in a temporary file",
		float64(c.MemoryBytes)/mib, c.RowBytes, c.WindowRows, c.TrainingRows, float64(c.EpochBytes)/mib)
}

// Forecast forecasts the history of a run on a store whose partitions have so many training nodes (nil: as the manifest
// says), at most resident of them in memory at once, pinned ones included, in so many steps an epoch. It goes by how many
// relations nodes have, if w is not nil. c's defaults and c.Features must be filled in.
func Forecast(c *config.Config, m *store.Manifest, trained []uint64, resident, steps int, w *bound.Sampled) (Cost, error) {
	d := *c
	s, err := config.ShapeOf(m, &d)
	if err != nil && c.Relational() { // others' rows depend on no shape
		return Cost{}, fmt.Errorf("train: history: %w", err)
	}
	of, err := OptionsOf(c, m, s)
	if err != nil {
		return Cost{}, fmt.Errorf("train: history: %w", err)
	}
	parts := slices.Clone(m.Partitions)
	for p := range trained {
		parts[p].Train = trained[p]
	}
	most := c.StoredEdges(m) // no node has more relations than edges
	relations := func(nodes int64, unread bool) int64 { return most }
	if w != nil {
		relations = func(nodes int64, unread bool) int64 {
			if unread {
				return w.Unread.Most(nodes)
			}
			return w.Relations.Most(nodes)
		}
	}
	return CostOf(parts, m.Pinned, relations, of, resident, steps), nil
}

// OptionsOf says which histories a run on a store keeps: of a model of means the last layer's, where the first hop may be
// precomputed; of one that tells relations apart, which has no such hop, all layers'. c's plan need not be chosen for what they cost.
func OptionsOf(c *config.Config, m *store.Manifest, s config.Shape) ([]Options, error) {
	elem, err := c.HistoryElem(m)
	if err != nil {
		return nil, err
	}
	o := Options{Split: c.Split, Elem: elem, Resident: c.Resident(m)}
	if !c.Relational() {
		o.Layer, o.Dim = c.Layers-1, c.Hidden
		o.undivided, o.symmetric = c.HopKind().Sum != "", c.Kind().Weights == nn.WeightsSymmetric
		o.Attention = c.Kind().History == nn.HistoryAttention
		return []Options{o}, nil
	}
	model := c.ModelConfig(s)
	o.Relations = model.Relations
	if len(model.Categories) > 0 {
		o.Input = 1
	}
	var of []Options
	for l := range c.Layers {
		o.Layer, o.Dim, o.every, o.without = l, c.Hidden, l < c.Layers-1, nil
		if l == 0 {
			o.without = c.HopRelations(m)
		}
		if l == 0 && o.Input == 0 {
			o.Dim = s.In
		}
		of = append(of, o)
	}
	return of, nil
}
