//go:build unix && !linux

package host

func adviseHuge([]byte) {}
