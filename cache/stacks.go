package cache

// stacks are many stacks of numbers in chunks that they share, off the Go heap: a push is a sequential write.
type stacks struct {
	arrays
	chunks [][]uint32
	below  []int32 // by chunk: the chunk below it in its stack, or in the list of free ones; −1: none
	free   int32   // the first free chunk; −1: none
	top    []int32 // by stack: its last chunk; −1: it is empty
	fill   []int32 // by stack: numbers in that chunk
}

const (
	chunkLen   = 256
	chunksMore = 2048 // that are allocated at a time: a huge page
)

func newStacks(n int) stacks {
	s := stacks{free: -1, top: make([]int32, n), fill: make([]int32, n)}
	for i := range s.top {
		s.top[i], s.fill[i] = -1, chunkLen
	}
	return s
}

// push adds x to stack l.
func (s *stacks) push(l int, x uint32) error {
	if s.fill[l] == chunkLen {
		if err := s.grow(l); err != nil {
			return err
		}
	}
	s.chunks[s.top[l]][s.fill[l]] = x
	s.fill[l]++
	return nil
}

// grow puts an empty chunk on stack l.
func (s *stacks) grow(l int) error {
	if s.free < 0 {
		if err := s.reserve(4 * chunkLen * chunksMore); err != nil {
			return err
		}
		more := array[uint32](&s.arrays, len(s.rest)/4)
		for len(more) > 0 {
			s.chunks, s.below = append(s.chunks, more[:chunkLen:chunkLen]), append(s.below, s.free)
			s.free, more = int32(len(s.chunks)-1), more[chunkLen:]
		}
	}
	c := s.free
	s.free, s.below[c] = s.below[c], s.top[l]
	s.top[l], s.fill[l] = c, 0
	return nil
}

// pop takes the last number off stack l; false: it is empty.
func (s *stacks) pop(l int) (uint32, bool) {
	c := s.top[l]
	if c < 0 {
		return 0, false
	}
	s.fill[l]--
	x := s.chunks[c][s.fill[l]]
	if s.fill[l] == 0 {
		s.drop(l)
	}
	return x, true
}

// drop gives the last chunk of stack l back.
func (s *stacks) drop(l int) {
	c := s.top[l]
	s.top[l], s.fill[l] = s.below[c], chunkLen
	s.below[c], s.free = s.free, c
}

// clear empties stack l.
func (s *stacks) clear(l int) {
	for s.top[l] >= 0 {
		s.drop(l)
	}
}
