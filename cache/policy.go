package cache

import (
	"errors"
	"fmt"
)

// ErrRow says that a row lies outside those a policy was made for.
var ErrRow = errors.New("row out of range")

// ErrAnnounced says that a batch is not the one that was announced.
var ErrAnnounced = errors.New("not the batch that was announced")

// Names of the policies, as in flags and reports.
const (
	NameNone      = "none"
	NameTracker   = "tracker"
	NameLookahead = "lookahead"
	NamePreSC     = "presc"
)

// Policy decides which rows the places hold. Batches come one after the other, each of distinct rows.
type Policy interface {
	// Name is the policy's, for people.
	Name() string
	// Window is how many batches beyond the coming one a policy makes use of, see Announce; 0: none.
	Window() int
	// Announce tells the rows of the batch that follows those announced before; batches are announced once, at most
	// Window ahead of the coming one, before Next admits them in the same order. What a policy without window is
	// told it forgets.
	Announce(rows []uint32) error
	// Next admits a batch. After an error the policy is of no use.
	Next(rows []uint32, t *Transfer) error
	// Drop forgets rows lo … hi−1: they mean other nodes from now on. None of them may be announced.
	Drop(lo, hi uint32)
	// Stats returns the totals since the policy was made.
	Stats() Stats
	// Close frees the books.
	Close() error
}

// Transfer is what one batch needs: once row Send[i] has been copied to place To[i] for every i, the batch's row k lies
// in place Loc[k], until the next batch is admitted. The slices belong to the caller, and a call with the same Transfer
// reuses them.
type Transfer struct {
	Loc  []uint32 // of the batch's rows, in its order
	Send []uint32 // rows to send
	To   []uint32 // their places
	// Direct says that there are not places enough for the batch: nothing is sent, nothing but Direct is set, and all its
	// rows are to be read from where they are.
	Direct bool
	// Of rows that batches change ([Options].Written): rows whose newest copy is in their places, From, and goes back before anything
	// is sent.
	Back, From []uint32
}

// reset makes t one of a batch of n rows that sends nothing yet.
func (t *Transfer) reset(n int) {
	if cap(t.Loc) < n || cap(t.Send) <= n { // Send has one more: what the tracker writes past the last one
		n8 := n + n/8 // batches of nearly equal sizes settle
		t.Loc, t.Send, t.To = make([]uint32, n8), make([]uint32, 0, n8+1), make([]uint32, 0, n8+1)
	}
	t.Loc, t.Send, t.To, t.Direct = t.Loc[:n], t.Send[:0], t.To[:0], false
}

// send notes that row, the batch's k-th, goes to a place.
func (t *Transfer) send(k int, row, place uint32) {
	t.Loc[k] = place
	t.Send, t.To = append(t.Send, row), append(t.To, place)
}

// Stats counts rows over a policy's life.
type Stats struct {
	Hits   uint64 `json:"hits"`   // rows that lay in a place
	Misses uint64 `json:"misses"` // rows sent for a batch, or read directly
	Pinned uint64 `json:"pinned"` // rows sent to the fixed region
	// Of rows that batches change: how many they did, and how many were sent back.
	Changed  uint64 `json:"changed,omitempty"`
	Returned uint64 `json:"returned,omitempty"`
}

// Add adds o.
func (s *Stats) Add(o Stats) {
	s.Hits, s.Misses, s.Pinned = s.Hits+o.Hits, s.Misses+o.Misses, s.Pinned+o.Pinned
	s.Changed, s.Returned = s.Changed+o.Changed, s.Returned+o.Returned
}

// Sub takes o, of an earlier moment, off.
func (s Stats) Sub(o Stats) Stats {
	return Stats{s.Hits - o.Hits, s.Misses - o.Misses, s.Pinned - o.Pinned, s.Changed - o.Changed, s.Returned - o.Returned}
}

// HitRate is the share of rows that lay in a place; 0 without rows.
func (s Stats) HitRate() float64 { return float64(s.Hits) / float64(max(1, s.Hits+s.Misses)) }

// BytesSaved is what hits did not move, at rowBytes bytes a row, less what the fixed region took.
func (s Stats) BytesSaved(rowBytes int64) int64 { return int64(s.Hits-s.Pinned) * rowBytes }

// BytesMoved is what was sent, at rowBytes bytes a row.
func (s Stats) BytesMoved(rowBytes int64) int64 { return int64(s.Misses+s.Pinned) * rowBytes }

// BytesReturned is what went back, at backBytes bytes a row.
func (s Stats) BytesReturned(backBytes int64) int64 { return int64(s.Returned) * backBytes }

