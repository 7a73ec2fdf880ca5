//go:build !linux

package store

import "os"

// exchange gives two folders each other's names. A crash within leaves a under a name of its own.
func exchange(a, b string) error {
	aside := a + ".replaced"
	if err := os.Rename(a, aside); err != nil {
		return err
	}
	if err := os.Rename(b, a); err != nil {
		return err
	}
	return os.Rename(aside, b)
}
