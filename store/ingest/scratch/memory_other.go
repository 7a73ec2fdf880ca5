//go:build !linux && !darwin

package scratch

func adviseHuge([]byte) {}
