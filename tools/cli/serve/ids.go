package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/gstore/gstore/store"
)

// id is a node's external id as JSON has it: a string, or a number where the store's ids are integers.
type id string

// UnmarshalJSON implements [json.Unmarshaler].
func (x *id) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(x))
	}
	if _, err := strconv.ParseUint(string(b), 10, 64); err != nil {
		return fmt.Errorf("id %s: expected a string or an integer from 0 on", b)
	}
	*x = id(bytes.Clone(b))
	return nil
}

// finder looks nodes up by external ids. A dictionary is opened for all who wait for it at once, under the store's lock, and what was
// found is kept: of the store's version it does not change.
type finder struct {
	st *store.Store

	mu      sync.Mutex
	young   map[string]store.NodeID // of which old is the generation before
	old     map[string]store.NodeID
	waiting *lookUp

	turn sync.Mutex // of who reads
}

// keptIDs is how many ids a generation has at most.
const keptIDs = 1 << 15

// lookUp is what several requests wait for.
type lookUp struct {
	names []string
	found map[string]store.NodeID
	err   error
	done  chan struct{}
}

func newFinder(st *store.Store) *finder { return &finder{st: st, young: map[string]store.NodeID{}} }

// kept returns a known id.
func (f *finder) kept(name string) (v store.NodeID, ok bool) {
	if v, ok = f.young[name]; !ok {
		if v, ok = f.old[name]; ok {
			f.keep(name, v)
		}
	}
	return v, ok
}

func (f *finder) keep(name string, v store.NodeID) {
	if len(f.young) >= keptIDs {
		f.old, f.young = f.young, map[string]store.NodeID{}
	}
	f.young[name] = v
}

// find returns the nodes of some ids; [store.NoNode] stands for those that there are not.
func (f *finder) find(ctx context.Context, names []string) ([]store.NodeID, error) {
	nodes := make([]store.NodeID, len(names))
	var open []string
	f.mu.Lock()
	for i, name := range names {
		v, ok := f.kept(name)
		if nodes[i] = v; !ok {
			open = append(open, name)
		}
	}
	var w *lookUp
	if len(open) > 0 {
		if w = f.waiting; w == nil {
			w = &lookUp{found: map[string]store.NodeID{}, done: make(chan struct{})}
			f.waiting = w
			go f.lead(context.WithoutCancel(ctx), w)
		}
		w.names = append(w.names, open...)
	}
	f.mu.Unlock()
	if w == nil {
		return nodes, nil
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found := w.found
	if w.err != nil { // of an id of somebody else, perhaps
		own, err := lookUpNames(ctx, f.st, open)
		if err != nil {
			return nil, err
		}
		found = own
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, name := range names {
		if v, ok := found[name]; ok {
			if nodes[i] = v; v != store.NoNode {
				f.keep(name, v)
			}
		}
	}
	return nodes, nil
}

// lead looks up what waits when it is its turn.
func (f *finder) lead(ctx context.Context, w *lookUp) {
	defer close(w.done)
	f.turn.Lock()
	defer f.turn.Unlock()
	f.mu.Lock()
	f.waiting = nil // later ones wait for the next turn
	names := w.names
	f.mu.Unlock()
	w.found, w.err = lookUpNames(ctx, f.st, names)
}

// lookUpNames asks the store.
func lookUpNames(ctx context.Context, st *store.Store, names []string) (map[string]store.NodeID, error) {
	ids := make([]store.NodeID, len(names))
	if err := st.LookupTexts(ctx, names, ids); err != nil {
		return nil, err
	}
	found := make(map[string]store.NodeID, len(names))
	for i, name := range names {
		found[name] = ids[i]
	}
	return found, nil
}

// nodes are those of given ids, all of which must be there.
func (f *finder) nodes(ctx context.Context, ids []id) ([]store.NodeID, error) {
	names := make([]string, len(ids))
	for i, x := range ids {
		names[i] = string(x)
	}
	nodes, err := f.find(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, v := range nodes {
		if v == store.NoNode {
			return nil, fmt.Errorf("%w: no node has the id %q", store.ErrNotFound, names[i])
		}
	}
	return nodes, nil
}

// known are the nodes of given ids, all of which must be there, and their ids as JSON has them.
func (f *finder) known(ctx context.Context, ids []id) (nodes []store.NodeID, names []any, err error) {
	if nodes, err = f.nodes(ctx, ids); err == nil {
		names, err = f.names(ctx, nodes)
	}
	return nodes, names, err
}

// names are external ids of nodes, as JSON has them.
func (f *finder) names(ctx context.Context, nodes []store.NodeID) ([]any, error) {
	list := make([]any, len(nodes))
	if f.st.Manifest().IDs.Kind == store.IDsStrings {
		texts, err := f.st.ExternalStrings(ctx, nodes)
		for i, t := range texts {
			list[i] = t
		}
		return list, err
	}
	ints := make([]uint64, len(nodes))
	err := f.st.ExternalInts(ctx, nodes, ints)
	for i, n := range ints {
		list[i] = n
	}
	return list, err
}
