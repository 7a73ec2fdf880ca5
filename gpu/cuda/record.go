//go:build cuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

// program is a captured graph. Kernels in it have the addresses of the stream's scratch: as long as there is a program, scratch
// that was grown out of stays.
type program struct {
	s     *stream
	graph driver.Graph
}

// Record captures what issue issues. Operations keep out what a capture may not have: copies by way of staging memory,
// scratch that would grow, waits.
func (s *stream) Record(issue func()) (gpu.Program, error) {
	if s.dev.blocking {
		return nil, fmt.Errorf("%s: steps %w: CUDA_LAUNCH_BLOCKING waits for each operation", s.dev.name, gpu.ErrNotRecorded)
	}
	if !s.begin(opRecorded) { // also the event of the segment's first operation, which is no part of it
		return nil, s.err
	}
	if err := s.dev.ctx.BeginCapture(s.cu); err != nil {
		return nil, fmt.Errorf("%s: steps %w: %w", s.dev.name, gpu.ErrNotRecorded, err)
	}
	s.recording = true
	issue()
	s.recording = false
	g, err := s.dev.ctx.EndCapture(s.cu)
	failed := s.err
	s.err = nil
	if failed == nil && err != nil {
		failed = fmt.Errorf("%s: steps %w: %w", s.dev.name, gpu.ErrNotRecorded, err)
	}
	if failed != nil {
		if err == nil {
			failed = errors.Join(failed, s.dev.ctx.DestroyGraph(g))
		}
		return nil, failed
	}
	p := &program{s, g}
	s.programs[p] = struct{}{}
	return p, nil
}

// Replay issues a program by one call.
func (s *stream) Replay(p gpu.Program) {
	if s.begin(opRecorded) {
		s.issued(s.dev.ctx.LaunchGraph(p.(*program).graph, s.cu))
	}
}

// Close waits for the stream, which may run the program.
func (p *program) Close() error {
	s := p.s
	if _, ok := s.programs[p]; !ok {
		return nil
	}
	var err error
	if s.dev.broken() == nil {
		err = s.dev.ctx.Wait(s.event, s.cu)
	}
	return errors.Join(err, s.forget(p))
}

// forget frees a program that does not run, and with the last one the scratch that was kept for them.
func (s *stream) forget(p *program) error {
	delete(s.programs, p)
	err := s.dev.ctx.DestroyGraph(p.graph)
	if len(s.programs) == 0 {
		for _, m := range s.kept {
			err = errors.Join(err, m.Free())
		}
		s.kept = nil
	}
	if s.dev.broken() != nil {
		return nil // the driver repeats what was reported
	}
	return err
}

// unrecorded reports whether operation op is no part of a recording; in one it fails.
func (s *stream) unrecorded(op string) bool {
	if s.recording {
		s.fail(fmt.Errorf("%s: %s %w", s.dev.name, op, gpu.ErrNotRecorded))
	}
	return !s.recording
}
