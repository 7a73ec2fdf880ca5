package macro

import (
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
)

func TestChoose(t *testing.T) {
	// 10 bytes a partition; everything at once 300 bytes for 30 partitions.
	linear := func(p, pinned int) func(int) (int64, error) {
		return func(c int) (int64, error) {
			if c == 0 {
				c = p - pinned
			}
			return int64(10 * (c + pinned)), nil
		}
	}
	tests := []struct {
		name     string
		t        Tuning
		policy   string
		capacity int
		logical  int
		why      string
		double   bool // reading ahead takes as much again
	}{
		{"no bound", Tuning{Config: Config{Partitions: 30}}, Memory, 0, 0, "no bound was given", false},
		{"fits", Tuning{Config: Config{Partitions: 30}, MemoryBytes: 300}, Memory, 0, 0, "everything is in memory", false},
		{"node", Tuning{Config: Config{Partitions: 30}, MemoryBytes: 109}, Hanoi, 10, 0, "node task: hanoi", false},
		{"node, one byte short of all", Tuning{Config: Config{Partitions: 30}, MemoryBytes: 299}, Hanoi, 29, 0, "30 would take", false},
		{"hubs", Tuning{Config: Config{Partitions: 30, Pinned: []store.PartitionID{29}}, MemoryBytes: 110, Train: make30(1)}, Hanoi, 10, 0, "1 pinned partitions of hubs", false},
		{"training nodes pinned", Tuning{Config: Config{Partitions: 30, Pinned: []store.PartitionID{0, 1}}, MemoryBytes: 100, Train: append([]uint64{4, 5}, make30(0)[2:]...)}, TrainNodes, 8, 0, "all training nodes", false},
		{"training nodes pinned, no room is kept for the next epoch", Tuning{Config: Config{Partitions: 30, Pinned: []store.PartitionID{28, 29}}, MemoryBytes: 100, Train: append(make30(0)[:28], 4, 5)}, TrainNodes, 8, 0, "those of the next epoch read after it", true},
		{"hubs, room for the next step", Tuning{Config: Config{Partitions: 30, Pinned: []store.PartitionID{28, 29}}, MemoryBytes: 100, Train: make30(1)}, Hanoi, 4, 0, "with the next step's", true},
		{"hubs, trainnodes asked", Tuning{Config: Config{Policy: TrainNodes, Partitions: 30, Pinned: []store.PartitionID{29}}, MemoryBytes: 110, Train: make30(1)}, TrainNodes, 10, 0, "training nodes lie outside", false},
		{"training nodes pinned, of another split", Tuning{Config: Config{Policy: TrainNodes, Partitions: 30, Pinned: []store.PartitionID{29}}, MemoryBytes: 110}, TrainNodes, 10, 0, "training nodes lie outside", false},
		{"link", Tuning{Config: Config{Partitions: 30, Link: true}, MemoryBytes: 100}, Comet, 10, 15, "5 of them in memory at a time", false},
		{"asked capacity", Tuning{Config: Config{Partitions: 30, Capacity: 3}, MemoryBytes: 1000}, Hanoi, 3, 0, "as asked", false},
		{"asked policy", Tuning{Config: Config{Policy: Beta, Partitions: 30}, MemoryBytes: 55}, Beta, 5, 0, "policy beta, as asked", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.t.LeastBytes = linear(30, len(tt.t.Pinned))
			if tt.double {
				tt.t.DoubleBytes = func(c, _ int) (int64, error) { return int64(10 * (2*c + len(tt.t.Pinned))), nil }
			}
			c, err := Choose(tt.t)
			if err != nil {
				t.Fatal(err)
			}
			if c.Policy != tt.policy || c.Capacity != tt.capacity || c.Logical != tt.logical {
				t.Errorf("chose %s, %d at a time, %d logical; want %s, %d, %d", c.Policy, c.Capacity, c.Logical, tt.policy, tt.capacity, tt.logical)
			}
			if why := strings.Join(c.Why, "; "); !strings.Contains(why, tt.why) {
				t.Errorf("why: %s; want %q in it", why, tt.why)
			}
			policy, err := New(c.Config)
			if err != nil {
				t.Fatalf("New refuses the choice: %v", err)
			}
			// Every training node is trained, whatever was chosen or asked for.
			trained := map[store.PartitionID]int{}
			for _, s := range policy.Epoch(0).Steps {
				for _, p := range s.Train {
					trained[p]++
				}
			}
			for p, n := range tt.t.Train {
				if n > 0 && trained[store.PartitionID(p)] != 1 {
					t.Errorf("partition %d with %d training nodes is trained %d times", p, n, trained[store.PartitionID(p)])
				}
			}
		})
	}
	for name, bad := range map[string]Tuning{
		"nothing fits":   {Config: Config{Partitions: 30}, MemoryBytes: 9},
		"one of a pair":  {Config: Config{Partitions: 30, Link: true}, MemoryBytes: 19},
		"memory asked":   {Config: Config{Policy: Memory, Partitions: 30}, MemoryBytes: 299},
		"asked capacity": {Config: Config{Partitions: 30, Capacity: 5}, MemoryBytes: 49},
		"pinned":         {Config: Config{Partitions: 30, Pinned: []store.PartitionID{28, 29}}, MemoryBytes: 29, Train: append(make30(0)[:28], 4, 5)},
	} {
		bad.LeastBytes = linear(30, len(bad.Pinned))
		if c, err := Choose(bad); !errors.Is(err, store.ErrBudget) || strings.Contains(err.Error(), "beside 2 pinned ones") != (name == "pinned") {
			t.Errorf("%s: %v, %+v; want ErrBudget", name, err, c)
		}
	}
}

