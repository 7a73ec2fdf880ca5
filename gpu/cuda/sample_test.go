//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// lists is a macro-batch of random neighbour lists: a fifth of the rows has none, most have some, every thirtieth some hundreds, some of them
// several times. They lie neither in order nor without gaps.
func lists(rows int, seed uint64) *buffer.MacroBatch {
	r := keyed.New(seed).Rand(0)
	a := &buffer.Adjacency{Spans: make([]buffer.Span, rows)}
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	keyed.Shuffle(&r, order)
	for _, v := range order {
		degree := r.Below(12)
		switch {
		case v%5 == 0:
			continue
		case v%30 == 1:
			degree = 60 + r.Below(300)
		}
		begin := int64(len(a.Indices))
		for range degree {
			a.Indices = append(a.Indices, uint32(r.Below(uint64(rows))))
		}
		a.Spans[v] = buffer.Span{Begin: begin, End: int64(len(a.Indices))}
		a.Indices = append(a.Indices, make([]uint32, r.Below(3))...)
	}
	mb := &buffer.MacroBatch{Rows: rows, In: a}
	for at, i := 0, 0; at < rows; at, i = at+120, i+1 {
		mb.Partitions = append(mb.Partitions, buffer.ResidentPartition{ID: store.PartitionID(seed*100) + store.PartitionID(i), Base: uint32(at), Nodes: uint32(min(120, rows-at))})
	}
	return mb
}

// elsewhere has the partitions of a macro-batch lie in another order on the device, and returns the shifts.
func elsewhere(mb *buffer.MacroBatch) (shifts []uint32) {
	at := uint32(0)
	const group = 1 << sampling.Shift
	shifts = make([]uint32, (mb.Rows+group-1)/group)
	for i := len(mb.Partitions) - 1; i >= 0; i-- {
		p := mb.Partitions[i]
		for g := p.Base / group; g*group < p.Base+p.Nodes; g++ {
			shifts[g] = at - p.Base
		}
		at += p.Nodes
	}
	return shifts
}

// download is what lies at t.
func download[T int32 | uint32](t *testing.T, q *gpu.Queue, x gpu.Tensor) []T {
	t.Helper()
	out := make([]T, x.Cols)
	if len(out) > 0 {
		q.Download(blocks.Bytes(out), x)
	}
	must(t, q.Sync(t.Context()))
	return out
}

