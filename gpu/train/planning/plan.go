package planning

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// OpenBatches is a partition buffer, or a [rows.Reader].
type OpenBatches interface {
	feed.MacroBatches
	MemoryBytes() int64
	Close() error
}

// OpenMacroBatches opens what a choice reads with, and its plan, which it fills in in cfg.
func OpenMacroBatches(ctx context.Context, st *store.Store, cfg *config.Config, choice *macro.Choice, o buffer.Options) (OpenBatches, macro.Policy, error) {
	m := st.Manifest()
	loose := len(m.Partitions) - len(m.Pinned)
	fill(cfg, m, choice)
	policy, err := macro.New(choice.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	var it OpenBatches
	if choice.Policy == macro.Rows {
		it, err = rows.Open(ctx, st, rowsOptions(cfg, m, o, choice.Rows))
	} else {
		it, err = buffer.Open(ctx, st, o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions in memory: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	return it, policy, nil
}

// fill fills in the plan that was chosen.
func fill(cfg *config.Config, m *store.Manifest, choice *macro.Choice) {
	cfg.Plan, cfg.Buffer = choice.Policy, choice.Capacity
	if choice.Policy == macro.Memory || choice.Policy == macro.Rows {
		cfg.Buffer = len(m.Partitions) - len(m.Pinned)
	}
}
