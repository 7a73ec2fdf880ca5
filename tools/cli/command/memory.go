package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// MemoryMarksEnv names a file to which a command writes what it held at each mark of its runs beside what their accounts say, one JSON
// object a mark ([MemoryMark]). It is for those who look for a holder that outgrows its line: tools/budgetcheck reads it.
const MemoryMarksEnv = "GSTORE_MEMORY_MARKS"

// MemoryLine is a line of an account, and what is held of it.
type MemoryLine struct {
	Name    string `json:"name"`
	Account int64  `json:"account_bytes"`
	Held    int64  `json:"held_bytes"`
}

// MemoryMark is what a process held at a mark; of a mark that was passed more than once, when it held most.
type MemoryMark struct {
	Mark   string       `json:"mark"`
	Budget int64        `json:"budget_bytes"`
	RSS    int64        `json:"rss_bytes"`
	Lines  []MemoryLine `json:"lines,omitempty"`
	Over   []string     `json:"over,omitempty"` // names of lines of which more is held than the account says
}

// MarkEnd is the last mark, whose RSS is the process's peak.
const MarkEnd = "end"

// memoryWatcher implements [budget.Watcher] for a process that runs one command at a time.
type memoryWatcher struct {
	file string // of marks; empty: none are taken

	begun sync.Once // the first account: a server has one for each answer

	mu      sync.Mutex
	account budget.Account
	holds   map[*hold]struct{}
	marks   []MemoryMark
}

// hold is what [budget.Watcher].Holds was told.
type hold struct {
	name  string
	bytes func() int64
}

// HeapBeside is what a process has in Go's heap beside what its commands have: nothing in gstore. A test that runs commands in its own
// process would else be collected without end, as its limit would be below what lives.
var HeapBeside int64

// LimitHeap has Go's heap stay within bytes; undo takes it back.
func LimitHeap(bytes int64) (undo func()) {
	limit := debug.SetMemoryLimit(bytes + HeapBeside)
	return func() { debug.SetMemoryLimit(limit) }
}

// Unasked bounds the memory of a command on a store that was given no bound, where the machine might not have as much as the command
// takes ([budget.Unasked]), says so and reports it. perNode is what the vectors take that a node learns.
func (e *Env) Unasked(m *store.Manifest, perNode int64, bytes *int64) bool {
	if *bytes != 0 {
		return false
	}
	why := ""
	if *bytes, why = budget.Unasked(m, perNode); why == "" {
		return false
	}
	e.tellMemory(*bytes, why)
	return true
}

func (e *Env) tellMemory(bytes int64, why string) {
	e.Event("memory", map[string]any{"bytes": bytes, "why": why})
	if !e.JSON && !e.Quiet {
		fmt.Fprintln(e.Stderr, why)
	}
}

// Within runs a command within *bytes. Where these were taken unasked and are too few, and the smallest that works is still within what
// the machine has, the command has that.
func Within[R any](e *Env, unasked bool, bytes *int64, run func() (R, error)) (R, error) {
	r, err := run()
	var small *budget.TooSmall
	if !unasked || !errors.As(err, &small) || small.LeastBytes > budget.MostBytes() {
		return r, err
	}
	*bytes = small.LeastBytes
	e.tellMemory(*bytes, fmt.Sprintf("memory: at most %s, the smallest that works", FormatSize(*bytes)))
	return run()
}

// WatchMemory returns a context whose runs have a bound on Go's heap by their accounts. done undoes it and writes the marks, where
// [MemoryMarksEnv] asks for them.
func WatchMemory(ctx context.Context) (_ context.Context, done func() error) {
	w := &memoryWatcher{file: os.Getenv(MemoryMarksEnv), holds: map[*hold]struct{}{}}
	limit := debug.SetMemoryLimit(-1)
	return budget.Watched(ctx, w), func() error {
		debug.SetMemoryLimit(limit)
		return w.write()
	}
}

// Begin implements [budget.Watcher].
func (w *memoryWatcher) Begin(a *budget.Account) {
	w.mu.Lock()
	w.account = *a
	w.mu.Unlock()
	LimitHeap(a.HeapBytes())
	w.begun.Do(func() {
		if heapBytes() > a.HeapBytes()+HeapBeside {
			debug.FreeOSMemory() // what planning left behind: a heap that no longer grows is not collected, however low its bound
		}
	})
	w.Mark("planned")
}

// Holds implements [budget.Watcher].
func (w *memoryWatcher) Holds(name string, bytes func() int64) (release func()) {
	if w.file == "" {
		return func() {}
	}
	h := &hold{name, bytes}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds[h] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.holds, h)
	}
}

// Mark implements [budget.Watcher].
func (w *memoryWatcher) Mark(where string) {
	if w.file == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.now(where)
	for i := range w.marks {
		if was := &w.marks[i]; was.Mark == where {
			if m.RSS > was.RSS {
				*was = m
			}
			return
		}
	}
	w.marks = append(w.marks, m)
}

// Lines of what is not a holder's alone.
const (
	LineCode   = "code and constants"
	lineHeap   = "Go's heap"
	lineBeyond = "outside of the heap"
)

// now compares the account with what is held.
func (w *memoryWatcher) now(where string) MemoryMark {
	a := &w.account
	rss, file := residentBytes()
	heap := heapBytes()
	m := MemoryMark{Mark: where, Budget: a.TotalBytes, RSS: rss}
	line := func(name string, account, held int64) {
		m.Lines = append(m.Lines, MemoryLine{name, account, held})
		if held > account {
			m.Over = append(m.Over, name)
		}
	}
	line(LineCode, budget.CodeBytes, file)
	line(lineHeap, a.HeapBytes(), heap)
	line(lineBeyond, a.TotalBytes-budget.CodeBytes-a.HeapBytes(), rss-file-heap)
	held := map[string]int64{}
	for h := range w.holds {
		held[h.name] += h.bytes()
	}
	for _, h := range a.Holders {
		if n, ok := held[h.Name]; ok {
			line(h.Name, h.Bytes, n)
		}
	}
	return m
}

// write writes the marks to their file.
func (w *memoryWatcher) write() error {
	if w.file == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var b bytes.Buffer
	var errs []error
	end := MemoryMark{Mark: MarkEnd, Budget: w.account.TotalBytes, RSS: usage.PeakRSSBytes()}
	for _, m := range append(w.marks, end) {
		errs = append(errs, json.NewEncoder(&b).Encode(m))
	}
	return errors.Join(append(errs, os.WriteFile(w.file, b.Bytes(), 0o666))...)
}

// heapBytes is what the runtime has of the system, as [debug.SetMemoryLimit] counts it.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(min(s[0].Value.Uint64()-s[1].Value.Uint64(), math.MaxInt64))
}

// residentBytes are those of the process, and of these the pages of files; 0 where there is no /proc.
func residentBytes() (all, file int64) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return 0, 0
	}
	page := int64(os.Getpagesize())
	number := func(b []byte) int64 {
		n, _ := strconv.ParseInt(string(b), 10, 64) // of the kernel's
		return n * page
	}
	return number(f[1]), number(f[2])
}
