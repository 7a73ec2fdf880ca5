//go:build linux

package buffer

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// benchGraph writes a topology of p partitions of n nodes with degree edges a
// node, of which local stay in the dst's partition.
func benchGraph(b *testing.B, p, n, degree int, local float64, undirected bool) *toyStore {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(p*n)))
	s := &toyStore{dir: b.TempDir(), files: map[string]*blocks.File{}, m: &store.Manifest{}}
	sizes := make([]uint32, p)
	for i := range sizes {
		sizes[i] = uint32(n)
		s.m.Partitions = append(s.m.Partitions, store.PartitionInfo{First: store.NodeID(i * n), Nodes: uint64(n)})
	}
	s.m.Nodes = uint64(p * n)
	s.m.Schema = store.Schema{NodeTypes: []store.NodeType{{}}, Relations: []store.Relation{{}}, Undirected: undirected}
	w, err := blocks.Create(vfs.Default, filepath.Join(s.dir, "topology.gsb"), blocks.Header{Kind: blocks.Topology, Partitions: uint32(p)})
	if err != nil {
		b.Fatal(err)
	}
	enc := blocks.NewStripeEncoder(w, sizes)
	fail := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	for j := range p {
		fail(w.Begin(uint64(j)))
		fail(enc.Begin(store.PartitionID(j)))
		for i := range p {
			edges := int(float64(n*degree) * (1 - local) / float64(p))
			if i == j {
				edges += int(float64(n*degree) * local)
			}
			if undirected && i > j {
				edges = 0
			}
			keys := make([]uint64, edges)
			for k := range keys {
				d := rng.Uint32N(uint32(n))
				if rng.Uint32N(2) == 0 {
					d = uint32(float64(n) * rng.Float64() * rng.Float64() * rng.Float64()) // skewed
				}
				v := rng.Uint32N(uint32(n))
				if undirected && i == j {
					v = rng.Uint32N(d + 1)
				}
				keys[k] = blocks.EdgeKey(d, v)
			}
			slices.Sort(keys)
			if undirected {
				keys = slices.Compact(keys)
			}
			fail(enc.Bucket(store.PartitionID(i), keys))
		}
		edges, err := enc.End()
		fail(err)
		fail(w.End(edges))
		s.m.Partitions[j].Edges = edges
		s.m.Edges += edges
	}
	_, err = w.Close()
	fail(err)
	s.m.Topology = []string{"topology.gsb"}
	// External ids take turns over the partitions, as with random partitions, and ascend within one.
	w, err = blocks.Create(vfs.Default, filepath.Join(s.dir, "external.gsb"), blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1})
	fail(err)
	for q := range p {
		ids := make([]uint64, n)
		for k := range ids {
			ids[k] = uint64(k*p + q)
		}
		fail(w.Append(uint64(q), uint64(n), blocks.Bytes(ids)))
	}
	_, err = w.Close()
	fail(err)
	s.m.IDs = store.IDInfo{Kind: store.IDsIntegers, External: []string{"external.gsb"}}
	b.Cleanup(s.close)
	return s
}

