package edges

import (
	"github.com/gstore/gstore/store/ingest/source"
	"maps"
	"slices"
	"sync"
)

// RelationSet collects the names of relations that edges carry. It is safe for concurrent
// use; the zero value is empty.
type RelationSet struct {
	mu    sync.RWMutex
	names map[string]bool
}

// Add takes a batch's names, if it has any.
func (s *RelationSet) Add(b *source.EdgeBatch) error {
	var fresh []string
	s.mu.RLock()
	for i := range b.RelationNames.Len() {
		if name := b.RelationNames.At(i); !s.names[string(name)] {
			fresh = append(fresh, string(name))
		}
	}
	s.mu.RUnlock()
	if len(fresh) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	for _, name := range fresh {
		s.names[name] = true
	}
	if len(s.names) > source.RelationsMax {
		return source.Inputf(b.At.Of(0), "more than %d relations", source.RelationsMax)
	}
	return nil
}

// Sorted returns the names in order: relation k is the k-th.
func (s *RelationSet) Sorted() []string {
	return slices.Sorted(maps.Keys(s.names))
}
