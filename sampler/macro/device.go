package macro

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/store/buffer"
)

// Names of device plans: how the feature rows of mini-batches come to a device whose memory is not the host's.
const (
	// DeviceMirror sends a step's feature rows once, partition by partition in long copies; those of partitions that stay are
	// not sent again. As many partitions as a step has must fit.
	DeviceMirror = "mirror"
	// DeviceDirect sends each batch the rows that the device lacks; a [cache.Policy] decides what it keeps.
	DeviceDirect = "direct"
	// DeviceLBS draws the neighbours of many mini-batches together, so that they share rows (large-batch sampling, thesis
	// section 5.2.1). It is a sampler: results differ from those of the other plans. Rows cross as by direct: those
	// that mini-batches of a window sampled ahead use.
	DeviceLBS = "lbs"
	// DevicePBS trains some of the resident partitions at a time, without edges to others; the hidden states around them
	// come from a historical table (partition-based sampling, thesis section 5.2.2). It is a sampler too, and its rows
	// cross as by direct.
	DevicePBS = "pbs"
)

// DeviceRecord is what an epoch or several ask of a device: recorded by sampling structure only, before any row of
// features moves (ahead-of-time sampling, thesis section 5.2.2).
type DeviceRecord struct {
	cache.Trace         // the input rows of each batch
	Blocks      []int64 // bytes of each batch that cross whatever the plan is: its blocks
	Seeds       []int64 // bytes of each batch that cross where the device draws its blocks: its seeds
	Steps       []DeviceStep

	where []buffer.ResidentPartition // of the last step
	stays bool                       // the step before had the same
}

// DeviceStep is one step of a record.
type DeviceStep struct {
	First   int    // its first batch
	Rows    uint64 // of its partitions
	Sent    uint64 // of those partitions that the step before did not have
	Touched uint64 // rows that its batches read
	Untaken uint64 // of those, rows that no batch since they came into memory had read
	Lists   int64  // bytes of neighbour lists that cross where the device draws blocks: none where the step before had the same partitions
	Batches int    // that it has, though not all may be recorded; of steps with Lists
}

// Step begins a step with so many rows in the buffer and these resident partitions.
func (r *DeviceRecord) Step(rows int, resident []buffer.ResidentPartition) {
	r.Rows = max(r.Rows, rows)
	s := DeviceStep{First: len(r.Batches)}
	if s.First > 0 {
		r.Ends = append(r.Ends, s.First)
	}
	for _, p := range Gone(r.where, resident) {
		r.Drops = append(r.Drops, cache.DropRows{Before: s.First, Lo: p.Base, Hi: p.Base + p.Nodes})
	}
	for _, p := range resident {
		s.Rows += uint64(p.Nodes)
	}
	for _, p := range resident {
		if !slices.ContainsFunc(r.where, func(q buffer.ResidentPartition) bool { return q.ID == p.ID }) {
			s.Sent += uint64(p.Nodes)
		}
	}
	r.stays = slices.Equal(r.where, resident)
	r.where = slices.Clone(resident)
	r.Steps = append(r.Steps, s)
}

// Lists says of the last step what its neighbour lists take, and how many batches it has.
func (r *DeviceRecord) Lists(bytes int64, batches int) {
	if !r.stays {
		s := &r.Steps[len(r.Steps)-1]
		s.Lists, s.Batches = bytes, batches
	}
}

// DrawnBytes is what crosses for the blocks of the batches from first on, a step's first one, where the device draws them: neighbour lists, of a step
// that is recorded in part as great a part, and seeds.
func (r *DeviceRecord) DrawnBytes(first int) (n int64) {
	for k, s := range r.Steps {
		end := len(r.Batches)
		if k+1 < len(r.Steps) {
			end = r.Steps[k+1].First
		}
		switch recorded := end - s.First; {
		case s.First < first:
		case recorded < s.Batches:
			n += s.Lists * int64(recorded) / int64(s.Batches)
		default:
			n += s.Lists
		}
	}
	for _, b := range r.Seeds[min(first, len(r.Seeds)):] {
		n += b
	}
	return n
}

