// Package child runs gstore as a process of its own, and says what it held.
package child

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
)

// Run runs a program, with more in its environment. peak is its peak resident bytes, as the kernel counts them.
func Run(ctx context.Context, program string, environment []string, args ...string) (stdout, stderr []byte, peak int64, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(os.Environ(), environment...)
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return nil, nil, 0, err
	}
	// The kernel counts in what this process had when it forked: it must stay small itself.
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = u.Maxrss << 10
	}
	return out.Bytes(), errs.Bytes(), peak, err
}

// smallest finds the budget that a refusal names.
var smallest = regexp.MustCompile(`the smallest that works is (\d+) ?MiB`)

// Smallest is the budget, in MiB, that a refusal names; not ok where it is none.
func Smallest(said string) (mib int, ok bool) {
	found := smallest.FindStringSubmatch(said)
	if found == nil {
		return 0, false
	}
	mib, err := strconv.Atoi(found[1])
	return mib, err == nil
}