// TestSamplesAsTheHost: blocks that are drawn on the device are the host's, entry for entry, of macro-batches one after the other and of
// mini-batches ahead of who reads them; and what is padded on the device is what package replay pads.
func TestSamplesAsTheHost(t *testing.T) {
	must(t, open(t, Options{}).Close())
	for name, c := range map[string]struct {
		fanouts     []int
		rows, batch int
		elsewhere   bool
	}{
		"15, 10":           {[]int{15, 10}, 3000, 300, true},
		"all":              {[]int{mini.All}, 700, 100, false},
		"all, then some":   {[]int{mini.All, 3}, 700, 40, true},
		"three hops":       {[]int{4, 3, 2}, 900, 64, false},
		"some of hundreds": {[]int{100, 1}, 700, 50, false},
		"one seed":         {[]int{15, 10}, 500, 1, false},
		"all rows":         {[]int{5}, 5000, 5000, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{})
			cfg := mini.Config{Fanouts: c.fanouts, Seed: 5}
			host, err := mini.New(cfg)
			must(t, err)
			steps := []*buffer.MacroBatch{lists(c.rows, 1), lists(c.rows/2, 2), lists(c.rows, 3)}
			o := sampling.Options{Config: cfg, Rows: c.rows, Batch: c.batch}
			if c.elsewhere {
				o.Buffer = c.rows
			}
			for _, mb := range steps {
				o.Entries = max(o.Entries, int64(len(mb.In.Indices)))
			}
			before := d.AllocatedBytes()
			s, err := sampling.New(d, o)
			must(t, err)
			want, err := o.Bytes()
			if must(t, err); d.AllocatedBytes()-before != want {
				t.Errorf("%d bytes are allocated, expected %d", d.AllocatedBytes()-before, want)
			}
			q, err := gpu.NewQueue(d)
			must(t, err)
			arena, shapes, shaped, crossed := gpu.NewArena(d), replay.New(q), 0, int64(0)
			for step, mb := range steps {
				var shifts []uint32
				if c.elsewhere {
					shifts = elsewhere(mb)
				}
				places := func(rows []uint32) []uint32 {
					rows = slices.Clone(rows)
					for i, r := range rows {
						if c.elsewhere {
							rows[i] += shifts[r>>sampling.Shift]
						}
					}
					return rows
				}
				must(t, s.Enter(mb, shifts))
				must(t, s.Enter(mb, shifts)) // the same: nothing crosses
				crossed += sampling.ListBytes(mb, c.elsewhere)
				source := mini.NewShuffled(keyed.New(7), rowsOf(mb), c.batch)
				n := min(source.Batches(), sampling.Ahead+1)
				seedsOf := func(i int) []uint32 {
					seeds, err := source.Seeds(i, nil, nil)
					must(t, err)
					return seeds
				}
				drawn := 0
				for i := range n {
					for ; drawn < n && s.Room() > 0; drawn++ {
						seeds := places(seedsOf(drawn))
						must(t, s.Draw(mini.Key{Epoch: 2, Step: step, Batch: drawn}, seeds))
						clear(seeds) // they are not read later
						crossed += sampling.SeedBytes(len(seeds))
					}
					got, err := s.Next(t.Context())
					must(t, err)
					var b mini.Batch
					must(t, host.Sample(mini.Key{Epoch: 2, Step: step, Batch: i}, mini.Graph{In: mb.In}, seedsOf(i), &b))
					b.Input = places(b.Input)
					if sameBatch(t, q, arena, shapes, got, &b) {
						shaped++
					}
					s.Free(q)
				}
				must(t, s.Leave(t.Context()))
			}
			if stats := s.Stats(); stats.Bytes != crossed {
				t.Errorf("%d bytes crossed, expected %d", stats.Bytes, crossed)
			}
			if shaped == 0 && c.batch > 1 { // of one node there is no larger one in its class
				t.Error("nothing was padded")
			}
			if err := s.Draw(mini.Key{}, []uint32{3, 4, 3}); !errors.Is(err, mini.ErrSeeds) {
				t.Errorf("a seed twice: %v", err)
			}
			if err := s.Draw(mini.Key{}, []uint32{uint32(c.rows)}); !errors.Is(err, mini.ErrSeeds) {
				t.Errorf("a seed that is no row: %v", err)
			}
			must(t, errors.Join(s.Close(), arena.Close(), q.Close(), d.Close()))
		})
	}
}

// rowsOf are the rows of a macro-batch.
func rowsOf(mb *buffer.MacroBatch) []uint32 {
	rows := make([]uint32, mb.Rows)
	for i := range rows {
		rows[i] = uint32(i)
	}
	return rows
}

// sameBatch compares a mini-batch on the device with the host's, as it is and, where it reports true, padded.
func sameBatch(t *testing.T, q *gpu.Queue, a *gpu.Arena, steps *replay.Steps, got *sampling.Batch, want *mini.Batch) bool {
	t.Helper()
	same := func(what string, ok bool) {
		if !ok {
			t.Errorf("batch %d: %s is not the host's", want.Key.Batch, what)
		}
	}
	same("its input", slices.Equal(download[uint32](t, q, got.Input()), want.Input))
	z := replay.Sizes{Nodes: []int{len(want.Input)}}
	for i := range want.Blocks {
		k, g := &want.Blocks[i], got.Block(i)
		same(fmt.Sprintf("block %d's size", i), g.NumDst == k.NumDst && g.NumSrc == k.NumSrc && g.Edges() == len(k.Indices))
		if t.Failed() {
			t.FailNow()
		}
		same(fmt.Sprintf("block %d's indptr", i), slices.Equal(download[int32](t, q, g.Indptr), k.Indptr))
		same(fmt.Sprintf("block %d's indices", i), slices.Equal(download[int32](t, q, g.Indices), k.Indices))
		same(fmt.Sprintf("the degrees of block %d", i), slices.Equal(download[int32](t, q, got.Degrees(i+1)), k.Degrees))
		z.Nodes, z.Edges = append(z.Nodes, k.NumDst), append(z.Edges, len(k.Indices))
	}
	shape := steps.Shape(z)
	if shape == nil {
		return false
	}
	for i := range want.Blocks {
		k := &want.Blocks[i]
		to := gpu.Graph{NumDst: shape.Nodes[i+1], NumSrc: shape.Nodes[i], Indptr: a.Vector(q, shape.Nodes[i+1]+1, blocks.Int32), Indices: a.Vector(q, shape.Edges[i], blocks.Int32)}
		q.PadBlock(got.Block(i), to)
		indptr, indices := steps.Block(shape, i, k.NumSrc, k.Indptr, k.Indices)
		same(fmt.Sprintf("block %d, padded,", i), slices.Equal(download[int32](t, q, to.Indptr), indptr) && slices.Equal(download[int32](t, q, to.Indices), indices))
		degrees := a.Vector(q, shape.Nodes[i+1], blocks.Int32)
		q.PadNumbers(got.Degrees(i+1), degrees, 1, false)
		same(fmt.Sprintf("the degrees of block %d, padded,", i), slices.Equal(download[int32](t, q, degrees), steps.Degrees(shape, i+1, k.Degrees)))
	}
	input := a.Vector(q, shape.Nodes[0], blocks.Uint32)
	q.PadNumbers(got.Input(), input, 0, true)
	same("its input, padded,", slices.Equal(download[uint32](t, q, input), steps.Rows(shape, want.Input)))
	must(t, a.Reset())
	return true
}

