package rows

import (
	"fmt"
	"sync"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// StartAt begins an epoch: plan has one step, which holds all partitions, and first is 0. See [buffer.Buffer.StartAt].
func (r *Reader) StartAt(plan buffer.Plan, first int) error {
	if len(plan.Steps) != 1 || len(plan.Steps[0].Resident) != len(r.m.Partitions) || first != 0 {
		return fmt.Errorf("%w: plan %q of %d steps from step %d on: rows are read for one step that holds all partitions", store.ErrInvalid, plan.Policy, len(plan.Steps), first)
	}
	if err := r.Err(); err != nil {
		return err
	}
	r.epoch++
	r.finished = false
	r.batch.Step = plan.Steps[0]
	r.stats.begin(r.epoch)
	return nil
}

// Next reports whether the epoch's macro-batch comes next: once.
func (r *Reader) Next() bool {
	if r.finished || r.Err() != nil {
		r.stats.end(r.epoch)
		return false
	}
	r.finished = true
	return true
}

// NextReady reports that Next does not wait.
func (r *Reader) NextReady() bool { return true }

// MacroBatch returns the graph, without features, which Take numbers: the same for all epochs, valid until Close.
func (r *Reader) MacroBatch() *buffer.MacroBatch { return &r.batch }

// Announce does nothing: what the next epoch reads is known from Push.
func (r *Reader) Announce(buffer.Plan) error { return nil }

// PredictBytes returns what the epoch in hand reads, as far as its batches are decided: at its end, when all are, what Stats reports.
func (r *Reader) PredictBytes(buffer.Plan) int64 {
	f := r.Forecast(r.epoch)
	return f.Bytes()
}

// Err returns what ended reading early.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure()
}

// Stats returns counts and times of the current epoch and the bandwidth since the last call that came after an epoch's end.
func (r *Reader) Stats() buffer.Stats {
	s := r.stats.of(r.epoch)
	if r.engine != nil {
		s.IO = r.engine.Stats()
	}
	return s
}

// stats are the measurements of epochs, each of one step.
type stats struct {
	mu      sync.Mutex
	origin  time.Time
	fixed   buffer.Stats
	graph   buffer.StepStats // reading it: the first epoch's
	epochs  map[int]*meter
	samples []buffer.BandwidthSample
	first   int64 // number of the first sample's interval
}

// restart begins again with epoch 0, which does not read the graph.
func (s *stats) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.graph.BytesRead, s.graph.TopologyBytes, s.graph.Assemble = 0, 0, 0
	s.epochs = map[int]*meter{}
}

// meter measures an epoch.
type meter struct {
	s *stats
	buffer.StepStats
	taken time.Time // when the batch in hand was; zero: none
}

func (s *stats) init(fixed buffer.Stats, g *graph, start time.Time, partitions int) {
	s.origin, s.fixed, s.epochs = start, fixed, map[int]*meter{}
	s.graph = buffer.StepStats{BytesRead: g.read, TopologyBytes: g.read, Loaded: partitions, Edges: int64(len(g.adj.Indices)), NewEdges: int64(len(g.adj.Indices)), Assemble: time.Since(start)}
}

// meter returns the epoch's.
func (s *stats) meter(epoch int) *meter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meterLocked(epoch)
}

func (s *stats) meterLocked(epoch int) *meter {
	m := s.epochs[epoch]
	if m == nil {
		m = &meter{s: s, StepStats: buffer.StepStats{Epoch: epoch, Resident: s.graph.Loaded}}
		if epoch == 0 {
			m.StepStats = s.graph
			m.Resident = s.graph.Loaded
		}
		s.epochs[epoch] = m
	}
	return m
}

func (s *stats) begin(epoch int) {
	m := s.meter(epoch)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Begin = time.Since(s.origin)
	m.Ready = m.Begin
	delete(s.epochs, epoch-2)
	if drop := int64(m.Begin/buffer.SampleInterval) - s.first; drop > 0 {
		s.samples = append(s.samples[:0], s.samples[min(int64(len(s.samples)), drop):]...)
		s.first += drop
	}
}

func (s *stats) end(epoch int) {
	m := s.meter(epoch)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.End == 0 {
		m.End = time.Since(s.origin)
	}
}

// of returns the epoch's.
func (s *stats) of(epoch int) buffer.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.fixed
	out.Epoch = max(0, epoch)
	if m := s.epochs[epoch]; m != nil {
		end := m.End
		if end == 0 {
			end = time.Since(s.origin)
		}
		out.Start, out.BytesRead, out.Requests, out.Read = m.Begin, m.BytesRead, m.Requests, m.Read
		out.BytesWritten, out.WaitBuffers, out.Assemble, out.Stall, out.Edges, out.NewEdges = m.BytesWritten, m.WaitBuffers, m.Assemble, m.Stall, m.Edges, m.NewEdges
		out.Train = max(0, end-m.Begin-m.Stall)
		out.Steps = []buffer.StepStats{m.StepStats}
	}
	out.Samples = append(out.Samples, s.samples...)
	return out
}

// sample returns that of the interval that holds t; the lock is held.
func (s *stats) sample(t time.Duration) *buffer.BandwidthSample {
	k := int64(t/buffer.SampleInterval) - s.first
	for int64(len(s.samples)) <= k {
		s.samples = append(s.samples, buffer.BandwidthSample{At: time.Duration(s.first+int64(len(s.samples))) * buffer.SampleInterval})
	}
	return &s.samples[max(0, k)]
}

// read counts a request that is complete.
func (m *meter) read(bytes int64) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.BytesRead += bytes
	m.Requests++
	at := m.s.sample(time.Since(m.s.origin))
	at.Bytes += bytes
	at.Requests++
}

// wrote counts a write that is complete.
func (m *meter) wrote(bytes int64) {
	m.s.mu.Lock()
	m.BytesWritten += bytes
	m.s.mu.Unlock()
}

// loaded counts a batch whose rows are in the cache.
func (m *meter) loaded(waiting, start time.Time) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.WaitBuffers += start.Sub(waiting)
	m.Read += time.Since(start)
}

// take counts a batch that the trainer waited for since asked.
func (m *meter) take(asked time.Time) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.taken = time.Now()
	m.Stall += m.taken.Sub(asked)
}

// done spreads the time that the batch was in hand over the samples.
func (m *meter) done() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	at, now := m.taken.Sub(m.s.origin), time.Since(m.s.origin)
	for at < now {
		next := min(now, (at/buffer.SampleInterval+1)*buffer.SampleInterval)
		m.s.sample(at).Train += next - at
		at = next
	}
}
