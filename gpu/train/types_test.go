package train

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/storetest"
)

// TestTypesTrainAsBefore: a store whose columns have rows of one node type alone has the losses of one of format 1 to the bit, by every
// plan, in several partitions, and reads what is planned; the frozen one has those that the build had which made it, and keeps them in memory when it
// is moved to the format of today.
func TestTypesTrainAsBefore(t *testing.T) {
	graph, old := storetest.Typed(t)
	fresh := ingesttest.Store(t, graph, ingest.Options{Partitions: 4, Seed: 1})
	var runs []string
	for _, c := range manifestOf(t, fresh).Columns {
		if c.Runs {
			runs = append(runs, c.Name)
		}
	}
	if want := []string{"paper.feat", "label", "venue.feat", "node_type", "author.node", "split"}; !slices.Equal(runs, want) {
		t.Errorf("columns of one type are %q, expected %q", runs, want)
	}
	losses := func(dir string, c config.Config) (out []float64, read int64) {
		t.Helper()
		c.Model, c.Hidden, c.Fanouts, c.BatchSize, c.Epochs, c.Seed, c.Threads = "rsage", 8, []int{4, 4}, 40, 3, 7, 1
		out, read, _ = lossesRead(t, dir, c)
		return out, read
	}
	recorded := map[string][]float64{ // by the build that made the store
		macro.Memory: {1.3971676281346874, 1.2278860378894336, 1.1317916185925547},
		macro.Hanoi:  {1.458990576062677, 1.221720361948918, 1.144749244013987},
	}
	var inMemory []float64
	for _, c := range []config.Config{{Plan: macro.Memory}, {Plan: macro.Hanoi, Buffer: 2, Absent: "ignore"}, {Plan: macro.Rows, RowReads: config.RowsCached}, {Plan: macro.Rows, RowReads: config.RowsPacked}} {
		want, readOld := losses(old, c)
		got, readNew := losses(fresh, c)
		if !slices.Equal(got, want) {
			t.Errorf("plan %s %s: losses and accuracies %v, of format 1 %v", c.Plan, c.RowReads, got, want)
		}
		if readNew >= readOld {
			t.Errorf("plan %s %s reads %d bytes, of format 1 %d", c.Plan, c.RowReads, readNew, readOld)
		}
		for e, x := range recorded[c.Plan] {
			if math.Abs(want[2*e]-x) > 1e-4 { // another machine's products differ in their last bits
				t.Errorf("plan %s, epoch %d: loss %v, expected %v", c.Plan, e+1, want[2*e], x)
			}
		}
		if c.Plan == macro.Memory {
			inMemory = want
		}
	}
	before, err := store.Open(old, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := partitioner.NewRandom(before.Manifest().Nodes, 3, 5)
	if err == nil {
		_, err = repartition.Run(t.Context(), before, a, ingest.Options{})
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := losses(old, config.Config{Plan: macro.Memory}); !slices.Equal(got, inMemory) {
		t.Errorf("moved: losses and accuracies %v, before %v", got, inMemory)
	}
}

// TestTypesOnDevices: on a device that has memory of its own, losses of a store of several types are the host's to the bit, whether rows
// are read where they are, kept one by one or with their whole partitions, and what is kept of columns of one type is what was planned.
func TestTypesOnDevices(t *testing.T) {
	dir := storeOfTypes(t, false)
	for _, c := range []config.Config{{Model: "rsage"}, {Model: "rsage", Plan: macro.Hanoi, Buffer: 2, Absent: config.AbsentIgnore}, {Model: "gcn", Plan: macro.Hanoi, Buffer: 2},
		{Model: "sage", Aggregator: "max", Features: []string{"paper.feat", "venue.feat"}}} {
		c.Hidden, c.Fanouts, c.BatchSize, c.Epochs, c.Seed, c.Threads = 8, []int{3, 3}, 20, 2, 7, 1
		run := func(c config.Config, dev gpu.Device) (losses []float64, kept *cache.Traffic) {
			t.Helper()
			if _, err := trainNodeOn(t.Context(), t, dev, dir, c, Hooks{Epoch: func(e Epoch) { losses, kept = append(losses, e.Loss), e.DeviceRows }}); err != nil {
				t.Fatal(err)
			}
			return losses, kept
		}
		want, _ := run(c, hostDevice(t))
		for _, policy := range []string{cache.NameNone, cache.NameTracker, cache.NameLookahead, macro.DeviceMirror} {
			d := c
			if d.DeviceCache = policy; policy == macro.DeviceMirror {
				d.DeviceCache, d.DevicePlan = config.CacheAuto, policy
			}
			dev := gputest.NewCounting(hostDevice(t), 64<<20)
			if got, kept := run(d, dev); !slices.Equal(got, want) || policy != cache.NameNone && kept == nil {
				t.Errorf("%s, plan %s, %s: losses %v with %+v kept, on the host %v", c.Model, c.Plan, policy, got, kept, want)
			}
		}
	}
}

// lossesRead are a run's losses and validation accuracies by epoch, the bytes that it read, which are those that were planned, and those
// that its evaluations read.
func lossesRead(t *testing.T, dir string, c config.Config) (out []float64, read, evaluated int64) {
	t.Helper()
	cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) {
		out, read = append(out, e.Loss, e.ValidAccuracy), read+e.BytesRead
		if e.BytesRead != e.PlannedBytes {
			t.Errorf("%s, plan %s: %d bytes read, %d planned", dir, c.Plan, e.BytesRead, e.PlannedBytes)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out, read, cp.Summary.EvalBytesRead
}

func manifestOf(t *testing.T, dir string) *store.Manifest {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // test
	return s.Manifest()
}

// TestCodedWeightsTrainAsPlain: a model that weighs edges, or whose attention reads their weights, has the same losses and accuracies to
// the bit whether a store has weights or their numbers, and reads less; its evaluation counts a byte for each number.
func TestCodedWeightsTrainAsPlain(t *testing.T) {
	graph, _ := storetest.Typed(t)
	storetest.Quarters(t, graph)
	coded, plain := ingesttest.Store(t, graph, ingest.Options{Partitions: 4}), filepath.Join(t.TempDir(), "plain")
	if err := os.CopyFS(plain, os.DirFS(coded)); err != nil {
		t.Fatal(err)
	}
	withWeights(t, plain)
	for _, c := range []config.Config{{Plan: macro.Memory, EdgeWeights: true}, {Plan: macro.Hanoi, Buffer: 2, Absent: "ignore", EdgeWeights: true},
		{Plan: macro.Memory, Model: "gat", EdgeFeatures: []string{"weight"}}, {Plan: macro.Hanoi, Buffer: 2, Model: "gat", EdgeFeatures: []string{"weight"}}} {
		c.Features, c.Hidden, c.Fanouts, c.BatchSize, c.Epochs, c.Threads = []string{"paper.feat", "venue.feat"}, 8, []int{4, 4}, 40, 2, 1
		want, readPlain, evalPlain := lossesRead(t, plain, c)
		got, readCoded, evalCoded := lossesRead(t, coded, c)
		if saved, each := evalPlain-evalCoded, 3*int64(manifestOf(t, coded).Edges); saved <= 0 || saved%each != 0 {
			t.Errorf("plan %s: evaluation reads %d bytes of codes, %d of weights, expected %d fewer each time it reads them", c.Plan, evalCoded, evalPlain, each)
		}
		if !slices.Equal(got, want) || readCoded > readPlain {
			t.Errorf("plan %s: losses and accuracies %v of %d bytes, of weights %v of %d", c.Plan, got, readCoded, want, readPlain)
		}
	}
}

// withWeights adds a version whose weights are no codes.
func withWeights(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // test
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // test
	m := w.Base().Clone()
	c, err := m.Column("weight")
	if err != nil || c.Values == nil {
		t.Fatalf("%v, values %v of weights", err, c.Values)
	}
	name, bw, err := w.CreateFile("plain", blocks.Header{Kind: blocks.EdgeColumn, Elem: c.Elem, Dim: 1, Name: c.Name, Partitions: uint32(len(m.Partitions))})
	if err != nil {
		t.Fatal(err)
	}
	for p, part := range m.Partitions {
		b, err := s.ReadColumn(t.Context(), c.Name, store.PartitionID(p), nil)
		if err == nil {
			err = bw.Append(uint64(p), part.Edges, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := bw.Close()
	if err != nil {
		t.Fatal(err)
	}
	m.Files = slices.DeleteFunc(m.Files, func(f store.FileRef) bool { return f.Name == c.Files[0] })
	m.Files, c.Files, c.Values = append(m.Files, store.Ref(name, info)), []string{name}, nil
	if err := w.Commit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}