// TestSamplesNoBadLists: lists that reach beyond their rows are an error, and no memory is read outside.
func TestSamplesNoBadLists(t *testing.T) {
	must(t, open(t, Options{}).Close())
	for what, spoil := range map[string]func(a *buffer.Adjacency){
		"a neighbour that is no row": func(a *buffer.Adjacency) { a.Indices[a.Spans[1].Begin] = 1 << 31 },
		"a list that ends early":     func(a *buffer.Adjacency) { a.Spans[1].Begin = a.Spans[1].End + 1 },
	} {
		d := open(t, Options{})
		mb := lists(100, 1)
		spoil(mb.In)
		s, err := sampling.New(d, sampling.Options{Config: mini.Config{Fanouts: []int{mini.All}}, Rows: 100, Entries: int64(len(mb.In.Indices)), Batch: 10})
		must(t, err)
		must(t, s.Enter(mb, nil))
		must(t, s.Draw(mini.Key{}, []uint32{0, 1, 2}))
		var bad *IndexError
		if _, err := s.Next(t.Context()); !errors.As(err, &bad) || bad.Op != "sample blocks" {
			t.Errorf("%s: %v", what, err)
		}
		_ = s.Leave(t.Context()) // says it again
		must(t, errors.Join(s.Close(), d.Close()))
	}
}

