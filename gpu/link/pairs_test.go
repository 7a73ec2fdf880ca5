package link_test

import (
	"fmt"
	"testing"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/options/optionstest"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestPairs: every pair of options works, or is refused with the reason; nothing is ignored.
func TestPairs(t *testing.T) {
	storetest.InMemory(t)
	dir := triplesOf(t, 8, 64, 300, 10)
	addFeatures(t, dir, 64, 4)
	st, dev := storetest.Open(t, dir, store.Options{}), host.New(host.Options{Threads: 1})
	t.Cleanup(func() { _ = dev.Close() })
	pairs := optionstest.Pairs[link.Config]{
		Table: link.Options(),
		Values: map[string][]any{
			"preset": {link.PresetMarius}, "regularize": {.3}, "negatives-for": {link.ForAll, link.ForThemselves},
			"model": {"complex", "rotate", "transe", "dot"}, "features": {[]string{"x"}}, "encoder": {"gat", "sage", "gcn"},
			"heads": {2}, "dim": {12, 7}, "layers": {2, 1}, "fanouts": {[]int{3}, []int{3, -1}}, "no-embeddings": {true},
			"relation": {"r1"}, "batch-size": {20}, "epochs": {2}, "patience": {1}, "dropout": {.3}, "optimizer": {"adam"}, "lr": {.3}, "dense-rate": {3.},
			"lr-decay": {1., -1.}, "loss": {"margin", "logistic"}, "margin": {2.}, "seed": {uint64(5)}, "eval-every": {-1, 2},
			"against": {"all", "given"}, "negatives": {7}, "chunks": {3}, "degree-share": {.5},
			"negatives-from": {link.FromAnswers, link.FromMixed}, "remove-batch-edges": {false, true},
			"keep-batch-edges": {.3}, "absent": {link.AbsentShadow, link.AbsentIgnore},
			"plan": {"comet", "beta", "memory"}, "buffer": {4}, "logical": {4}, "mem": {int64(1 << 20), int64(1 << 30)},
			"table": {"other"}, "from": {}, "io-engine": {"mmap"}, "device": {"host"}, "device-mem": {int64(1 << 30)},
			"matmul": {"exact"}, "device-cache": {"tracker", "lookahead", "none"}, "device-window": {3}, "threads": {1},
			"checkpoint-every": {"0"}, "keep-checkpoints": {2}, "resume": {true}, "from-checkpoint": {uint64(1)},
		},
		Decides: []string{"regularize", "model", "features", "encoder", "heads", "dim", "fanouts", "no-embeddings", "relation",
			"batch-size", "epochs", "optimizer", "lr", "loss", "margin", "dropout", "seed", "negatives", "chunks", "degree-share",
			"keep-batch-edges"},
		Small: link.Config{
			Dim: 8, BatchSize: 40, Epochs: 1, Negatives: 5, Chunks: 2, Threads: 1,
		},
		Normalize: (*link.Config).Normalize,
		Train: func(t *testing.T, c link.Config) (string, error) {
			if c.Resume { // what goes on is such a run
				whole := c
				whole.Resume, whole.FromCheckpoint = false, 0
				if _, err := link.Train(t.Context(), st, dev, whole, link.Hooks{}); err != nil {
					return "", err
				}
			}
			r, err := link.Train(t.Context(), st, dev, c, link.Hooks{})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(r.Summary.TrainLoss, r.Summary.TestMRR, r.Summary.TestHits1), nil
		},
	}
	pairs.Run(t)
}
