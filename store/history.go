package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gstore/gstore/store/internal/meta"
)

// RunsDir is the folder of a store in which training keeps its models and the checkpoint of
// its last run; RecordRun's numbers name the models.
const (
	RunsDir        = "runs"
	ModelExtension = ".gsm"
	RunExtension   = ".gsr"
	// MetricsExtension is that of the measurements of runs, which package store/buffer/metrics writes.
	MetricsExtension = ".jsonl"
)

// ModelFile is the name in [RunsDir] of the file of a run's model.
func ModelFile(run uint64) string { return fmt.Sprint(run) + ModelExtension }

// MetricsFile is the name in [RunsDir] of the file of a run's measurements, if it has one.
func MetricsFile(run uint64) string { return fmt.Sprint(run) + MetricsExtension }

// VersionInfo is what remains known of every version, readable or not.
type VersionInfo struct {
	Version    uint64    `json:"version"`
	Parent     uint64    `json:"parent"`
	Created    time.Time `json:"created"`
	Note       string    `json:"note,omitempty"`
	Nodes      uint64    `json:"nodes"`
	Edges      uint64    `json:"edges"`
	Partitions int       `json:"partitions"`
	Bytes      int64     `json:"bytes"`    // of its data files
	Readable   bool      `json:"readable"` // its files are kept
}

func infoOf(m *Manifest) VersionInfo {
	return VersionInfo{Version: m.Version, Parent: m.Parent, Created: m.Created, Note: m.Note,
		Nodes: m.Nodes, Edges: m.Edges, Partitions: len(m.Partitions), Bytes: m.Bytes()}
}

// Run is an entry of the run history: a training or evaluation.
type Run struct {
	Number  uint64    `json:"number"` // set by RecordRun, ascending from 1
	Version uint64    `json:"version"`
	Started time.Time `json:"started"`
	Command string    `json:"command"`
	// Config is the run's full configuration, Summary what came of it; both JSON.
	Config  json.RawMessage `json:"config,omitempty"`
	Summary json.RawMessage `json:"summary,omitempty"`
	// Model says that the run's model belongs in RunsDir, in a file of the run's number.
	Model bool `json:"model,omitempty"`
	// Dropped says that the run was dropped: nothing but its number is kept, which no other run gets.
	Dropped bool `json:"dropped,omitempty"`
}

// History is what happened to a store.
type History struct {
	Versions []VersionInfo `json:"versions"` // oldest first
	Runs     []Run         `json:"runs"`     // oldest first
}

// ReadHistory reads the history of the store in dir.
func ReadHistory(ctx context.Context, dir string, o Options) (_ *History, err error) {
	m, err := meta.OpenStore(ctx, meta.NewEnv(dir, o.FS, o.LockTimeout), false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	h, _, err := readHistory(m)
	return h, err
}

// readHistory reads the history, and the numbers of the runs that were dropped.
func readHistory(m *meta.DB) (_ *History, dropped []uint64, err error) {
	h := &History{Versions: []VersionInfo{}, Runs: []Run{}}
	versions, err := m.Scan(meta.PrefixHistory)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range versions {
		var v VersionInfo
		if err := json.Unmarshal(e.Value, &v); err != nil {
			return nil, nil, m.Corrupt("history", "%v", err)
		}
		if _, v.Readable, err = m.Get(meta.NumberKey(meta.PrefixManifest, v.Version)); err != nil {
			return nil, nil, err
		}
		h.Versions = append(h.Versions, v)
	}
	runs, err := m.Scan(meta.PrefixRun)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range runs {
		var r Run
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, nil, m.Corrupt("run history", "%v", err)
		}
		if r.Dropped {
			dropped = append(dropped, r.Number)
		} else {
			h.Runs = append(h.Runs, r)
		}
	}
	return h, dropped, nil
}

// RecordRun appends to the run history of the store in dir and returns the
// run's number. It waits for readers that are opening the store, not for a
// writer between commits.
func RecordRun(ctx context.Context, dir string, r Run, o Options) (number uint64, err error) {
	m, err := meta.OpenStore(ctx, meta.NewEnv(dir, o.FS, o.LockTimeout), true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if r.Number, err = lastNumber(m, meta.PrefixRun); err != nil {
		return 0, err
	}
	r.Number++
	j, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("%w: run: %w", ErrInvalid, err)
	}
	b := m.Pebble.NewBatch()
	if err := b.Set(meta.NumberKey(meta.PrefixRun, r.Number), j, nil); err != nil {
		return 0, m.Wrap("write", err)
	}
	return r.Number, m.Apply(b)
}

// DropRun removes a run from the history of the store in dir, and its model and measurements.
func DropRun(ctx context.Context, dir string, number uint64, o Options) (err error) {
	m, err := meta.OpenStore(ctx, meta.NewEnv(dir, o.FS, o.LockTimeout), true)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var r Run
	key := meta.NumberKey(meta.PrefixRun, number)
	ok, err := m.GetJSON(key, fmt.Sprintf("run %d", number), &r)
	if err != nil {
		return err
	}
	if !ok || r.Dropped {
		return fmt.Errorf("%w: run %d of %s", ErrNotFound, number, dir)
	}
	j, err := json.Marshal(Run{Number: number, Version: r.Version, Dropped: true})
	if err != nil {
		return err
	}
	b := m.Pebble.NewBatch()
	if err := b.Set(key, j, nil); err != nil {
		return m.Wrap("write", err)
	}
	if err := m.Apply(b); err != nil {
		return err
	}
	files := []string{MetricsFile(number)}
	if r.Model {
		files = append(files, ModelFile(number))
	}
	for _, name := range files { // a crash before this leaves files that no run names
		if e := m.FS.Remove(m.Path(RunsDir, name)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// lastNumber returns the largest number under a prefix, 0 if there is none.
func lastNumber(m *meta.DB, prefix string) (uint64, error) {
	var n uint64
	err := m.Iterate(prefix, func(it *pebble.Iterator) error {
		if !it.Last() {
			return nil
		}
		var err error
		if n, err = meta.KeyNumber(it.Key(), len(prefix)); err != nil {
			return m.Corrupt("key", "%v", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
