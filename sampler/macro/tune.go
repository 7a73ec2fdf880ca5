package macro

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/store"
)

// Tuning is what a choice of plan depends on.
type Tuning struct {
	Config // what the caller fixed: Policy "" or "auto" and Capacity 0 are chosen
	// MemoryBytes is the partition buffer's budget; 0 = no bound.
	MemoryBytes int64
	// LeastBytes returns the smallest budget with which capacity partitions can
	// be resident beside the pinned ones; 0 means all. It grows with capacity.
	// [buffer.Forecaster.LeastBytes] is one.
	LeastBytes func(capacity int) (int64, error)
	// DoubleBytes is the same with room to read the next step meanwhile
	// ([buffer.Forecaster.DoubleBytes]); the capacity is chosen by it as long as any fits, but where an epoch
	// is one step (trainnodes beside pinned training nodes). nil: LeastBytes.
	DoubleBytes func(capacity, swap int) (int64, error)
	// BesideBytes is what a run holds beside the buffer with capacity partitions resident, out of the same MemoryBytes; 0 means
	// all. It grows with capacity. nil: nothing.
	BesideBytes func(capacity int) int64
	// Rows is what is known of plan rows; nil: it is not for this run.
	Rows *RowsTuning
	// Hubs is why the store has pinned hubs or none ([store.Manifest.HubsWhy]); "" = unknown.
	Hubs string
	// Train is the number of training nodes of each partition (node tasks); nil = unknown.
	Train []uint64
}

// RowsTuning is what a choice of plan rows depends on.
type RowsTuning struct {
	LeastBytes int64  // the smallest part of MemoryBytes with which it runs
	Prefer     bool   // it is worth its reads where it fits
	Why        string // what Prefer was decided by
	// Packed and EpochRows are those of store/rows: how rows are read, and about how many an epoch's batches use.
	Packed                  bool
	EpochBatches, EpochRows int
	// BatchRows and KindRows are theirs too: most rows of a mini-batch, and by node type; 0 and nil: as fanouts allow.
	BatchRows int
	KindRows  []int
}

// Choice is a Config that [New] accepts, and why.
type Choice struct {
	Config
	Rows *RowsTuning // of plan rows: Tuning.Rows
	Why  []string    // sentences for people, with the numbers that decided
}

// Choose fills in policy and capacity from the memory budget:
//
//   - memory if everything fits;
//   - for node tasks rows if the graph fits, without features, and its reads are predicted to be worth having all neighbours;
//   - for link tasks comet with the largest buffer (MariusGNN section 6), and of
//     logical partitions so many that four fit;
//   - for node tasks trainnodes if all training nodes lie in pinned partitions
//     (MariusGNN section 5.2), else hanoi, with as many partitions at a time as fit.
//
// A budget in which the smallest plan does not fit is [store.ErrBudget], and
// the message says what would do.
func Choose(t Tuning) (Choice, error) {
	c := Choice{Config: t.Config}
	loose := t.Partitions - len(t.Pinned)
	auto := t.Policy == "" || t.Policy == "auto"
	all, err := t.least(0)
	if err != nil {
		return c, err
	}
	fits := t.MemoryBytes == 0 || all <= t.MemoryBytes
	capped := t.Capacity > 0 && t.Capacity < loose
	switch {
	case auto && fits && !capped:
		c.Policy = Memory
		c.because("everything is in memory: it takes %s, %s", mib(all), budget(t.MemoryBytes))
	case auto && fits:
		c.because("%d partitions at a time, as asked, though all %d would take %s, %s", t.Capacity, loose, mib(all), budget(t.MemoryBytes))
	case auto:
		c.because("everything in memory would take %s, %s", mib(all), budget(t.MemoryBytes))
	default:
		c.because("policy %s, as asked", t.Policy)
	}
	if auto && c.Policy != Memory && t.Capacity == 0 && t.rows(&c) {
		c.Policy = Rows
	}
	if auto && c.Policy != Memory && c.Policy != Rows {
		c.Policy = outOfCore(&c, t)
	}
	if c.Policy == Rows {
		return c, t.checkRows(&c, capped)
	}
	if c.Policy == TrainNodes && len(t.Pinned) > 0 && (t.Train == nil || t.outside() > 0) {
		c.TrainOutside = true
		c.because("training nodes lie outside the %d pinned partitions too: all partitions come into memory in turn", len(t.Pinned))
	}
	if c.Policy == Memory {
		if capped {
			return c, fmt.Errorf("%w: policy memory needs room for all %d partitions, there is room for %d", ErrPlan, loose, t.Capacity)
		}
		c.Capacity = 0
		if !fits {
			return c, fmt.Errorf("policy memory takes %d bytes: %w: it is %d", all, store.ErrBudget, t.MemoryBytes)
		}
		return c, nil
	}
	link := c.Policy == Comet || c.Policy == Beta
	if c.Capacity, err = t.capacity(&c, loose, link); err != nil {
		return c, err
	}
	if c.Policy == Comet && c.Capacity < loose {
		p := policy{Config: c.Config, loose: make([]store.PartitionID, loose)}
		groups, room, err := p.logical(2, logicalAtOnce)
		if err != nil {
			return c, err
		}
		if c.Logical == 0 {
			c.because("%d logical partitions, %d of them in memory at a time: with about four an epoch reads least", groups, room)
		}
		c.Logical = groups
	}
	return c, nil
}

