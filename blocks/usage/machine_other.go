//go:build unix && !linux && !darwin

package usage

// machineBytes is 0: the machine's memory is not known.
func machineBytes() int64 { return 0 }
