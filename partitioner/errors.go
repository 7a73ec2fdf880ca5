package partitioner

import (
	"errors"

	"github.com/gstore/gstore/partitioner/graph"
)

// Sentinels that callers match with [errors.Is].
var (
	// ErrOption marks options that make no sense together or for this graph.
	ErrOption = graph.ErrOption
	// ErrBudget marks a memory budget that is too small; the message names the smallest that would do.
	ErrBudget = graph.ErrBudget
	// ErrFile marks an assignment file that is not what its name promises.
	ErrFile = errors.New("invalid assignment file")
)

// Bounds of what is partitioned.
const (
	MaxNodes      = graph.MaxNodes
	MaxPartitions = graph.MaxPartitions
)