// rows reports whether plan rows fits and is worth its reads.
func (t *Tuning) rows(c *Choice) bool {
	if t.Rows == nil {
		return false
	}
	if need := t.Rows.LeastBytes + t.beside(0); need > t.MemoryBytes {
		c.because("the graph without features, with the rows of a mini-batch, would take %s", mib(need))
		return false
	}
	c.because("%s", t.Rows.Why)
	return t.Rows.Prefer
}

// checkRows refuses plan rows where it cannot be.
func (t *Tuning) checkRows(c *Choice, capped bool) error {
	loose := t.Partitions - len(t.Pinned)
	switch {
	case t.Rows == nil:
		return fmt.Errorf("%w: policy rows is for node tasks with features, sampler uniform, weighted, dense or pinsage, no features of edges, no vectors learned in a table, and no history, as none is needed", ErrPlan)
	case capped:
		return fmt.Errorf("%w: policy rows holds the graph of all %d partitions, there is room for %d", ErrPlan, loose, t.Capacity)
	}
	c.Capacity, c.Rows = 0, t.Rows
	if need := t.Rows.LeastBytes + t.beside(0); t.MemoryBytes > 0 && need > t.MemoryBytes {
		return fmt.Errorf("policy rows takes %d bytes: %w: it is %d", need, store.ErrBudget, t.MemoryBytes)
	}
	how := "rows of features are read as mini-batches use them"
	if t.Rows.Packed {
		how = "features are read through for a window of mini-batches, whose rows are packed in a temporary file"
	}
	c.because("all topology is in memory and every neighbour can be drawn, as in memory; %s", how)
	return nil
}

// least is LeastBytes with what the run holds beside.
func (t *Tuning) least(capacity int) (int64, error) {
	n, err := t.LeastBytes(capacity)
	return n + t.beside(capacity), err
}

// double is DoubleBytes with what the run holds beside.
func (t *Tuning) double(capacity, swap int) (int64, error) {
	n, err := t.DoubleBytes(capacity, swap)
	return n + t.beside(capacity), err
}

func (t *Tuning) beside(capacity int) int64 {
	if t.BesideBytes == nil {
		return 0
	}
	return t.BesideBytes(capacity)
}

// outOfCore is the policy for a store that does not fit.
func outOfCore(c *Choice, t Tuning) string {
	if t.Link {
		c.because("link task: comet, which shuffles examples across steps")
		return Comet
	}
	if len(t.Pinned) > 0 && t.Train != nil && t.outside() == 0 {
		c.because("all training nodes lie in the %d pinned partitions: trainnodes, one step an epoch", len(t.Pinned))
		return TrainNodes
	}
	if len(t.Pinned) > 0 {
		c.because("node task: hanoi, with %d pinned partitions of hubs", len(t.Pinned))
	} else {
		c.because("node task: hanoi")
	}
	if t.Hubs != "" {
		c.because("when the store was made: %s", t.Hubs)
	}
	return Hanoi
}

