package blockio

import "time"

// Faults is the test seam of engines.
type Faults struct {
	Shorten func(n int, direct bool) int
	Result  func(op Op, n int, err error) (int, error)
	Enter   func() error
	Settle  time.Duration
}

// WithFaults returns o with the kernel's answers made worse.
func WithFaults(o Options, f Faults) Options {
	o.faults = &faults{shorten: f.Shorten, result: f.Result, enter: f.Enter, settle: f.Settle}
	return o
}
