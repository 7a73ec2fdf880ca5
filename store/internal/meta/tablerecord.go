package meta

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"time"
)

// TableRecord is what Pebble knows of a table besides its checkpoints.
type TableRecord struct {
	Name    string    `json:"name"`
	File    string    `json:"file"`
	Version uint64    `json:"version"` // of the store: its partitions are the table's
	Dim     int       `json:"dim"`
	States  int       `json:"states"`
	Keep    int       `json:"keep"`
	Created time.Time `json:"created"`
	Ready   bool      `json:"ready"`          // the file is complete: checkpoint 1 exists
	Some    bool      `json:"some,omitempty"` // rows are of some of the nodes; what the file says of partitions says how many
}

func (m *DB) Tables() ([]TableRecord, error) {
	entries, err := m.Scan(PrefixTable)
	if err != nil {
		return nil, err
	}
	var records []TableRecord
	for _, e := range entries {
		var r TableRecord
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, m.Corrupt("table", "%v", err)
		}
		records = append(records, r)
	}
	return records, nil
}

// TableFiles adds the data files of embedding tables to named.
func (m *DB) TableFiles(named map[string]bool) error {
	records, err := m.Tables()
	for _, r := range records {
		named[r.File] = true
	}
	return err
}

// TableVersions returns the versions that embedding tables belong to.
func (m *DB) TableVersions() (map[uint64]bool, error) {
	records, err := m.Tables()
	versions := map[uint64]bool{}
	for _, r := range records {
		versions[r.Version] = true
	}
	return versions, err
}

// LockTable takes a table's lock: shared to read its file, exclusive to write it. It is a byte of the store's lock file far
// behind the others, chosen by the name. Part of the format.
func (e Env) LockTable(ctx context.Context, name string, exclusive bool, timeout time.Duration) (*Lock, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return e.Lock(ctx, int64(1<<32+h.Sum64()>>2), exclusive, timeout)
}
