package kernels

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gstore/gstore/blocks/panics"
)

// ISA is an instruction set that the package has loops for.
type ISA uint8

// Instruction sets, each a superset of the one before.
const (
	ISAAuto    ISA = iota // the best that this processor and build have
	ISAGeneric            // portable Go
	ISAAVX2               // AVX2, FMA and F16C
	ISAAVX512             // AVX-512 F, BW, DQ and VL
)

// String returns the name used in metrics, such as "avx2".
func (i ISA) String() string {
	switch i {
	case ISAAuto:
		return "auto"
	case ISAGeneric:
		return "generic"
	case ISAAVX2:
		return "avx2"
	case ISAAVX512:
		return "avx512"
	}
	return fmt.Sprintf("isa(%d)", uint8(i))
}

// Options configures a [Pool]. The zero value is the default.
type Options struct {
	Threads int  // goroutines that compute at once; 0: GOMAXPROCS
	ISA     ISA  // ISAAuto: the best available; more than available is cut down to it
	BF16    bool // products of bfloat16, summed in float32, by [HasBF16]'s tiles; without these it has no effect
}

// Pool runs the package's loops on a number of threads with one instruction
// set. It holds scratch memory for reuse (packed panels, partial sums; a few
// MiB) and no goroutines: nothing needs closing. A nil *Pool is one thread
// with the best instruction set. Safe for concurrent use.
type Pool struct {
	threads int
	isa     ISA
	bf16    bool
	k       *table

	mu      sync.Mutex
	scratch [][]float32 // free buffers, any order
	words   [][]uint32
}

// NewPool makes a pool.
func NewPool(o Options) *Pool {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	best := Detect()
	if o.ISA == ISAAuto || o.ISA > best {
		o.ISA = best
	}
	return &Pool{threads: o.Threads, isa: o.ISA, bf16: o.BF16 && HasBF16(), k: tableFor(o.ISA)}
}

// Threads returns the number of goroutines that compute at once.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// ISA returns the instruction set in use; never ISAAuto.
func (p *Pool) ISA() ISA {
	if p == nil {
		return Detect()
	}
	return p.isa
}

// BF16 reports whether products are of bfloat16.
func (p *Pool) BF16() bool { return p != nil && p.bf16 }

func (p *Pool) kernels() *table {
	if p == nil {
		return tableFor(Detect())
	}
	return p.k
}

// For calls fn for consecutive pieces [lo, hi) of [0, n), each of grain
// elements (the last one shorter), from up to p.Threads goroutines, and
// returns when all are done. Pieces depend on n and grain only. fn must not
// depend on the order of the calls.
func (p *Pool) For(n, grain int, fn func(lo, hi int)) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	pieces := (n-1)/grain + 1
	workers := min(p.Threads(), pieces)
	if workers <= 1 {
		for lo := 0; lo < n; lo += grain {
			fn(lo, min(lo+grain, n))
		}
		return
	}
	var next atomic.Int64
	var wg panics.Group
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= pieces {
				return
			}
			fn(i*grain, min((i+1)*grain, n))
		}
	}
	for range workers - 1 {
		wg.Go(work)
	}
	wg.Run(work)
	wg.Wait()
}

// scratchMax is how many free buffers of a kind a pool keeps.
const scratchMax = 64

// floats returns a buffer of n floats with unspecified content; give it back
// with putFloats.
func (p *Pool) floats(n int) []float32 {
	if p != nil {
		p.mu.Lock()
		for i := len(p.scratch) - 1; i >= 0; i-- {
			if b := p.scratch[i]; cap(b) >= n {
				last := len(p.scratch) - 1
				p.scratch[i] = p.scratch[last]
				p.scratch = p.scratch[:last]
				p.mu.Unlock()
				return b[:n]
			}
		}
		p.mu.Unlock()
	}
	return make([]float32, n)
}

func (p *Pool) putFloats(b []float32) {
	if p == nil {
		return
	}
	p.mu.Lock()
	if len(p.scratch) < scratchMax {
		p.scratch = append(p.scratch, b)
	}
	p.mu.Unlock()
}

// uints is floats for 32-bit words.
func (p *Pool) uints(n int) []uint32 {
	if p != nil {
		p.mu.Lock()
		for i := len(p.words) - 1; i >= 0; i-- {
			if b := p.words[i]; cap(b) >= n {
				last := len(p.words) - 1
				p.words[i] = p.words[last]
				p.words = p.words[:last]
				p.mu.Unlock()
				return b[:n]
			}
		}
		p.mu.Unlock()
	}
	return make([]uint32, n)
}

func (p *Pool) putUints(b []uint32) {
	if p == nil {
		return
	}
	p.mu.Lock()
	if len(p.words) < scratchMax {
		p.words = append(p.words, b)
	}
	p.mu.Unlock()
}
