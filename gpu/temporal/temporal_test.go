package temporal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// toy is a store of random edges with many at one moment, and its graph.
func toy(t testing.TB, o storetest.Options) (*storetest.Graph, string) {
	g := storetest.Random(o)
	r := keyed.New(o.Seed).Rand(9)
	for range g.Edges {
		g.Times = append(g.Times, int64(r.Below(uint64(len(g.Edges)/3))))
	}
	return g, storetest.Create(t, g)
}

func hostDevice(t testing.TB) gpu.Device {
	d := host.New(host.Options{Threads: 1})
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// openToy returns the graph in memory.
func openToy(t testing.TB, dir string, cfg *Config) *data {
	t.Helper()
	if err := cfg.Normalize(); err != nil {
		t.Fatal(err)
	}
	st := storetest.Open(t.(*testing.T), dir, store.Options{})
	it, err := buffer.Open(t.Context(), st, buffer.Options{Both: true, Times: true, Keys: true, Features: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = it.Close() })
	step := buffer.Step{}
	for p := range st.Manifest().Partitions {
		step.Resident = append(step.Resident, store.PartitionID(p))
	}
	if err := it.Start(buffer.Plan{Steps: []buffer.Step{step}}); err != nil || !it.Next() {
		t.Fatal(err, it.Err())
	}
	d, err := newData(it.MacroBatch(), st.Manifest(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSplitByTime: edges are in order of time, no moment is divided, and shares are about what was asked for.
func TestSplitByTime(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 100, Edges: 900})
	d := openToy(t, dir, &Config{})
	if !slices.IsSortedFunc(d.events, func(a, b event) int { return int(a.time - b.time) }) || len(d.events) != 900 {
		t.Fatal("edges are not in order of time")
	}
	for at, share := range map[int]float64{d.train: .7, d.valid: .85} {
		if d.events[at-1].time == d.events[at].time || math.Abs(float64(at)/900-share) > .02 {
			t.Errorf("a split at edge %d of 900, between times %d and %d", at, d.events[at-1].time, d.events[at].time)
		}
	}
	for i, v := range d.candidates {
		if d.place[v] != int32(i) || d.mb.In.Degree(v) == 0 {
			t.Errorf("candidate %d is row %d of degree %d, place %d", i, v, d.mb.In.Degree(v), d.place[v])
		}
	}
}

// TestRecencyIsOfThePast: what is known of a candidate agrees with a walk over all edges strictly before the moment.
func TestRecencyIsOfThePast(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 12, Edges: 600})
	d := openToy(t, dir, &Config{})
	r := newRecency(d)
	for _, e := range d.events[300:340] {
		r.enter(e.src, e.time)
		for _, v := range d.candidates {
			node, any, count := int64(never), int64(never), int32(0)
			var after []uint32 // rows that the node met after it last met v
			now := false
			for _, f := range d.events {
				switch {
				case f.time == e.time && f.src == e.src && f.dst == v:
					now = true
				case f.time >= e.time:
				case f.dst == v:
					if any = f.time; f.src == e.src {
						node, count = f.time, count+1
					}
				}
			}
			for _, f := range d.events {
				if f.src == e.src && f.dst != v && f.time > node && f.time < e.time && !slices.Contains(after, f.dst) {
					after = append(after, f.dst)
				}
			}
			gotNode, gotAny := r.lastBy(v)
			if gotNode != node || gotAny != any || r.answers(v) != now || r.isMet(v) != (count > 0) {
				t.Fatalf("%+v, candidate %d: last met at %d and %d, expected %d and %d", e, v, gotNode, gotAny, node, any)
			}
			// Of rows that were last met at one moment any may be counted as later.
			if count > 0 && (r.count[v] != count || int(r.rank[v]) < len(after)) {
				t.Fatalf("%+v, candidate %d: met %d times, %d others after; expected %d and %d", e, v, r.count[v], r.rank[v], count, len(after))
			}
		}
	}
}

