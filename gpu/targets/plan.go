package targets

import (
	"context"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// Planned is what a run would train and take.
type Planned struct {
	Task     string `json:"task"`
	Kind     string `json:"kind"`
	Table    string `json:"table"` // of the rows whose targets they are
	Protocol string `json:"protocol"`
	// Rows of the training table's parts, those without a target too.
	TrainRows int `json:"train_rows"`
	ValidRows int `json:"valid_rows"`
	TestRows  int `json:"test_rows"`
	BatchSize int `json:"batch_size"`
	Batches   int `json:"batches"` // of an epoch, at most
	Epochs    int `json:"epochs"`  // at most
	// Memory says who holds what; of a run without a budget too. LeastBytes is the smallest budget that works.
	Memory     budget.Account `json:"memory"`
	LeastBytes int64          `json:"least_bytes"`
}

// Plan says what [Train] would do on a device, before anything but the training table and the numbers of edges is read. A budget that is too
// small is [store.ErrBudget] beside the plan.
func Plan(ctx context.Context, st *store.Store, info gpu.Info, cfg Config) (p Planned, err error) {
	m := st.Manifest()
	if err := cfg.Normalize(); err != nil {
		return p, err
	}
	if err := check(m); err != nil {
		return p, err
	}
	tables, u, err := begin(ctx, m, &cfg)
	if err != nil {
		return p, err
	}
	p = Planned{Task: tables.task.Name, Kind: tables.task.Kind, Table: tables.task.Table, Protocol: protocol(&cfg), BatchSize: cfg.BatchSize, Epochs: cfg.Epochs,
		TrainRows: len(tables.train.Keys), ValidRows: len(tables.valid.Keys), TestRows: len(tables.test.Keys)}
	p.Batches = (p.TrainRows + cfg.BatchSize - 1) / cfg.BatchSize
	o := bufferOptions(m, nil, &cfg)
	if p.Memory, err = accountOf(ctx, st, info, &cfg, o, u); err != nil {
		return p, err
	}
	p.LeastBytes = p.Memory.LeastBytes()
	if cfg.MemoryBytes > 0 {
		err = p.Memory.Fits()
	}
	return p, err
}
