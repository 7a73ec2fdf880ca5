package blockio

// Faults is the test seam of engines.
type Faults struct {
	Shorten func(n int, direct bool) int
	Result  func(op Op, n int, err error) (int, error)
}

// WithFaults returns o with the kernel's answers made worse.
func WithFaults(o Options, f Faults) Options {
	o.faults = &faults{shorten: f.Shorten, result: f.Result}
	return o
}
