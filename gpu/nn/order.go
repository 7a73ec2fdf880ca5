package nn

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Order says which of a convolution's products comes first: the thesis's
// profile-guided schedule of Y = A·X·W (section 5.3.3, Figure 5.10).
type Order uint8

// Orders. They differ in rounding.
const (
	// AggregateFirst is (A·X)·W: the dense product is over destinations, and the
	// first layer's aggregation, which has no parameters, needs no backward pass.
	AggregateFirst Order = iota
	// MultiplyFirst is A·(X·W): aggregation is over output columns, the dense
	// products are over sources, and feature rows are copied before they are multiplied.
	MultiplyFirst
)

// String names the product that comes first.
func (o Order) String() string {
	if o == MultiplyFirst {
		return "multiply first"
	}
	return "aggregate first"
}

// Orders of [Config].
const (
	OrderAuto      = "auto" // the cheaper one by [Model.ChooseOrders]
	OrderAggregate = "aggregate"
	OrderMultiply  = "multiply"
)

// Choice is how one layer is computed, and why.
type Choice struct {
	Layer           int    `json:"layer"`
	Destinations    int    `json:"destinations"` // of the measured mini-batch
	Sources         int    `json:"sources"`
	Edges           int    `json:"edges"`
	In              int    `json:"in"`
	Out             int    `json:"out"`
	First           string `json:"first"`                  // an [Order]
	AggregateMicros int64  `json:"aggregate_first_micros"` // modelled, forward and backward; 0 if there is no choice
	MultiplyMicros  int64  `json:"multiply_first_micros"`
	InputGradient   bool   `json:"input_gradient"` // false: the backward pass ends here
	Why             string `json:"why"`
}

// What the model of costs knows of the machine, in ns on one AVX-512 core,
// measured once (docs/design/gpu.md, "gpu/nn"). They are constants, not measured in each
// run, so that a run's results never depend on timing: the sizes that they
// multiply are the mini-batch's, a function of the run's seed.
const (
	costFlop    = 1 / 90. // of a dense product
	costRow     = 20      // to start reading a row of a macro-batch's features
	costByte    = .047    // of such a row
	costHotRow  = 4       // a row of a mini-batch's own tensors
	costHotByte = .03
)

// ordered is the part of a layer whose products can be exchanged. It is found by [orderedOf].
type ordered struct {
	order Order
	self  bool   // a second product reads the destinations' own states (SAGE)
	fixed string // why there is no choice; "": there is
}

// orderedOf returns the exchangeable part of a layer, nil if it has none.
func orderedOf(l Layer) *ordered {
	switch l := l.(type) {
	case *SAGE:
		return &l.ordered
	case *gcnLayer:
		if l.sum.precomputed {
			return nil
		}
		return &l.ordered
	case *hidden:
		return orderedOf(l.Layer)
	}
	return nil
}

// newOrdered is the part for a layer of a model that drops elements of the
// aggregated rows: such a layer needs these.
func newOrdered(self bool, inputDropout float32) ordered {
	o := ordered{self: self}
	if inputDropout > 0 {
		o.fixed = "input dropout is of the aggregated rows"
	}
	return o
}

// ChooseOrders decides for every layer, from the sizes of a mini-batch's
// graphs (input first) and the bytes of an element of the input (of several
// feature columns: the mean), which product comes first,
// and says why. It depends on these and the model's Config alone.
func (m *Model) ChooseOrders(graphs []gpu.Graph, featureBytes float64) []Choice {
	var cs []Choice
	for i, l := range m.layers {
		if i >= len(graphs) {
			break
		}
		g := graphs[i]
		c := Choice{Layer: i, Destinations: g.NumDst, Sources: g.NumSrc, Edges: g.Edges(), In: l.InDim(), Out: l.OutDim(),
			First: AggregateFirst.String(), InputGradient: i > 0}
		o := orderedOf(l)
		switch {
		case l.Hops() == 0:
			c.First, c.Why = "", "reads a node alone"
		case o == nil:
			c.First, c.Why = "", "its messages are no plain product"
		case o.fixed != "":
			c.Why = o.fixed
		case i == 0 && m.cfg.SparseInput:
			o.order, c.First, c.Why = MultiplyFirst, MultiplyFirst.String(), "most of the features are 0"
		default:
			if i > 0 {
				featureBytes = 0
			}
			aggregate, multiply := o.cost(c, featureBytes, false), o.cost(c, featureBytes, true)
			c.AggregateMicros, c.MultiplyMicros = int64(aggregate/1e3), int64(multiply/1e3)
			o.order, c.Why = AggregateFirst, "cheaper by the model of costs"
			if multiply < aggregate {
				o.order = MultiplyFirst
			}
			switch m.cfg.Order {
			case OrderAggregate:
				o.order, c.Why = AggregateFirst, "asked for"
			case OrderMultiply:
				o.order, c.Why = MultiplyFirst, "asked for"
			}
			c.First = o.order.String()
		}
		cs = append(cs, c)
	}
	return cs
}

