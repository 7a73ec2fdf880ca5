package serve

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/gstore/gstore/gpu/explain"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// explainRequest asks why a model says what it says of a node.
type explainRequest struct {
	Model string `json:"model" doc:"its name; left out: the default"`
	ID    id     `json:"node"`
	Class string `json:"class" doc:"explained instead of the one that the model says"`
	Top   int    `json:"top" doc:"how many features and edges; 0: 10"`
}

type explainAnswer struct {
	Version  uint64          `json:"version"`
	Model    string          `json:"model"`
	ID       any             `json:"id"`
	Class    any             `json:"class,omitempty"`
	Says     float64         `json:"says" doc:"the probability of the class, or the number"`
	Silent   float64         `json:"without_features" doc:"what it would be if all features were 0"`
	Alone    float64         `json:"without_edges" doc:"what it would be if nothing came along edges"`
	Nodes    int             `json:"nodes" doc:"that it was read from"`
	Edges    int             `json:"edges" doc:"that it was read from"`
	Features []featureAnswer `json:"features" doc:"whose shares are largest"`
	From     []edgeAnswer    `json:"along_edges" doc:"along which most comes"`
}

type featureAnswer struct {
	Name  string  `json:"name"`
	Share float64 `json:"share" doc:"of what the model says"`
	Own   float64 `json:"own" doc:"the part of the share that is of the node itself"`
}

type edgeAnswer struct {
	Src      any     `json:"src"`
	Dst      any     `json:"dst"`
	Relation string  `json:"relation,omitempty"`
	Share    float64 `json:"share"`
}

func (s *server) explain(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k explainRequest
	if err := decode(r, &k); err != nil {
		return nil, err
	}
	m, err := modelOf[*nodeModel](x, k.Model)
	if err != nil {
		return nil, err
	}
	switch {
	case k.Top < 0 || k.Top > mostAnswers:
		return nil, badf("top %d: expected 0 to %d", k.Top, mostAnswers)
	case k.ID == "":
		return nil, badf("no node is named")
	case k.Top == 0:
		k.Top = 10
	}
	return s.why(ctx, x, m, &k)
}

// why explains what a model says of a node.
func (s *server) why(ctx context.Context, x *state, m *nodeModel, k *explainRequest) (*explainAnswer, error) {
	o := explain.Options{Class: -1, Near: m.near}
	if k.Class != "" {
		if o.Class = m.class(k.Class); o.Class < 0 {
			return nil, badf("class %q: the model has %q", k.Class, m.info.Classes)
		}
	}
	nodes, err := x.ids.nodes(ctx, []id{k.ID})
	if err != nil {
		return nil, err
	}
	net, give, err := m.pool.take(ctx) // it is one of those that are computed at a time
	if err != nil {
		return nil, err
	}
	defer give()
	shares := 1
	if s.room.request > 0 { // it takes long, and all of the memory
		shares = len(s.devs)
	}
	var e *explain.Explanation
	err = s.within(ctx, shares, func(room int64) (err error) {
		if room > 0 {
			o.MemoryBytes = budget.ProgramBytes + room
		}
		e, err = explain.Explain(ctx, x.st, net.Device, m.cp, nodes[0], o)
		return err
	})
	if err != nil {
		return nil, s.roomFor(err, "explaining it", requestsOfNodes)
	}
	return x.because(ctx, m, e, k.Top)
}

// className is a class or label by its number: its name, or the number where it has none.
func (m *nodeModel) className(c int) any {
	if m.info.Classes != nil {
		return m.info.Classes[c]
	}
	return c
}

// class is the number of a class by its name; −1: there is none.
func (m *nodeModel) class(name string) int {
	if m.info.Classes != nil {
		return slices.Index(m.info.Classes, name)
	}
	if c, err := strconv.Atoi(name); err == nil && c >= 0 && c < m.cp.Model.Out && m.cp.Model.Numbers == nil {
		return c
	}
	return -1
}

// because is an explanation's answer: its largest shares, parallel edges together.
func (x *state) because(ctx context.Context, m *nodeModel, e *explain.Explanation, top int) (*explainAnswer, error) {
	st := x.st.Manifest()
	a := &explainAnswer{Version: st.Version, Model: m.info.Which, Says: e.Says, Silent: e.Silent, Alone: e.Alone,
		Nodes: len(e.Nodes), Edges: len(e.Edges), Features: []featureAnswer{}, From: []edgeAnswer{}}
	if m.cp.Model.Numbers == nil {
		a.Class = m.className(e.Class)
	}
	features, edges := e.Shared()
	for _, f := range features[:min(top, len(features))] {
		name, _ := f.Text(st, -1)
		a.Features = append(a.Features, featureAnswer{name, f.Share(), f.Own})
	}
	edges = edges[:min(top, len(edges))]
	nodes := []store.NodeID{e.Nodes[0]}
	for _, k := range edges {
		nodes = append(nodes, e.Nodes[k.Src], e.Nodes[k.Dst])
	}
	names, err := x.ids.names(ctx, nodes)
	if err != nil {
		return nil, err
	}
	a.ID = names[0]
	for i, k := range edges {
		a.From = append(a.From, edgeAnswer{names[2*i+1], names[2*i+2], k.RelationName(st), k.Share})
	}
	return a, nil
}
