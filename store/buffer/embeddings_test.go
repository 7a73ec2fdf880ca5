package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

var ctx = context.Background()

func TestMain(m *testing.M) { storetest.Main(m, nil) }

// mirror is what a table's rows must be: by internal id and plane, [nodes × dim].
type mirror [][]float32

func newMirror(nodes int) mirror {
	m := mirror{make([]float32, nodes*storetest.TableDim), make([]float32, nodes*storetest.TableDim)}
	storetest.TableOptions(nil).Init(0, m[0])
	return m
}

func (m mirror) clone() mirror { return mirror{slices.Clone(m[0]), slices.Clone(m[1])} }

// train checks the rows of a macro-batch and changes each, in memory and in m.
func (m mirror) train(mb *buffer.MacroBatch, by float32) error {
	for _, p := range mb.Partitions {
		for k := range int(p.Nodes) {
			for plane := range m {
				row := mb.Planes[plane][(int(p.Base)+k)*storetest.TableDim:][:storetest.TableDim]
				want := m[plane][(int(p.First)+k)*storetest.TableDim:][:storetest.TableDim]
				if !slices.Equal(row, want) {
					return fmt.Errorf("step %d, plane %d of node %d is %v, expected %v", mb.StepIndex, plane, int(p.First)+k, row, want)
				}
				for i := range row {
					row[i] += by * float32(plane+1)
					want[i] = row[i]
				}
			}
		}
	}
	return nil
}

// check compares the table with m.
func (m mirror) check(tab *table.Table, bufs [][][]byte, first []uint64) error {
	for p := range tab.Partitions() {
		if err := tab.Read(ctx, store.PartitionID(p), bufs[p]...); err != nil {
			return err
		}
		for plane := range m {
			want := m[plane][int(first[p])*storetest.TableDim : int(first[p+1])*storetest.TableDim]
			if got := floats(bufs[p][plane])[:len(want)]; !slices.Equal(got, want) {
				return fmt.Errorf("partition %d plane %d differs", p, plane)
			}
		}
	}
	return nil
}

func swapPlan(rng *rand.Rand, p, capacity, steps int) buffer.Plan {
	plan := buffer.Plan{Policy: "comet", Capacity: capacity}
	for range steps {
		var s buffer.Step
		for _, i := range rng.Perm(p)[:1+rng.IntN(capacity)] {
			s.Resident = append(s.Resident, store.PartitionID(i))
		}
		slices.Sort(s.Resident)
		plan.Steps = append(plan.Steps, s)
	}
	return plan
}

// Rows change in memory in any order of partitions, epochs are broken off or
// begun in the middle, checkpoints are made between any two steps: storetest.Every step finds
// the newest rows, and the table holds those of the last checkpoint.
func TestEmbeddingBuffer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := storetest.Random(storetest.Options{Seed: seed, Nodes: 300 + rng.IntN(3000), Partitions: 3 + rng.IntN(6)})
		s := storetest.Open(t, storetest.Create(t, g), store.Options{})
		to := storetest.TableOptions(nil)
		to.Keep = 1 + int(seed%3)
		tab, err := table.Create(ctx, s, to)
		if err != nil {
			t.Fatal(err)
		}
		p := len(g.Sizes)
		capacity := 1 + rng.IntN(p-1)
		o := buffer.Options{Table: tab, Capacity: capacity, Swap: rng.IntN(3), Threads: 2, EngineName: []string{"auto", "pread", "mmap"}[seed%3]}
		o.Swap = max(o.Swap, capacity) // any partition may leave
		if seed == 7 {
			o.Capacity, capacity = 0, p
		}
		if seed%2 == 0 && o.Capacity > 0 { // the smallest buffer: storetest.Every step evicts
			var budget *buffer.BudgetError
			o.MemoryBytes = 1
			if _, err := buffer.Open(ctx, s, o); !errors.As(err, &budget) {
				t.Fatalf("a buffer of a byte: %v", err)
			}
			o.MemoryBytes = budget.NeedBytes
		}
		it, err := buffer.Open(ctx, s, o)
		if err != nil {
			t.Fatal(err)
		}
		first := g.Firsts()
		m := newMirror(int(first[p]))
		saved := m.clone()
		bufs := storetest.AllPlanes(t, tab)
		flushed := false
		for epoch := range 6 {
			plan := swapPlan(rng, p, capacity, 2+rng.IntN(8))
			if o.Capacity == 0 {
				for i := range plan.Steps {
					plan.Steps[i].Resident = plan.Steps[i].Resident[:0]
					for q := range p {
						plan.Steps[i].Resident = append(plan.Steps[i].Resident, store.PartitionID(q))
					}
				}
			}
			begin := 0
			if epoch%3 == 1 {
				begin = rng.IntN(len(plan.Steps))
			}
			if err := it.StartAt(plan, begin); err != nil {
				t.Fatal(err)
			}
			broken := epoch%2 == 1
			for k := begin; it.Next(); k++ {
				if got := it.MacroBatch().StepIndex; got != k {
					t.Fatalf("step %d, expected %d", got, k)
				}
				if err := m.train(it.MacroBatch(), float32(epoch+1)); err != nil {
					t.Fatalf("seed %d epoch %d: %v", seed, epoch, err)
				}
				if rng.IntN(4) == 0 {
					if err := it.Checkpoint(ctx, table.Blob{Name: "plan", Data: []byte{byte(k)}}); err != nil {
						t.Fatal(err)
					}
					saved = m.clone()
					if err := m.train(it.MacroBatch(), .5); err != nil { // the step goes on
						t.Fatal(err)
					}
				}
				if broken && k > begin {
					break
				}
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				flushed = true
				if err := it.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				if err := m.check(tab, bufs, first); err != nil {
					t.Fatalf("seed %d epoch %d, flushed: %v", seed, epoch, err)
				}
			}
		}
		st := it.TableStats()
		if o.MemoryBytes > 0 && st.EvictedBytes == 0 || st.EvictedBytes < st.ChangedBytes || flushed != (st.FlushedBytes > 0) && st.Checkpoints == 0 {
			t.Errorf("seed %d: stats %+v", seed, st)
		}
		if err := errors.Join(it.Close(), tab.Close()); err != nil {
			t.Fatal(err)
		}
		if tab, err = table.Open(ctx, s, storetest.TableOptions(nil)); err != nil {
			t.Fatal(err)
		}
		if err := saved.check(tab, bufs, first); err != nil {
			t.Errorf("seed %d: reopened: %v", seed, err)
		}
		if n := len(tab.Checkpoints()); n > to.Keep {
			t.Errorf("%d checkpoints are kept, expected at most %d", n, to.Keep)
		}
		if err := tab.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Every kept checkpoint can be gone back to, and training goes on from there.
