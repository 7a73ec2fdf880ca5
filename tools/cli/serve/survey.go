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

	nodes  []surveyed
	drawn  int  // at random, of which nodes are those with labels
	all    bool // drawn are all nodes of the store
	parts  bool // nodes are not of the part that trains
	longer bool // there was no time for all
}

// surveyed is a node of a survey.
type surveyed struct {
	node         store.NodeID
	name         any
	label, class int
	probability  float32
	place        [2]float64 // on the map
}

// A survey draws so many nodes, and asks of so many of those that have labels, a few at a time and for so long.
const (
	surveyDraws = 16_000
	surveyNodes = 1500
	surveyBytes = 2 << 20 // of what the model says of them
	surveyBatch = 16
	surveyTime  = 60 * time.Second
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
	if most := max(100, surveyBytes/(4*out)); len(v.nodes) > most {
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
	v.map2(says, out)
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
			if label < 0 || !hasRows(labels, typeOf(man, node)) || split != nil && parts[i] != store.SplitTest && parts[i] != store.SplitValid {
				continue
			}
			v.nodes = append(v.nodes, surveyed{node: node, label: int(label)})
		}
	}
	v.parts = split != nil
	if len(v.nodes) > surveyNodes { // evenly of all
		rng := rand.New(rand.NewPCG(man.Version, 1))
		rng.Shuffle(len(v.nodes), func(i, j int) { v.nodes[i], v.nodes[j] = v.nodes[j], v.nodes[i] })
		v.nodes = v.nodes[:surveyNodes]
	}
	return nil
}

// surveyOf is the survey of a model, nil while it is made.
func (s *server) surveyOf(ctx context.Context, x *state, m *nodeModel) (*survey, error) {
	v := &m.survey
	s.background(x, &v.begin, v.ready, func(ctx context.Context) { v.err = v.ask(ctx, s, x, m) })
	if !readySoon(ctx, v.ready) {
		return nil, ctx.Err()
	}
	return v, v.err
}

// what says of which nodes a survey is.
func (v *survey) what() string {
	text := fmt.Sprintf("%d nodes with labels", len(v.nodes))
	if v.parts {
		text += " that the model was not trained with"
	}
	if !v.all {
		text += fmt.Sprintf(", of %d drawn at random", v.drawn)
	}
	if v.longer {
		text += "; others take too long"
	}
	return text
}

// map2 places nodes by the two directions in which the logarithms of what the model says of them vary most (principal components).
func (v *survey) map2(says []float32, out int) {
	n := len(v.nodes)
	rows := make([][]float64, n)
	mean := make([]float64, out)
	for i := range rows {
		rows[i] = make([]float64, out)
		for c, p := range says[i*out : (i+1)*out] {
			rows[i][c] = math.Log(max(float64(p), 1e-6))
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
			v.nodes[i].place[k] = dot(row, axis)
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
