package buffer

import (
	"sync"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// SampleInterval is the length of a [BandwidthSample].
const SampleInterval = 100 * time.Millisecond

// StepStats says what one step cost and who waited for whom. Times are since
// the iterator was made.
type StepStats struct {
	Epoch, Step   int
	BytesRead     int64
	TopologyBytes int64 // of BytesRead: buckets and relations
	BytesWritten  int64 // rows of a table written back to make room for the step's
	Requests      int64
	Loaded        int                 // partitions read
	Resident      int                 // partitions in the step
	Partitions    []store.PartitionID // those, ascending; of the plan: not to be changed
	Loads         []store.PartitionID // those read
	Edges         int64               // of all directions made
	NewEdges      int64               // decoded; the others were copied from the last step

	Read        time.Duration // with requests in flight: of topology and of columns, added up
	Write       time.Duration // time of writing back
	WaitBuffers time.Duration // columns waiting for a slot
	Assemble    time.Duration
	Stall       time.Duration // the trainer waiting in Next
	Ready       time.Duration // when the macro-batch was complete,
	Begin       time.Duration // when Next returned it,
	End         time.Duration // and when it was released; 0 = not yet
}

// BandwidthSample is what was read in one SampleInterval.
type BandwidthSample struct {
	At       time.Duration // its beginning
	Bytes    int64
	Requests int64
	// Train is how much of the interval a macro-batch was in the trainer's hands.
	Train time.Duration
}

// Stats are the measurements of an epoch.
type Stats struct {
	Engine       string // "io_uring", …
	EngineReason string // why that one
	Tuning       store.ReadTuning
	MemoryBytes  int64 // held outside the Go heap
	Policy       string
	Epoch        int
	Start        time.Duration // when the epoch started

	BytesRead    int64 // sums over Steps
	BytesWritten int64
	Requests     int64
	Read         time.Duration
	Write        time.Duration
	WaitBuffers  time.Duration
	Assemble     time.Duration
	Stall        time.Duration
	Train        time.Duration // macro-batches in the trainer's hands
	Edges        int64
	NewEdges     int64

	Steps   []StepStats       // of this epoch, by step
	Samples []BandwidthSample // since the epoch started
	IO      blockio.Stats     // the engine's totals, of all its users
}

// metrics collects Stats. Its mutex is held for nanoseconds per request.
type metrics struct {
	mu      sync.Mutex
	origin  time.Time
	fixed   Stats // what does not change over the run
	epoch   int
	policy  string
	start   time.Duration
	steps   map[int][]*stepMeter // by epoch, the current one and those read ahead for
	samples []BandwidthSample
	first   int64 // number of the first sample's interval
	train0  time.Duration
	inHand  bool
	total   int64 // bytes read over the run
}

// stepMeter collects a step's measurements.
type stepMeter struct {
	m *metrics
	StepStats
}

func (m *metrics) init(fixed Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.origin, m.fixed = time.Now(), fixed
	m.epoch = -1
	m.steps = map[int][]*stepMeter{}
}

func (m *metrics) since(t time.Time) time.Duration { return t.Sub(m.origin) }

// startEpoch forgets older epochs.
func (m *metrics) startEpoch(epoch int, policy string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.since(time.Now())
	m.epoch, m.policy, m.start = epoch, policy, now
	for e := range m.steps {
		if e < epoch {
			delete(m.steps, e)
		}
	}
	if drop := int64(now/SampleInterval) - m.first; drop > 0 {
		m.samples = append(m.samples[:0], m.samples[min(int64(len(m.samples)), drop):]...)
		m.first += drop
	}
}

// step returns the meter of a step.
func (m *metrics) step(s *scheduled) *stepMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.steps[s.epoch]) <= s.index {
		m.steps[s.epoch] = append(m.steps[s.epoch], &stepMeter{m: m, StepStats: StepStats{Epoch: s.epoch, Step: len(m.steps[s.epoch])}})
	}
	st := m.steps[s.epoch][s.index]
	st.Loaded, st.Resident = len(s.loads), len(s.resident)
	if st.Partitions = s.step.Resident; st.Loads == nil {
		for _, l := range s.loads {
			st.Loads = append(st.Loads, l.part)
		}
	}
	return st
}

// sample returns the sample of the interval that holds t; the lock is held.
func (m *metrics) sample(t time.Duration) *BandwidthSample {
	k := int64(t/SampleInterval) - m.first
	for int64(len(m.samples)) <= k {
		m.samples = append(m.samples, BandwidthSample{At: time.Duration(m.first+int64(len(m.samples))) * SampleInterval})
	}
	return &m.samples[max(0, k)]
}

// trained spreads the time of a macro-batch in hand, up to now, over the samples; the lock is held.
func (m *metrics) trained(now time.Duration) {
	for m.inHand && m.train0 < now {
		next := min(now, (m.train0/SampleInterval+1)*SampleInterval)
		m.sample(m.train0).Train += next - m.train0
		m.train0 = next
	}
}

func (m *metrics) begin(s *scheduled, asked time.Time) {
	st := m.step(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	st.Stall, st.Begin = now.Sub(asked), m.since(now)
	m.train0, m.inHand = st.Begin, true
}

func (m *metrics) end(s *scheduled) {
	st := m.step(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	st.End = m.since(time.Now())
	m.trained(st.End)
	m.inHand = false
}

func (st *stepMeter) waited(from time.Time) {
	st.m.mu.Lock()
	st.WaitBuffers += time.Since(from)
	st.m.mu.Unlock()
}

func (st *stepMeter) read(bytes int64) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	st.BytesRead += bytes
	st.m.total += bytes
	st.Requests++
	s := st.m.sample(st.m.since(time.Now()))
	s.Bytes += bytes
	s.Requests++
}

func (st *stepMeter) took(from time.Time) {
	st.m.mu.Lock()
	st.Read += time.Since(from)
	st.m.mu.Unlock()
}

func (st *stepMeter) wrote(bytes int64, took time.Duration) {
	st.m.mu.Lock()
	st.BytesWritten += bytes
	st.Write += took
	st.m.mu.Unlock()
}

func (st *stepMeter) topology(bytes int64) {
	st.m.mu.Lock()
	st.TopologyBytes += bytes
	st.m.mu.Unlock()
}

func (st *stepMeter) assembled(from time.Time, a assembleStats) {
	st.m.mu.Lock()
	st.Assemble += time.Since(from)
	st.Edges, st.NewEdges = a.edges, a.newEdges
	st.m.mu.Unlock()
}

func (st *stepMeter) ready() {
	st.m.mu.Lock()
	st.Ready = st.m.since(time.Now())
	st.m.mu.Unlock()
}

func (m *metrics) snapshot(io blockio.Stats) Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.since(time.Now())
	m.trained(now)
	s := m.fixed
	s.Policy, s.Epoch, s.Start, s.IO = m.policy, m.epoch, m.start, io
	for _, st := range m.steps[m.epoch] {
		s.BytesRead += st.BytesRead
		s.BytesWritten += st.BytesWritten
		s.Requests += st.Requests
		s.Read += st.Read
		s.Write += st.Write
		s.WaitBuffers += st.WaitBuffers
		s.Assemble += st.Assemble
		s.Stall += st.Stall
		s.Edges += st.Edges
		s.NewEdges += st.NewEdges
		if st.Begin > 0 {
			end := st.End
			if end == 0 {
				end = now
			}
			s.Train += end - st.Begin
		}
		s.Steps = append(s.Steps, st.StepStats)
	}
	s.Samples = append(s.Samples, m.samples...)
	return s
}
