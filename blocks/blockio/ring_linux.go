package blockio

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one io_uring: the kernel's two queues, mapped. It belongs to one
// thread (see uring). Constants and layouts are those of linux/io_uring.h.
type ring struct {
	fd    int
	flags uint32 // of the set-up that the kernel took

	sqMap, cqMap, sqeMap []byte // cqMap is sqMap's memory where the kernel maps both at once
	oneMap               bool

	sqHead, sqTail *uint32
	sqMask         uint32
	sqEntries      uint32
	sqes           []sqe
	tail           uint32 // ours, published by enter

	cqHead, cqTail *uint32
	cqMask         uint32
	cqes           []cqe
}

type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	length   uint32
	opFlags  uint32
	userData uint64
	bufIndex uint16
	person   uint16
	splice   int32
	pad      [2]uint64
}

type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFd uint32
	resv                                                                   [3]uint32
	sq                                                                     sqOffsets
	cq                                                                     cqOffsets
}

const (
	opFsync      = 3
	opReadFixed  = 4
	opWriteFixed = 5
	opRead       = 22
	opWrite      = 23

	sqeFixedFile  = 1 << 0
	fsyncDatasync = 1 << 0

	setupClamp        = 1 << 4
	setupSubmitAll    = 1 << 7
	setupCoopTaskrun  = 1 << 8
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	featSingleMmap = 1 << 0

	enterGetEvents = 1 << 0

	offSqRing = 0
	offCqRing = 0x8000000
	offSqes   = 0x10000000

	registerFiles          = 2
	registerFilesUpdate    = 6
	registerBuffers2       = 15
	registerBuffersUpdate  = 16
	registerResourceSparse = 1 << 0
)

// ringSetups are tried in order: SINGLE_ISSUER|DEFER_TASKRUN (6.1) runs
// completions when the owner asks for them instead of interrupting it,
// COOP_TASKRUN (5.19) at least spares the interrupt; older kernels take none.
var ringSetups = [...]uint32{
	setupClamp | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun,
	setupClamp | setupSubmitAll | setupCoopTaskrun,
	setupClamp,
}

// newRing makes a ring of at least entries submission entries.
func newRing(entries uint32) (*ring, error) {
	var p ringParams
	var fd uintptr
	var errno unix.Errno
	for _, flags := range ringSetups {
		p = ringParams{flags: flags}
		fd, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
		if errno != unix.EINVAL {
			break
		}
	}
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r := &ring{fd: int(fd), flags: p.flags}
	if err := r.mapQueues(&p); err != nil {
		_ = r.close()
		return nil, err
	}
	return r, nil
}

func (r *ring) mapQueues(p *ringParams) (err error) {
	sqBytes := int(p.sq.array + p.sqEntries*4)
	cqBytes := int(p.cq.cqes) + int(p.cqEntries)*int(unsafe.Sizeof(cqe{}))
	mapRing := func(offset int64, n int) []byte {
		if err != nil {
			return nil
		}
		var m []byte
		if m, err = unix.Mmap(r.fd, offset, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
			err = fmt.Errorf("map the rings: %w", err)
		}
		return m
	}
	if p.features&featSingleMmap != 0 {
		r.oneMap = true
		r.sqMap = mapRing(offSqRing, max(sqBytes, cqBytes))
		r.cqMap = r.sqMap
	} else {
		r.sqMap = mapRing(offSqRing, sqBytes)
		r.cqMap = mapRing(offCqRing, cqBytes)
	}
	r.sqeMap = mapRing(offSqes, int(p.sqEntries)*int(unsafe.Sizeof(sqe{})))
	if err != nil {
		return err
	}
	word := func(m []byte, off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&m[off])) }
	r.sqHead, r.sqTail = word(r.sqMap, p.sq.head), word(r.sqMap, p.sq.tail)
	r.sqMask, r.sqEntries = *word(r.sqMap, p.sq.ringMask), p.sqEntries
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.sqeMap[0])), p.sqEntries)
	array := unsafe.Slice(word(r.sqMap, p.sq.array), p.sqEntries)
	for i := range array {
		array[i] = uint32(i) // entry i of the queue is always sqes[i]
	}
	r.tail = atomic.LoadUint32(r.sqTail)
	r.cqHead, r.cqTail = word(r.cqMap, p.cq.head), word(r.cqMap, p.cq.tail)
	r.cqMask = *word(r.cqMap, p.cq.ringMask)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.cqMap[p.cq.cqes])), p.cqEntries)
	return nil
}