// BenchmarkAssemble measures edges per CPU second, counting every edge of
// every direction made. "swap" replaces one of the resident partitions.
func BenchmarkAssemble(b *testing.B) {
	for _, c := range []struct {
		name             string
		p, n, degree     int
		local            float64
		undirected, both bool
		swap             bool
		capacity         int
	}{
		{"in/narrow", 16, 60000, 16, 0, false, false, false, 8},
		{"in/clustered", 16, 60000, 16, .6, false, false, false, 8},
		{"in/wide", 4, 500000, 16, 0, false, false, false, 3},
		{"both/narrow", 16, 60000, 16, 0, false, true, false, 8},
		{"undirected/narrow", 16, 60000, 8, 0, true, false, false, 8},
		{"undirected/wide", 4, 500000, 8, 0, true, false, false, 3},
		{"swap/narrow", 16, 60000, 16, 0, false, false, true, 8},
		{"swap/dense", 16, 60000, 64, 0, false, false, true, 8},
		{"swap/of32", 64, 15000, 16, 0, false, false, true, 32},
		{"swap/undirected", 16, 60000, 8, 0, true, false, true, 8},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchGraph(b, c.p, c.n, c.degree, c.local, c.undirected)
			engine, _, err := blockio.New("pread", blockio.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer engine.Close()
			it, err := newBuffer(b.Context(), s.m, s, Options{Engine: engine, Capacity: c.capacity, Both: c.both, Threads: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer it.Close()
			var first, second Step
			for q := range c.capacity {
				first.Resident = append(first.Resident, store.PartitionID(q))
			}
			second.Resident = slices.Clone(first.Resident)
			second.Resident[c.capacity-1]++
			if !c.swap {
				second.Resident = []store.PartitionID{store.PartitionID(c.p - 1)}
				first, second = second, first
			}
			steps, err := it.schedule(0, &Plan{Steps: []Step{first, second}}, 0)
			if err != nil {
				b.Fatal(err)
			}
			var cpu float64
			assemble := func(s *scheduled, last int) assembleStats {
				staging := it.buf.bytes(it.buf.staging)
				t := planTopology(it.src, it.layout, &it.o, s)
				b.StopTimer()
				if err := it.transfer(b.Context(), t.transfers(staging, it.o.RequestBytes), it.stats.step(s)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				before := threadSeconds(b)
				st, err := it.asm.assemble(context.Background(), s, t, staging, last)
				if err != nil {
					b.Fatal(err)
				}
				cpu += threadSeconds(b) - before
				return st
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			assemble(steps[0], 0)
			cpu = 0
			b.ResetTimer()
			var st assembleStats
			for range b.N {
				st = assemble(steps[1], steps[0].frame)
			}
			seconds := cpu / float64(b.N)
			b.ReportMetric(float64(st.edges)/seconds/1e6, "Medges/cpu-s")
			b.ReportMetric(seconds*1e3, "cpu-ms")
			b.ReportMetric(float64(st.newEdges)/1e6, "Mnew")
			b.ReportMetric(float64(st.edges)/1e6, "Medges")
		})
	}
}

// BenchmarkOrder measures, on one thread, what plan "memory" takes beyond assembly: external ids are put in order, and then
// every row's neighbours.
func BenchmarkOrder(b *testing.B) {
	for _, c := range []struct {
		name         string
		p, n, degree int
		undirected   bool
	}{
		{"directed", 8, 125_000, 15, false},
		{"undirected", 8, 125_000, 8, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchGraph(b, c.p, c.n, c.degree, 0, c.undirected)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var ids, lists float64
			var st assembleStats
			for range b.N {
				before := threadSeconds(b)
				it, err := newBuffer(b.Context(), s.m, s, Options{EngineName: "pread", Threads: 1})
				if err != nil {
					b.Fatal(err)
				}
				ids += threadSeconds(b) - before
				var all Step
				for q := range c.p {
					all.Resident = append(all.Resident, store.PartitionID(q))
				}
				steps, err := it.schedule(0, &Plan{Steps: []Step{all}}, 0)
				if err != nil {
					b.Fatal(err)
				}
				staging := it.buf.bytes(it.buf.staging)
				t := planTopology(it.src, it.layout, &it.o, steps[0])
				if err := it.transfer(b.Context(), t.transfers(staging, it.o.RequestBytes), it.stats.step(steps[0])); err != nil {
					b.Fatal(err)
				}
				if st, err = it.asm.assemble(b.Context(), steps[0], t, staging, 0); err != nil {
					b.Fatal(err)
				}
				before = threadSeconds(b)
				if err := it.orderByExternal(b.Context(), steps[0].frame); err != nil {
					b.Fatal(err)
				}
				lists += threadSeconds(b) - before
				if err := it.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(ids/float64(b.N)*1e3, "open-cpu-ms")
			b.ReportMetric(lists/float64(b.N)*1e3, "lists-cpu-ms")
			b.ReportMetric(float64(st.edges)/1e6, "Medges")
		})
	}
}

// threadSeconds is the CPU time of this thread: machines are shared.
func threadSeconds(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
