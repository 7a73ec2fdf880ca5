package link

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store/buffer"
)

// epoch is the epoch in hand. A step trains the edges of its buckets; the embeddings of their ends are rows of the macro-batch.
type epoch struct {
	record    Epoch
	plan      buffer.Plan
	first     int  // step of this process
	announced bool // the next epoch's plan
	evaluated bool // in the last step, whose macro-batch held the whole graph
}

// Begin implements [run.Task].
func (s *session) Begin(_ context.Context, x *run.Epoch) error {
	plan, bias := s.takePlan(x.Number)
	s.sum.Plan = plan.Policy
	if err := s.it.StartAt(plan, x.From.Step); err != nil {
		return fmt.Errorf("train: epoch %d: %w", x.Number+1, err)
	}
	// The next plan is made beside this epoch's first half and announced in its middle: it is ready by then, and the
	// buffer still has steps over which to read ahead. A plan of one step keeps what is resident: nothing to announce.
	if !x.Last && len(plan.Steps) > 1 {
		s.makePlan(x.Number + 1)
	}
	s.epoch = epoch{record: Epoch{Epoch: x.Number + 1, Bias: bias}, plan: plan, first: x.From.Step - x.Steps, announced: s.next == nil}
	x.Moved = func(t *progress.Totals) {
		stats := s.it.Stats()
		t.BytesRead, t.BytesWritten = t.BytesRead+stats.BytesRead, t.BytesWritten+stats.BytesWritten
	}
	return nil
}

// Step implements [run.Task].
func (s *session) Step(ctx context.Context, x *run.Epoch) (run.Batches, error) {
	if err := s.evaluateResident(ctx, x); err != nil {
		return nil, err
	}
	if e := &s.epoch; !e.announced && e.first+x.Steps >= len(e.plan.Steps)/2 {
		e.announced = true
		if err := s.it.Announce(s.next.wait().plan); err != nil {
			return nil, fmt.Errorf("train: epoch %d: %w", x.Number+2, err)
		}
	}
	// What Next takes is waiting for the disk and the assembler: all else of the loop computes.
	if !x.Wait(s.it.Next) {
		if err := s.it.Err(); err != nil {
			return nil, fmt.Errorf("train: epoch %d: %w", x.Number+1, err)
		}
		return nil, nil
	}
	mb := s.it.MacroBatch()
	if err := s.embed(mb); err != nil {
		return nil, err
	}
	return s.t.enter(ctx, x.Number, mb, s.e, x.From, x.Counts.Examples)
}

// embed finds the embeddings once the buffer is known: they are its memory, at one address for the whole run.
func (s *session) embed(mb *buffer.MacroBatch) (err error) {
	if s.e == nil {
		s.e, err = mapEmbeddings(s.t.queue.Device(), mb, s.cfg.TableDim())
	}
	return err
}

// evaluateResident evaluates behind the last step, if its macro-batch holds the whole graph, with rows as trained: it lives until the
// buffer's Next, and nothing is read again.
func (s *session) evaluateResident(ctx context.Context, x *run.Epoch) error {
	mb, e := s.it.MacroBatch(), &s.epoch
	if x.Steps == x.Was.Steps || mb.StepIndex != len(e.plan.Steps)-1 || len(mb.Partitions) != len(s.st.Manifest().Partitions) {
		return nil
	}
	x.Stop()
	e.evaluated, e.record.DeviceRows = true, s.t.rows.Traffic()
	return s.evaluate(ctx, &e.record, s.inputsOf(residentRows(mb, s.cfg.TableDim()), residentFeatures(mb)))
}

// Trained implements [run.Task].
func (s *session) Trained(x *run.Epoch) {
	r, t := &s.epoch.record, &x.Trained
	if !s.epoch.evaluated {
		r.DeviceRows = s.t.rows.Traffic() // evaluation may take the rows away
	}
	r.Steps, r.Seconds, r.CPUSeconds, r.BytesRead, r.BytesWritten = x.Steps, t.Seconds, t.CPUSeconds, t.BytesRead, t.BytesWritten
	r.Loss, r.Batches, r.SampledEdges, r.Profile, r.DeviceTimes = x.Loss(), x.Counts.Batches, x.Counts.Edges, x.Counts.Profile, x.Times
}

// Validate implements [run.Task]. The last epoch's model is the result; validation says how many there are in a run with patience.
func (s *session) Validate(ctx context.Context, _ *run.Epoch) error {
	if !s.epoch.evaluated {
		if err := s.evaluateTable(ctx, &s.epoch.record); err != nil {
			return err
		}
	}
	if s.hooks.Macro != nil {
		s.hooks.Macro(s.it.Stats(), s.epoch.record.DeviceRows)
	}
	s.sum.add(&s.epoch.record)
	s.judge(&s.epoch.record)
	return nil
}

// Report implements [run.Task].
func (s *session) Report(*run.Epoch) {
	if s.hooks.Epoch != nil {
		s.hooks.Epoch(s.epoch.record)
	}
}

// Torn implements [run.Task].
func (s *session) Torn() bool { return s.t.stepping }