// TestWrongAnswers: an answer is ranked against different candidates, none of them right, half of them met before where there are so many.
func TestWrongAnswers(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 400, Edges: 60_000, Partitions: 1})
	d := openToy(t, dir, &Config{})
	v, err := newEvaluation(d, &Config{Fanouts: []int{3}, Sampler: mini.Latest, BatchSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	past := newRecency(d)
	for i, e := range d.events[50_000:50_050] {
		past.enter(e.src, e.time)
		r := keyed.New(1).Rand(uint64(i))
		v.draw(&r, past)
		met := 0
		seen := map[uint32]bool{}
		for _, k := range v.picks {
			u := d.candidates[k]
			if past.answers(u) || seen[u] || u == e.dst {
				t.Fatalf("%+v: wrong answer %d is right, or listed twice", e, u)
			}
			if seen[u] = true; past.isMet(u) {
				met++
			}
		}
		if len(v.picks) != wrongAnswers || met < metBefore {
			t.Errorf("%+v: %d wrong answers, %d met before of %d", e, len(v.picks), met, len(past.met))
		}
	}
}

// TestGradients: the gradient of every parameter, and of the vectors, is the loss's difference quotient.
func TestGradients(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 30, Edges: 400})
	for i, encoding := range TimeEncodings() {
		plain := i > 0 // without recency
		cfg := Config{Dim: 4, BatchSize: 6, Negatives: 7, Fanouts: []int{3}, NoRecency: plain, TimeEncoding: encoding}
		d := openToy(t, dir, &cfg)
		m, err := newModel(t.Context(), hostDevice(t), &cfg, d)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.close() }()
		s := &source{d: d, events: d.events[200:220], size: 6, wrong: 7, key: 3, ages: cfg.fixedAges(), number: !plain}
		smp, err := mini.New(mini.Config{Fanouts: cfg.Fanouts, Sampler: mini.Temporal})
		if err != nil {
			t.Fatal(err)
		}
		loss := func(step func(p *pass, dx gpu.Tensor)) float64 {
			var b mini.Batch
			seeds, _ := s.Seeds(1, nil, &b)
			times, _ := s.Times(1, nil, &b)
			if err := errors.Join(smp.SampleAt(mini.Key{}, mini.Graph{In: d.mb.In, Out: d.mb.Out}, seeds, times, &b), s.Finish(&b)); err != nil {
				t.Fatal(err)
			}
			l, err := m.batch(t.Context(), &b, step)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		// Gradients of all parameters, then those of vectors by row of the macro-batch.
		grads := map[string][]float32{}
		get := func(x gpu.Tensor) []float32 {
			out := make([]float32, x.Len())
			m.q.Download(blocks.Bytes(out), x)
			return out
		}
		rows, dx := []uint32{}, []float32{}
		loss(func(p *pass, d gpu.Tensor) {
			rows = make([]uint32, p.rows.Cols)
			m.q.Download(blocks.Bytes(rows), p.rows)
			dx = get(d)
			rows, dx = rows[:p.vectors], dx[:p.vectors*4]
			for _, param := range m.params.List() {
				if !param.State {
					grads[param.Name] = get(param.Grad)
				}
			}
		})
		grads["vectors"] = make([]float32, d.mb.Rows*4)
		for i, row := range rows {
			copy(grads["vectors"][row*4:], dx[i*4:][:4])
		}
		checked := 0
		for _, param := range m.params.List() {
			values := get(param.Value)
			if err := m.q.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			for k := 0; k < len(values); k += 1 + len(values)/17 {
				h := float32(1e-2)
				if param == m.frequencies { // of ages up to 133, an e-th more of a frequency is many turns
					h = 1e-3
				}
				at := func(x float32) float64 {
					moved := slices.Clone(values)
					moved[k] += x
					m.q.Upload(param.Value, blocks.Bytes(moved))
					return loss(func(*pass, gpu.Tensor) {})
				}
				want := (at(h) - at(-h)) / float64(2*h)
				m.q.Upload(param.Value, blocks.Bytes(values))
				if err := m.q.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := float64(grads[param.Name][k]); math.Abs(got-want) > .02+.03*math.Abs(want) {
					t.Errorf("no recency %v, time by %s, %s[%d]: gradient %v, the difference quotient is %v", plain, encoding, param.Name, k, got, want)
				} else if math.Abs(want) > .02 {
					checked++
				}
			}
		}
		if checked < 10 {
			t.Errorf("only %d gradients were not nearly 0", checked)
		}
	}
}