// Gone returns those of the partitions before that are not in the same place after.
func Gone(before, after []buffer.ResidentPartition) (gone []buffer.ResidentPartition) {
	for _, p := range before {
		at, found := slices.BinarySearchFunc(after, p, func(a, b buffer.ResidentPartition) int { return cmp.Compare(a.ID, b.ID) })
		if !found || after[at].Base != p.Base {
			gone = append(gone, p)
		}
	}
	return gone
}

// Batch adds a mini-batch: its distinct input rows, which are copied, and what its blocks take.
func (r *DeviceRecord) Batch(input []uint32, blockBytes int64) {
	r.Batches = append(r.Batches, slices.Clone(input))
	r.Blocks = append(r.Blocks, blockBytes)
}

// BlockBytes is what the blocks of the batches from first on take.
func (r *DeviceRecord) BlockBytes(first int) (n int64) {
	for _, b := range r.Blocks[first:] {
		n += b
	}
	return n
}

// Until is the record of the first n batches.
func (r *DeviceRecord) Until(n int) DeviceRecord {
	u := DeviceRecord{Trace: cache.Trace{Rows: r.Rows, Batches: r.Batches[:n]}, Blocks: r.Blocks[:n], Seeds: r.Seeds[:min(n, len(r.Seeds))]}
	for _, d := range r.Drops {
		if d.Before < n {
			u.Drops = append(u.Drops, d)
		}
	}
	for _, s := range r.Steps {
		if s.First < n {
			u.Steps = append(u.Steps, s)
		}
	}
	for _, end := range r.Ends {
		if end < n {
			u.Ends = append(u.Ends, end)
		}
	}
	return u
}

// Resident are the partitions of the last step.
func (r *DeviceRecord) Resident() []buffer.ResidentPartition { return r.where }

// Inputs is the rows of all batches.
func (r *DeviceRecord) Inputs() (n int64) {
	for _, b := range r.Batches {
		n += int64(len(b))
	}
	return n
}

// CountTouched fills in what the steps' batches touch.
func (r *DeviceRecord) CountTouched() {
	seen := make([]uint32, r.Rows)  // 1 + the step that touched a row last
	fresh := make([]uint32, r.Rows) // 1 + the step in which it was touched first since it came
	drops := r.Drops
	for k := range r.Steps {
		s := &r.Steps[k]
		s.Touched, s.Untaken = 0, 0
		for ; len(drops) > 0 && drops[0].Before <= s.First; drops = drops[1:] {
			clear(fresh[drops[0].Lo:drops[0].Hi])
		}
		end := len(r.Batches)
		if k+1 < len(r.Steps) {
			end = r.Steps[k+1].First
		}
		for _, b := range r.Batches[s.First:end] {
			for _, row := range b {
				if seen[row] != uint32(k)+1 {
					seen[row] = uint32(k) + 1
					s.Touched++
				}
				if fresh[row] == 0 {
					fresh[row] = uint32(k) + 1
					s.Untaken++
				}
			}
		}
	}
}

// DeviceOptions say what room there is on a device.
type DeviceOptions struct {
	RowBytes int64 // of a node's features, all columns
	// BackBytes are those of RowBytes that batches change, such as a learned vector and its optimiser's state: they go back before a row
	// leaves its place, and at a step's end. 0: none.
	BackBytes int64
	// Rows is how many feature rows there is room for, those of the batch in hand included.
	Rows       int64
	MirrorRows int64 // that mirror needs; 0: it is not considered
	StepRows   int64 // the most rows of a step's partitions: where there is room for them nothing has to leave
	// DrawnRows is how many of Rows there is room for where the device draws blocks, from neighbour lists that it holds then; 0: it draws none.
	// DrawnOnly leaves the other plans out.
	DrawnRows int64
	DrawnOnly bool
	BatchRows int64 // that a batch may have; 0: [DeviceRecord.BatchRows]
	// Window is how many batches the lookahead policy knows, see [cache.Options]; 0: as many as pay, see [DeviceCost].
	Window int
	// Hot are the rows that presc keeps, hottest first; nil: presc is not considered. Rows are one node each, then: nothing leaves
	// the partition buffer.
	Hot []uint32
	// Policy, if not "", is the only policy of plan direct to be considered; Plan, if not "", the only plan.
	Plan, Policy string
}

// BatchRows is the part of the room that the rows of one batch take: an eighth more than the largest of a record.
func (r *DeviceRecord) BatchRows() int64 {
	n := int64(r.Largest())
	return min(n+n/8, int64(r.Rows))
}

