package main

// step is one macro-batch of a plan, or any other stretch of an epoch whose reads are known before it begins.
type step struct {
	read, requests float64 // bytes from the disk
	served         float64 // bytes that are at the object store alone, and are kept on disk as they come
	written        float64 // bytes to the disk
	compute        float64 // seconds of the trainer
	alone          bool    // nothing is read ahead of it, nor of the one after it: a pass over the store
}

// timeline is what a replay says of an epoch.
type timeline struct {
	seconds, computing, waiting float64
	read, served, written       float64 // bytes
	requests                    float64 // of the object store
}

// replay goes through the steps as the trainer does: while one is trained, the next is read, by one reader into a second buffer; what a step
// leaves is written behind it, by the same disk.
func replay(m *machine, steps []step) (t timeline) {
	var reader, trainer, began float64 // when each is free, and when the trainer began its last step
	for i, s := range steps {
		if s.alone || i > 0 && steps[i-1].alone {
			reader = max(reader, trainer)
		}
		from := max(reader, began) // the second buffer is free once the step before has begun
		served := s.served / servedBytes
		reader = from + max(m.disk.seconds(s.read, s.requests)+s.written/m.diskWrites, m.server.seconds(s.served, served), s.served/m.diskWrites)
		if s.alone { // it reads as it computes
			trainer = max(reader, from+s.compute)
			reader = trainer
		} else {
			began = max(trainer, reader)
			t.waiting += began - trainer
			trainer = began + s.compute
		}
		t.computing += s.compute
		t.read, t.served, t.written, t.requests = t.read+s.read, t.served+s.served, t.written+s.written, t.requests+served
	}
	t.seconds = trainer
	return t
}

// together is an epoch of ranks that train one model: each replays its own steps, all wait for the slowest, and at every mini-batch they sum
// gradients of so many bytes by a ring (each sends and receives twice the gradients, less a share).
func together(ranks []timeline, m *machine, batches, gradient float64) (t timeline) {
	for _, r := range ranks {
		t.seconds, t.computing, t.waiting = max(t.seconds, r.seconds), max(t.computing, r.computing), max(t.waiting, r.waiting)
		t.read, t.served, t.written, t.requests = t.read+r.read, t.served+r.served, t.written+r.written, t.requests+r.requests
	}
	if n := float64(len(ranks)); n > 1 {
		hops := 2 * (n - 1)
		t.seconds += batches * (hops*m.network.latency + hops/n*gradient/m.network.bytesPerSecond)
	}
	return t
}
