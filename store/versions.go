package store

import (
	"errors"
	"fmt"

	"github.com/gstore/gstore/store/internal/meta"
)

// readSnapshot returns the manifest of a version, 0 = newest.
func readSnapshot(m *meta.DB, version uint64) (*Manifest, error) {
	if _, err := m.CheckFormat(); err != nil {
		return nil, err
	}
	newest, err := m.Current()
	if err != nil {
		return nil, err
	}
	if newest == 0 {
		return nil, fmt.Errorf("%s: %w", m.Dir, ErrNoVersion)
	}
	if version != 0 {
		return readManifest(m, version)
	}
	man, err := readManifest(m, newest)
	if errors.Is(err, ErrNotFound) {
		return nil, m.Corrupt("manifest", "version %d is current but has no manifest", newest)
	}
	return man, err
}

// readManifest returns a version's manifest; ErrNotFound if it is not kept.
func readManifest(m *meta.DB, version uint64) (*Manifest, error) {
	what := fmt.Sprintf("manifest %d", version)
	var man Manifest
	ok, err := m.GetJSON(meta.NumberKey(meta.PrefixManifest, version), what, &man)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: version %d of %s", ErrNotFound, version, m.Dir)
	}
	if man.Version != version {
		return nil, m.Corrupt(what, "it says version %d", man.Version)
	}
	if err := man.Validate(); err != nil {
		return nil, m.Corrupt(what, "%v", err)
	}
	return &man, nil
}

// readManifests returns all versions that are kept, ascending.
func readManifests(m *meta.DB) ([]*Manifest, error) {
	entries, err := m.Scan(meta.PrefixManifest)
	if err != nil {
		return nil, err
	}
	var all []*Manifest
	for _, e := range entries {
		v, err := meta.KeyNumber(e.Key, len(meta.PrefixManifest))
		if err != nil {
			return nil, m.Corrupt("manifest key", "%v", err)
		}
		man, err := readManifest(m, v)
		if err != nil {
			return nil, err
		}
		all = append(all, man)
	}
	return all, nil
}
