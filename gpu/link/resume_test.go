package link_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/table"
)

// tripleStore ingests a small knowledge graph: relation k leads from group g to group g+k.
func tripleStore(t testing.TB, partitions int) string { return triplesOf(t, partitions, 160, 3000, 60) }

// triplesOf has so many nodes, edges to train on, and edges in each list.
func triplesOf(t testing.TB, partitions int, nodes uint64, train, listed int) string {
	t.Helper()
	dir := t.TempDir()
	const groups = 8
	r := keyed.New(4).Rand(0)
	for i, name := range []string{"train", "valid", "test"} {
		var b strings.Builder
		for range []int{train, listed, listed}[i] {
			k, src := r.Below(3), r.Below(nodes)
			fmt.Fprintf(&b, "n%d\tr%d\tn%d\n", src, k, (src+k)%groups+groups*r.Below(nodes/groups))
		}
		if err := os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return ingested(t, dir, ingest.Options{Partitions: partitions})
}

// addFeatures adds column x of so many numbers to a store.
func addFeatures(t testing.TB, dir string, nodes, dim int) {
	t.Helper()
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", nodes, dim)
	b := fmt.Appendf(nil, "\x93NUMPY\x01\x00%c\x00%-117s\n", 118, header)
	r := keyed.New(6).Rand(0)
	for range nodes * dim {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.Normal())))
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	src, err := formats.OpenColumn(nil, path, "x", store.RoleFeature)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, err := grow.AppendColumns(t.Context(), dir, src, 0, grow.Options{KeepVersions: 1}); err != nil {
		t.Fatal(err)
	}
}

