package macro

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// ErrPlan marks a Config for which no plan exists; the message says what would do.
var ErrPlan = errors.New("no such plan")

// Names of the policies, as in flags and in [buffer.Plan].Policy.
const (
	Memory     = "memory"
	Rows       = "rows"
	Hanoi      = "hanoi"
	TrainNodes = "trainnodes"
	Comet      = "comet"
	Beta       = "beta"
)

// Names lists the policies.
func Names() []string { return []string{Memory, Rows, Hanoi, TrainNodes, Comet, Beta} }

// ReuseMax is the most extra passes over a macro-batch (HANOI, thesis section
// 4.2: more of them over-fit the macro-batch).
const ReuseMax = 4

// ReuseAuto asks for extra passes, up to [ReuseMax], as long as the next step's
// reads are pending. Such runs depend on timing.
const ReuseAuto = -1

// Config describes a policy.
type Config struct {
	Policy     string
	Partitions int                 // of the store, pinned ones included
	Pinned     []store.PartitionID // resident in every step: hubs (hanoi), training nodes (trainnodes)
	// TrainOutside says of trainnodes that partitions which are not pinned hold training nodes too, as with hubs: then
	// these are trained as well, in turn.
	TrainOutside bool
	// Capacity is the most partitions resident at once, pinned ones not
	// counted. 0, or as many as there are, means all.
	Capacity int
	Link     bool // examples are edges (Step.Buckets), not nodes (Step.Train); set by comet and beta
	// Undirected stores hold only buckets (i,j) with i ≤ j: only these are planned.
	Undirected bool
	// Logical is comet's number of logical partitions; 0 means so many that four are in the
	// buffer, if it has room for four partitions; MariusGNN (section 6) keeps two. trainnodes takes it when
	// training nodes do not fit, and swaps so many groups.
	Logical int
	// Order is how comet chooses among swaps that cover equally many new pairs.
	Order Order
	// Group is memory's: how many partitions, pinned ones not counted, are trained together, as hanoi does with Capacity of them;
	// but with all neighbours. It tells what the order of examples costs from what absent neighbours do. Edges are trained in
	// the order of comet with so many partitions in memory. 0: all.
	Group int
	// Labels are the training nodes of each partition by class: hanoi then composes steps, and memory its groups, whose classes are mixed
	// as the graph's, as far as whole partitions can be. nil: partitions of a step are drawn at random.
	Labels [][]store.ClassNodes
	// Alone says of groups that mini-batches reach no partitions but these and pinned ones: partition-based sampling (thesis
	// section 5.2.2).
	Alone bool
	Reuse int // hanoi: extra passes over a macro-batch, 0 … ReuseMax, or ReuseAuto
	Seed  uint64
}

// Order is a tie-break of comet's greedy cover.
type Order uint8

const (
	// Balanced admits the logical partition trained least and evicts the one
	// trained most: as many swaps as Random, with a lower bias (docs/design.md).
	Balanced Order = iota
	// Random is the paper's: any of the best swaps.
	Random
)

// Swap is the most partitions that a step of an epoch has and the step before has not: what
// reading ahead takes room for. 0 means that it may be all.
func (c *Config) Swap() int {
	switch c.Policy {
	case Comet:
		p := policy{Config: *c, loose: make([]store.PartitionID, c.Partitions-len(c.Pinned))}
		if groups, _, err := p.logical(2, logicalAtOnce); err == nil {
			return (len(p.loose) + groups - 1) / groups
		}
	case Beta:
		return 1
	}
	return 0
}

// Resident is the most partitions in memory at once, pinned ones included.
func (c *Config) Resident() int {
	if c.Capacity == 0 {
		return c.Partitions
	}
	return min(c.Partitions, c.Capacity+len(c.Pinned))
}

// Policy makes an epoch's plan.
type Policy interface {
	Name() string
	// Epoch returns the plan of an epoch, 0 ≤ epoch: a pure function, the
	// caller's to keep.
	Epoch(epoch int) buffer.Plan
}

// policy is a validated Config with what follows from it.
type policy struct {
	Config
	loose []store.PartitionID // partitions that are not pinned, ascending
	steps func(p *policy, r *keyed.Rand) []buffer.Step
}

// New validates cfg and returns its policy; errors are [ErrPlan].
func New(cfg Config) (Policy, error) {
	p := &policy{Config: cfg}
	if cfg.Partitions < 1 {
		return nil, fmt.Errorf("%w: %d partitions, want at least 1", ErrPlan, cfg.Partitions)
	}
	p.Pinned = slices.Clone(cfg.Pinned)
	slices.Sort(p.Pinned)
	if len(slices.Compact(slices.Clone(p.Pinned))) != len(p.Pinned) {
		return nil, fmt.Errorf("%w: a partition is pinned twice in %v", ErrPlan, p.Pinned)
	}
	if n := len(p.Pinned); n > 0 && int(p.Pinned[n-1]) >= cfg.Partitions {
		return nil, fmt.Errorf("%w: pinned partition %d of %d partitions", ErrPlan, p.Pinned[n-1], cfg.Partitions)
	}
	for i := range cfg.Partitions {
		if _, pinned := slices.BinarySearch(p.Pinned, store.PartitionID(i)); !pinned {
			p.loose = append(p.loose, store.PartitionID(i))
		}
	}
	switch {
	case cfg.Capacity < 0:
		return nil, fmt.Errorf("%w: capacity %d, want 0 (all) or more", ErrPlan, cfg.Capacity)
	case cfg.Capacity == 0 || cfg.Capacity > len(p.loose):
		p.Capacity = len(p.loose)
	}
	if n := len(cfg.Labels); cfg.Labels != nil && n != cfg.Partitions {
		return nil, fmt.Errorf("%w: classes of %d partitions, want %d", ErrPlan, n, cfg.Partitions)
	}
	if cfg.Reuse < ReuseAuto || cfg.Reuse > ReuseMax {
		return nil, fmt.Errorf("%w: reuse %d, want 0 to %d or auto", ErrPlan, cfg.Reuse, ReuseMax)
	}
	return p, p.choose()
}

