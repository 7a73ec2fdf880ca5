package ingest

import (
	"maps"
	"slices"
	"sync"
)

// relationSet collects the names of relations that edges carry. It is safe for concurrent
// use; the zero value is empty.
type relationSet struct {
	mu    sync.RWMutex
	names map[string]bool
}

// add takes a batch's names, if it has any.
func (s *relationSet) add(b *EdgeBatch) error {
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
	if len(s.names) > RelationsMax {
		return Inputf(b.At.Of(0), "more than %d relations", RelationsMax)
	}
	return nil
}

// sorted returns the names in order: relation k is the k-th.
func (s *relationSet) sorted() []string {
	return slices.Sorted(maps.Keys(s.names))
}

// relationNames names the relations; one without a name if there is no column.
func (r *run) relationNames() []string {
	if len(r.state.Relations) > 0 {
		return r.state.Relations
	}
	if len(r.desc.Relations) > 0 {
		return r.desc.Relations
	}
	return []string{"edge"}
}