func make30(n uint64) []uint64 {
	s := make([]uint64, 30)
	for i := range s {
		s[i] = n
	}
	return s
}

func TestAdvise(t *testing.T) {
	// Freebase86M as MariusGNN section 7 has it: 86 M nodes × 100 floats with state, 338 M edges of 20 bytes, 60 GB.
	a := Advise(Graph{Nodes: 86_054_151, Edges: 338_586_276, NodeBytes: 800, EdgeBytes: 20, MemoryBytes: 32 << 30, BlockBytes: 512 << 10, Link: true})
	if a.Partitions < 64 || a.Partitions > 256 || a.Capacity < a.Partitions/4 || a.Capacity >= a.Partitions || a.Logical != (a.Partitions+a.Capacity/4-1)/(a.Capacity/4) {
		t.Errorf("link: %+v", a)
	}
	if _, err := New(Config{Policy: Comet, Partitions: a.Partitions, Capacity: a.Capacity, Logical: a.Logical}); err != nil {
		t.Error(err)
	}
	g := Graph{Nodes: 100_000_000, Edges: 1_000_000_000, NodeBytes: 128, EdgeBytes: 4.5, MemoryBytes: 4 << 30}
	n := Advise(g)
	used := float64(n.Capacity) / float64(n.Partitions) * 2 * (float64(g.Nodes)*128 + 2*float64(g.Edges)*4.5)
	if used > float64(g.MemoryBytes) || used < .5*float64(g.MemoryBytes) || n.Hubs <= 0 || n.Hubs > .01 || n.Capacity < 48 || n.Partitions > 4096 {
		t.Errorf("node: %+v uses %.0f bytes", n, used)
	}
	if a := Advise(Graph{Nodes: 1000, Edges: 5000, NodeBytes: 100, EdgeBytes: 4, MemoryBytes: 1 << 30}); a.Partitions != 1 {
		t.Errorf("a small graph: %+v", a)
	}
	for bytes, parts := range map[int64]int{0: 1, 100_000 + 2*20_000: 1, 100_000 + 2*20_000 - 1: 2} { // no budget; all, and a byte less
		if a := Advise(Graph{Nodes: 1000, Edges: 5000, NodeBytes: 100, EdgeBytes: 4, MemoryBytes: bytes}); (a.Partitions == 1) != (parts == 1) || len(a.Why) == 0 {
			t.Errorf("within %d bytes: %+v", bytes, a)
		}
	}
	// In memory edges take more than twice their packed bytes: what would fit by those does not.
	tight := Graph{Nodes: 200_000, Edges: 2_000_000, NodeBytes: 256, EdgeBytes: 1.5, MemoryBytes: 58 << 20, AllBytes: 77 << 20}
	if a := Advise(tight); a.Partitions < 3 || float64(a.Capacity)/float64(a.Partitions)*2*77 > 58 {
		t.Errorf("a graph that fits packed only: %+v", a)
	}
	tight.Link = true
	if a := Advise(tight); float64(a.Capacity)*256*200_000/float64(a.Partitions) > 58<<20 || a.Partitions == 1 {
		t.Errorf("the same for links: %+v", a)
	}
}

// TestChooseTellsErrors: what keeps the need of memory from being known is the choice's error, also where no plan but memory's is asked.
func TestChooseTellsErrors(t *testing.T) {
	unknown := errors.New("the disk is gone")
	for _, policy := range []string{"", Memory} {
		_, err := Choose(Tuning{Config: Config{Policy: policy, Partitions: 4}, LeastBytes: func(int) (int64, error) { return 0, unknown }})
		if !errors.Is(err, unknown) {
			t.Errorf("policy %q: %v, expected %v", policy, err, unknown)
		}
	}
}

// TestAdviseHubs: hubs are at most a hundredth of the nodes, and take at most an eighth of the memory.
func TestAdviseHubs(t *testing.T) {
	g := Graph{Nodes: 1 << 20, Edges: 1 << 20, NodeBytes: 512, EdgeBytes: 4}
	for _, c := range []struct {
		memory int64
		want   float64
	}{{256 << 20, .01}, {16 << 20, 1. / 256}} {
		g.MemoryBytes = c.memory
		if a := Advise(g); a.Hubs != c.want {
			t.Errorf("%d MiB: hubs are %v of the nodes, expected %v", c.memory>>20, a.Hubs, c.want)
		}
	}
}