// DeviceCost is what a plan moves over a record.
type DeviceCost struct {
	Plan         string      `json:"plan"`
	Policy       string      `json:"policy,omitempty"` // of direct and the samplers; mirror's is its name
	Drawn        bool        `json:"drawn,omitempty"`  // blocks are drawn on the device: BlockBytes are neighbour lists and seeds
	Window       int         `json:"window,omitempty"` // of policy lookahead: batches that it knows
	FeatureBytes int64       `json:"feature_bytes"`
	BackBytes    int64       `json:"back_bytes,omitempty"` // from the device: rows that batches changed
	BlockBytes   int64       `json:"block_bytes"`
	Stats        cache.Stats `json:"stats"`
}

// Bytes is all that crosses, to the device and back.
func (c *DeviceCost) Bytes() int64 { return c.FeatureBytes + c.BackBytes + c.BlockBytes }

// Name is the plan's, with its policy.
func (c *DeviceCost) Name() string {
	if c.Drawn {
		return c.Plan + ", sampling there"
	}
	if c.Policy == "" || c.Policy == c.Plan {
		return c.Plan
	}
	return c.Plan + ", " + c.Policy
}

// CachePolicy is direct's within the room of o: of o.Rows the rows of a batch take their part, the policy keeps the rest; all that
// a step has where there is room for it. Without room for a batch nothing can be kept.
func (o DeviceOptions) CachePolicy(name string, rows int, batch int64) cache.Options {
	c := cache.Options{Policy: name, Rows: rows, Batch: int(batch), Places: int(min(o.Rows-batch, int64(rows))), Written: o.BackBytes > 0}
	if o.StepRows <= o.Rows {
		c.Places = int(o.StepRows)
	}
	if c.Places <= 0 || name == cache.NameNone {
		c.Policy, c.Places = cache.NameNone, 0
	}
	if c.Policy == cache.NamePreSC {
		c.Hot = o.Hot[:min(len(o.Hot), c.Places)]
	}
	if c.Policy == cache.NameLookahead {
		c.Window = cmp.Or(o.Window, cache.WindowDefault)
	}
	return c
}

// Costs lists what the plans move that are considered: mirror, where it fits, and direct with each policy.
func (r *DeviceRecord) Costs(o DeviceOptions) ([]DeviceCost, error) {
	var costs []DeviceCost
	// Of policies that move equally much on a record, which may be short, the first is taken: what looks ahead, but where all rows of a
	// step have places, which needs no looking.
	names := []string{cache.NameLookahead, cache.NameTracker, cache.NameNone}
	if o.StepRows <= o.Rows {
		names[0], names[1] = names[1], names[0]
	}
	if o.Hot != nil {
		names = append(names, cache.NamePreSC)
	}
	if o.Policy != "" {
		names = []string{o.Policy}
	}
	mirror := (o.Plan == DeviceMirror || o.Plan == "" && o.Policy == "") && o.MirrorRows > 0
	if o.Plan == DeviceMirror || o.DrawnOnly {
		names = nil
	}
	for _, name := range names {
		c, err := r.byPolicy(name, o)
		if err != nil {
			return nil, err
		}
		if o.Plan != "" {
			c.Plan = o.Plan
		}
		if c.Policy == name || len(names) == 1 {
			costs = append(costs, c)
		}
	}
	if mirror && o.MirrorRows <= o.Rows && !o.DrawnOnly {
		costs = append(costs, r.Mirror(o.RowBytes))
	}
	if mirror && o.MirrorRows <= o.DrawnRows {
		c := r.Mirror(o.RowBytes)
		c.Drawn, c.BlockBytes = true, r.DrawnBytes(0)
		costs = append(costs, c)
	}
	return costs, nil
}

// windowShare is the part of rows that a shorter window may send again more often than the longest, for its batches take memory.
const windowShare = 64

