package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
)

// snapshot is a version of the store, open for requests. States share it.
type snapshot struct {
	st    *store.Store
	lists *adjacency.Lists
	ids   *finder
	types []string // that ids begin with
	over  overview

	mu     sync.Mutex
	states int // that use it
}

func (s *snapshot) retain() {
	s.mu.Lock()
	s.states++
	s.mu.Unlock()
}

// release closes it behind the last state.
func (s *snapshot) release() error {
	s.mu.Lock()
	s.states--
	last := s.states == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	return s.close()
}

func (s *snapshot) close() error { return errors.Join(s.lists.Close(), s.st.Close()) }

// openStore opens the newest version, or the one that is asked for.
func (s *server) openStore() (*store.Store, error) {
	return store.Open(s.dir, store.Options{Version: s.o.version, Scratch: s.o.scratch})
}

// openSnapshot opens a version for requests; it has the store from here on.
func (s *server) openSnapshot(ctx context.Context, st *store.Store) (_ *snapshot, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	snap := &snapshot{st: st, ids: newFinder(st), over: overview{ready: make(chan struct{})}}
	if snap.types, err = st.TypesOfIDs(ctx); err != nil {
		return nil, err
	}
	bytes, err := s.listsBytes(st)
	if err != nil {
		return nil, err
	}
	snap.lists, err = adjacency.Open(ctx, st, adjacency.Options{MemoryBytes: bytes, Dir: st.ScratchDir()})
	return snap, err
}

// state is what requests are answered from: a version and its models. It is closed behind the last request that began with it.
type state struct {
	*snapshot
	found    map[string]found
	models   map[string]model
	names    []string // of models, the default one first
	requests sync.WaitGroup
}

// model answers questions; each kind some of them.
type model interface {
	// about describes it, for people and programs.
	about() modelInfo
	close() error
}

// modelInfo describes a model.
type modelInfo struct {
	Name    string   `json:"name"`
	Which   string   `json:"which" doc:"the run, file or table that it is"`
	Kind    string   `json:"kind" doc:"nodes, links or targets"`
	Layers  string   `json:"model,omitempty"`
	Answers []string `json:"answers" doc:"paths that it has an answer to"`
	Classes []string `json:"classes,omitempty"`
}

// newState opens models over a snapshot, which the state then shares.
func (s *server) newState(ctx context.Context, snap *snapshot, all map[string]found) (_ *state, err error) {
	x := &state{snapshot: snap, found: all, models: map[string]model{}}
	snap.retain()
	defer func() {
		if err != nil {
			err = errors.Join(err, x.close())
		}
	}()
	for _, of := range s.o.models {
		f, ok := all[of.name]
		if !ok {
			continue
		}
		m, err := s.openModel(ctx, snap, of, f)
		err = s.roomFor(err, "a model", modelsWhole)
		if err != nil && of.name != defaultModel {
			err = fmt.Errorf("model %s: %w", of.name, err)
		}
		if err != nil {
			return nil, err
		}
		x.models[of.name], x.names = m, append(x.names, of.name)
	}
	return x, nil
}

// close ends models and gives the snapshot back, after the last request.
func (x *state) close() (err error) {
	x.requests.Wait()
	for _, m := range x.models {
		err = errors.Join(err, m.close())
	}
	return errors.Join(err, x.release())
}

// use is the state for a request, to be given back by its requests.Done.
func (s *server) use() *state {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.now.requests.Add(1)
	return s.now
}

// swap has later requests answered by another state. The one before is closed behind its last request.
func (s *server) swap(x *state) {
	s.mu.Lock()
	before := s.now
	s.now = x
	s.mu.Unlock()
	if before != nil {
		s.closing.Go(func() {
			if err := before.close(); err != nil {
				s.log.Error("closing what was served before", "error", err)
			}
		})
	}
}

// modelOf is the model of a name, "" for the first that has an answer of this kind.
func modelOf[M model](x *state, name string) (m M, err error) {
	if name == "" {
		for _, n := range x.names {
			if m, ok := x.models[n].(M); ok {
				return m, nil
			}
		}
		if len(x.names) == 0 {
			return m, fmt.Errorf("%w: the store has no trained model: gstore train %s", store.ErrNotFound, x.st.Dir())
		}
		return m, badf("no model that is served has an answer to this: GET /v1/store lists what each has")
	}
	found, ok := x.models[name]
	if !ok {
		return m, fmt.Errorf("%w: no model is called %q: %q are", store.ErrNotFound, name, x.names)
	}
	if m, ok = found.(M); !ok {
		return m, badf("model %s has no answer to this: it answers %v", name, found.about().Answers)
	}
	return m, nil
}

// pool lends what is for one request at a time.
type pool[T any] struct {
	free chan T
	all  []T
}

func newPool[T any](n int, open func() (T, error), shut func(T) error) (p *pool[T], err error) {
	p = &pool[T]{free: make(chan T, n)}
	for range n {
		x, err := open()
		if err != nil {
			return nil, errors.Join(err, p.close(shut))
		}
		p.all = append(p.all, x)
		p.free <- x
	}
	return p, nil
}

// take lends one; give gives it back.
func (p *pool[T]) take(ctx context.Context) (x T, give func(), err error) {
	select {
	case x = <-p.free:
		return x, func() { p.free <- x }, nil
	case <-ctx.Done():
		return x, nil, ctx.Err()
	}
}

func (p *pool[T]) close(shut func(T) error) (err error) {
	for _, x := range p.all {
		err = errors.Join(err, shut(x))
	}
	return err
}