// ingested is the store of the files in dir.
func ingested(t testing.TB, dir string, o ingest.Options) string {
	t.Helper()
	src, err := formats.Open(dir, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	out := filepath.Join(t.TempDir(), "kg.gstore")
	if _, err := ingest.Run(t.Context(), out, src, o); err != nil {
		t.Fatal(err)
	}
	return out
}

func trainLink(ctx context.Context, dir string, o store.Options, c link.Config, h link.Hooks) (_ *link.Result, err error) {
	dev := host.New(host.Options{Threads: c.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	return trainLinkOn(ctx, dev, dir, o, c, h)
}

func trainLinkOn(ctx context.Context, dev gpu.Device, dir string, o store.Options, c link.Config, h link.Hooks) (_ *link.Result, err error) {
	st, err := store.Open(dir, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return link.Train(ctx, st, dev, c, h)
}

// finalState is what a run leaves, and what it counted.
func finalState(t testing.TB, dir, name string, o store.Options) []byte {
	t.Helper()
	model, s := finalRun(t, dir, name, o)
	return fmt.Append(model, s.Batches, s.SampledEdges)
}

// finalModel is what a run leaves: all rows with their state, the model, and the metrics that are no times.
func finalModel(t testing.TB, dir, name string, o store.Options) []byte {
	t.Helper()
	model, _ := finalRun(t, dir, name, o)
	return model
}

func finalRun(t testing.TB, dir, name string, o store.Options) ([]byte, *link.Summary) {
	t.Helper()
	st, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tab, err := table.Open(t.Context(), st, table.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	var b bytes.Buffer
	for p := range tab.Partitions() {
		id := store.PartitionID(p)
		n := tab.PlaneBytes(id)
		slab, err := blockio.AllocSlab(max(1, n*int64(tab.Planes())), blockio.SlabOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var planes [][]byte
		for i := range int64(tab.Planes()) {
			planes = append(planes, slab.Bytes()[i*n:(i+1)*n])
		}
		if err := tab.Read(t.Context(), id, planes...); err != nil {
			t.Fatal(err)
		}
		for _, plane := range planes {
			b.Write(plane[:int64(tab.Nodes(id))*int64(tab.Dim())*4])
		}
		if err := slab.Free(); err != nil {
			t.Fatal(err)
		}
	}
	run, err := link.Load(t.Context(), tab)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(run.Model)
	s := run.Summary
	fmt.Fprint(&b, run.Epochs, s.TestMRR, s.ValidMRR, s.TrainLoss)
	return b.Bytes(), &s
}

func smallRun(plan, encoder string) link.Config {
	c := link.Config{Plan: plan, Encoder: encoder, Dim: 8, Epochs: 4, EvalEvery: 4, BatchSize: 100, Negatives: 20, Chunks: 2, Seed: 5, Threads: 1}
	if plan != "memory" {
		c.Buffer = 4
	}
	return c
}

// A run that is broken off after any mini-batch and resumed, again and again, ends with the bits of one
// that was not: rows, optimiser state, parameters, losses and ranks; also where every other part of it issues mini-batches ahead.
func TestLinkResumes(t *testing.T) {
	n := 0
	for _, plan := range []string{"memory", "comet", "beta"} {
		inductive := smallRun(plan, "sage")
		inductive.Features, inductive.NoEmbeddings, inductive.Relation, inductive.BatchSize = []string{"x"}, plan == "comet", "r1", 30
		for _, c := range []link.Config{smallRun(plan, "none"), smallRun(plan, "sage"), smallRun(plan, "gcn"), inductive} {
			encoder := c.Encoder
			if n++; n%race.Every(4) != 1%race.Every(4) { // a plan and an encoder each
				continue
			}
			if encoder == "gcn" {
				c.Optimizer, c.Absent = "adam", link.AbsentShadow
			}
			t.Run(plan+" "+encoder+" "+c.Optimizer+strings.Join(c.Features, ""), func(t *testing.T) {
				dir := tripleStore(t, 8)
				if len(c.Features) > 0 {
					addFeatures(t, dir, 160, 12)
				}
				c.Table = "whole"
				if encoder == "none" {
					c.LRDecay = -1
				}
				whole, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if plan != "memory" && (whole.Summary.BytesWritten == 0 || whole.Summary.Bias == 0) {
					t.Errorf("summary %+v: expected partitions to be written back, and a bias", whole.Summary)
				}
				want := finalState(t, dir, "whole", store.Options{})
				rng := rand.New(rand.NewPCG(7, 1))
				c.Table, c.CheckpointEvery, c.KeepCheckpoints, c.Threads = "broken", "7steps", 3, 2
				broken := 0
				for {
					ctx, cancel := context.WithCancel(t.Context())
					left := 8 + rng.IntN(30)
					c.Resume = broken > 0
					var dev gpu.Device = host.New(host.Options{Threads: c.Threads})
					if broken%2 == 1 {
						dev = gputest.Ahead{Device: dev}
					}
					r, err := trainLinkOn(ctx, dev, dir, store.Options{}, c, link.Hooks{Batch: func(int, int64) {
						if left--; left == 0 {
							cancel()
						}
					}})
					cancel()
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
					if err == nil {
						if r.Summary.Resumed != c.Resume || len(r.Summary.EpochSeconds) != c.Epochs {
							t.Errorf("summary %+v", r.Summary)
						}
						break
					}
					if !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					if broken++; broken > 100 {
						t.Fatal("no end")
					}
				}
				if broken < 3 {
					t.Errorf("broken off only %d times", broken)
				}
				if !bytes.Equal(finalState(t, dir, "broken", store.Options{}), want) {
					t.Error("the resumed run ends with other bits")
				}
				// From an older checkpoint once more, and further than planned.
				st, err := store.Open(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				tab, err := table.Open(t.Context(), st, table.Options{Name: "broken"})
				if err != nil {
					t.Fatal(err)
				}
				kept := tab.Checkpoints()
				if err := errors.Join(tab.Close(), st.Close()); err != nil || len(kept) != 3 {
					t.Fatalf("%d checkpoints kept, %v; expected 3", len(kept), err)
				}
				c.Resume, c.FromCheckpoint = true, kept[0].Number
				if _, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{}); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(finalState(t, dir, "broken", store.Options{}), want) {
					t.Error("gone back to an older checkpoint, the run ends with other bits")
				}
				c.FromCheckpoint, c.Epochs = 0, 5
				r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{})
				switch {
				case c.LRDecay == 0:
					if err == nil || !strings.Contains(err.Error(), "falls to 0 at the end of epoch 4, not 5") {
						t.Errorf("one epoch more than the learning rate is for: %v", err)
					}
				case err != nil || len(r.Summary.EpochSeconds) != 5:
					t.Errorf("one epoch more: %v", err)
				}
			})
		}
	}
}

// What a run is resumed with must be what it began with; what is not given is taken from there.
func TestLinkResumeConfig(t *testing.T) {
	dir := tripleStore(t, 8)
	c := smallRun("comet", "sage")
	c.Buffer, c.Epochs, c.EvalEvery, c.LRDecay = 2, 1, -1, -1
	if _, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []link.Config{{Dim: 16}, {Encoder: "none"}, {Seed: 6}, {Buffer: 3}, {Plan: "memory"}, {Loss: "margin"}, {LRDecay: .5}} {
		bad.Resume = true
		if _, err := trainLink(t.Context(), dir, store.Options{}, bad, link.Hooks{}); err == nil || !strings.Contains(err.Error(), "the run began with") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	var started link.Config
	r, err := trainLink(t.Context(), dir, store.Options{}, link.Config{Resume: true, Epochs: 2, Threads: 2, Plan: "auto"}, link.Hooks{
		Start: func(c link.Config, _ []string) { started = c }})
	if err != nil {
		t.Fatal(err)
	}
	if started.Encoder != "sage" || started.Dim != 8 || started.Buffer != 2 || started.Seed != 5 || started.Epochs != 2 || !*started.RemoveBatchEdges || started.KeepBatchEdges != .5 || len(r.Summary.EpochSeconds) != 2 {
		t.Errorf("resumed as %+v with %d epochs", started, len(r.Summary.EpochSeconds))
	}
	if _, err := trainLink(t.Context(), dir, store.Options{}, link.Config{Resume: true, FromCheckpoint: 99}, link.Hooks{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a checkpoint that never was: %v", err)
	}
	wide := smallRun("comet", "none") // of 8 partitions
	wide.Buffer, wide.Epochs, wide.EvalEvery, wide.Table = 9, 1, -1, "wide"
	for range 2 {
		if _, err := trainLink(t.Context(), dir, store.Options{}, wide, link.Hooks{}); err != nil {
			t.Fatalf("a buffer of more partitions than there are, resumed %t: %v", wide.Resume, err)
		}
		wide.Resume = true
	}
}

// A run that cannot begin does not cost what an earlier one learned.
func TestLinkKeepsEarlierRun(t *testing.T) {
	dir := tripleStore(t, 4)
	c := smallRun("comet", "none")
	c.Buffer, c.Epochs, c.EvalEvery = 2, 1, -1
	if _, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{}); err != nil {
		t.Fatal(err)
	}
	want := finalState(t, dir, "embeddings", store.Options{})
	inf := math.Inf(1)
	for _, x := range []struct {
		name   string
		change func(c *link.Config)
		want   string
	}{
		{"too many checkpoints", func(c *link.Config) { c.KeepCheckpoints = 64 }, "expected 1 to 63"},
		{"table", func(c *link.Config) { c.Table = "a b" }, "letters, digits"},
		{"engine", func(c *link.Config) { c.IOEngine = "aio" }, "expected auto, io_uring"},
		{"learning rate", func(c *link.Config) { c.LR = inf }, "finite"},
		{"margin", func(c *link.Config) { c.Loss, c.Margin = "margin", &inf }, "finite"},
		{"plan", func(c *link.Config) { c.Buffer = 1 }, "no such plan"},
		{"memory", func(c *link.Config) { c.MemoryBytes = 1 << 20 }, "smallest that works"},
	} {
		bad := c
		x.change(&bad)
		if _, err := trainLink(t.Context(), dir, store.Options{}, bad, link.Hooks{}); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, expected %q", x.name, err, x.want)
		}
		if !bytes.Equal(finalState(t, dir, "embeddings", store.Options{}), want) {
			t.Fatalf("%s: the earlier run's embeddings are gone", x.name)
		}
	}
}

// A run that diverges ends with an error that says so, whatever the loss and the decoder.
func TestLinkDiverges(t *testing.T) {
	dir := tripleStore(t, 4)
	for _, loss := range []string{"softmax", "logistic", "margin"} {
		for _, decoder := range []string{"distmult", "complex", "transe", "dot"} {
			c := smallRun("memory", "none")
			c.Loss, c.Model, c.LR, c.LRDecay, c.EvalEvery = loss, decoder, 1e37, -1, -1
			if _, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{}); err == nil || !strings.Contains(err.Error(), "diverged") {
				t.Errorf("%s, %s: %v, expected that it diverged", loss, decoder, err)
			}
		}
	}
}

// TestLinkDivergesInItsLastBatch: a run whose only step makes rows that are no numbers leaves no table of them, though no
// loss saw them: a limit of the learning rate that float32 holds, twice over.
func TestLinkDivergesInItsLastBatch(t *testing.T) {
	dir := tripleStore(t, 4)
	c := smallRun("memory", "none")
	c.Epochs, c.BatchSize, c.LR, c.LRDecay, c.EvalEvery = 1, 1<<16, 3e38, -1, -1
	batches := 0
	_, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{Batch: func(int, int64) { batches++ }})
	if err == nil || !strings.Contains(err.Error(), "diverged") || batches > 0 {
		t.Errorf("%v after %d batches, expected that the first one diverged", err, batches)
	}
}

// FENNEL leaves partitions of a few nodes empty: a step whose partitions are all empty is passed over, and the run learns what it would in memory.
func TestLinkEmptyPartitions(t *testing.T) {
	dir := t.TempDir()
	for name, edges := range map[string]string{"train": "a\tr\tb\nc\tr\td\ne\tr\tf\n", "valid": "b\tr\ta\n", "test": "d\tr\tc\n"} {
		if err := os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(edges), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	dir = ingested(t, dir, ingest.Options{Partitions: 6, Partitioner: partitioner.MethodFennel})
	for _, plan := range []string{"comet", "beta", "memory"} {
		c := smallRun(plan, "none")
		c.Buffer = min(c.Buffer, 2)
		r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{})
		if err != nil {
			t.Fatalf("%s: %v", plan, err)
		}
		if r.Summary.Batches == 0 {
			t.Errorf("%s trained on nothing", plan)
		}
	}
}

// A run begins with embeddings drawn from N(0, .001²) by its seed, sums of squares of 0, and a checkpoint that says so.
func TestLinkStart(t *testing.T) {
	dir := tripleStore(t, 4)
	begin := func(seed uint64) []byte {
		t.Helper()
		c := smallRun("memory", "none")
		c.Seed = seed
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := trainLink(ctx, dir, store.Options{}, c, link.Hooks{Start: func(link.Config, []string) { cancel() }}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return finalState(t, dir, "embeddings", store.Options{})
	}
	first := begin(5)
	if !bytes.Equal(first, begin(5)) {
		t.Error("a seed begins with two different states")
	}
	if bytes.Equal(first[:1000], begin(6)[:1000]) {
		t.Error("two seeds begin with the same embeddings")
	}
	const nodes, dim, partitions = 160, 8, 4
	plane := nodes / partitions * dim * 4 // of a partition: embeddings, then sums
	sum, squares := 0., 0.
	for p := range partitions {
		for i := 0; i < plane; i += 4 {
			x := float64(math.Float32frombits(binary.LittleEndian.Uint32(first[2*p*plane+i:])))
			sum, squares = sum+x, squares+x*x
		}
		if s := first[(2*p+1)*plane:][:plane]; !bytes.Equal(s, make([]byte, plane)) {
			t.Errorf("partition %d begins with sums of squares that are not 0", p)
		}
	}
	const n = nodes * dim
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 4*.001/math.Sqrt(n) || math.Abs(deviation-.001) > 4*.001/math.Sqrt(2*n) {
		t.Errorf("embeddings of mean %v and deviation %v, expected 0 and .001", mean, deviation)
	}
}

// Adam keeps two vectors of state a node, steps only the nodes that a batch has, and learns.
func TestLinkAdam(t *testing.T) {
	dir := tripleStore(t, 4)
	c := smallRun("comet", "none")
	c.Buffer, c.Optimizer, c.Epochs, c.EvalEvery = 2, "adam", 3, 3
	var losses []float64
	r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{Epoch: func(e link.Epoch) { losses = append(losses, e.Loss) }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Config.LR != .003 || !(losses[2] < losses[0]) {
		t.Errorf("rate %v, losses %v", r.Config.LR, losses)
	}
	for name, c := range map[string]link.Config{"unknown": {Optimizer: "sgd"}, "another": {Optimizer: "adagrad", Resume: true}} {
		if _, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{}); err == nil || !strings.Contains(err.Error(), "optimizer") {
			t.Errorf("%s optimiser: %v", name, err)
		}
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tab, err := table.Open(t.Context(), st, table.Options{Name: "embeddings", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if tab.Planes() != 3 {
		t.Errorf("a table of %d planes, expected embeddings and two moments", tab.Planes())
	}
}

// A summary's counts are the sums of its epochs', its bias the mean of their plans'.
func TestLinkSummary(t *testing.T) {
	dir := tripleStore(t, 8)
	c := smallRun("comet", "none")
	c.Epochs, c.EvalEvery = 3, -1
	var want link.Summary
	r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{Epoch: func(e link.Epoch) {
		want.Bias += e.Bias / float64(c.Epochs)
		want.BytesRead += e.BytesRead
		want.BytesWritten += e.BytesWritten
		want.Batches += e.Batches
		want.TrainLoss = e.Loss
		if e.Bias <= 0 || e.BytesRead == 0 || e.BytesWritten == 0 || e.Steps < 2 {
			t.Errorf("epoch %+v", e)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &r.Summary
	if math.Abs(s.Bias-want.Bias) > 1e-12 || s.BytesRead != want.BytesRead || s.BytesWritten != want.BytesWritten || s.Batches != want.Batches || s.TrainLoss != want.TrainLoss {
		t.Errorf("summary %+v, expected bias, bytes, batches and loss of %+v", s, want)
	}
}
