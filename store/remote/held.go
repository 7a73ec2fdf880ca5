package remote

import (
	"slices"
	"sync"
)

// held is a chunk that was read as a whole, to be checked. What is read next mostly begins where the last read ended, in the same chunk: so
// its buffer stays for a while.
type held struct {
	path   string
	once   sync.Once // it is read by one of those who want it
	buffer []byte
	whole  []byte // what of the buffer the chunk is; nil where it is not kept, or not right
	users  int
}

// take gives the chunk a buffer.
func (h *held) take() []byte {
	h.buffer = take()
	return h.buffer
}

// mostIdle is how many chunks stay that nobody reads: half of the buffers, so that others always find one.
const mostIdle = 6

// holds are the chunks that are held, of all caches, those that were used last behind.
var holds struct {
	sync.Mutex
	chunks []*held
}

// hold returns the chunk of a path if it is held, or is to be read; let gives it back.
func hold(path string, read bool) *held {
	holds.Lock()
	defer holds.Unlock()
	i := slices.IndexFunc(holds.chunks, func(h *held) bool { return h.path == path })
	if i < 0 && !read {
		return nil
	}
	h := &held{path: path}
	if i >= 0 {
		h = holds.chunks[i]
		holds.chunks = slices.Delete(holds.chunks, i, i+1)
	}
	h.users++
	holds.chunks = append(holds.chunks, h)
	return h
}

// let gives a chunk back. One that was not right is not held for the next, who may find it read anew.
func let(h *held) {
	holds.Lock()
	defer holds.Unlock()
	h.users--
	idle := 0
	for i := len(holds.chunks) - 1; i >= 0; i-- {
		x := holds.chunks[i]
		if x.users > 0 {
			continue
		}
		if idle++; idle > mostIdle || x.whole == nil {
			holds.chunks = slices.Delete(holds.chunks, i, i+1)
			release(x.buffer)
		}
	}
}
