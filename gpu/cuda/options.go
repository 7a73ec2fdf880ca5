package cuda

import "fmt"

// Options configures a [Device]. The zero value is the first GPU, exact products and most of its memory.
type Options struct {
	Ordinal int // 0 for the driver's first device
	// MemoryBytes is the most device memory that may be allocated; 0: nine tenths of what is
	// free when the device is opened.
	MemoryBytes int64
	MatMul      MatMul
}

// MatMul says how dense products use the tensor cores.
type MatMul uint8

// Kinds of products.
const (
	// Exact splits each factor into two tf32 and multiplies three times: errors as of float32.
	Exact MatMul = iota
	// TF32 rounds factors to 10 fraction bits.
	TF32
	// BF16 rounds factors to bfloat16, 7 fraction bits.
	BF16
)

// String returns "exact", "tf32" or "bf16".
func (m MatMul) String() string {
	switch m {
	case Exact:
		return "exact"
	case TF32:
		return "tf32"
	case BF16:
		return "bf16"
	}
	return fmt.Sprintf("MatMul(%d)", uint8(m))
}

// ParseMatMul is the inverse of String; "" is Exact.
func ParseMatMul(s string) (MatMul, error) {
	for _, m := range []MatMul{Exact, TF32, BF16} {
		if s == m.String() || s == "" {
			return m, nil
		}
	}
	return 0, fmt.Errorf("cuda: products of kind %q, expected exact, tf32 or bf16", s)
}

// DeviceInfo describes a GPU that the driver has.
type DeviceInfo struct {
	Ordinal      int
	Name         string
	Major, Minor int   // compute capability
	MemoryBytes  int64 // all of it
	FreeBytes    int64
}
