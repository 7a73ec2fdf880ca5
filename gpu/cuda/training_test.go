//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/testdata"
)

// ingested makes a store of the files in dir.
func ingested(t *testing.T, dir string, o ingest.Options) string {
	t.Helper()
	src, err := formats.Open(dir, formats.Options{})
	must(t, err)
	defer src.Close()
	out := filepath.Join(t.TempDir(), "x.gstore")
	_, err = ingest.Run(t.Context(), out, src, o)
	must(t, err)
	return out
}

// cora makes a store of Cora.
func cora(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sub, err := fs.Sub(testdata.FS, "cora")
	must(t, err)
	must(t, os.CopyFS(dir, sub))
	must(t, os.RemoveAll(filepath.Join(dir, "ogb")))
	return ingested(t, dir, ingest.Options{Partitions: 8, Undirected: true})
}

// triples makes a store of facts of three relations.
func triples(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const nodes, groups = 160, 8
	r := keyed.New(4).Rand(0)
	for i, name := range []string{"train", "valid", "test"} {
		var b strings.Builder
		for range []int{600, 30, 30}[i] {
			k, src := r.Below(3), r.Below(nodes)
			fmt.Fprintf(&b, "n%d\tr%d\tn%d\n", src, k, (src+k)%groups+groups*r.Below(nodes/groups))
		}
		must(t, os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(b.String()), 0o666))
	}
	return ingested(t, dir, ingest.Options{Partitions: 8})
}

// trainNode trains on a device, which it closes.
func trainNode(t *testing.T, dir string, dev gpu.Device, c config.Config) (*train.Checkpoint, []train.Epoch, error) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	must(t, err)
	defer st.Close()
	var epochs []train.Epoch
	cp, err := train.Node(t.Context(), st, dev, c, train.Hooks{Epoch: func(e train.Epoch) { epochs = append(epochs, e) }})
	return cp, epochs, errors.Join(err, dev.Close())
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1+math.Abs(b)) }

// TestNodesTrainAsOnTheHost: two epochs of every model, in memory and out of core, on Cora (all models with
// GSTORE_FULL_TESTS, which take minutes on the emulator) and on a graph with relations: the same batches and edges as on the host, its losses to 1e-3, and its accuracies but for single nodes.
func TestNodesTrainAsOnTheHost(t *testing.T) {
	must(t, open(t, Options{}).Close())
	papers := cora(t)
	graph := storetest.Random(storetest.Options{Nodes: 400, Edges: 3000, Partitions: 8, Relations: 3})
	for i := range graph.Edges {
		graph.Weights = append(graph.Weights, float32(i%7))
	}
	random := storetest.Create(t, graph)
	for name, c := range map[string]config.Config{
		"sage":                         {},
		"sage, hanoi, input dropout":   {Plan: "hanoi", Buffer: 4, InputDropout: share(.2)},
		"gcn":                          {Model: "gcn"},
		"gat":                          {Model: "gat", Heads: 2},
		"gin, batch norm":              {Model: "gin", Norm: "batch"},
		"mlp, layer norm":              {Model: "mlp", Norm: "layer"},
		"random: rgat":                 {Model: "rgat", Heads: 2},
		"random: hgt":                  {Model: "hgt", Heads: 2},
		"random: sage, edge weights":   {EdgeWeights: true},
		"random: gcn, edge weights":    {Model: "gcn", EdgeWeights: true},
		"random: gat, edge features":   {Model: "gat", Heads: 2, EdgeFeatures: []string{"weight"}},
		"random: rgcn, bases":          {Model: "rgcn", Bases: 2},
		"random: gcn":                  {Model: "gcn", InputDropout: share(.2)},
		"random: gin, batch norm":      {Model: "gin", Norm: "batch"},
		"random: mlp, layer norm":      {Model: "mlp", Norm: "layer"},
		"random: sage max, cat":        {Aggregator: "max", Norm: "batch", Jumping: "cat", Residual: true},
		"random: gat, max":             {Model: "gat", Norm: "layer", Residual: true, Jumping: "max"},
		"random: sage, history":        {Plan: "hanoi", Buffer: 3, History: true},
		"random: rgcn, hanoi, passes":  {Model: "rgcn", Plan: "hanoi", Buffer: 3, Reuse: 1},
		"random: sage, trainnodes, 3l": {Plan: "trainnodes", Buffer: 8, Layers: 3},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(name, "random") && name != "sage" && os.Getenv("GSTORE_FULL_TESTS") == "" {
				t.Skip("takes long: set GSTORE_FULL_TESTS")
			}
			dir := papers
			c.Fanouts, c.Hidden, c.BatchSize, c.Epochs, c.EvalEvery, c.Threads, c.Seed = []int{4, 3}, 16, 70, 2, 2, 1, 3
			if strings.HasPrefix(name, "random") {
				dir, c.Split, c.BatchSize = random, "split", 100
			}
			if c.Layers == 3 {
				c.Fanouts = []int{4, 3, 2}
			}
			want, wantEpochs, err := trainNode(t, dir, host.New(host.Options{Threads: 1}), c)
			must(t, err)
			got, epochs, err := trainNode(t, dir, open(t, Options{}), c)
			must(t, err)
			a, b := &got.Summary, &want.Summary
			if a.Batches != b.Batches || a.SampledEdges != b.SampledEdges || !strings.Contains(a.Device, "cuda:0") {
				t.Errorf("%d batches of %d edges on %s, %d of %d on the host", a.Batches, a.SampledEdges, a.Device, b.Batches, b.SampledEdges)
			}
			for i, e := range wantEpochs {
				if !near(epochs[i].Loss, e.Loss, 1e-3) || math.Abs(epochs[i].ValidAccuracy-e.ValidAccuracy) > .02 {
					t.Errorf("epoch %d: loss %v, valid %v; on the host %v, %v", i+1, epochs[i].Loss, epochs[i].ValidAccuracy, e.Loss, e.ValidAccuracy)
				}
			}
			if math.Abs(a.TestAccuracy-b.TestAccuracy) > .02 {
				t.Errorf("test accuracy %v, on the host %v", a.TestAccuracy, b.TestAccuracy)
			}
		})
	}
}