// RestoreOrders computes layers as ChooseOrders of an earlier run decided: a run that is resumed would see another
// mini-batch first.
func (m *Model) RestoreOrders(cs []Choice) error {
	for _, c := range cs {
		if c.Layer < 0 || c.Layer >= len(m.layers) {
			return fmt.Errorf("nn: the order of layer %d of %d", c.Layer, len(m.layers))
		}
		if o := orderedOf(m.layers[c.Layer]); o != nil && c.First == MultiplyFirst.String() {
			o.order = MultiplyFirst
		} else if o != nil {
			o.order = AggregateFirst
		}
	}
	return nil
}

// cost models the ns of a layer's forward and backward pass. featureBytes is
// the size of an element of the macro-batch's features; 0: not the first layer.
func (o *ordered) cost(c Choice, featureBytes float64, multiply bool) float64 {
	n, m, e, in, out := float64(c.Destinations), float64(c.Sources), float64(c.Edges), float64(c.In), float64(c.Out)
	if !o.self {
		e += n // self loops
	}
	hot := func(rows, cols float64) float64 { return rows * (costHotRow + costHotByte*4*cols) }
	read := hot // of input rows: a row that was read before is hot
	if featureBytes > 0 {
		read = func(rows, cols float64) float64 {
			cold := min(rows, m)
			return cold*(costRow+costByte*featureBytes*cols) + hot(rows-cold, cols)
		}
	}
	products := 2. // forward and the weights' gradient
	if c.InputGradient {
		products++
	}
	product := func(rows float64) float64 { return products * 2 * rows * in * out * costFlop }
	var ns float64
	if o.self {
		ns = product(n) + read(n, in)
	}
	if !multiply {
		ns += read(e, in) + product(n)
		if c.InputGradient {
			ns += hot(e, in)
		}
		return ns
	}
	if featureBytes > 0 {
		ns += read(m, in) // the copy
	}
	return ns + product(m) + 2*hot(e, out) + 2*hot(m, out)
}

// wholeInput returns the states of all sources of g as one dense matrix
// [NumSrc × in], copied only where they are not one.
func wholeInput(p *Pass, layer string, n, in int, input Input) gpu.Tensor {
	if len(input.Tables) == 1 && input.Index.IsZero() && input.Tables[0].Elem == blocks.Float32 && input.Tables[0].Rows >= n && input.Tables[0].Cols == in {
		return input.Tables[0].Head(n)
	}
	x := p.Arena.Matrix(p.Queue, n, in)
	if !states(p, layer, n, input, x) {
		return gpu.Tensor{}
	}
	return x
}

// checkOrder says what is wrong with c.Order.
func (c *Config) checkOrder() error {
	switch c.Order {
	case "", OrderAuto, OrderAggregate, OrderMultiply:
		return nil
	}
	return fmt.Errorf("nn: order %q is not known (known: %s, %s, %s)", c.Order, OrderAuto, OrderAggregate, OrderMultiply)
}

// SumsColumns reports whether what a streamed layer accumulates of each column of its sources depends on that column alone: [Streamer].Accumulate
// then takes sources and sums of any of the columns.
func SumsColumns(l Layer) bool {
	switch l := l.(type) {
	case *SAGE:
		return !l.products
	case *gcnLayer:
		return !l.sum.precomputed && !l.products
	case *ginLayer:
		return !l.sum.precomputed
	case *hidden:
		return SumsColumns(l.Layer)
	}
	return false
}
