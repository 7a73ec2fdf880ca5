package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// Info describes an embedding table, trained or not at the moment.
type Info struct {
	Name        string           `json:"name"`
	Version     uint64           `json:"version"`        // of the store that it belongs to
	Some        bool             `json:"some,omitempty"` // rows are of some of the nodes only
	Dim         int              `json:"dim"`
	States      int              `json:"states"` // optimiser planes beside the embeddings
	Keep        int              `json:"keep"`   // checkpoints that are kept
	Bytes       int64            `json:"bytes"`  // of its file
	Created     time.Time        `json:"created"`
	Checkpoints []CheckpointInfo `json:"checkpoints"` // kept, the oldest first
}

// CheckpointInfo describes a kept checkpoint of a table.
type CheckpointInfo struct {
	Number  uint64    `json:"number"`
	Created time.Time `json:"created"`
}

// Describe describes the store's tables. It takes no table's lock.
func Describe(ctx context.Context, dir string, o store.Options) (infos []Info, err error) {
	names, err := Names(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		t := Table{env: meta.NewEnv(dir, o.FS, o.LockTimeout)}
		if err := t.load(ctx, name); errors.Is(err, store.ErrNotFound) { // dropped meanwhile
			continue
		} else if err != nil {
			return nil, err
		}
		r := t.record
		info := Info{Name: r.Name, Version: r.Version, Some: r.Some, Dim: r.Dim, States: r.States, Keep: r.Keep, Created: r.Created}
		for _, c := range t.kept {
			info.Checkpoints = append(info.Checkpoints, CheckpointInfo{c.Number, c.Created})
		}
		if t.env.Exists(t.Path()) { // verify names a missing file
			stat, err := t.env.FS.Stat(t.Path())
			if err != nil {
				return nil, fmt.Errorf("describe table %q: %w", name, err)
			}
			info.Bytes = stat.Size()
		}
		infos = append(infos, info)
	}
	return infos, nil
}