// TestLinksTrainAsOnTheHost: two epochs of decoders, encoders, losses and optimisers, in memory and out of core.
func TestLinksTrainAsOnTheHost(t *testing.T) {
	must(t, open(t, Options{}).Close())
	dir := triples(t)
	for name, c := range map[string]link.Config{
		"distmult":               {},
		"complex, adam":          {Model: "complex", Optimizer: "adam"},
		"transe, margin":         {Model: "transe", Loss: "margin"},
		"dot, logistic":          {Model: "dot", Loss: "logistic"},
		"distmult, sage, comet":  {Encoder: "sage", Fanouts: []int{4}, Plan: "comet", Buffer: 4},
		"complex, gat, shares":   {Model: "complex", Encoder: "gat", Heads: 2, Fanouts: []int{4}, DegreeShare: .5},
		"distmult, gcn, in beta": {Encoder: "gcn", Fanouts: []int{4}, Plan: "beta", Buffer: 4},
	} {
		t.Run(name, func(t *testing.T) {
			c.Dim, c.BatchSize, c.Negatives, c.Chunks, c.Epochs, c.Threads, c.Seed = 16, 100, 40, 2, 2, 1, 3
			run := func(table string, dev gpu.Device) (*link.Result, []link.Epoch) {
				st, err := store.Open(dir, store.Options{})
				must(t, err)
				defer st.Close()
				c := c
				c.Table = table
				var epochs []link.Epoch
				r, err := link.Train(t.Context(), st, dev, c, link.Hooks{Epoch: func(e link.Epoch) { epochs = append(epochs, e) }})
				must(t, errors.Join(err, dev.Close()))
				return r, epochs
			}
			want, wantEpochs := run("host", host.New(host.Options{Threads: 1}))
			got, epochs := run("cuda", open(t, Options{}))
			for i, e := range wantEpochs {
				g := epochs[i]
				if g.DeviceRows == nil || g.DeviceRows.Returned == 0 {
					t.Errorf("epoch %d: the device keeps no rows that it changes: %+v", i+1, g.DeviceRows)
				}
				if g.Batches != e.Batches || g.SampledEdges != e.SampledEdges || !near(g.Loss, e.Loss, 1e-3) {
					t.Errorf("epoch %d: loss %v of %d batches, %d edges; on the host %v of %d, %d", i+1, g.Loss, g.Batches, g.SampledEdges, e.Loss, e.Batches, e.SampledEdges)
				}
			}
			a, b := got.Summary, want.Summary
			if b.TestMRR == 0 || !near(a.TestMRR, b.TestMRR, .01) {
				t.Errorf("test MRR %v, on the host %v", a.TestMRR, b.TestMRR)
			}
		})
	}
}

