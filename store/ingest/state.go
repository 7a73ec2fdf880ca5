package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// State is what an interrupted ingest has finished. It is saved, durably, after
// each phase, in the writer's scratch directory; the files it names are
// complete and synced.
type State struct {
	Fingerprint string          `json:"fingerprint"` // of input and options
	Done        []string        `json:"done"`        // finished phases
	Manifest    *store.Manifest `json:"manifest"`
	Partitions  []store.PartitionInfo
	Nodes       uint64
	Relations   []string // found in the input
	Counted     int64    // edges of an input that does not say how many it has; 0: not counted
	Chosen      string   // layout that Options.Decide chose
	// DictionaryBytes is what the id dictionary holds in memory.
	DictionaryBytes                  int64
	EdgesRead, Duplicates, SelfLoops uint64
	NotText                          uint64 // ids that are no UTF-8
	NotTextSuch                      []byte // one of them
	BytesSpilled                     int64
	Dangling                         map[string]uint64 `json:",omitempty"` // edges left out, by relation
}

const stateName = "ingest.json"

// fingerprint identifies input and options: files by size and time.
func (r *Job) fingerprint() (string, error) {
	type file struct {
		Path string
		Size int64
		Time int64
	}
	var files []file
	for _, path := range slices.Sorted(slices.Values(r.Desc.Files)) { // formats find them in any order
		info, err := r.Options.FS.Stat(path)
		if err != nil {
			return "", fmt.Errorf("input: %w", err)
		}
		files = append(files, file{path, info.Size(), info.ModTime().UnixNano()})
	}
	o := r.Options
	b, err := json.Marshal(map[string]any{
		"files": files, "format": r.Desc.Format, "input": r.Desc.Input, "partitions": o.Partitions,
		"partitioner": o.Partitioner, "hubs": o.Hubs, "hub_bytes": o.HubBytes, "hubs_auto": o.HubsAuto, "order": o.Order, "passes": o.Passes, "label_share": o.LabelShare,
		"undirected": o.Undirected, "dangling": r.Desc.Dangling, "dedup": o.Dedup, "self_loops": o.SelfLoops,
		"feature_elem": uint16(o.FeatureElem), "missing": o.Missing, "split_random": o.SplitRandom, "labels": o.Labels, "mask": o.MissingMask, "normalize": o.Normalize, "seed": o.Seed,
		"edge_columns": r.Desc.EdgeColumns, "node_columns": len(r.Desc.NodeColumns),
	})
	return string(b), err
}

// loadState finds what an interrupted ingest has done, or begins anew.
func (r *Job) loadState() error {
	print, err := r.fingerprint()
	if err != nil {
		return err
	}
	r.State = &State{Fingerprint: print, Manifest: &store.Manifest{}}
	r.Manifest = r.State.Manifest
	if !r.Options.Resume {
		return nil
	}
	fs := r.Writer.FS()
	path := fs.PathJoin(r.Writer.TempDir(), stateName)
	f, err := fs.Open(path)
	if err != nil {
		return nil // nothing was finished
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w: %w", source.ErrResume, err)
	}
	old := &State{}
	if err := json.Unmarshal(b, old); err != nil || old.Manifest == nil {
		return fmt.Errorf("%w: %s is damaged (%v); ingest without --resume", source.ErrResume, path, err)
	}
	if old.Fingerprint != print {
		return fmt.Errorf("%w: the input files or options are not those of the interrupted ingest; ingest without --resume to begin anew", source.ErrResume)
	}
	r.State, r.Manifest = old, old.Manifest
	r.Report.Resumed = slices.Clone(old.Done)
	return nil
}

// step runs a phase, unless it is done, and records that it is.
func (r *Job) step(ctx context.Context, name string, fn func(context.Context) error) error {
	if slices.Contains(r.State.Done, name) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := fn(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.State.Done = append(r.State.Done, name)
	r.State.Partitions = r.Manifest.Partitions
	return r.saveState()
}

// saveState replaces the state file in one rename, after the names of the files that it calls finished are durable.
func (r *Job) saveState() error {
	b, err := json.Marshal(r.State)
	if err != nil {
		return fmt.Errorf("encode ingest state: %w", err)
	}
	if err := r.syncDir(r.Writer.FS().PathDir(r.Writer.DataPath("x"))); err != nil {
		return err
	}
	fs := r.Writer.FS()
	path := fs.PathJoin(r.Writer.TempDir(), stateName)
	f, err := fs.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("save ingest state: %w", err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("save ingest state: %w", err)
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return fmt.Errorf("save ingest state: %w", err)
	}
	return r.syncDir(r.Writer.TempDir())
}

func (r *Job) syncDir(path string) error {
	dir, err := r.Writer.FS().OpenDir(path)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("save ingest state: %w", err)
	}
	return nil
}
