package main

import (
	"fmt"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// What a run leaves of a machine's memory, and how much faster n cores are than one.
const (
	memoryShare = .8 // of memory that gstore is given
	bufferShare = .7 // of that, the buffer of partitions or rows; the rest are mini-batches, the model and evaluation
	coresWell   = .85
	packSeconds = .7e-9 // that plan rows takes to lay a byte aside, on two cores
)

// epoch is what one epoch of a graph costs on so many machines.
type epoch struct {
	plan        string
	first, next timeline // of a store that is at the object store at first, and of the epochs after
	memory      float64  // bytes a machine
}

// plans foretells the plans that train a graph on machines of a kind.
func plans(g *graph, m *machine, machines int) ([]epoch, error) {
	room := m.memory * memoryShare * bufferShare
	if g.links {
		e, err := cometEpoch(g, m, machines, room)
		return []epoch{e}, err
	}
	whole := g.nodes*g.rowBytes() + g.topology()
	if whole <= room {
		return []epoch{memoryEpoch(g, m, machines, whole)}, nil
	}
	hanoi, err := hanoiEpoch(g, m, machines, room)
	if err != nil {
		return nil, err
	}
	es := []epoch{hanoi}
	if g.topology() < room/2 {
		es = append(es, rowsEpoch(g, m, machines, room))
	}
	return es, nil
}

// batchSeconds is a mini-batch on the machine.
func (g *graph) batchSeconds(m *machine) float64 {
	return g.measured.batch * g.measured.cores / (m.cores * coresWell)
}

// ranked replays an epoch of ranks: each has its own steps. fresh says whether all that is read comes from the object store first.
func ranked(g *graph, m *machine, steps [][]step, fresh bool) timeline {
	var ts []timeline
	for _, s := range steps {
		if !fresh {
			s = append([]step(nil), s...)
			for i := range s {
				s[i].served = 0
			}
		}
		ts = append(ts, replay(m, s))
	}
	return together(ts, m, g.batches()/float64(len(steps)), g.gradientBytes())
}

// memoryEpoch: each rank has the graph, and its share of the seeds.
func memoryEpoch(g *graph, m *machine, machines int, whole float64) epoch {
	load := step{read: g.stored(), requests: g.stored() / servedBytes, served: g.stored(), alone: true}
	work := step{compute: g.batchSeconds(m) * g.batches() / float64(machines)}
	var first, next [][]step
	for range machines {
		first, next = append(first, []step{load, work}), append(next, []step{work})
	}
	return epoch{"memory", ranked(g, m, first, true), ranked(g, m, next, false), whole}
}

// rowsEpoch: each rank has the topology, and reads all columns once for every window of its mini-batches, whose rows it writes and reads again.
func rowsEpoch(g *graph, m *machine, machines int, room float64) epoch {
	columns := g.nodes * g.rowBytes()
	batches := g.batches() / float64(machines)
	rows := batches * g.batchRows()
	// A window is as large as its temporary file may be: half of the disk that the columns leave, by the bytes.
	window := max(1, (m.diskBytes-g.stored())/2/g.rowBytes())
	r := packed{RowBytes: g.rowBytes(), Window: window, Used: rows}
	steps := r.windows(columns, g.batchSeconds(m)*batches, packSeconds*g.rowBytes()*2/(m.cores*coresWell))
	steps[0].served = g.stored()
	var all [][]step
	for range machines {
		all = append(all, steps)
	}
	return epoch{"rows", ranked(g, m, all, true), ranked(g, m, all, false), g.topology() + room/4}
}

// hanoiEpoch: partitions are dealt to ranks by the product's own plan.
func hanoiEpoch(g *graph, m *machine, machines int, room float64) (epoch, error) {
	a := macro.Advise(macro.Graph{Nodes: uint64(g.nodes), Edges: uint64(g.edges), NodeBytes: int(g.rowBytes()), EdgeBytes: edgeBytes, MemoryBytes: int64(room / 2)})
	p := max(a.Partitions, 4*machines*max(a.Capacity, 1))
	// Two macro-batches are in memory, and the edges within one, which the share of pairs makes few.
	c := max(1, int(room/2/(g.nodes/float64(p)*g.rowBytes()+g.topology()/float64(p))))
	c = min(c, p/machines) // each rank has a step at least, or all would read all
	policy, err := macro.New(macro.Config{Policy: macro.Hanoi, Partitions: p, Capacity: c, Seed: 1})
	if err != nil {
		return epoch{}, fmt.Errorf("%s: %w", g.name, err)
	}
	steps, err := dealt(g, m, machines, policy.Epoch(0), p, nil)
	if err != nil {
		return epoch{}, err
	}
	used := float64(2*c) * (g.nodes*g.rowBytes() + g.topology()) / float64(p)
	return epoch{"hanoi", ranked(g, m, steps, true), ranked(g, m, steps, false), used}, nil
}

// cometEpoch: a rank's partitions of the table are read, trained and written back; between two rounds they are handed over by the object store.
func cometEpoch(g *graph, m *machine, machines int, room float64) (epoch, error) {
	a := macro.Advise(macro.Graph{Nodes: uint64(g.nodes), Edges: uint64(g.edges), NodeBytes: int(g.rowBytes()), EdgeBytes: edgeBytes, MemoryBytes: int64(room), Link: true})
	p, c := min(a.Partitions, 512), 0
	part := g.nodes * g.rowBytes() / float64(p)
	for n := 2; n <= p && float64(n)*part+float64(n*n)*g.edges*8/float64(p*p) <= room; n++ {
		c = n
	}
	if c < 2 {
		return epoch{}, fmt.Errorf("%s: two of %d partitions do not fit %.0f GiB", g.name, p, room/(1<<30))
	}
	logical := max(2, 4*p/c)
	for p%logical != 0 {
		logical--
	}
	policy, err := macro.New(macro.Config{Policy: macro.Comet, Link: true, Partitions: p, Capacity: c, Logical: min(logical, p), Seed: 1})
	if err != nil {
		return epoch{}, fmt.Errorf("%s: %w", g.name, err)
	}
	edges := func(buffer.BucketID) uint64 { return uint64(g.edges / float64(p) / float64(p)) }
	steps, err := dealt(g, m, machines, policy.Epoch(0), p, edges)
	if err != nil {
		return epoch{}, err
	}
	return epoch{"comet", ranked(g, m, steps, true), ranked(g, m, steps, false), float64(c)*part + float64(c*c)*g.edges*8/float64(p*p)}, nil
}

// dealt is a plan's steps, of each rank.
func dealt(g *graph, m *machine, machines int, plan buffer.Plan, p int, edges func(buffer.BucketID) uint64) (all [][]step, err error) {
	nodes := make([]uint64, p)
	for k := range nodes {
		nodes[k] = uint64(g.training / float64(p))
	}
	columns, bucket := g.nodes/float64(p)*g.rowBytes(), g.edges*edgeBytes/float64(p)/float64(p)
	for rank := range machines {
		r := macro.Ranks{Rank: rank, World: machines, Nodes: nodes, Edges: edges, BatchSize: perBatch}
		deal, err := r.Deal(plan)
		if err != nil {
			return nil, err
		}
		var steps []step
		var before map[store.PartitionID]bool
		seen := map[store.PartitionID]bool{}
		for _, s := range deal.Plan.Steps {
			now := map[store.PartitionID]bool{}
			loads, fresh, kept := 0., 0., 0.
			for _, id := range s.Resident {
				now[id] = true
				if before[id] {
					kept++
					continue
				}
				loads++
				if !seen[id] {
					fresh, seen[id] = fresh+1, true
				}
			}
			pairs := float64(len(now)*len(now)) - kept*kept
			x := step{read: loads*columns + pairs*bucket, requests: loads + pairs, served: fresh * (columns + bucket*float64(p))}
			if g.links {
				x.written = loads * columns
				trained := 0.
				for _, b := range s.Buckets {
					trained += float64(edges(b))
				}
				x.compute = trained / perBatch * g.batchSeconds(m)
			} else {
				x.compute = float64(len(s.Train)) * g.training / float64(p) / perBatch * g.batchSeconds(m)
			}
			x.compute /= float64(deal.Every)
			steps, before = append(steps, x), now
		}
		all = append(all, steps)
	}
	return all, nil
}
