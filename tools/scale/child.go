package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// blockBytes is what the kernel counts a process's input and output in (getrusage(2)).
const blockBytes = 512

// cost is what a process took.
type cost struct {
	seconds, cpu  float64
	read, written int64 // bytes that reached the disk
	peak          int64 // bytes of resident memory
}

// child runs gstore to its end, or kills it after a while that is not 0. The summary is the last line that it printed
// with --json.
func (r *runner) child(ctx context.Context, kill time.Duration, args ...string) (c cost, summary map[string]any, err error) {
	cmd := r.gstore(ctx, append(args, "--json")...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return cost{}, nil, err
	}
	if kill > 0 {
		timer := time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	err = cmd.Wait()
	c.seconds = time.Since(begin).Seconds()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		c.read, c.written, c.peak = u.Inblock*blockBytes, u.Oublock*blockBytes, u.Maxrss<<10
	}
	if err != nil {
		return c, nil, errors.Join(fmt.Errorf("gstore %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes())), ctx.Err())
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil {
		return c, nil, fmt.Errorf("gstore %s: its last line is no summary: %w", strings.Join(args, " "), err)
	}
	return c, summary, nil
}
