// Package budget says who holds what of a run's memory.
//
// # Model
//
// An [Account] divides a budget among named holders. Some need so many bytes whatever the budget is; elastic ones take a share of
// what the program leaves where that is more than they need. The plan takes what is left for the partition buffer. Plan, refusal
// and the smallest budget follow from the same account: a budget is refused before a run begins, with the smallest that
// works and its parts ([Smallest]), and a run that begins holds no more than its account says.
//
// OpenMemory of gpu/train and of gpu/link makes the account of a run. What else takes memory is one more holder there; gstore
// plan and gstore train --explain list all holders by themselves.
package budget

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/gstore/gstore/store"
)

// Shares of what a budget leaves after the program.
const (
	ProgramBytes = 72 << 20 // code and constants (45 MiB where all are mapped), Go runtime, Pebble, sampled batches
	CodeBytes    = 48 << 20 // of these what is not in Go's heap: code, constants, variables, tables of the runtime, stacks
	EvalShare    = 4        // 1/4 the evaluator's, if it needs no more
	BatchShare   = 6        // 1/6 the tensors of mini-batches', if they need no more
)

// Program is the name of the holder that every account begins with, of [ProgramBytes] or more.
const Program = "program"

// Holder is one of those who share a budget.
type Holder struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Elastic bool   `json:"elastic"`        // takes more where there is more
	Heap    bool   `json:"heap,omitempty"` // it is in Go's heap, see [Account.HeapBytes]
}

// Account is a budget, divided.
type Account struct {
	TotalBytes int64    `json:"total_bytes"` // 0: no bound, and no holders
	Holders    []Holder `json:"holders"`
}

// Hold adds a holder.
func (a *Account) Hold(name string, bytes int64, elastic bool) {
	a.Holders = append(a.Holders, Holder{Name: name, Bytes: bytes, Elastic: elastic})
}

// HoldHeap adds a holder of memory in Go's heap.
func (a *Account) HoldHeap(name string, bytes int64) {
	a.Holders = append(a.Holders, Holder{Name: name, Bytes: bytes, Heap: true})
}

// HeapBytes is what the account has for Go's heap, that of the program included: more of it is garbage, which is collected before it
// takes what others hold. See [Begin].
func (a *Account) HeapBytes() int64 {
	n := a.Of(Program) - CodeBytes
	for _, h := range a.Holders {
		if h.Heap {
			n += h.Bytes
		}
	}
	return n
}

// Of returns what holders of a name take.
func (a *Account) Of(name string) (n int64) {
	for _, h := range a.Holders {
		if h.Name == name {
			n += h.Bytes
		}
	}
	return n
}

// LeftBytes is what no holder takes yet; below 0 the budget is too small.
func (a *Account) LeftBytes() int64 {
	n := a.TotalBytes
	for _, h := range a.Holders {
		n -= h.Bytes
	}
	return n
}

// LeastBytes is the least whole MiB that is enough for the holders.
func (a *Account) LeastBytes() int64 {
	held := Account{Holders: a.Holders}
	return (-held.LeftBytes() + 1<<20 - 1) &^ (1<<20 - 1)
}

// Fits refuses an account whose holders take more than there is, whatever there is: the error, a [TooSmall], names the least whole MiB
// that is enough.
func (a *Account) Fits() error {
	if a.LeftBytes() >= 0 {
		return nil
	}
	need := *a
	need.TotalBytes = a.LeastBytes()
	return &TooSmall{need.TotalBytes, fmt.Sprintf("%v: %.1f MiB; the smallest that works is %dMiB: of %s", store.ErrBudget, mib(a.TotalBytes), need.TotalBytes>>20, &need)}
}

// String lists the parts, in MiB.
func (a *Account) String() string {
	var parts []string
	for _, h := range a.Holders {
		if h.Bytes > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f", h.Name, mib(h.Bytes)))
		}
	}
	return fmt.Sprintf("%.1f MiB: %s", mib(a.TotalBytes), strings.Join(parts, ", "))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// Beside is what a budget leaves beside the program and so many bytes that are held, 1 at the least; 0 of none, which bounds nothing.
func Beside(total, held int64) int64 {
	if total == 0 {
		return 0
	}
	return max(total-ProgramBytes-held, 1)
}

// Share returns the n-th part of what a budget leaves after the program itself, which may be below 0 then.
func Share(memory, program, n int64) int64 { return max(memory-program, 0) / n }

// Smallest returns err, but where it is [store.ErrBudget] one that names the least whole MiB with which try succeeds, and the
// parts of that account. try must be a function of the budget that succeeds with all larger ones, and should read nothing.
func Smallest(err error, budget int64, try func(memory int64) (Account, error)) error {
	const unit, most = 1 << 20, 1 << 24 // most: 16 TiB
	if !errors.Is(err, store.ErrBudget) {
		return err
	}
	fails := func(n int) bool { _, err := try(int64(n) * unit); return errors.Is(err, store.ErrBudget) }
	least := 1 + sort.Search(most, func(n int) bool { return !fails(n + 1) })
	parts, terr := try(int64(least) * unit)
	if terr != nil {
		return err // the budget is not all that is wrong
	}
	return &TooSmall{int64(least) * unit, fmt.Sprintf("%v: %.1f MiB; the smallest that works is %dMiB, or less with more partitions: of %s", store.ErrBudget, mib(budget), least, &parts)}
}

// TooSmall is the error of a budget that is too small, an [store.ErrBudget]; LeastBytes is the smallest that works.
type TooSmall struct {
	LeastBytes int64
	text       string
}

func (e *TooSmall) Error() string { return e.text }

// Unwrap is [store.ErrBudget].
func (e *TooSmall) Unwrap() error { return store.ErrBudget }

// Smaller is which of two ways that a budget is too small for, the second perhaps nil, names the smaller one that works: err, where
// that is not known of both.
func Smaller(err, other error) error {
	var a, b *TooSmall
	if errors.As(err, &a) && errors.As(other, &b) && b.LeastBytes < a.LeastBytes {
		return other
	}
	return err
}
