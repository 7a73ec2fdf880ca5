package mini

import "errors"

// Sentinels that callers match with errors.Is.
var (
	// ErrSeeds marks seeds that cannot be sampled for: a row outside the macro-batch, or one listed twice.
	ErrSeeds = errors.New("bad seeds")
	// ErrTooLarge marks a batch of more than 2³¹−1 edges in one block.
	ErrTooLarge = errors.New("mini-batch too large")
	// ErrClosed is returned by a Loader after Close.
	ErrClosed = errors.New("mini: closed")
)