// outside counts the training nodes that are in no pinned partition.
func (t *Tuning) outside() uint64 {
	n := uint64(0)
	for p, train := range t.Train {
		if !slices.Contains(t.Pinned, store.PartitionID(p)) {
			n += train
		}
	}
	return n
}

// capacity is the largest that fits, or what the caller fixed if that does.
func (t *Tuning) capacity(c *Choice, loose int, link bool) (int, error) {
	least := 1
	if link {
		least = 2
	}
	if t.MemoryBytes == 0 {
		if t.Capacity == 0 {
			c.because("no memory bound was given, so all %d partitions are resident at once", loose)
			return loose, nil
		}
		return min(t.Capacity, loose), nil
	}
	need := func(capacity int) (int64, error) { return t.least(min(capacity, loose)) }
	first := least
	if t.Capacity > 0 {
		first = min(t.Capacity, loose)
	}
	n, err := need(first)
	if err != nil {
		return 0, err
	}
	// A plan of one step reads between epochs, and little: its room is worth more to what is trained.
	oneStep := c.Policy == TrainNodes && len(t.Pinned) > 0 && !c.TrainOutside
	if t.Capacity == 0 && t.DoubleBytes != nil && n <= t.MemoryBytes && !oneStep {
		double, err := t.double(first, t.swap(c.Policy, first))
		if err != nil {
			return 0, err
		}
		if double > t.MemoryBytes {
			c.because("%d of %d partitions at a time take %s, the budget is %s; to read ahead takes %s", first, loose, mib(n), mib(t.MemoryBytes), mib(double))
			return first, nil
		}
		need = func(capacity int) (int64, error) {
			capacity = min(capacity, loose)
			return t.double(capacity, t.swap(c.Policy, capacity))
		}
	}
	if n > t.MemoryBytes {
		beside := ""
		if len(t.Pinned) > 0 {
			beside = fmt.Sprintf(" beside %d pinned ones", len(t.Pinned))
		}
		return 0, fmt.Errorf("%d of %d partitions at a time%s take %d bytes: %w: it is %d; give more, or ingest with more partitions",
			first, loose, beside, n, store.ErrBudget, t.MemoryBytes)
	}
	if t.Capacity > 0 {
		c.because("%d of %d partitions at a time, as asked, take %s", first, loose, mib(n))
		return first, nil
	}
	var failed error
	more := sort.Search(loose-first, func(i int) bool { // the first that does not fit
		n, err := need(first + 1 + i)
		if err != nil {
			failed = err
		}
		return n > t.MemoryBytes
	})
	b := first + more
	n, err = need(b)
	if failed != nil || err != nil {
		return 0, fmt.Errorf("memory for a buffer: %w", firstOf(failed, err))
	}
	with := ", with the next step's,"
	if oneStep {
		with = ", those of the next epoch read after it,"
	}
	why := fmt.Sprintf("%d of %d partitions at a time%s take %s", b, loose, with, mib(n))
	if b < loose {
		if over, err := need(b + 1); err == nil {
			why += fmt.Sprintf(", %d would take %s", b+1, mib(over))
		}
	}
	c.because("%s; the budget is %s", why, mib(t.MemoryBytes))
	return b, nil
}

