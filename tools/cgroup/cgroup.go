// Package cgroup makes control groups that limit memory, for benchmarks and tests of what the kernel enforces.
package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// Group is a memory control group.
type Group struct{ dir string }

// New makes a group limited to n bytes, of version 1 or 2, whose name begins with name; it takes root.
func New(name string, n int64) (*Group, error) {
	for _, v := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		g := &Group{filepath.Join(v.root, name+"-"+strconv.Itoa(os.Getpid()))}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(g.dir, v.limit), []byte(strconv.FormatInt(n, 10)), 0); err == nil {
			return g, nil
		}
		g.Remove()
	}
	return nil, errors.New("no memory cgroup can be made here")
}

// Within is a command's line with which it runs in the group: a shell joins it first, so that everything after is charged to it.
func (g *Group) Within(args []string) []string {
	return append([]string{"/bin/sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}, args...)
}

// Remove removes the group, which no process may be in.
func (g *Group) Remove() { _ = os.Remove(g.dir) }