// push adds a cleared submission entry for the caller to fill; nil if the queue is full.
func (r *ring) push() *sqe {
	if r.tail-atomic.LoadUint32(r.sqHead) == r.sqEntries {
		return nil
	}
	s := &r.sqes[r.tail&r.sqMask]
	*s = sqe{}
	r.tail++
	return s
}

// pending returns how many entries the kernel has not taken.
func (r *ring) pending() uint32 { return r.tail - atomic.LoadUint32(r.sqHead) }

// retract takes back the entries that the kernel has not taken and calls f for each.
func (r *ring) retract(f func(userData uint64)) {
	head, tail := atomic.LoadUint32(r.sqHead), r.tail
	r.tail = head
	atomic.StoreUint32(r.sqTail, head)
	for ; head != tail; head++ {
		f(r.sqes[head&r.sqMask].userData)
	}
}

// enter submits what is pending and waits for at least least completions.
func (r *ring) enter(least uint32) error {
	atomic.StoreUint32(r.sqTail, r.tail)
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.pending()), uintptr(least), enterGetEvents, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// reap calls f for each completion that has arrived.
func (r *ring) reap(f func(userData uint64, res int32)) {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	for ; head != tail; head++ {
		c := r.cqes[head&r.cqMask]
		atomic.StoreUint32(r.cqHead, head+1)
		f(c.userData, c.res)
	}
}

func (r *ring) register(op uintptr, arg unsafe.Pointer, n uintptr) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), op, uintptr(arg), n, 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// registerFileTable reserves n empty slots of registered files.
func (r *ring) registerFileTable(n int) error {
	fds := make([]int32, n)
	for i := range fds {
		fds[i] = -1
	}
	return r.register(registerFiles, unsafe.Pointer(&fds[0]), uintptr(n))
}

// setFile puts fd into a slot of the table; −1 empties it.
func (r *ring) setFile(slot int, fd int32) error {
	update := struct {
		offset, resv uint32
		fds          uint64
	}{offset: uint32(slot), fds: uint64(uintptr(unsafe.Pointer(&fd)))}
	err := r.register(registerFilesUpdate, unsafe.Pointer(&update), 1)
	keepAlive(&fd)
	return err
}

// registerBufferTable reserves n empty slots of registered buffers.
func (r *ring) registerBufferTable(n int) error {
	reg := struct {
		nr, flags  uint32
		resv2      uint64
		data, tags uint64
	}{nr: uint32(n), flags: registerResourceSparse}
	return r.register(registerBuffers2, unsafe.Pointer(&reg), unsafe.Sizeof(reg))
}

// setBuffer pins b into a slot of the table.
func (r *ring) setBuffer(slot int, b []byte) error {
	iov := unix.Iovec{Base: unsafe.SliceData(b), Len: uint64(len(b))}
	update := struct {
		offset, resv uint32
		data, tags   uint64
		nr, resv2    uint32
	}{offset: uint32(slot), data: uint64(uintptr(unsafe.Pointer(&iov))), nr: 1}
	err := r.register(registerBuffersUpdate, unsafe.Pointer(&update), unsafe.Sizeof(update))
	keepAlive(&iov)
	return err
}

// close frees the ring; what is in flight is cancelled by the kernel.
func (r *ring) close() error {
	for _, m := range [][]byte{r.sqMap, r.sqeMap} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	if r.cqMap != nil && !r.oneMap {
		_ = unix.Munmap(r.cqMap)
	}
	return unix.Close(r.fd)
}