// TestTrainingDraws: parameters of a run whose mini-batches are drawn on the device have the bits of one whose host draws, in memory and out of core,
// recorded and not, whatever runs when; what crosses for blocks is what was planned, and less.
func TestTrainingDraws(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 900, Edges: 5400, Partitions: 6}))
	base := config.Config{Hidden: 8, BatchSize: 10, Epochs: 2, EvalEvery: 2, Split: "split", Threads: 1, Fanouts: []int{6, 4}, Absent: config.AbsentIgnore, DevicePlan: "mirror"}
	for name, change := range map[string]func(c *config.Config){
		"sage":             func(c *config.Config) { c.DevicePlan = "auto" },
		"sage, one by one": func(c *config.Config) { c.RecordSteps = "off" },
		"sage, hanoi":      func(c *config.Config) { c.Plan, c.Buffer, c.Mixture = "hanoi", 2, config.MixtureRandom },
		"sage, accumulate": func(c *config.Config) { c.Accumulate = 2 },
		"gcn, all":         func(c *config.Config) { c.Model, c.Fanouts = "gcn", []int{3, -1} },
		"gat, hanoi": func(c *config.Config) {
			c.Model, c.Heads, c.Plan, c.Buffer = "gat", 2, "hanoi", 3
		},
		"gin": func(c *config.Config) { c.Model = "gin" },
		"sage max, 3 layers, passes": func(c *config.Config) {
			c.Aggregator, c.Layers, c.Fanouts, c.Plan, c.Buffer, c.Reuse = "max", 3, []int{4, 3, 2}, "hanoi", 2, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			change(&c)
			run := func(on string) (string, []train.Epoch) {
				c.SampleOn = on
				cp, epochs, err := trainNode(t, dir, open(t, Options{}), c)
				must(t, err)
				return fmt.Sprint(cp.Params, cp.Summary.TrainLoss, cp.Summary.TestAccuracy, cp.Summary.SampledEdges), epochs
			}
			want, plain := run("host")
			got, epochs := run("device")
			if got != want {
				t.Error("other parameters than where the host draws")
			}
			st, err := store.Open(dir, store.Options{})
			must(t, err)
			defer st.Close()
			p := c
			must(t, p.Normalize())
			if p.Plan == "auto" {
				p.Plan = "memory"
			}
			plan, err := ondevice.Choose(&p, t.Context(), st, gpu.Info{Name: "test", MemoryBytes: 1 << 33, Samples: true}, 1000)
			must(t, err)
			for i, e := range epochs {
				less := c.Plan == "" && i > 0 || c.Layers == 3 // here: lists have crossed, or there are many blocks
				t.Logf("epoch %d: %d bytes for blocks, %d where the host draws; %d waits, %d there; %d of %d batches replayed", i+1, e.DeviceBlockBytes, plain[i].DeviceBlockBytes, e.DeviceWaits, plain[i].DeviceWaits, e.ReplayedBatches, e.Batches)
				if e.DeviceBlockBytes == 0 || less && e.DeviceBlockBytes >= plain[i].DeviceBlockBytes || e.DeviceSampleSeconds <= 0 || plain[i].DeviceSampleSeconds != 0 || (e.ReplayedBatches == 0) != (plain[i].ReplayedBatches == 0) {
					t.Errorf("epoch %d: %+v, where the host draws %+v", i+1, e.DeviceTimes, plain[i].DeviceTimes)
				}
			}
			if c.Reuse == 0 && (!plan.Cost.Drawn || plan.Cost.BlockBytes != epochs[0].DeviceBlockBytes) {
				t.Errorf("planned %+v, %d bytes crossed", plan.Cost, epochs[0].DeviceBlockBytes)
			}
		})
	}
	for _, schedule := range []string{"lazy", "random:1", "random:2", "threads"} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		c := base
		c.Plan, c.Buffer, c.SampleOn = "hanoi", 2, "device"
		cp, _, err := trainNode(t, dir, open(t, Options{}), c)
		must(t, err)
		c.SampleOn = "host"
		want, _, err := trainNode(t, dir, open(t, Options{}), c)
		must(t, err)
		if fmt.Sprint(cp.Params) != fmt.Sprint(want.Params) {
			t.Errorf("%s: other parameters than where the host draws", schedule)
		}
	}
}

// tight is a device that has no memory left, once it is told, until something that was allocated is freed.
type tight struct {
	*Device
	full int64 // bytes that were allocated when it was told; 0: it was not
}

func (d *tight) Alloc(bytes int64) (gpu.Memory, error) {
	if used := d.AllocatedBytes(); d.full > 0 && used >= d.full {
		return nil, &MemoryError{Device: d.name, AskedBytes: bytes, UsedBytes: used, BoundBytes: used, FreeBytes: -1}
	}
	d.full = 0
	return d.Device.Alloc(bytes)
}

// TestDrawingGivesWay: where the device's memory does not do for evaluation beside rows and neighbour lists, they are given up, the host draws, and
// losses stay the same.
func TestDrawingGivesWay(t *testing.T) {
	must(t, open(t, Options{}).Close())
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	run := func(tightens bool) (losses []float64, drawn []bool) {
		st, err := store.Open(dir, store.Options{})
		must(t, err)
		d := &tight{Device: open(t, Options{})}
		c := config.Config{Hidden: 8, BatchSize: 30, Fanouts: []int{3, 2}, Epochs: 3, Split: "split", Threads: 1, DevicePlan: "mirror", SampleOn: "device"}
		_, err = train.Node(t.Context(), st, d, c, train.Hooks{
			Batch: func(epoch int, _ int64) {
				if tightens && epoch == 0 {
					d.full = d.AllocatedBytes()
				}
			},
			Epoch: func(e train.Epoch) { losses, drawn = append(losses, e.Loss), append(drawn, e.DeviceSampleSeconds > 0) }})
		must(t, errors.Join(err, st.Close(), d.Close()))
		return losses, drawn
	}
	want, drawn := run(false)
	if fmt.Sprint(drawn) != "[true true true]" {
		t.Errorf("the device draws in epochs %v", drawn)
	}
	if got, drawn := run(true); fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(drawn) != "[true false false]" {
		t.Errorf("losses %v, the device draws in epochs %v; with memory enough %v", got, drawn, want)
	}
}
