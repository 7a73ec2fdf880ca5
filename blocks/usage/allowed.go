//go:build unix

package usage

import (
	"bytes"
	"os"
	"path"
	"strconv"
)

// AllowedBytes is the memory that this process may have: the machine's, or less where a cgroup, its own or one around it, sets a limit.
// limited says that it does. 8 GiB where nothing says how much there is.
func AllowedBytes() (n int64, limited bool) {
	if n = machineBytes(); n <= 0 {
		n = 8 << 30
	}
	for _, file := range limitFiles("/sys/fs/cgroup", selfCgroups()) {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && limit > 0 && limit < n {
			n, limited = limit, true
		}
	}
	return n, limited
}

// selfCgroups is what the kernel says of this process's cgroups; nil without them.
func selfCgroups() []byte {
	b, _ := os.ReadFile("/proc/self/cgroup")
	return b
}

// limitFiles lists where a limit of memory may stand under root, of cgroup versions 2 and 1: that of each cgroup of cgroups, lines
// ID:CONTROLLERS:PATH, and of those around it. In a container the innermost may be mounted as root itself.
func limitFiles(root string, cgroups []byte) (files []string) {
	const v2, v1 = "memory.max", "memory.limit_in_bytes"
	under := func(mount, name, dir string) {
		for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
			files = append(files, path.Join(mount, dir, name))
			if dir == "/" {
				return
			}
		}
	}
	for line := range bytes.Lines(cgroups) {
		fields := bytes.SplitN(bytes.TrimSpace(line), []byte(":"), 3)
		switch {
		case len(fields) < 3:
		case len(fields[1]) == 0:
			under(root, v2, string(fields[2]))
		default:
			for c := range bytes.SplitSeq(fields[1], []byte(",")) {
				if string(c) == "memory" {
					under(path.Join(root, "memory"), v1, string(fields[2]))
				}
			}
		}
	}
	under(root, v2, "")
	under(path.Join(root, "memory"), v1, "")
	return files
}
