package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
)

// survey is what a model says of some nodes with labels that it was not trained with: for the pages of mistakes and the map. It is made
// once, when one of them is first asked for, in the background.
type survey struct {
	begin sync.Once
	ready chan struct{}
	asked atomic.Int64 // nodes until now
	of    atomic.Int64 // nodes to ask of
	err   error

	nodes []surveyed
	drawn int  // at random, of which nodes are those with labels
	all   bool // drawn are all nodes of the store
	parts bool // nodes are not of the part that trains
	// ofLabels says that nodes have labels, which the model was asked for.
	ofLabels bool
	longer   bool // there was no time for all
}

// surveyed is a node of a survey.
type surveyed struct {
	node         store.NodeID
	name         any
	label, class int
	probability  float32
	at           [2]float64 // on the map
}

// A survey draws so many nodes, and asks of so many of those that have labels, a few at a time and for so long.
const (
	surveyDraws = 16_000
	surveyNodes = 1500
	surveyBytes = 2 << 20 // of what the model says of them
	surveyBatch = 16
	surveyTime  = 60 * time.Second
	// reloadSurvey is after how many seconds a page that waits for a survey is loaded again.
	reloadSurvey = 2
)

// sample draws distinct nodes, all of a small store, always the same ones of a version.
func (x *state) sample(n int) (nodes []store.NodeID, all bool) {
	total := x.st.Manifest().Nodes
	if total <= uint64(n) {
		for v := range store.NodeID(total) {
			nodes = append(nodes, v)
		}
		return nodes, true
	}
	rng := rand.New(rand.NewPCG(x.st.Manifest().Version, 0x6773746f7265))
	drawn := map[store.NodeID]bool{}
	for len(drawn) < n {
		drawn[store.NodeID(rng.Uint64N(total))] = true
	}
	return slices.Sorted(maps.Keys(drawn)), false
}

// hasClasses reports whether the model says a class of each node.
func (m *nodeModel) hasClasses() bool {
	return m.cp.Model.Numbers == nil && !m.cp.Model.MultiLabel && m.cp.Model.Out > 1
}

// ask asks the model.
func (v *survey) ask(ctx context.Context, s *server, x *state, m *nodeModel) error {
	if err := v.choose(ctx, x, m); err != nil {
		return err
	}
	out := m.cp.Model.Out
	// In no order, so that those that are asked of before the time is over are as good as any.
	rng := rand.New(rand.NewPCG(x.st.Manifest().Version, 1))
	rng.Shuffle(len(v.nodes), func(i, j int) { v.nodes[i], v.nodes[j] = v.nodes[j], v.nodes[i] })
	if most := min(surveyNodes, max(100, surveyBytes/(4*out))); len(v.nodes) > most {
		v.nodes = v.nodes[:most]
	}
	v.of.Store(int64(len(v.nodes)))
	says := make([]float32, 0, len(v.nodes)*out)
	began, kept := time.Now(), v.nodes[:0]
	for batch := range slices.Chunk(v.nodes, surveyBatch) {
		if time.Since(began) > surveyTime {
			v.longer = true
			break
		}
		nodes := make([]store.NodeID, len(batch))
		for i := range batch {
			nodes[i] = batch[i].node
		}
		part, err := s.says(ctx, m, nodes, nil)
		v.asked.Add(int64(len(batch)))
		if errors.Is(err, store.ErrBudget) { // a hub is among them
			v.longer = true
			continue
		}
		if err != nil {
			return err
		}
		for i, b := range batch {
			row := part[i*out : (i+1)*out]
			for c, p := range row {
				if p > row[b.class] {
					b.class = c
				}
			}
			b.probability = row[b.class]
			kept = append(kept, b)
		}
		says = append(says, part...)
	}
	v.nodes = kept
	for i, p := range says {
		says[i] = float32(math.Log(max(float64(p), 1e-6)))
	}
	v.place(says, out)
	return v.named(ctx, x)
}

// read makes a survey of vectors, whose labels are types of nodes.
func (v *survey) read(ctx context.Context, s *server, x *state, m finds) error {
	types := map[string]int{}
	for k, t := range x.st.Manifest().Schema.NodeTypes {
		types[t.Name] = k
	}
	err := m.withStates(ctx, s, x, func(of *eval.Finder, rows rowReader) error {
		nodes, all := x.sample(min(surveyNodes, max(100, surveyBytes/(4*of.Dim()))))
		v.all, v.drawn = all, len(nodes)
		for _, node := range nodes {
			v.nodes = append(v.nodes, surveyed{node: node, label: types[typeOf(x.st.Manifest(), node)]})
		}
		vectors, err := of.Vectors(ctx, nodes, rows)
		if err == nil {
			v.place(vectors, of.Dim())
		}
		return err
	})
	return errors.Join(err, v.named(ctx, x))
}

