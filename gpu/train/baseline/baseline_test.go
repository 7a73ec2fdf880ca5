package baseline

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// labelled is a graph of two thirds class 1, whose first feature says the class of all but every noise-th node.
func labelled(nodes, noise int) *storetest.Graph {
	g := storetest.Random(storetest.Options{Seed: 7, Nodes: nodes, Edges: nodes, Partitions: 5})
	for i := range g.Labels {
		class := int32(0)
		if (i*7)%10 < 6 {
			class = 1
		}
		g.Labels[i] = class
		g.Features[i*g.Dim] = float32(2*class - 1)
		if i%noise == 0 {
			g.Features[i*g.Dim] = -g.Features[i*g.Dim]
		}
	}
	return g
}

func compute(t *testing.T, g *storetest.Graph, threads int, change func(*Options)) *Result {
	t.Helper()
	dev := host.New(host.Options{Threads: threads})
	defer func() { _ = dev.Close() }()
	st := storetest.Open(t, storetest.Create(t, g), store.Options{})
	name := "x"
	for _, c := range st.Manifest().ColumnsOf(store.RoleFeature) {
		name = c.Name
	}
	o := Options{Model: nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 16, Out: g.Classes, Dropout: .1, Seed: 3}, Features: []string{name},
		Adam: gpu.AdamOptions{LR: .01, Beta1: .9, Beta2: .999, Epsilon: 1e-8}, Batch: 64, Patience: 20, Examples: 100_000}
	if change != nil {
		change(&o)
	}
	r, err := Compute(t.Context(), st, dev, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCompute: the majority is counted exactly, and the model without edges learns what the features say, with the same bits on any
// number of threads.
func TestCompute(t *testing.T) {
	g := labelled(3001, 10)
	count, tested, of := [4]map[int32]int{{}, {}, {}, {}}, 0, [4]int{}
	for i, s := range g.Split {
		count[s][g.Labels[i]]++
		of[s]++
	}
	tested = of[store.SplitTest]
	r := compute(t, g, 1, nil)
	if r.Split != "test" || r.Majority != 1 || r.MajorityAccuracy != float64(count[store.SplitTest][1])/float64(tested) {
		t.Errorf("%+v, expected class 1, %d of %d", r, count[store.SplitTest][1], tested)
	}
	if r.FeaturesAccuracy == nil || math.Abs(*r.FeaturesAccuracy-.9) > .03 {
		t.Fatalf("%+v, expected about .9 by the features", r)
	}
	if r.Trained != of[store.SplitTrain] || r.Tested != tested || r.Epochs < 1 {
		t.Errorf("%+v, expected all of %d and %d nodes", r, of[store.SplitTrain], tested)
	}
	if other := compute(t, g, 4, nil); !reflect.DeepEqual(other, r) {
		t.Errorf("%+v with 4 threads, %+v with one", other, r)
	}
}

// TestBounds: work and memory bound the sample, and where they leave none the result says why.
func TestBounds(t *testing.T) {
	g := labelled(4000, 10)
	none := labelled(300, 10)
	for i := range none.Split {
		none.Split[i] = [4]uint8{store.SplitTrain, store.SplitTrain, store.SplitValid, store.SplitNone}[i%4]
	}
	for name, c := range map[string]struct {
		g       *storetest.Graph
		change  func(*Options)
		most    int // nodes that train
		skipped string
		split   string
	}{
		"work":             {g, func(o *Options) { o.Model.Hidden, o.Examples = 4096, 2500 }, 2500 * 6 / 7 / epochsMin, "", "test"},
		"a tiny run":       {g, func(o *Options) { o.Examples = 1 }, 4000, "", "test"},
		"a short run":      {g, func(o *Options) { o.Model.Hidden, o.Examples = 4096, 100 }, 0, "the run was too short to train one in a tenth of its time", "test"},
		"no memory":        {g, func(o *Options) { o.MemoryBytes = 1 << 10 }, 0, "there is no memory for a sample", "test"},
		"no features":      {g, func(o *Options) { o.Features = nil }, 0, "the nodes have no features of their own", "test"},
		"no test nodes":    {none, nil, 150, "", "valid"},
		"an odd batch":     {g, func(o *Options) { o.Batch = 7 }, 4000, "", "test"},
		"a single layer":   {g, func(o *Options) { o.Model.Layers = 1 }, 4000, "", "test"},
		"norm, residual":   {g, func(o *Options) { o.Model.Norm, o.Model.Residual = "batch", true }, 4000, "", "test"},
		"memory of a part": {g, func(o *Options) { o.MemoryBytes = 100 << 10 }, 1600, "", "test"},
	} {
		t.Run(name, func(t *testing.T) {
			r := compute(t, c.g, 2, c.change)
			if r.Skipped != c.skipped || (r.FeaturesAccuracy == nil) != (c.skipped != "") || r.Split != c.split {
				t.Fatalf("%+v, expected skipped %q of %s", r, c.skipped, c.split)
			}
			if r.Trained > c.most {
				t.Errorf("%d nodes train, expected at most %d", r.Trained, c.most)
			}
			if r.FeaturesAccuracy != nil && !(*r.FeaturesAccuracy > .6 && *r.FeaturesAccuracy <= 1) {
				t.Errorf("accuracy %v", *r.FeaturesAccuracy)
			}
		})
	}
}

// TestSample: a sample is of distinct nodes, those of the smallest draws whatever order they are met in.
func TestSample(t *testing.T) {
	g := labelled(9001, 10)
	st := storetest.Open(t, storetest.Create(t, g), store.Options{})
	s, err := newSampler(st, &Options{Model: nn.Config{Seed: 1}})
	if err == nil {
		err = s.counts(t.Context(), &Result{})
	}
	if err != nil {
		t.Fatal(err)
	}
	nodes, labels, parts, err := s.choose(t.Context(), work{train: 50, valid: 20, test: 70})
	if err != nil {
		t.Fatal(err)
	}
	seen, worst := map[store.NodeID]bool{}, uint64(0)
	for i, v := range nodes {
		if seen[v] || g.Labels[v] != labels[i] || g.Split[v] != parts[i] {
			t.Errorf("node %d twice or label %d, split %d", v, labels[i], parts[i])
		}
		if seen[v] = true; parts[i] == store.SplitTrain {
			worst = max(worst, s.key.At(uint64(v)))
		}
	}
	if len(nodes) != 140 {
		t.Errorf("%d nodes, expected 140", len(nodes))
	}
	below := 0
	for v, of := range g.Split {
		if of == store.SplitTrain && s.key.At(uint64(v)) <= worst {
			below++
		}
	}
	if below != 50 {
		t.Errorf("%s are below the largest draw of 50", fmt.Sprint(below))
	}
}