// Traffic is what rows cost between two memories.
type Traffic struct {
	Policy string `json:"policy"`
	Stats
	MovedBytes    int64 `json:"moved_bytes"`              // to the smaller one
	ReturnedBytes int64 `json:"returned_bytes,omitempty"` // from it: rows that batches change
	SavedBytes    int64 `json:"saved_bytes"`              // that would have been, if each batch sent all its rows, and got those back that it changes
}

// NewTraffic is a policy's over some batches, at rowBytes bytes a row, of which backBytes are changed.
func NewTraffic(policy string, s Stats, rowBytes, backBytes int64) *Traffic {
	return &Traffic{policy, s, s.BytesMoved(rowBytes), s.BytesReturned(backBytes), s.BytesSaved(rowBytes) + int64(s.Changed-s.Returned)*backBytes}
}

// Add adds o, of the same rows.
func (t *Traffic) Add(o *Traffic) {
	t.Policy = o.Policy
	t.Stats.Add(o.Stats)
	t.MovedBytes, t.ReturnedBytes, t.SavedBytes = t.MovedBytes+o.MovedBytes, t.ReturnedBytes+o.ReturnedBytes, t.SavedBytes+o.SavedBytes
}

// Options describe a policy.
type Options struct {
	Policy string // NameNone, NameTracker, NamePreSC or NameLookahead ("" = it)
	Rows   int    // rows are below this
	Places int    // that hold rows from one batch to the next
	// Batch is how many rows of one batch there is room for beside those that are kept; 0 = Rows: places from Places to
	// Places + Batch − 1. Batches that need more are read directly, see [Transfer].Direct.
	Batch int
	// Window is lookahead's; 0 = WindowDefault, at most WindowMax.
	Window int
	// Hot are presc's rows, hottest first, as [Hotness.Hottest] lists them. It is the caller's, and not to be changed.
	Hot []uint32
	// Written says that batches change their rows: the policy is a [Flusher], and batches of more rows than places are errors.
	Written bool
}

const (
	// WindowMax is the most batches beyond the coming one that a lookahead policy is told of.
	WindowMax = 62
	// WindowDefault is as good as the whole epoch while it covers what the places hold, and WindowMax where it covers about twice
	// that: docs/benchmarks.md, "Host to device".
	WindowDefault = 16
)

// Validate says what is wrong with o.
func (o Options) Validate() error {
	if o.Rows < 0 || o.Places < 0 || o.Batch < 0 || int64(o.Rows) >= 1<<31 || int64(o.Places)+int64(o.batch()) >= 1<<31 {
		return fmt.Errorf("cache: %d rows, %d places, batches of %d rows: expected 0 to 2³¹−1", o.Rows, o.Places, o.Batch)
	}
	if o.Window < 0 || o.Window > WindowMax {
		return fmt.Errorf("cache: a window of %d batches: expected 1 to %d", o.Window, WindowMax)
	}
	switch o.Policy {
	case "", NameNone, NameTracker, NameLookahead, NamePreSC:
		return nil
	}
	return fmt.Errorf("cache: policy %q is not known (known: %s, %s, %s, %s)", o.Policy, NameNone, NameTracker, NameLookahead, NamePreSC)
}

func (o Options) batch() int {
	if o.Batch == 0 {
		return o.Rows
	}
	return min(o.Batch, o.Rows)
}

// Need is what the books of a policy take, in bytes.
func Need(o Options) int64 {
	if o.Written {
		n := reserved(writtenBytes(o))
		o.Written = false
		return n + Need(o)
	}
	switch o.Policy {
	case NameNone:
		return 0
	case NameTracker:
		return reserved(trackerBytes(o))
	case NamePreSC:
		return reserved(trackerBytes(o)) + 4*int64(min(o.Places, o.Rows))
	}
	return lookaheadBytes(o)
}

// New makes a policy of empty places.
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Written {
		beneath := o
		beneath.Written = false
		p, err := New(beneath)
		if err != nil {
			return nil, err
		}
		return Written(p, o)
	}
	switch o.Policy {
	case NameNone:
		return &none{batch: o.batch()}, nil
	case NameTracker:
		return NewTracker(o)
	case NamePreSC:
		return newPreSC(o)
	}
	return newLookahead(o)
}

// none keeps nothing.
type none struct {
	batch int
	stats Stats
}

func (p *none) Name() string            { return NameNone }
func (p *none) Window() int             { return 0 }
func (p *none) Announce([]uint32) error { return nil }
func (p *none) Drop(lo, hi uint32)      {}
func (p *none) Stats() Stats            { return p.stats }
func (p *none) Close() error            { return nil }

func (p *none) Next(rows []uint32, t *Transfer) error {
	t.reset(len(rows))
	if t.Direct = len(rows) > p.batch; !t.Direct {
		for k, r := range rows {
			t.send(k, r, uint32(k))
		}
	}
	p.stats.Misses += uint64(len(rows))
	return nil
}
