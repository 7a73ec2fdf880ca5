package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// TestWithin: a bound that nobody asked for gives way to the smallest that works, as far as the machine goes; one that was asked for does not.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name    string
		unasked bool
		least   int64
		again   bool
	}{
		{"unasked, a little more", true, 90 << 20, true},
		{"asked for", false, 90 << 20, false},
		{"unasked, more than there is", true, budget.MostBytes() + 1, false},
	} {
		var errs bytes.Buffer
		e := &Env{Stderr: &errs}
		memory, runs := int64(80<<20), 0
		_, err := Within(e, c.unasked, &memory, func() (int, error) {
			if runs++; memory >= c.least {
				return 1, nil
			}
			return 0, fmt.Errorf("plan: %w", &budget.TooSmall{LeastBytes: c.least})
		})
		if again := runs == 2; again != c.again || c.again != (err == nil) || !c.again && !errors.Is(err, store.ErrBudget) || c.again != (memory == c.least) {
			t.Errorf("%s: %d runs, at last within %d: %v", c.name, runs, memory, err)
		}
		if strings.Contains(errs.String(), "the smallest that works") != c.again {
			t.Errorf("%s: said %q", c.name, errs.String())
		}
	}
}