// TestEncodeAge: an age is cosines, and sines, of its product with frequencies from 1 to 1e-9 a second.
func TestEncodeAge(t *testing.T) {
	for _, encoding := range TimeEncodings()[:2] {
		a := (&Config{TimeEncoding: encoding}).fixedAges()
		out := make([]float32, a.columns())
		const age = 86400 * 400
		a.encode(age, out, nil)
		for i, x := range out {
			want := math.Cos(age * math.Pow(10, -9*float64(i)/15))
			if i >= 16 {
				want = math.Sin(age * math.Pow(10, -9*float64(i-16)/15))
			}
			if math.Abs(float64(x)-want) > 1e-6 {
				t.Errorf("%s: number %d of age %d is %v, expected %v", encoding, i, age, x, want)
			}
		}
	}
}

// TestTrain: a run learns, does not depend on threads and partitions, and saw every edge that it sampled in the past.
func TestTrain(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 150, Edges: 3000, Partitions: 3})
	for _, sampler := range mini.TimedSamplers() {
		var first string
		for _, threads := range []int{1, 3} {
			st := storetest.Open(t, dir, store.Options{})
			var epochs []Epoch
			c, err := Train(t.Context(), st, hostDevice(t), Config{Sampler: sampler, Dim: 8, BatchSize: 100, Negatives: 50, Epochs: 2, EvalEdges: 100, Running: options.Running{Threads: threads}},
				Hooks{Epoch: func(e Epoch) { epochs = append(epochs, e) }})
			if err != nil {
				t.Fatal(err)
			}
			s := c.Summary
			got := fmt.Sprint(s.Test, s.TestRule, epochs[0].Loss, epochs[1].Loss, s.CheckedEdges)
			if first == "" {
				first = got
			}
			if got != first {
				t.Errorf("%s, %d threads: %s, with one %s", sampler, threads, got, first)
			}
			if s.Test.Edges != 100 || s.Test.MRR <= 0 || s.Test.MRR > 1 || s.Test.AllMRR > s.Test.MRR+.1 || epochs[1].Loss >= epochs[0].Loss || s.CheckedEdges < 10_000 {
				t.Errorf("%s: %+v after epochs %+v", sampler, s, epochs)
			}
		}
	}
}

// TestRecallWeight: of a history in which a node mostly meets again what it met last, and a model that was hardly trained, validation
// chooses to add what was met lately, so that the result is no worse than the rule's where the rule has something to say; evaluation and
// a run without recency keep to what was chosen.
func TestRecallWeight(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 60, Edges: 1500, Partitions: 1, Seed: 3})
	r := keyed.New(1).Rand(5)
	last := map[uint64]uint64{}
	meetings := make([][3]uint64, len(g.Edges)) // destination, source, time
	for i := range meetings {
		src, dst := r.Below(60), r.Below(60)
		if to, met := last[src]; met && r.Below(5) > 0 {
			dst = to
		}
		last[src], meetings[i] = dst, [3]uint64{dst, src, uint64(i)}
	}
	slices.SortFunc(meetings, func(a, b [3]uint64) int { return slices.Compare(a[:], b[:]) })
	for i, m := range meetings {
		g.Edges[i], g.Times = [2]uint64{m[1], m[0]}, append(g.Times, int64(m[2]))
	}
	dir := storetest.Create(t, g)
	run := func(cfg Config) (*Checkpoint, Summary) {
		t.Helper()
		cfg.Epochs, cfg.Dim, cfg.Fanouts, cfg.LR, cfg.Threads, cfg.Seed = 1, 4, []int{3}, 1e-6, 1, 2
		cp, err := Train(t.Context(), storetest.Open(t, dir, store.Options{}), hostDevice(t), cfg, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := Evaluate(t.Context(), storetest.Open(t, dir, store.Options{}), hostDevice(t), cp, cp.Config)
		if err != nil {
			t.Fatal(err)
		}
		return cp, sum
	}
	cp, again := run(Config{})
	if s := cp.Summary; s.RecallWeight == 0 || s.Test.MRR < s.TestRule.MRR-.02 || s.Test.MRR < .6 {
		t.Errorf("weight %v: MRR %.3f, the rule's %.3f", s.RecallWeight, s.Test.MRR, s.TestRule.MRR)
	}
	if again.Test != cp.Summary.Test || again.RecallWeight != cp.Summary.RecallWeight {
		t.Errorf("evaluated again %+v, expected %+v", again.Test, cp.Summary.Test)
	}
	if cp, _ := run(Config{NoRecency: true}); cp.Summary.RecallWeight != 0 {
		t.Errorf("without recency it weighs %v", cp.Summary.RecallWeight)
	}
}

