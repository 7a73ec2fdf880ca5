package serve

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/store"
)

// watch takes up versions and models that are added to the store, until ctx ends.
func (s *server) watch(ctx context.Context) {
	seen := s.traces()
	tick := time.NewTicker(s.o.reload)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.traces()
		if slices.Equal(now, seen) {
			continue
		}
		switch taken, err := s.reload(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil: // what is served stays; the next change, or the next look, tries again
			s.log.Error("what is new in the store was not taken up", "error", err)
			s.meters.reloads.WithLabelValues("failed").Inc()
		default:
			if seen = now; taken {
				s.meters.reloads.WithLabelValues("taken").Inc()
			}
		}
	}
}

// traces are what changes when a version or a run is recorded: the store's metadata and its runs. Looking takes no lock.
func (s *server) traces() (list []string) {
	for _, pattern := range []string{"meta/*", filepath.Join(store.RunsDir, "*")} {
		paths, _ := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, p := range paths {
			if info, err := os.Stat(p); err == nil && !strings.HasSuffix(p, "LOCK") && !strings.HasSuffix(p, store.MetricsExtension) {
				list = append(list, p+info.ModTime().String())
			}
		}
	}
	return list
}

// renew takes up what is new unless somebody has since x was served.
func (s *server) renew(ctx context.Context, x *state) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	now := s.use()
	now.requests.Done()
	if now != x {
		return nil
	}
	_, err := s.reloadLocked(ctx)
	return err
}

// reload opens what is new; taken is false where nothing is.
func (s *server) reload(ctx context.Context) (taken bool, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	return s.reloadLocked(ctx)
}

func (s *server) reloadLocked(ctx context.Context) (taken bool, err error) {
	x := s.use()
	defer x.requests.Done()
	snap := x.snapshot
	if s.o.version == 0 {
		versions, err := store.ReadHistory(ctx, s.dir, store.Options{})
		if err != nil {
			return false, err
		}
		if n := len(versions.Versions); n > 0 && versions.Versions[n-1].Version != x.st.Manifest().Version {
			st, err := s.openStore()
			if err != nil {
				return false, err
			}
			if snap, err = s.openSnapshot(ctx, st); err != nil {
				return false, err
			}
		}
	}
	all, err := s.findAll(ctx, snap.st)
	switch {
	case err != nil && snap != x.snapshot:
		return false, errors.Join(err, snap.close())
	case err != nil || snap == x.snapshot && maps.Equal(all, x.found):
		return false, err
	}
	next, err := s.newState(ctx, snap, all)
	if err != nil {
		return false, err
	}
	s.swap(next)
	m := next.st.Manifest()
	var which []string
	for _, name := range next.names {
		which = append(which, name+": "+next.models[name].about().Which)
	}
	s.log.Info("taken up", "version", m.Version, "nodes", m.Nodes, "edges", m.Edges, "models", which)
	return true, nil
}