// named looks the nodes' ids up.
func (v *survey) named(ctx context.Context, x *state) error {
	nodes := make([]store.NodeID, len(v.nodes))
	for i := range v.nodes {
		nodes[i] = v.nodes[i].node
	}
	names, err := x.ids.names(ctx, nodes)
	for i, name := range names {
		v.nodes[i].name = name
	}
	return err
}

// choose draws nodes and keeps those with labels, of the parts that do not train where there are parts.
func (v *survey) choose(ctx context.Context, x *state, m *nodeModel) error {
	man := x.st.Manifest()
	labels := man.Labels()
	if labels == nil || labels.Numbers || man.LabelSets() != nil {
		return fmt.Errorf("%w: the store has no classes to compare with", store.ErrNotFound)
	}
	var nodes []store.NodeID
	nodes, v.all = x.sample(surveyDraws)
	v.drawn = len(nodes)
	split, err := man.SplitColumn(m.cp.Config.Split)
	if err != nil {
		split = nil // there is none
	}
	for part := range slices.Chunk(nodes, 1<<12) {
		codes, err := x.st.Features(ctx, labels.Name, part, nil)
		if err != nil {
			return err
		}
		var parts []byte
		if split != nil {
			if parts, err = x.st.Features(ctx, split.Name, part, nil); err != nil {
				return err
			}
		}
		for i, node := range part {
			label := int32(binary.LittleEndian.Uint32(codes[4*i:]))
			if label < 0 || int(label) >= m.cp.Model.Out || !hasRows(labels, typeOf(man, node)) || split != nil && parts[i] != store.SplitTest && parts[i] != store.SplitValid {
				continue
			}
			v.nodes = append(v.nodes, surveyed{node: node, label: int(label)})
		}
	}
	v.ofLabels, v.parts = true, split != nil
	return nil
}

// surveyOf is the survey of a model, made by make, nil while it is.
func (s *server) surveyOf(ctx context.Context, x *state, v *survey, make func(ctx context.Context) error) (*survey, error) {
	s.background(x, &v.begin, v.ready, func(ctx context.Context) { v.err = make(ctx) })
	if !readySoon(ctx, v.ready) {
		return nil, ctx.Err()
	}
	return v, v.err
}

// what says of which nodes a survey is.
func (v *survey) what() string {
	text := fmt.Sprintf("%d nodes", len(v.nodes))
	if v.ofLabels {
		text += " with labels"
	}
	if v.parts {
		text += " that the model was not trained with"
	}
	switch {
	case v.all:
	case v.drawn == len(v.nodes):
		text += " drawn at random"
	default:
		text += fmt.Sprintf(", of %d drawn at random", v.drawn)
	}
	if v.longer {
		text += "; others take too long"
	}
	return text
}

// place places nodes by the two directions in which their vectors, [nodes × dim], vary most (principal components).
func (v *survey) place(vectors []float32, dim int) {
	n := len(v.nodes)
	rows := make([][]float64, n)
	mean := make([]float64, dim)
	for i := range rows {
		rows[i] = make([]float64, dim)
		for c, p := range vectors[i*dim : (i+1)*dim] {
			rows[i][c] = float64(p)
			mean[c] += rows[i][c] / float64(n)
		}
	}
	for _, row := range rows {
		for c := range row {
			row[c] -= mean[c]
		}
	}
	var first []float64
	for k := range 2 {
		axis := principal(rows, first)
		for i, row := range rows {
			v.nodes[i].at[k] = dot(row, axis)
		}
		first = axis
	}
}

// principal is the direction in which centred rows vary most, at a right angle to but where that is not nil, by power iteration on
// their covariance.
func principal(rows [][]float64, but []float64) []float64 {
	if len(rows) == 0 {
		return nil
	}
	axis := make([]float64, len(rows[0]))
	for c := range axis { // any that is not at a right angle to it
		axis[c] = 1 + float64(c%7)/7
	}
	for range 100 {
		next := make([]float64, len(axis))
		for _, row := range rows {
			d := dot(row, axis)
			for c, x := range row {
				next[c] += d * x
			}
		}
		if but != nil {
			d := dot(next, but)
			for c := range next {
				next[c] -= d * but[c]
			}
		}
		length := math.Sqrt(dot(next, next))
		if length == 0 {
			return next
		}
		for c := range next {
			next[c] /= length
		}
		axis = next
	}
	return axis
}

func dot(a, b []float64) (d float64) {
	for i, x := range a {
		d += x * b[i]
	}
	return d
}
