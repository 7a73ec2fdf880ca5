package blockio

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks/panics"
)

// SlabAlignment is what slabs begin at a multiple of, in bytes: a huge page.
const SlabAlignment = 2 << 20

// Slab is memory outside the Go heap for data in bulk: it costs the garbage
// collector nothing and may be registered with an engine and a device. It is
// its maker's to Free, after which its bytes must not be touched.
type Slab struct {
	b       []byte
	mapping []byte // what to unmap
}

// SlabOptions tune AllocSlab.
type SlabOptions struct {
	// Threads make the first touch; default GOMAXPROCS, at most 16.
	Threads int
	// Lazy leaves the first touch to the user: memory counts as resident only
	// page by page as it is used.
	Lazy bool
}

// AllocSlab maps size bytes of zeroed memory, aligned to SlabAlignment, asks
// for huge pages, and touches every page in parallel, so that no later access
// pays for it: on virtual machines a first touch costs up to 2 CPU s/GiB. What
// is left behind the last whole huge page takes small ones, so that budgets may count bytes.
func AllocSlab(size int64, o SlabOptions) (*Slab, error) {
	if size <= 0 {
		return nil, fmt.Errorf("blockio: slab of %d bytes", size)
	}
	length := (size + Alignment - 1) &^ (Alignment - 1)
	m, err := unix.Mmap(-1, 0, int(length+SlabAlignment), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("blockio: map a slab of %d bytes: %w", size, err)
	}
	skip := int64(-addressOf(m) & (SlabAlignment - 1))
	s := &Slab{b: m[skip : skip+size : skip+size], mapping: m}
	whole := m[skip : skip+length]
	adviseHuge(whole)
	if o.Lazy {
		return s, nil
	}
	threads := o.Threads
	if threads <= 0 {
		threads = min(16, runtime.GOMAXPROCS(0))
	}
	if err := touch(whole, threads); err != nil {
		_ = s.Free()
		return nil, fmt.Errorf("blockio: allocate %d bytes: %w", size, err)
	}
	return s, nil
}

// AdviseHuge asks for huge pages where they lie wholly within b, memory of any kind that is not touched yet and will be read
// at random: with small pages such a read of a large array waits for page tables too.
func AdviseHuge(b []byte) {
	if len(b) < SlabAlignment {
		return
	}
	b = b[-addressOf(b)&(SlabAlignment-1):]
	if whole := len(b) &^ (SlabAlignment - 1); whole > 0 {
		adviseHuge(b[:whole])
	}
}

// touch makes every page of b resident, in parallel.
func touch(b []byte, threads int) error {
	pages := (len(b) + SlabAlignment - 1) / SlabAlignment
	share := (pages + threads - 1) / threads * SlabAlignment
	var wg panics.Group
	errs := make([]error, threads)
	for t := range threads {
		lo := min(len(b), t*share)
		hi := min(len(b), lo+share)
		if lo == hi {
			break
		}
		wg.Go(func() { errs[t] = populate(b[lo:hi]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns the slab's memory.
func (s *Slab) Bytes() []byte { return s.b }

// Free returns the memory to the system. A second call does nothing, and nil has none.
func (s *Slab) Free() error {
	if s == nil || s.mapping == nil {
		return nil
	}
	m := s.mapping
	s.b, s.mapping = nil, nil
	if err := unix.Munmap(m); err != nil {
		return fmt.Errorf("blockio: free slab: %w", err)
	}
	return nil
}
