package remote

import "sync"

const (
	aheadMost  = 256 << 20 // bytes that are fetched before their turn
	aheadPiece = 4 << 20   // of a request
	aheadAfter = 8 << 20   // so many bytes were read in order
	aheadSlack = 32 << 20  // what still is in order: several threads read at a time
)

// fetching bounds how many requests are under way for what nobody waits for: others need buffers too.
var fetching = make(limit, 6)

// stream is how a file is being read.
type stream struct {
	mu    sync.Mutex
	end   int64 // of what was read
	run   int64 // bytes that were read in order
	asked int64 // up to where it is fetched
}

// aheadBytes is how much is fetched before its turn: more would be evicted before it is read.
func (c *cache) aheadBytes() int64 {
	switch most := c.most / 4; {
	case c.most == 0:
		return aheadMost
	case most < aheadPiece:
		return 0
	default:
		return min(aheadMost, most)
	}
}

// read tells the stream what is read, and returns what to fetch, which is behind it where it was read in order.
func (s *stream) read(at, n, size, most int64) (from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at > s.end+aheadSlack || at+n < s.end-aheadSlack {
		s.end, s.run, s.asked = at+n, 0, 0
		return 0, 0
	}
	s.end = max(s.end, at+n)
	if s.run += n; s.run < aheadAfter {
		return 0, 0
	}
	from = max(s.asked, s.end)
	to = min(s.end+min(most, s.run), size)
	if to < size && to-from < aheadPiece || to <= from {
		return 0, 0
	}
	s.asked = to
	return from, to
}

// readAhead has what follows fetched where a file is read in order.
func (f *farFile) readAhead(at, n int64) {
	c := f.a.cache
	from, to := f.a.streams[f.f.SHA256].read(at, n, f.f.Size, c.aheadBytes())
	for at := from; at < to; at += aheadPiece {
		keeping.Go(func() {
			fetching <- struct{}{}
			defer func() { <-fetching }()
			_ = c.ahead(f.a.bucket, f.f, at, min(aheadPiece, to-at)) // who reads it meets what fails
		})
	}
}
