package zoo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gstore/gstore/blocks/usage"
)

// Outcome is how a command ended.
type Outcome struct {
	Args           []string
	Code           int // −1: by a signal
	Stdout, Stderr string
	PeakBytes      int64 // resident memory, at most; 0 where it was less than this process had
	TimedOut       bool
}

// Verdict says what an outcome is.
type Verdict string

// Verdicts.
const (
	Done    Verdict = "done"
	Refused Verdict = "refused" // with a message for the user
	Defect  Verdict = "defect"  // a panic, a fault of ours, or an exit code that the data do not deserve
)

// ours are parts of messages that no input, flag or budget deserves.
var ours = []string{"panic", "goroutine ", "SIGSEGV", "internal error", "shapes do not fit", "does not begin at", "index out of range",
	"nil pointer", "slice bounds", "corrupt", "invariant", "bug"}

// documented are refusals that end with exit code 1, since no flag alone is wrong: what a store or a budget has no room for, and numbers
// that cannot be computed with.
var documented = []string{
	"the smallest that works is",
	"not a finite number",
	"there is no directory",
	"needs directed edges: ingest without --undirected",
	"the store's task is",
	"make it with gstore precompute",
	"have no --history",
	"expected some of each; are there enough different times?",
	"expected float32, float16, bfloat16 or int8",
	"are of features of one node type",
	"the store has no feature columns",
	"that can be features of edges)",
	"(the store's features are [", // which of several types of nodes are TYPE.NAME
	": the store's features are ", // likewise
	"needs a store whose edges are of several relations",
	"whose edges lead to what is predicted",
	"learned vectors as a table: model ",
	"needs gstore precompute --edge-weights",
	"the run diverged: use a smaller learning rate",
	"no training nodes in the plan's partitions",
	"has no training nodes, but ",
	"invalid assignment file",
	"the store has no edges",
	"has no trained model: run gstore train",
	"it holds the learned vectors of an earlier run",
	"holds it", // a number that is too large for a type, in a wider one
}

// Verdict judges an outcome by its exit code and what was said.
func (o *Outcome) Verdict() Verdict {
	said := o.Stderr
	has := func(parts []string) bool {
		for _, p := range parts {
			if strings.Contains(said, p) {
				return true
			}
		}
		return false
	}
	switch {
	case o.TimedOut, has(ours[:3]): // Go ends with 2 after a panic, as a wrong flag does
		return Defect
	case o.Code == 0:
		return Done
	case has(ours):
		return Defect
	case o.Code == 2, o.Code == 1 && (has(documented) || o.inputSays()):
		return Refused
	}
	return Defect
}

// inputSays reports whether the message is about the input of ingest or append, which is refused with the file's name and position.
func (o *Outcome) inputSays() bool {
	return len(o.Args) > 1 && slices.ContainsFunc(o.Args[1:min(3, len(o.Args))], func(path string) bool {
		return strings.HasPrefix(o.Message(), path)
	})
}

// Message is the error that the command ended with, without what it said before.
func (o *Outcome) Message() string {
	if i := strings.Index(o.Stderr, "panic"); i >= 0 {
		return firstLines(o.Stderr[i:], 12)
	}
	if o.TimedOut {
		return "does not end: " + firstLines(o.Stderr, 3)
	}
	_, said, found := strings.Cut(o.Stderr, "gstore: ")
	if !found {
		said = o.Stderr
	}
	said, _, _ = strings.Cut(said, "\nRun \"gstore")
	return strings.TrimSpace(firstLines(said, 6))
}

func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	return strings.TrimSpace(strings.Join(lines[:min(n, len(lines))], ""))
}

// Gstore runs gstore as processes of their own.
type Gstore struct {
	Path    string   // of the binary, or of one that runs gstore if Env says so
	Env     []string // beside the process's own; {ARGS} in it is replaced by the arguments, a line each, and none are given
	Timeout time.Duration
	Runs    int
}

// shrink gives memory back and forgets the peak of this process: the kernel counts it into those of the processes that it begins, also what it
// still has then.
func shrink() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // where there is none, peaks are told too high at worst
}

func (g *Gstore) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.Path, args...)
	cmd.Env = os.Environ()
	for _, e := range g.Env {
		if strings.Contains(e, "{ARGS}") {
			cmd.Args = cmd.Args[:1]
		}
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e, "{ARGS}", strings.Join(args, "\n")))
	}
	return cmd
}

// Run runs one command line. Errors are those of running it at all.
func (g *Gstore) Run(ctx context.Context, args ...string) (*Outcome, error) {
	g.Runs++
	limit, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	cmd := g.command(limit, args)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	shrink()
	err := cmd.Start()
	own := usage.PeakRSSBytes()
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("zoo: %w", err)
	}
	o := &Outcome{Args: args, Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String(), TimedOut: limit.Err() != nil}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		if o.PeakBytes = u.Maxrss << 10; o.PeakBytes <= own { // this process's, until the other's program began
			o.PeakBytes = 0
		}
	}
	return o, nil
}
