//go:build !noasm

package kernels

// Detect returns the best instruction set of this processor and build.
func Detect() ISA { return ISAGeneric }

func tableFor(ISA) *table { return genericTable() }