// choose sets steps, or says why the policy does not fit.
func (p *policy) choose() error {
	link := p.Policy == Comet || p.Policy == Beta
	if p.Link && !link && p.Policy != Memory {
		return fmt.Errorf("%w: policy %s is for node tasks; use comet, beta or memory", ErrPlan, p.Policy)
	}
	p.Link = p.Link || link
	if link && len(p.Pinned) > 0 {
		return fmt.Errorf("%w: policy %s pins no partitions", ErrPlan, p.Policy)
	}
	if p.Group < 0 || p.Group > 0 && p.Policy != Memory {
		return fmt.Errorf("%w: groups of %d partitions: 0 or more, and they are of policy memory", ErrPlan, p.Group)
	}
	if p.Reuse != 0 && p.Policy != Hanoi {
		return fmt.Errorf("%w: policy %s trains every example once; reuse is hanoi's", ErrPlan, p.Policy)
	}
	switch p.Policy {
	case Memory, Rows:
		if p.Capacity < len(p.loose) {
			return fmt.Errorf("%w: policy %s needs room for all %d partitions, there is room for %d", ErrPlan, p.Policy, len(p.loose), p.Capacity)
		}
		p.steps = everything
		if p.Link && p.Group > 0 && p.Group < len(p.loose) {
			return p.ordered()
		}
	case Hanoi:
		p.steps = hanoi
	case TrainNodes:
		p.steps = trainNodes
		if (len(p.Pinned) == 0 || p.TrainOutside) && p.Capacity < len(p.loose) {
			p.steps = rotate
		}
	case Comet, Beta:
		if p.Capacity == len(p.loose) {
			p.steps = everything
			return nil
		}
		if p.Capacity < 2 {
			return fmt.Errorf("%w: policy %s needs two partitions in memory to meet both ends of an edge, there is room for %d", ErrPlan, p.Policy, p.Capacity)
		}
		if p.Policy == Beta {
			p.steps = beta
			return nil
		}
		if _, _, err := p.logical(2, logicalAtOnce); err != nil {
			return err
		}
		p.steps = comet
	default:
		return fmt.Errorf("%w: policy %q is unknown (known: %v)", ErrPlan, p.Policy, Names())
	}
	return nil
}

// Name returns the policy's name.
func (p *policy) Name() string { return p.Policy }

// Epoch returns the epoch's plan.
func (p *policy) Epoch(epoch int) buffer.Plan {
	r := keyed.New(p.Seed).With(uint64(epoch)).Rand(0)
	return buffer.Plan{Policy: p.Policy, Pinned: slices.Clone(p.Pinned), Capacity: p.Capacity, Steps: p.steps(p, &r)}
}

// everything is plans memory and rows, and any other whose partitions all fit.
func everything(p *policy, r *keyed.Rand) []buffer.Step {
	s := buffer.Step{Resident: p.with(p.loose)}
	if p.Group > 0 && p.Group < len(p.loose) && !p.Link {
		return grouped(p, r)
	}
	if p.Link {
		s.Buckets = p.buckets()[:0]
		for _, i := range s.Resident {
			for _, j := range s.Resident {
				if p.stored(i, j) {
					s.Buckets = append(s.Buckets, buffer.BucketID{Src: i, Dst: j})
				}
			}
		}
	} else {
		s.Train = slices.Clone(s.Resident)
	}
	return []buffer.Step{s}
}

// ordered has the steps be those of comet with p.Group partitions in memory, but all partitions in memory.
func (p *policy) ordered() error {
	c := *p
	c.Policy, c.Capacity, c.Group = Comet, p.Group, 0
	if err := c.choose(); err != nil {
		return err
	}
	p.steps = func(p *policy, r *keyed.Rand) []buffer.Step {
		steps := comet(&c, r)
		for i := range steps {
			steps[i].Resident = p.with(p.loose)
		}
		return steps
	}
	return nil
}

// grouped is everything with the partitions trained in random groups of p.Group, a pinned one in a random group's step.
func grouped(p *policy, r *keyed.Rand) (steps []buffer.Step) {
	order := p.shuffled(r)
	var sizes []int
	for group := range slices.Chunk(order, p.Group) {
		sizes = append(sizes, len(group))
	}
	hubs := p.home(r, len(sizes))
	if p.Labels != nil {
		order = p.mix(r, order, sizes, hubs)
	}
	for group := range slices.Chunk(order, p.Group) {
		step := buffer.Step{Resident: p.with(p.loose), Train: slices.Concat(group, hubs[len(steps)])}
		slices.Sort(step.Train)
		if p.Alone {
			step.Reach = p.with(group)
		}
		steps = append(steps, step)
	}
	return steps
}

// stored reports whether bucket (i,j) may have edges.
func (p *policy) stored(i, j store.PartitionID) bool { return i <= j || !p.Undirected }

// with returns loose partitions and the pinned ones, ascending.
func (p *policy) with(loose []store.PartitionID) []store.PartitionID {
	all := slices.Concat(p.Pinned, loose)
	slices.Sort(all)
	return all
}

// shuffled returns the loose partitions in random order.
func (p *policy) shuffled(r *keyed.Rand) []store.PartitionID {
	s := slices.Clone(p.loose)
	keyed.Shuffle(r, s)
	return s
}
