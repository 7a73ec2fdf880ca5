package usage

import "golang.org/x/sys/unix"

// machineBytes is the machine's memory; 0 where the kernel does not say.
func machineBytes() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