// swap is Config.Swap of the plan with that capacity.
func (t *Tuning) swap(policy string, capacity int) int {
	c := t.Config
	c.Policy, c.Capacity = policy, capacity
	return c.Swap()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Choice) because(format string, args ...any) {
	c.Why = append(c.Why, fmt.Sprintf(format, args...))
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func budget(n int64) string {
	if n == 0 {
		return "and no bound was given"
	}
	return "the budget is " + mib(n)
}

// Graph is what the number of partitions of a store yet to be made depends on.
type Graph struct {
	Nodes, Edges uint64
	NodeBytes    int     // a node's columns (link tasks: embedding and optimiser state)
	EdgeBytes    float64 // an edge on disk
	MemoryBytes  int64   // the partition buffer's budget
	// AllBytes is what everything takes in memory, where edges are not packed as on disk. 0 means nodes and, as
	// MariusGNN counts, edges twice.
	AllBytes int64
	// BlockBytes is the device's block: the bytes that take as long to read as a
	// request costs (blockio.Calibration.GapBytes). 0 means 64 KiB.
	BlockBytes int64
	Link       bool
}

// Advice is how to ingest a graph so that its plans are good.
type Advice struct {
	Partitions int     // p
	Capacity   int     // c, or hanoi's b
	Logical    int     // l (link tasks)
	Hubs       float64 // share of nodes to pin (node tasks)
	Why        []string
}

// Numbers behind Advise.
const (
	partitionsMax     = 4096 // directories of p² buckets stay below 256 MiB
	hubShareMax       = .01  // of the nodes
	hubMemoryShare    = 8    // hubs take at most an eighth of the budget
	extentBlocks      = 16   // hanoi: partitions of so many device blocks read at over 94 % of its bandwidth
	hanoiPerStep      = 64   // and about so many partitions a macro-batch can be chosen so that labels and communities are mixed
	blockBytesDefault = 64 << 10
)

// Advise chooses the number of partitions before ingest. Link tasks follow MariusGNN
// section 6: p = min(NO/D, √(EO/D)) makes the smallest read one device block (more
// partitions mean less bias, smaller reads more time); c is the largest with
// c·NO/p + c²·M/p² within memory, M the edges' part of it (2·EO there); l = 4p/c, not 2p/c. Node tasks: hubs, then
// macro-batches of several partitions (thesis section 4.3), each large enough to be
// read at the device's bandwidth.
func Advise(g Graph) Advice {
	if g.BlockBytes == 0 {
		g.BlockBytes = blockBytesDefault
	}
	no, eo := float64(g.Nodes)*float64(g.NodeBytes), float64(g.Edges)*g.EdgeBytes
	d, memory := float64(g.BlockBytes), float64(g.MemoryBytes)
	all := no + 2*eo
	if g.AllBytes > 0 {
		all = float64(g.AllBytes)
	}
	resident := max(0, all-no) // of edges
	var a Advice
	clamp := func(p float64) int { return int(max(1, min(p, partitionsMax, float64(g.Nodes)))) }
	if all <= memory || memory == 0 {
		a.Partitions, a.Capacity, a.Logical = 1, 1, 1
		if memory == 0 {
			a.Why = []string{"no memory budget was given: everything may stay in memory"}
			return a
		}
		a.Why = []string{fmt.Sprintf("nodes (%s) and edges (%s) fit in memory (%s)", mib(int64(no)), mib(int64(resident)), mib(int64(memory)))}
		return a
	}
	share := memory / all // of the store that fits: the start of the search for c
	if g.Link {
		a.Partitions = max(4, clamp(min(no/d, math.Sqrt(eo/d))))
		a.Why = append(a.Why, fmt.Sprintf("p = min(%s of nodes / %d KiB, √(%s of edges / %d KiB)): the smallest read is a device block", mib(int64(no)), g.BlockBytes>>10, mib(int64(eo)), g.BlockBytes>>10))
		p := float64(a.Partitions)
		c := 2
		for c < a.Partitions && float64(c+1)*no/p+float64(c+1)*float64(c+1)*resident/(p*p) <= memory {
			c++
		}
		a.Capacity = c
		size := max(1, c/logicalAtOnce)
		a.Logical = (a.Partitions + size - 1) / size
		a.Why = append(a.Why, fmt.Sprintf("c = %d is the largest buffer with c·%s + c²·%s in %s; l = %dp/c", c, mib(int64(no/p)), mib(int64(resident/(p*p))), mib(int64(memory)), logicalAtOnce))
		return a
	}
	a.Hubs = min(hubShareMax, memory/hubMemoryShare/max(1, no))
	a.Why = append(a.Why, fmt.Sprintf("hubs, where ingest finds that they keep more of training nodes' neighbours in memory: at most some %.2f %% of the nodes, %s", 100*a.Hubs, mib(int64(a.Hubs*no))))
	// Double buffering halves what a macro-batch may take.
	steps := 2 / share
	p := min(steps*hanoiPerStep, no/(extentBlocks*d))
	a.Partitions = max(clamp(p), clamp(math.Ceil(steps)))
	a.Capacity = max(1, int(float64(a.Partitions)*share/2))
	a.Why = append(a.Why, fmt.Sprintf("double buffering leaves room for 1/%.1f of the graph at a time: %d of %d partitions of %s", steps, a.Capacity, a.Partitions, mib(int64(no)/int64(a.Partitions))))
	return a
}
