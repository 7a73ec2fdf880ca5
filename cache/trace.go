package cache

// Trace is what a run reads, recorded: the rows of each batch, and which rows change between two batches.
type Trace struct {
	Rows    int        // rows are below this
	Batches [][]uint32 // distinct rows each
	Drops   []DropRows // ascending by Before
	Ends    []int      // ascending: rows that batches change are flushed behind the batch before each of these, and at the end
}

// DropRows says that rows Lo … Hi−1 mean other nodes from batch Before on.
type DropRows struct {
	Before int
	Lo, Hi uint32
}

// Largest returns the rows of the largest batch.
func (t *Trace) Largest() int {
	n := 0
	for _, b := range t.Batches {
		n = max(n, len(b))
	}
	return n
}

// replayFlush is how many rows a replay looks at together that go back.
const replayFlush = 1 << 12

// Replay gives a trace to a policy: each batch announced as early as the policy's window allows, where no rows change
// between. each, if not nil, is told what every batch needs.
func (t *Trace) Replay(p Policy, each func(batch int, tr *Transfer)) (Stats, error) {
	var tr, flushed Transfer
	before := p.Stats()
	told, drops, ends := 0, t.Drops, t.Ends
	for i, b := range t.Batches {
		for ; len(drops) > 0 && drops[0].Before <= i; drops = drops[1:] {
			p.Drop(drops[0].Lo, drops[0].Hi)
		}
		end := min(len(t.Batches), i+p.Window()+1)
		if len(drops) > 0 { // rows mean other nodes beyond
			end = min(end, drops[0].Before)
		}
		for ; told < end; told++ {
			if err := p.Announce(t.Batches[told]); err != nil {
				return Stats{}, err
			}
		}
		if err := p.Next(b, &tr); err != nil {
			return Stats{}, err
		}
		for len(ends) > 0 && ends[0] <= i {
			ends = ends[1:]
		}
		if i+1 == len(t.Batches) || len(ends) > 0 && ends[0] == i+1 {
			for Flush(p, &flushed, replayFlush) {
			}
		}
		if each != nil {
			each(i, &tr)
		}
	}
	return p.Stats().Sub(before), nil
}

// nextUses returns, for each batch, each row's next batch, from 1, or 0: one backward pass. A row that changes has no use
// beyond.
func (t *Trace) nextUses() [][]uint32 {
	uses := make([][]uint32, len(t.Batches))
	soonest := make([]uint32, t.Rows)
	drops := t.Drops
	for i := len(t.Batches) - 1; i >= 0; i-- {
		for ; len(drops) > 0 && drops[len(drops)-1].Before > i; drops = drops[:len(drops)-1] {
			d := drops[len(drops)-1]
			clear(soonest[d.Lo:min(int(d.Hi), t.Rows)])
		}
		b := t.Batches[i]
		uses[i] = make([]uint32, len(b))
		for k, r := range b {
			uses[i][k], soonest[r] = soonest[r], uint32(i)+1
		}
	}
	return uses
}
