package gpu

// Pinner is a [Device] that reads host memory faster, or only, where it is page-locked.
type Pinner interface {
	// Pin page-locks b, memory off the Go heap, until unpin. Map of a part of it then costs nothing.
	Pin(b []byte) (unpin func() error, err error)
}

// Pin returns what page-locks memory for a device, nil if the device does not ask for that. Memory that lives as
// long as a run, such as a partition buffer's, is pinned once.
func Pin(dev Device) func(b []byte) (unpin func() error, err error) {
	if p, ok := dev.(Pinner); ok {
		return p.Pin
	}
	return nil
}

// Stager is a [Stream] that uploads small arrays together.
type Stager interface {
	// Stage is Upload to a tensor of an arena, behind which all bytes up to the next multiple of [ArenaAlign]
	// belong to nobody: the copy may write there. src is copied in the call.
	Stage(dst Tensor, src []byte)
}

// stage uploads src to a tensor that begins and ends where an arena's tensors do.
func (q *Queue) stage(dst Tensor, src []byte) {
	if !q.ok(dst.check("upload", "dst"), flat("upload", "dst", dst, int64(len(src)))) {
		return
	}
	if s, ok := q.stream.(Stager); ok {
		s.Stage(dst, src)
		return
	}
	q.stream.Upload(dst, src)
}

// Follower is a [Stream] that waits for another of its device without the host.
type Follower interface {
	// Follow lets what is issued from here on run once everything is done that was issued to before so far. It takes
	// no time of the stream's own, see [Mark].
	Follow(before Stream)
}

// Follow lets what is issued to q from here on run once everything is done that was issued to before, a queue of the same
// device, so far. The host waits for nothing. Where operations run as they are issued there is nothing to wait for.
func (q *Queue) Follow(before *Queue) {
	if q.closed || before.closed {
		q.Fail(ErrClosed)
		return
	}
	if f, ok := q.stream.(Follower); ok {
		f.Follow(before.stream)
	}
}