func TestTableKeepsCheckpoints(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 3})), store.Options{})
	o := storetest.TableOptions(nil)
	o.Keep = 3
	tab, err := table.Create(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	rounds := map[uint64]int{1: -1}
	for round := range 5 {
		if err := storetest.WriteRound(tab, bufs, round); err != nil {
			t.Fatal(err)
		}
		if err := tab.Checkpoint(ctx, table.Blob{Name: "round", Data: []byte{byte(round)}}); err != nil {
			t.Fatal(err)
		}
		rounds[tab.LastCheckpoint().Number] = round
	}
	open := func(number uint64) error {
		t.Helper()
		if err := tab.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Fatal(err)
		}
		o.Checkpoint = number
		was := tab
		if tab, err = table.Open(ctx, s, o); err != nil {
			tab = was
			return err
		}
		round, err := storetest.RoundOf(tab, bufs)
		if err != nil {
			t.Fatal(err)
		}
		last := tab.LastCheckpoint()
		if number == 0 {
			number = last.Number
		}
		blob, err := tab.Blob(ctx, "round")
		if err != nil || round != rounds[number] || last.Number != number || int(blob[0]) != round {
			t.Fatalf("checkpoint %d: round %d, number %d, blob %v, %v; expected round %d", number, round, last.Number, blob, err, rounds[number])
		}
		return nil
	}
	if err := open(0); err != nil {
		t.Fatal(err)
	}
	if n := len(tab.Checkpoints()); n != 3 {
		t.Fatalf("%d checkpoints are kept, expected 3", n)
	}
	if err := open(3); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "from 4 to 6") {
		t.Fatalf("a checkpoint that is not kept: %v", err)
	}
	if err := open(5); err != nil {
		t.Fatal(err)
	}
	if err := storetest.WriteRound(tab, bufs, 77); err != nil { // forgotten
		t.Fatal(err)
	}
	if err := open(0); err != nil { // 6 is gone
		t.Fatal(err)
	}
	if err := open(4); err != nil {
		t.Fatal(err)
	}
	if err := storetest.WriteRound(tab, bufs, 9); err != nil {
		t.Fatal(err)
	}
	if err := tab.Checkpoint(ctx, table.Blob{Name: "round", Data: []byte{9}}); err != nil {
		t.Fatal(err)
	}
	rounds[5] = 9
	if err := open(0); err != nil {
		t.Fatal(err)
	}
	if err := open(4); err != nil {
		t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
}

