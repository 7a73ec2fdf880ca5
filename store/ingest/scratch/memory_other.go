//go:build !linux && !darwin

package ingest

// machineBytes is 0: the machine's memory is not known.
func machineBytes() int64 { return 0 }

func adviseHuge([]byte) {}
