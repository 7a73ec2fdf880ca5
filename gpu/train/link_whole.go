package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// wholeGraph is the graph and all embeddings in memory, for evaluating a run that trains out of core.
type wholeGraph struct {
	it    *store.MacroBatches
	mb    *store.MacroBatch
	slab  *blockio.Slab // embeddings by row
	value gpu.Tensor
	mem   gpu.Memory
	room  *blockio.Slab // a partition's rows as read
}

// openWhole reads the graph; embeddings are read by load.
func openWhole(ctx context.Context, st *store.Store, dev gpu.Device, cfg *LinkConfig, t *store.Table) (_ *wholeGraph, err error) {
	m := st.Manifest()
	o := store.MacroOptions{EngineName: cfg.IOEngine, Both: true, Relations: len(m.Schema.Relations) > 1, Threads: cfg.Threads}
	w := new(wholeGraph)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("train: evaluation, the whole graph in memory: %w", err), w.close())
		}
	}()
	if w.it, err = st.MacroBatches(ctx, o); err != nil {
		return nil, err
	}
	policy, err := macro.New(macro.Config{Policy: macro.Memory, Partitions: len(m.Partitions), Link: true})
	if err != nil {
		return nil, err
	}
	if err := w.it.Start(policy.Epoch(0)); err != nil {
		return nil, err
	}
	if !w.it.Next() {
		return nil, w.it.Err()
	}
	w.mb = w.it.MacroBatch()
	bytes := int64(w.mb.Rows) * int64(cfg.Dim) * 4
	if cfg.MemoryBytes > 0 && w.it.MemoryBytes()+bytes > cfg.MemoryBytes/evalShare {
		return nil, fmt.Errorf("%w: it takes %d bytes, a quarter of %d is for it", store.ErrBudget, w.it.MemoryBytes()+bytes, cfg.MemoryBytes)
	}
	if w.slab, err = blockio.AllocSlab(max(bytes, 1), blockio.SlabOptions{}); err != nil {
		return nil, err
	}
	if w.mem, err = dev.Map(w.slab.Bytes()); err != nil {
		return nil, err
	}
	w.value = gpu.MatrixOf(w.mem, 0, w.mb.Rows, cfg.Dim)
	room := int64(1)
	for p := range t.Partitions() {
		room = max(room, t.PlaneBytes(store.PartitionID(p)))
	}
	w.room, err = blockio.AllocSlab(room, blockio.SlabOptions{Threads: 1})
	return w, err
}

// load reads all embeddings from the table, which the iterator must have flushed.
func (w *wholeGraph) load(ctx context.Context, t *store.Table) error {
	row := int64(4 * w.value.Cols)
	for _, p := range w.mb.Partitions {
		b := w.room.Bytes()[:t.PlaneBytes(p.ID)]
		if err := t.Read(ctx, p.ID, b); err != nil {
			return err
		}
		copy(w.slab.Bytes()[int64(p.Base)*row:int64(p.Base+p.Nodes)*row], b)
	}
	return nil
}

func (w *wholeGraph) close() error {
	var errs []error
	if w.mem != nil {
		errs = append(errs, w.mem.Free())
	}
	for _, s := range []*blockio.Slab{w.slab, w.room} {
		if s != nil {
			errs = append(errs, s.Free())
		}
	}
	if w.it != nil {
		errs = append(errs, w.it.Close())
	}
	return errors.Join(errs...)
}