// TestAges: nothing is older than edges without a time, whose ages are numbers that models learn from.
func TestAges(t *testing.T) {
	for _, c := range [][3]int64{{7, 3, 4}, {7, math.MinInt64, math.MaxInt64}, {-5, math.MinInt64, math.MaxInt64 - 4}} {
		if got := ageAt(c[0], c[1]); got != c[2] {
			t.Errorf("age %d at %d of an edge of %d, expected %d", got, c[0], c[1], c[2])
		}
	}
	g := storetest.Random(storetest.Options{Nodes: 50, Edges: 600})
	for i := range g.Edges {
		g.Times = append(g.Times, int64(i))
		if i%3 == 0 {
			g.Times[i] = math.MinInt64
		}
	}
	dir := storetest.Create(t, g)
	for _, encoding := range []string{TimeCos, TimeLearned} {
		st := storetest.Open(t, dir, store.Options{})
		_, err := Train(t.Context(), st, hostDevice(t), Config{TimeEncoding: encoding, Dim: 8, BatchSize: 50, Negatives: 10, Epochs: 3, EvalEdges: 20},
			Hooks{Epoch: func(e Epoch) {
				if math.IsNaN(e.Loss) || math.IsInf(e.Loss, 0) {
					t.Errorf("%s: loss %g", encoding, e.Loss)
				}
			}})
		if err != nil {
			t.Errorf("%s: %v", encoding, err)
		}
	}
}

// TestRuleIsHeld: an edge of the moment itself, were it sampled, ends the run.
func TestRuleIsHeld(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 20, Edges: 300})
	cfg := Config{}
	d := openToy(t, dir, &cfg)
	s := &source{d: d, events: d.events[250:260], size: 10, wrong: 5, ages: cfg.fixedAges()}
	var b mini.Batch
	seeds, _ := s.Seeds(0, nil, &b)
	times, _ := s.Times(0, nil, &b)
	smp, _ := mini.New(mini.Config{Fanouts: []int{5}, Sampler: mini.Latest})
	if err := smp.SampleAt(mini.Key{}, mini.Graph{In: d.mb.In, Out: d.mb.Out}, seeds, times, &b); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(&b); err != nil {
		t.Fatal(err)
	}
	k := &b.Blocks[0]
	k.Times[k.Indptr[4]] = b.Times[4]
	if err := s.Finish(&b); err == nil || !strings.Contains(err.Error(), "strictly before") {
		t.Errorf("an edge of the moment itself: %v", err)
	}
}

func TestTrainRefuses(t *testing.T) {
	bare := storetest.Create(t, storetest.Random(storetest.Options{}))
	g := storetest.Random(storetest.Options{})
	g.Times = make([]int64, len(g.Edges))
	still := storetest.Create(t, g)
	for dir, want := range map[string]string{bare: "a column of times", still: "enough different times"} {
		st := storetest.Open(t, dir, store.Options{})
		if _, err := Train(context.Background(), st, hostDevice(t), Config{}, Hooks{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one of %q", err, want)
		}
	}
	for _, c := range []Config{{Sampler: "uniform"}, {Fanouts: []int{3, 2}}, {LR: -1}, {ValidShare: .6, TestShare: .4}, {DegreeShare: 2}} {
		if err := c.Normalize(); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
