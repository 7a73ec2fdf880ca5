// Package budget divides what a run may hold in memory.
package budget

import (
	"errors"
	"fmt"
	"sort"

	"github.com/gstore/gstore/store"
)

// What a run needs besides the partition buffer, as shares of its budget.
// Half of the rest of the program's memory is the Go runtime and Pebble.
const (
	ProgramBytes = 64 << 20 // code, Go runtime, model, sampler
	EvalShare    = 4        // 1/4 of what is left is the evaluator's
	BatchShare   = 6        // 1/6 the tensors of mini-batches'
)

// Share returns the n-th part of what a budget leaves after the program itself; 0 stays no bound.
func Share(memory int64, n int64) int64 {
	if memory == 0 {
		return 0
	}
	return max((memory-ProgramBytes)/n, 1)
}

// Least returns err, but where it is [store.ErrBudget] one that names the least whole MiB with which try succeeds.
func Least(err error, budget int64, try func(memory int64) error) error {
	const unit, most = 1 << 20, 1 << 24 // most: 16 TiB
	if !errors.Is(err, store.ErrBudget) {
		return err
	}
	least := 1 + sort.Search(most, func(n int) bool { return !errors.Is(try(int64(n+1)*unit), store.ErrBudget) })
	if terr := try(int64(least) * unit); terr != nil {
		return err // the budget is not all that is wrong
	}
	return fmt.Errorf("%w: %.1f MiB; the smallest that works is %dMiB, or less with more partitions", store.ErrBudget, float64(budget)/unit, least)
}
