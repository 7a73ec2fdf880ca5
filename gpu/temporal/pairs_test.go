package temporal

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/options/optionstest"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestPairs: every pair of options works, or is refused with the reason; nothing is ignored.
func TestPairs(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 30, Edges: 300, Partitions: 3, Relations: 2})
	st := storetest.Open(t, dir, store.Options{})
	file := filepath.Join(t.TempDir(), "run")
	pairs := optionstest.Pairs[Config]{
		Table: Options(),
		Values: map[string][]any{
			"sampler": {"temporal"}, "fanouts": {[]int{3}, []int{3, 3}}, "dim": {12}, "no-recency": {true},
			"time-encoding": {TimeCosSin, TimeLearned, TimeNone},
			"batch-size":    {70}, "epochs": {2}, "lr": {.1}, "negatives": {7}, "degree-share": {.5}, "seed": {uint64(5)},
			"valid-share": {.3, .9}, "test-share": {.3, .9}, "eval-edges": {10},
			"mem": {int64(1 << 20), int64(1 << 30)}, "io-engine": {"mmap"}, "device": {"host"},
			"device-mem": {int64(1 << 30)}, "matmul": {"exact"}, "threads": {1},
			"checkpoint-file":  {file},
			"checkpoint-every": {"0"}, "resume": {true},
		},
		Decides: []string{"sampler", "fanouts", "dim", "no-recency", "time-encoding", "batch-size", "epochs", "lr",
			"negatives", "degree-share", "seed", "valid-share", "test-share"},
		Small:     Config{Dim: 8, BatchSize: 100, Epochs: 1, Negatives: 10, EvalEdges: 20, Running: options.Running{Threads: 1}},
		Normalize: (*Config).Normalize,
		Train: func(t *testing.T, c Config) (string, error) {
			cp, err := Train(t.Context(), st, hostDevice(t), c, Hooks{})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(len(cp.Summary.EpochSeconds), cp.Params), nil
		},
	}
	pairs.Run(t)
}
