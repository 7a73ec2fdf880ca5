package graph

import "errors"

// Sentinels that callers match with [errors.Is].
var (
	// ErrOption marks options that make no sense together or for this graph.
	ErrOption = errors.New("invalid partitioner option")
	// ErrBudget marks a memory budget that is too small; the message names the smallest that would do.
	ErrBudget = errors.New("memory budget too small")
)
