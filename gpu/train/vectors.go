package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// Where learned vectors of types without features are: [Config].Vectors.
const ()

// VectorTable names where the vectors of a model lie that are not its parameters.
type VectorTable struct {
	Name       string    `json:"name"`       // of the store's table
	Checkpoint uint64    `json:"checkpoint"` // the table's
	Created    time.Time `json:"created"`    // the table: another of that name is another run's
}

// open opens them for reading.
func (v *VectorTable) open(ctx context.Context, st *store.Store) (*table.Table, error) {
	failed := func(err error) error {
		return fmt.Errorf("the model's learned vectors are checkpoint %d of table %s: %w", v.Checkpoint, v.Name, err)
	}
	t, err := table.Open(ctx, st, table.Options{Name: v.Name, ReadOnly: true, Beside: true})
	if err != nil {
		return nil, failed(err)
	}
	if !t.Created().Equal(v.Created) {
		return nil, errors.Join(failed(fmt.Errorf("%w: a later run replaced it (--checkpoint N names another run; train --table NAME keeps both)", store.ErrNotFound)), t.Close())
	}
	if err := t.ReadAt(v.Checkpoint); err != nil {
		return nil, errors.Join(failed(err), t.Close())
	}
	return t, nil
}

// Inline returns the checkpoint as a model whose vectors are parameters, as long as they all fit memory: c itself where they are.
// st is the store that has them.
func (c *Checkpoint) Inline(ctx context.Context, st *store.Store) (_ *Checkpoint, err error) {
	if c.VectorTable == nil {
		return c, nil
	}
	of, err := vectors.Count(ctx, st, c.Config.VectorTypes)
	if err != nil {
		return nil, err
	}
	t, err := c.VectorTable.open(ctx, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	matrices, err := vectors.Parameters(ctx, st, of, t)
	if err != nil {
		return nil, err
	}
	out := *c
	out.VectorTable, out.Config.VectorTypes, out.Config.Vectors, out.Config.Table = nil, nil, config.VectorsMemory, ""
	out.Config.Features = slices.Concat(c.Config.Features, of.Columns())
	out.Model.Vectors, out.Model.Categories = false, slices.Clone(c.Model.Categories)
	for _, b := range matrices {
		out.Model.Categories = append(out.Model.Categories, len(b)/(4*c.Model.Hidden))
	}
	out.Params = c.Model.WithVectors(c.Params, matrices)
	return &out, nil
}

// vectorTable is the table of a run's learned vectors. nil is that of a run without.
type vectorTable struct {
	t        *table.Table
	it       *buffer.Buffer // nil once it is closed: no row is in memory then
	rows     *table.Reader
	resident *vectors.Resident
	history  bool // states of an epoch's start depend on them
	// Numbers of checkpoints, 0 for none: of the best epoch, the run's last, and the best as of that.
	best, last, bestOfLast uint64
}

// openVectors makes the table of a run that begins, or opens that of the one that goes on where state says, with its last checkpoint.
func openVectors(ctx context.Context, st *store.Store, cfg *config.Config, from *nodeProgress, state []byte) (_ *vectorTable, _ *nodeProgress, _ []byte, err error) {
	if len(cfg.VectorTypes) == 0 {
		return nil, from, state, nil
	}
	v := &vectorTable{history: cfg.History, resident: vectors.NewResident(cfg.VectorsOf, cfg.Hidden)}
	if state == nil {
		replace := cfg.Overwrite
		if !replace {
			if replace, err = unused(ctx, st, cfg.Table); err != nil {
				return nil, nil, nil, fmt.Errorf("train: learned vectors: %w", err)
			}
		}
		v.t, err = vectors.Create(ctx, st, cfg.VectorsOf, vectors.Options{Name: cfg.Table, Dim: cfg.Hidden, Seed: cfg.Seed, Scale: vectorScale(cfg.Hidden), Replace: replace})
		if errors.Is(err, store.ErrExists) {
			err = fmt.Errorf("%w: it holds the learned vectors of an earlier run: --overwrite replaces them, whose model is lost then, --table NAME keeps both, --resume goes on with that run", err)
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("train: learned vectors: %w", err)
		}
	} else {
		if v.t, err = table.Open(ctx, st, table.Options{Name: cfg.Table}); err != nil {
			return nil, nil, nil, fmt.Errorf("train: resume: the run's learned vectors: %w", err)
		}
		if from, state, err = v.resume(ctx, from, state); err != nil {
			return nil, nil, nil, errors.Join(fmt.Errorf("train: resume: %w", err), v.t.Close())
		}
	}
	v.rows = table.NewReader(v.t)
	return v, from, state, nil
}

// unused reports whether a table is one of learned vectors that no run ever came to a checkpoint of.
func unused(ctx context.Context, st *store.Store, name string) (bool, error) {
	t, err := table.Open(ctx, st, table.Options{Name: name, ReadOnly: true, AnyVersion: true})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cs := t.Checkpoints()
	return t.Some() && len(cs) == 1 && len(cs[0].Blobs) == 0, t.Close()
}

// resume returns where the run stands by the table's last checkpoint of it, which the file of checkpoints may be one behind.
func (v *vectorTable) resume(ctx context.Context, file *nodeProgress, state []byte) (*nodeProgress, []byte, error) {
	if !v.t.Created().Equal(file.VectorTable.Created) {
		return nil, nil, fmt.Errorf("%w: table %s is another run's than the checkpoint: begin afresh", store.ErrInvalid, file.VectorTable.Name)
	}
	cs := v.t.Checkpoints()
	for _, c := range slices.Backward(cs) {
		if !slices.Contains(c.Blobs, blobRun) { // of the best epoch alone
			continue
		}
		b, err := v.t.BlobOf(ctx, c, blobRun)
		if err != nil {
			return nil, nil, err
		}
		p := new(nodeProgress)
		state, err := modelfile.Decode(v.t.Path(), modelfile.NodeRun, b, p)
		if err == nil {
			err = v.t.GoBack(ctx, c.Number)
		}
		v.best, v.last, v.bestOfLast = p.VectorTable.Checkpoint, c.Number, p.VectorTable.Checkpoint
		return p, state, err
	}
	if file.Epoch == 0 && file.Totals.Batches == 0 { // the first one's file comes before its rows, which are new ones
		return file, state, nil
	}
	return nil, nil, fmt.Errorf("%w: a checkpoint of the run in table %s", store.ErrNotFound, file.VectorTable.Name)
}

// blobRun is what of a run's checkpoint file is kept with the rows, so that both are of one moment.
const blobRun = "run"

// vectorScale bounds new vectors, as nn draws those that are parameters.
func vectorScale(dim int) float32 { return float32(1 / math.Sqrt(float64(dim))) }

// ref is the table as models name it, at the best epoch's checkpoint.
func (v *vectorTable) ref() *VectorTable {
	if v == nil {
		return nil
	}
	return &VectorTable{Name: v.t.Name(), Checkpoint: v.best, Created: v.t.Created()}
}

// flush makes what the table reads the rows as they are now.
func (v *vectorTable) flush(ctx context.Context) error {
	if v == nil || v.it == nil {
		return nil
	}
	return v.it.Flush(context.WithoutCancel(ctx)) // as a checkpoint is
}

// released says that the partition buffer is gone, which was flushed.
func (v *vectorTable) released() {
	if v != nil {
		v.it = nil
	}
}

// commit makes the rows as they are now a checkpoint, in no place of those numbered, and returns its number.
func (v *vectorTable) commit(ctx context.Context, spared []uint64, blobs ...table.Blob) (uint64, error) {
	spared = slices.DeleteFunc(spared, func(n uint64) bool { return n == 0 })
	slices.Sort(spared)
	if err := v.t.Spare(slices.Compact(spared)...); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // one that is begun is finished
	var err error
	if v.it == nil {
		err = v.t.Checkpoint(ctx, blobs...)
	} else {
		err = v.it.Checkpoint(ctx, blobs...)
	}
	return v.t.LastCheckpoint().Number, err
}

// keepBest remembers the rows as those of the best epoch.
func (v *vectorTable) keepBest(ctx context.Context) (err error) {
	if v == nil {
		return nil
	}
	if v.best, err = v.commit(ctx, []uint64{v.last, v.bestOfLast}); err != nil {
		return fmt.Errorf("train: learned vectors of the best epoch: %w", err)
	}
	return nil
}

// checkpoint keeps where the run stands, as its file has it, with the rows.
func (v *vectorTable) checkpoint(ctx context.Context, run []byte) (err error) {
	if v == nil {
		return nil
	}
	if v.last, err = v.commit(ctx, []uint64{v.best}, table.Blob{Name: blobRun, Data: run}); err != nil {
		return fmt.Errorf("checkpoint of learned vectors: %w", err)
	}
	v.bestOfLast = v.best
	return nil
}

// readBest makes the best epoch's rows those that are read; nothing is trained any more.
func (v *vectorTable) readBest() error {
	if v == nil {
		return nil
	}
	return v.t.ReadAt(v.best)
}

// midEpoch reports whether the run can be resumed inside an epoch: a history is a function of the vectors at its start, which the
// table does not keep.
func (v *vectorTable) midEpoch() bool { return v == nil || !v.history }

// stats are what moved between table and memory, and what checkpoints wrote.
func (v *vectorTable) stats(it feed.MacroBatches) (s buffer.TableStats) {
	if b, ok := it.(*buffer.Buffer); ok && v != nil {
		s = b.TableStats()
	}
	return s
}

func (v *vectorTable) close() error {
	if v == nil {
		return nil
	}
	return errors.Join(v.resident.Close(), v.rows.Close(), v.t.Close())
}
