package usage

import "golang.org/x/sys/unix"

// machineBytes is the machine's memory; 0 where the kernel does not say.
func machineBytes() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