// TestFaultsOfARun: memory that runs out at any allocation, and a kernel that faults at any launch, end a run with a
// clear error; nothing is left behind, the store opens, and the run goes on from its last checkpoint to the bits of one
// that was not disturbed.
func TestFaultsOfARun(t *testing.T) {
	emulated(t, "GS_EMU_STRICT", "1", "GS_EMU_SCHEDULE", "lazy")
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 120, Edges: 600, Partitions: 2}))
	c := config.Config{Hidden: 8, BatchSize: 40, Epochs: 4, EvalEvery: 4, Split: "split", Threads: 1, Seed: 3, Layers: 1, Fanouts: []int{4}}
	for _, c.SampleOn = range []string{"host", "device"} {
		t.Run("drawn on the "+c.SampleOn, func(t *testing.T) { faultsOfARun(t, dir, c) })
	}
}

// faultsOfARun meets each fault of a run in turn.
func faultsOfARun(t *testing.T, dir string, c config.Config) {
	outcome := func(cp *train.Checkpoint) string {
		return fmt.Sprint(cp.Params, cp.Summary.TestAccuracy, cp.Summary.TrainLoss, cp.Summary.Batches)
	}
	whole, epochs, err := trainNode(t, dir, open(t, Options{}), c)
	must(t, err)
	if epochs[3].ReplayedBatches == 0 {
		t.Error("no mini-batch is replayed: no fault is met there")
	}
	for what, kind := range map[string]error{"alloc": gpu.ErrMemory, "launch": gpu.ErrLost} {
		n, failed := 1, 0
		for ; ; n++ {
			c.CheckpointFile, c.CheckpointEvery, c.Resume = filepath.Join(t.TempDir(), "run.gsr"), "1steps", false
			t.Setenv("GS_EMU_FAIL", fmt.Sprintf("%s:%d", what, n))
			dev, err := Open(Options{})
			if err == nil {
				_, _, err = trainNode(t, dir, dev, c)
			}
			t.Setenv("GS_EMU_FAIL", "")
			if err == nil {
				break // more than there are
			}
			failed++
			if !errors.Is(err, kind) || strings.Contains(err.Error(), "NOT_PERMITTED") {
				t.Fatalf("%s %d: %v, expected %v", what, n, err, kind)
			}
			c.Resume = true
			cp, _, err := trainNode(t, dir, open(t, Options{}), c)
			if err != nil {
				t.Fatalf("%s %d: resumed: %v", what, n, err)
			}
			if got, want := outcome(cp), outcome(whole); got != want {
				t.Fatalf("%s %d: the resumed run ends with %s, expected %s", what, n, got, want)
			}
		}
		t.Logf("%s: %d of some %d places", what, failed, n)
		if failed < 3 {
			t.Errorf("%s: only %d faults", what, failed)
		}
	}
}

// TestTrainingRepeats: the same seed gives the same parameters to the bit, in whatever order blocks and streams run.
func TestTrainingRepeats(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 200, Edges: 1500, Partitions: 4}))
	for _, model := range []string{"sage", "gat"} {
		var want string
		for _, schedule := range []string{"lazy", "random:1", "random:2"} {
			emulated(t, "GS_EMU_SCHEDULE", schedule)
			cp, _, err := trainNode(t, dir, open(t, Options{}), config.Config{Model: model, Hidden: 8, BatchSize: 50, Epochs: 2, Split: "split", Threads: 1, Fanouts: []int{4, 3}})
			must(t, err)
			if got := fmt.Sprint(cp.Params); want == "" {
				want = got
			} else if got != want {
				t.Errorf("%s, %s: other parameters than under lazy", model, schedule)
			}
		}
	}
}

// TestKeptRowsChangeNothing: whatever feature rows stay on the device, parameters have the same bits.
func TestKeptRowsChangeNothing(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 200, Edges: 1500, Partitions: 4, Dim: 6})) // rows of 24 bytes: no multiple of 16
	var want string
	hits := map[string]uint64{}
	for _, policy := range []string{"none", "tracker", "lookahead"} {
		cp, _, err := trainNode(t, dir, open(t, Options{}), config.Config{Hidden: 8, BatchSize: 10, Epochs: 2, Split: "split", Threads: 1, Fanouts: []int{3, 2},
			DeviceCache: policy, DevicePlan: "direct", Plan: "hanoi", Buffer: 2, Absent: config.AbsentIgnore})
		must(t, err)
		if cp.Summary.DeviceRows == nil {
			t.Fatalf("%s: nothing is kept", policy)
		}
		hits[policy] = cp.Summary.DeviceRows.Hits
		if got := fmt.Sprint(cp.Params); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%s: other parameters than with none", policy)
		}
	}
	if hits["none"] != 0 || hits["tracker"] == 0 || hits["lookahead"] < hits["tracker"] {
		t.Errorf("rows that were there: %v", hits)
	}
}

