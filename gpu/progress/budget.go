package progress

import (
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

// BudgetError makes [store.ErrBudget] of an arena's bound, with the remedy.
func BudgetError(err error) error {
	var e *gpu.BoundError
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%w: the tensors of a mini-batch take more than the %d MiB that the partition buffer and evaluation leave of it: give more memory, smaller batches, fewer neighbours or negatives, or fewer resident partitions: %w",
		store.ErrBudget, e.BoundBytes>>20, err)
}