// bufferRun trains two epochs on a table from its last checkpoint on, whose blob is how often storetest.Every row
// was trained, with a checkpoint an epoch.
func bufferRun(fs vfs.FS, m mirror) (err error) {
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tab.Close()) }()
	it, err := buffer.Open(ctx, s, buffer.Options{Table: tab, Capacity: 1, Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	blob, err := tab.Blob(ctx, "model")
	if err != nil {
		return err
	}
	var done int
	if _, err := fmt.Sscan(string(blob), &done); err != nil {
		return err
	}
	plan := buffer.Plan{Policy: "comet", Capacity: 1}
	for p := range tab.Partitions() {
		plan.Steps = append(plan.Steps, buffer.Step{Resident: []store.PartitionID{store.PartitionID(p)}})
	}
	for epoch := done; epoch < 3; epoch++ {
		if err := it.Start(plan); err != nil {
			return err
		}
		for it.Next() {
			if err := m.train(it.MacroBatch(), 1); err != nil {
				return err
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
		if err := it.Checkpoint(ctx, table.Blob{Name: "model", Data: fmt.Append(nil, epoch+1)}); err != nil {
			return err
		}
	}
	return nil
}

// bufferDisk is a crashable disk with a store and a table that was never trained.
func bufferDisk(t *testing.T) (mem *vfs.MemFS, nodes int) {
	t.Helper()
	mem = storetest.NewDisk(t)
	if err := storetest.CommitOn(mem, storetest.Tiny(1), true); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(storetest.CrashDir, store.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err == nil {
		err = errors.Join(tab.Checkpoint(ctx, table.Blob{Name: "model", Data: []byte("0")}), tab.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return mem, int(s.Manifest().Nodes)
}

// goesOn runs on from what fs holds and checks that the result is an undisturbed run's.
func goesOn(t *testing.T, fs vfs.FS, nodes int, when string) {
	t.Helper()
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer s.Close()
	tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	blob, err := tab.Blob(ctx, "model")
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	var done int
	if _, err := fmt.Sscan(string(blob), &done); err != nil {
		t.Fatal(err)
	}
	m := newMirror(nodes)
	for plane := range m {
		for i := range m[plane] {
			for range done {
				m[plane][i] += float32(plane + 1)
			}
		}
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if err := bufferRun(fs, m); err != nil { // storetest.Every step compares rows with the mirror
		t.Fatalf("%s, after %d epochs: %v", when, done, err)
	}
}

// A crash at any sync or write, with half of what was not synced torn off, leaves
// a checkpoint that training goes on from.
func TestEmbeddingBufferCrash(t *testing.T) {
	mem, nodes := bufferDisk(t)
	crashed := storetest.CrashPoints(t, mem, func(fs vfs.FS) error { return bufferRun(fs, newMirror(nodes)) })
	for i := 0; i < len(crashed); i += storetest.Every(3) {
		goesOn(t, crashed[i], nodes, fmt.Sprintf("crash point %d of %d", i, len(crashed)))
	}
}

// An error at any operation, once or from then on for storetest.Every write (a full disk), ends the run with
// that error and leaves a checkpoint that training goes on from.
func TestEmbeddingBufferInjectedErrors(t *testing.T) {
	base, nodes := bufferDisk(t)
	for _, full := range []bool{false, true} {
		for k := 0; ; k += storetest.Every(13) {
			fs := base.CrashClone(vfs.CrashCloneCfg{})
			var mu sync.Mutex
			n, hit := -1, false
			inject := func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				write := op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate
				if n++; n == k || full && n > k && write {
					hit = true
					return errorfs.ErrInjected
				}
				return nil
			}
			err := bufferRun(errorfs.Wrap(fs, errorfs.InjectorFunc(inject)), newMirror(nodes))
			mu.Lock()
			done := !hit
			mu.Unlock()
			if err != nil && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("operation %d: the error hides its cause: %v", k, err)
			}
			goesOn(t, fs, nodes, fmt.Sprintf("error at operation %d, full disk: %v", k, full))
			if done {
				if err != nil || k < 100 {
					t.Errorf("%d operations, %v", k, err)
				}
				break
			}
		}
	}
}

func floats(b []byte) []float32 {
	x, err := blocks.View[float32](b)
	if err != nil {
		panic(err) // the buffers are aligned
	}
	return x
}

// Making a table, replacing or dropping one, that fails at any operation leaves what can be dropped and made again.
func TestTableBeganAfresh(t *testing.T) {
	base := storetest.NewDisk(t)
	if err := storetest.CommitOn(base, storetest.Tiny(1), true); err != nil {
		t.Fatal(err)
	}
	afresh := func(fs vfs.FS) (err error) {
		s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		for k := range 3 {
			o := storetest.TableOptions(nil)
			if o.Replace = k == 2; !o.Replace {
				if err := table.Drop(ctx, storetest.CrashDir, "nodes", store.Options{FS: fs}); err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
			}
			tab, err := table.Create(ctx, s, o)
			if err != nil {
				return err
			}
			if err := tab.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	for k := 0; ; k += storetest.Every(12) {
		fs := base.CrashClone(vfs.CrashCloneCfg{})
		var mu sync.Mutex
		n := -1
		err := afresh(errorfs.Wrap(fs, errorfs.InjectorFunc(func(errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == k {
				return errorfs.ErrInjected
			}
			return nil
		})))
		mu.Lock()
		done := n < k
		mu.Unlock()
		if err := afresh(fs.CrashClone(vfs.CrashCloneCfg{})); err != nil {
			t.Fatalf("after an error at operation %d: %v", k, err)
		}
		if done {
			if err != nil || k < 100 {
				t.Errorf("%d operations, %v", k, err)
			}
			return
		}
	}
}
