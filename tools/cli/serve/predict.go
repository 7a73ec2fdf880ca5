package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/infer"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// predictRequest asks what a model says of nodes of the store, and of new ones, which are then as if they had been appended.
type predictRequest struct {
	Model string    `json:"model" doc:"its name; left out: the default"`
	IDs   []id      `json:"nodes" doc:"ids of nodes of the store"`
	New   []newNode `json:"new" doc:"nodes that the store does not have"`
	Edges []newEdge `json:"edges" doc:"edges that the store does not have"`
	// Top is of how many classes the answer has the probability; 0: of all.
	Top int `json:"top" doc:"of how many classes to say the probability; 0: of all"`
}

// prediction is what a model says of a node: a class, labels or a number.
type prediction struct {
	ID            any                `json:"id"`
	Class         any                `json:"class,omitempty" doc:"the likeliest"`
	Labels        *[]any             `json:"labels,omitempty" doc:"where a node may have several: those likelier than not"`
	Value         *float32           `json:"value,omitempty" doc:"of models of numbers"`
	Probability   *float32           `json:"probability,omitempty"`
	Probabilities map[string]float32 `json:"probabilities,omitempty"`
}

type predictAnswer struct {
	Version     uint64       `json:"version"`
	Model       string       `json:"model"`
	Predictions []prediction `json:"predictions"`
}

// edgeBytes is about what an edge of a neighbourhood takes while it is read, beside tensors.
const edgeBytes = 256

func (s *server) predict(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k predictRequest
	if err := decode(r, &k); err != nil {
		return nil, err
	}
	m, err := modelOf[*nodeModel](x, k.Model)
	if err != nil {
		return nil, err
	}
	if k.Top < 0 {
		return nil, badf("top %d: expected 0 or more", k.Top)
	}
	if err := checkIDs(len(k.IDs) + len(k.New)); err != nil {
		return nil, err
	}
	nodes, names, err := x.ids.known(ctx, k.IDs)
	if err != nil {
		return nil, err
	}
	var added *eval.Added
	if len(k.New) > 0 || len(k.Edges) > 0 {
		if added, err = x.added(ctx, m, &k); err != nil {
			return nil, err
		}
	}
	for i, n := range k.New {
		nodes, names = append(nodes, store.NodeID(x.st.Manifest().Nodes+uint64(i))), append(names, string(n.ID))
	}
	says, err := s.says(ctx, m, nodes, added)
	if err != nil {
		return nil, err
	}
	a := predictAnswer{Version: x.st.Manifest().Version, Model: m.info.Which}
	out := m.cp.Model.Out
	for i, name := range names {
		p := m.said(says[i*out:(i+1)*out], k.Top)
		p.ID = name
		a.Predictions = append(a.Predictions, p)
	}
	return a, nil
}

// said is what a row of probabilities, or a number, says.
func (m *nodeModel) said(row []float32, top int) (p prediction) {
	if m.cp.Model.Numbers != nil {
		p.Value = &row[0]
		return p
	}
	order := make([]int, len(row))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
	p.Probabilities = map[string]float32{}
	for k, c := range order {
		if top == 0 || k < top {
			p.Probabilities[fmt.Sprint(m.className(c))] = row[c]
		}
	}
	if m.cp.Model.MultiLabel {
		labels := []any{}
		for c, x := range row {
			if x > .5 {
				labels = append(labels, m.className(c))
			}
		}
		p.Labels = &labels
		return p
	}
	p.Class, p.Probability = m.className(order[0]), &row[order[0]]
	return p
}

// says is what a model says of nodes, [nodes × Out]. Nodes that may be named twice are asked once; where all together have too large a
// neighbourhood, half of them are asked at a time.
func (s *server) says(ctx context.Context, m *nodeModel, nodes []store.NodeID, added *eval.Added) ([]float32, error) {
	at := map[store.NodeID]int{}
	for _, v := range nodes {
		if _, ok := at[v]; !ok {
			at[v] = len(at)
		}
	}
	distinct := make([]store.NodeID, len(at))
	for v, i := range at {
		distinct[i] = v
	}
	net, give, err := m.pool.take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	near := m.near(net.Evaluator)
	if added != nil {
		near = net.Evaluator.With(near, added)
	}
	var own []float32
	answer := func(room int64) (err error) {
		own, err = ask(ctx, net, distinct, near, room)
		return err
	}
	err = s.within(ctx, 1, answer)
	if errors.Is(err, store.ErrBudget) && len(s.devs) > 1 { // alone it may have more
		err = s.within(ctx, len(s.devs), answer)
	}
	if err != nil || len(distinct) == len(nodes) {
		return own, err
	}
	out, says := m.cp.Model.Out, []float32(nil)
	for _, v := range nodes {
		says = append(says, own[at[v]*out:(at[v]+1)*out]...)
	}
	return says, nil
}

// within calls f with the memory of so many shares, once they are free; 0: no bound.
func (s *server) within(ctx context.Context, shares int, f func(room int64) error) error {
	n := int64(shares)
	if err := s.requests.Acquire(ctx, n); err != nil {
		return err
	}
	defer s.requests.Release(n)
	return f(n * s.room.request)
}

// ask asks a model of distinct nodes within a room, 0: without bound.
func ask(ctx context.Context, m *infer.Model, nodes []store.NodeID, near eval.Near, room int64) ([]float32, error) {
	each := int64(0) // of a node: its rows, as they are read and as numbers
	for _, c := range m.Columns {
		each += int64(c.RowBytes() + 4*c.Dim)
	}
	a, err := m.Around(ctx, nodes, eval.Room{Bytes: room, PerEdge: edgeBytes, PerNode: each}, near)
	if err == nil && room > 0 {
		var pass int64
		pass, err = m.PassBytes(ctx, a)
		if pass += edgeBytes*int64(len(a.Dst)) + each*int64(len(a.Nodes)); err == nil && pass > room {
			err = fmt.Errorf("%w: what lies within its hops takes %s to compute, a request may take %s: serve it with more --mem",
				store.ErrBudget, command.FormatSize(pass), command.FormatSize(room))
		}
	}
	if errors.Is(err, store.ErrBudget) && len(nodes) > 1 {
		half := len(nodes) / 2
		first, err := ask(ctx, m, nodes[:half], near, room)
		if err != nil {
			return nil, err
		}
		rest, err := ask(ctx, m, nodes[half:], near, room)
		return append(first, rest...), err
	}
	if err != nil {
		return nil, err
	}
	return m.Says(ctx, a)
}
