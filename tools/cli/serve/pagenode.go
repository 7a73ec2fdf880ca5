package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
)

// pageNode is a node for people.
type pageNode struct {
	ID         string
	Type       string
	Degree     int64
	Columns    []cellOf
	Prediction *prediction
	Says       []bar // probabilities
	Why        *explainAnswer
	NoWhy      bool // it would take too long
	Features   []bar
	Along      []bar
	Around     []spoke
	More       int // neighbours that are not drawn
}

type cellOf struct{ Name, Value string }

// spoke is a neighbour in the drawing.
type spoke struct {
	X, Y           float64 // its dot
	X1, Y1, X2, Y2 float64 // the edge, in its direction
	TX, TY         float64 // its name
	Anchor         string
	ID             string
	Label          string
	Relation       string
	Out            bool
}

// drawn neighbours, and values and shares that are listed.
const (
	drawnNeighbors = 24
	listedValues   = 16
	listedShares   = 8
)

// nodeForPage reads a node, its neighbours, and what the default model says of it and why.
func (s *server) nodeForPage(ctx context.Context, x *state, asked string) (*pageNode, error) {
	nodes, err := x.ids.nodes(ctx, []id{id(asked)})
	if err != nil {
		return nil, err
	}
	a, err := s.lookUp(ctx, x, &nodesRequest{IDs: []id{id(asked)}})
	if err != nil {
		return nil, err
	}
	of := a.(nodesAnswer).Nodes[0]
	n := &pageNode{ID: fmt.Sprint(of.ID), Type: of.Type, Degree: of.Degree}
	for name, v := range of.Columns {
		n.Columns = append(n.Columns, cells(name, v)...)
	}
	m := x.st.Manifest()
	rank := func(c cellOf) int { // what is known of it, then what it has, then what it has not
		of, err := m.Column(c.Name)
		switch {
		case err == nil && (of.Role == store.RoleLabel || of.Role == store.RoleSplit):
			return 0
		case c.Value == "0" || c.Value == noValue:
			return 2
		}
		return 1
	}
	slices.SortFunc(n.Columns, func(a, b cellOf) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.Name, b.Name))
	})
	if len(n.Columns) > listedValues {
		n.Columns = append(n.Columns[:listedValues], cellOf{"…", fmt.Sprintf("%d more", len(n.Columns)-listedValues)})
	}
	if err := x.draw(ctx, n, nodes[0]); err != nil {
		return nil, err
	}
	says, err := modelOf[*nodeModel](x, "")
	if err != nil { // none of nodes
		return n, nil
	}
	return n, s.saidOnPage(ctx, x, says, n, nodes[0], id(asked))
}

// noValue stands where a node has no value of a column.
const noValue = "–"

// cells are a column's value, or those of its elements, as text.
func cells(name string, v any) (list []cellOf) {
	if named, ok := v.(map[string]any); ok {
		for k, v := range named {
			list = append(list, cells(k, v)...)
		}
		return list
	}
	b, err := json.Marshal(v)
	text := strings.Trim(string(b), `"`)
	if v == nil || err != nil {
		text = noValue
	}
	if most := 60; len([]rune(text)) > most {
		text = string([]rune(text)[:most]) + " …"
	}
	return []cellOf{{name, text}}
}

// draw places a node's neighbours on a circle, those that edges come from on the left.
func (x *state) draw(ctx context.Context, n *pageNode, v store.NodeID) error {
	if x.lists.Degree(v) > 1<<20 { // a hub that nobody draws
		n.More = int(x.lists.Degree(v))
		return nil
	}
	edges, err := x.lists.Edges(nil, v)
	if err != nil {
		return err
	}
	edges = slices.CompactFunc(edges, func(a, b adjacency.Edge) bool { return a.Node == b.Node && a.Relation == b.Relation && a.Out == b.Out })
	n.More = max(0, len(edges)-drawnNeighbors)
	edges = edges[:len(edges)-n.More]
	nodes := make([]store.NodeID, len(edges))
	for i, e := range edges {
		nodes[i] = e.Node
	}
	names, err := x.ids.names(ctx, nodes)
	if err != nil {
		return err
	}
	for i, e := range edges {
		angle := math.Pi/2 + 2*math.Pi*(float64(i)+.5)/float64(len(edges))
		at := func(r float64) (float64, float64) { return 220 + r*math.Cos(angle), 160 + r*math.Sin(angle) }
		k := spoke{Anchor: "start", ID: fmt.Sprint(names[i]), Relation: relationName(x.st.Manifest(), e.Relation),
			Out: e.Out}
		k.X, k.Y = at(120)
		k.TX, k.TY = at(131)
		k.X1, k.Y1 = at(114)
		if k.X2, k.Y2 = at(13); e.Out {
			k.X1, k.Y1, k.X2, k.Y2 = k.X2, k.Y2, k.X1, k.Y1
		}
		switch c := math.Cos(angle); {
		case math.Abs(c) < .25:
			k.Anchor, k.TY = "middle", k.TY+math.Copysign(6, math.Sin(angle))
		case c < 0:
			k.Anchor = "end"
		}
		if k.Label = k.ID; len([]rune(k.Label)) > 20 {
			k.Label = string([]rune(k.Label)[:19]) + "…"
		}
		n.Around = append(n.Around, k)
	}
	return nil
}

// whyTime is how long a page waits for an explanation: that of a node with large hubs around it takes longer.
const whyTime = 2 * time.Second

// saidOnPage adds what a model says, and why where its neighbourhood is small enough.
func (s *server) saidOnPage(ctx context.Context, x *state, m *nodeModel, n *pageNode, v store.NodeID, asked id) error {
	says, err := s.says(ctx, m, []store.NodeID{v}, nil)
	if errors.Is(err, store.ErrBudget) {
		return nil
	}
	if err != nil {
		return err
	}
	p := m.said(says, listedShares)
	n.Prediction = &p
	for name, v := range p.Probabilities {
		n.Says = append(n.Says, bar{Name: name, Value: float64(v), Share: 100 * float64(v)})
	}
	slices.SortFunc(n.Says, func(a, b bar) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value),
			cmp.Compare(a.Name, b.Name))
	})
	soon, cancel := context.WithTimeout(ctx, whyTime)
	defer cancel()
	why, err := s.why(soon, x, m, &explainRequest{ID: asked, Top: listedShares})
	if errors.Is(err, store.ErrBudget) || soon.Err() != nil && ctx.Err() == nil {
		n.NoWhy = true
		return nil
	}
	if err != nil {
		return err
	}
	n.Why = why
	for _, f := range why.Features {
		n.Features = append(n.Features, bar{Name: f.Name, Value: f.Share})
	}
	for _, e := range why.From {
		relation := " → "
		if e.Relation != "" {
			relation = " —" + e.Relation + "→ "
		}
		n.Along = append(n.Along, bar{Name: fmt.Sprint(e.Src) + relation + fmt.Sprint(e.Dst), Value: e.Share,
			Link: fmt.Sprint(e.Src)})
	}
	scale(n.Features)
	scale(n.Along)
	return nil
}