// byPolicy is what a policy moves; of lookahead, where o.Window leaves that open, by the shortest of three windows that sends hardly
// more rows again than the longest. What every window sends once is not compared: of a short record it is the most, of a run little.
func (r *DeviceRecord) byPolicy(name string, o DeviceOptions) (best DeviceCost, err error) {
	windows, once := []int{o.Window}, uint64(0)
	if name == cache.NameLookahead && o.Window == 0 && o.StepRows > o.Rows {
		windows = []int{cache.WindowMax, cache.WindowDefault, 2 * cache.WindowDefault}
		r.CountTouched()
		for _, s := range r.Steps {
			once += s.Untaken
		}
	}
	for i, w := range windows {
		o.Window = w
		policy := o.CachePolicy(name, r.Rows, cmp.Or(o.BatchRows, r.BatchRows()))
		c, err := r.Direct(policy, o.RowBytes, o.BackBytes)
		if err != nil {
			return best, err
		}
		c.Window = policy.Window
		if i == 0 {
			best = c
		} else if again := best.Stats.Misses - once; c.Stats.Misses-once <= again+again/windowShare {
			return c, nil
		}
	}
	return best, nil
}

// Slots is how many places the policy of CachePolicy uses: those that it keeps rows in, and those of a batch where rows leave.
func (o DeviceOptions) Slots(c cache.Options) int {
	if int64(c.Places) >= o.StepRows {
		return c.Places
	}
	return c.Places + c.Batch
}

// Mirror is what plan mirror moves.
func (r *DeviceRecord) Mirror(rowBytes int64) DeviceCost {
	s := cache.Stats{Hits: uint64(r.Inputs())}
	for _, step := range r.Steps {
		s.Pinned += step.Sent
	}
	return DeviceCost{Plan: DeviceMirror, Policy: DeviceMirror, Stats: s, FeatureBytes: s.BytesMoved(rowBytes), BlockBytes: r.BlockBytes(0)}
}

// Direct is what plan direct moves with a policy: rows of rowBytes, of which backBytes are changed.
func (r *DeviceRecord) Direct(o cache.Options, rowBytes, backBytes int64) (DeviceCost, error) {
	p, err := cache.New(o)
	if err != nil {
		return DeviceCost{}, err
	}
	defer p.Close() //nolint:errcheck // memory only
	stats, err := r.Replay(p, nil)
	return DeviceCost{Plan: DeviceDirect, Policy: p.Name(), Stats: stats,
		FeatureBytes: stats.BytesMoved(rowBytes), BackBytes: stats.BytesReturned(backBytes), BlockBytes: r.BlockBytes(0)}, err
}

// DevicePlan is which rows a device keeps between mini-batches, and why.
type DevicePlan struct {
	Cache   cache.Options // of the run's policy; Policy "": rows are read where they are, but of plan mirror
	Slots   int           // rows that the device has places for
	Cost    DeviceCost    // of the batches that were sampled to choose it
	Batches int           // that were
	Why     []string      // in sentences
}

// mirrorShare is the part that mirror may move more than the least, for its bytes cross in long copies and need no books.
const mirrorShare = 10

// ChooseDevice picks the plan that moves least, of equal ones the first, but mirror where it moves hardly more, and says why.
func ChooseDevice(costs []DeviceCost) (best DeviceCost, why []string) {
	for i, c := range costs {
		if i == 0 || c.Bytes() < best.Bytes() {
			best = c
		}
	}
	reason, least := "the least", best
	for _, c := range costs {
		if c.Plan == DeviceMirror && least.Plan != DeviceMirror && c.Bytes() <= least.Bytes()+least.Bytes()/mirrorShare && (best.Plan != DeviceMirror || c.Bytes() < best.Bytes()) {
			best, reason = c, "at most a tenth more than the least, in long copies"
		}
	}
	for _, c := range costs {
		what := "blocks"
		if c.Drawn {
			what = "neighbour lists and seeds"
		}
		s := fmt.Sprintf("device plan %s: %s of features, %s of %s", c.Name(), mib(c.FeatureBytes), mib(c.BlockBytes), what)
		if c.BackBytes > 0 {
			s = fmt.Sprintf("device plan %s: %s of rows there, %s back, %s of blocks", c.Name(), mib(c.FeatureBytes), mib(c.BackBytes), mib(c.BlockBytes))
		}
		if c.Plan != DeviceMirror {
			s += fmt.Sprintf(", %.1f %% of rows are there already", 100*c.Stats.HitRate())
		}
		if c.Window > 0 {
			s += fmt.Sprintf(", %d mini-batches ahead", c.Window)
		}
		if c.Name() == best.Name() {
			s += ": " + reason
		}
		why = append(why, s)
	}
	return best, why
}
