//go:build !linux || !amd64 || noasm

package kernels

// HasBF16 reports whether the processor multiplies tiles of bfloat16.
func HasBF16() bool { return false }

func gemmBF16(*Pool, GemmOptions, Matrix, Matrix, Matrix, int) {
	panic("kernels: no tiles of bfloat16")
}