// TestHostWaits: where the device keeps up, the host waits once a step of the plan at most, for the last mini-batches; before, it
// waited at each. Where the device runs only when it must, half of those on their way are waited for at once.
func TestHostWaits(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 400, Edges: 1500, Partitions: 4}))
	for schedule, most := range map[string]func(e train.Epoch) int64{
		"eager": func(e train.Epoch) int64 { return int64(e.Steps) },
		"lazy":  func(e train.Epoch) int64 { return int64(e.Steps) + e.Batches/2 },
	} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		for _, on := range []string{"host", "device"} {
			c := config.Config{Hidden: 8, BatchSize: 10, Epochs: 2, EvalEvery: 2, Split: "split", Threads: 1, Fanouts: []int{3, 2}, Plan: "memory", SampleOn: on}
			_, epochs, err := trainNode(t, dir, open(t, Options{}), c)
			must(t, err)
			for _, e := range epochs {
				most := most(e)
				if on == "device" && schedule == "lazy" { // and for how large each mini-batch is
					most += e.Batches
				}
				t.Logf("%s, drawn on the %s: epoch %d: %d waits, %d mini-batches", schedule, on, e.Epoch, e.DeviceWaits, e.Batches)
				if e.Batches < 10 || e.DeviceWaits > most {
					t.Errorf("%s: epoch %d: the host waited %d times in %d steps of %d mini-batches, expected at most %d", schedule, e.Epoch, e.DeviceWaits, e.Steps, e.Batches, most)
				}
			}
		}
	}
}

// deaf is a device whose streams follow no other.
type deaf struct{ *Device }

type deafStream struct {
	gpu.Stream
	gpu.Stager
}

func (d deaf) NewStream() (gpu.Stream, error) {
	s, err := d.newStream()
	return deafStream{s, s}, err
}

// TestMirrorOverlaps: partitions that cross beside training change no bit, whatever runs when; and where the streams do not wait
// for each other, parameters tell.
func TestMirrorOverlaps(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 200, Edges: 1500, Partitions: 6}))
	c := config.Config{Hidden: 8, BatchSize: 10, Epochs: 3, EvalEvery: 3, Split: "split", Threads: 1, Fanouts: []int{3, 2}, DevicePlan: "direct", DeviceCache: "none",
		Plan: "hanoi", Buffer: 2, Absent: config.AbsentIgnore}
	cp, _, err := trainNode(t, dir, open(t, Options{}), c)
	must(t, err)
	want := fmt.Sprint(cp.Params)
	c.DevicePlan, c.DeviceCache = "mirror", ""
	mirrored := func(what string) {
		t.Helper()
		cp, epochs, err := trainNode(t, dir, open(t, Options{}), c)
		must(t, err)
		if fmt.Sprint(cp.Params) != want {
			t.Errorf("%s: other parameters than of rows by the mini-batch", what)
		}
		for _, e := range epochs {
			if e.DeviceRows == nil || e.DeviceRows.Policy != "mirror" || e.DeviceCopySeconds <= 0 || e.DeviceSeconds <= 0 || e.DeviceIdleSeconds <= 0 {
				t.Errorf("%s: epoch %d: %+v, %+v", what, e.Epoch, e.DeviceRows, e.DeviceTimes)
			}
		}
	}
	mirrored("as the device runs")
	for _, schedule := range []string{"lazy", "random:1", "random:2", "random:3", "threads"} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		mirrored(schedule)
	}
	emulated(t, "GS_EMU_SCHEDULE", "lazy")
	if cp, _, err = trainNode(t, dir, deaf{open(t, Options{})}, c); err == nil && fmt.Sprint(cp.Params) == want {
		t.Error("without waits between the streams parameters are the same")
	}
}

// share is a pointer to x, for options whose zero is not their default.
func share(x float64) *float64 { return &x }
