package train

import (
	"fmt"
	"testing"

	"github.com/gstore/gstore/gpu/options/optionstest"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/storetest"
)

// choices are values of options to try, of each of the table's. An option without any is not tried, for the reason
// beside it.
var choices = map[string][]any{
	"model": {"gcn", "gat", "gin", "rgcn", "rsage", "rgat", "hgt", "mlp"}, "layers": {3, 1}, "hidden": {12}, "heads": {2}, "aggregator": {"max"},
	"norm": {"layer", "batch"}, "residual": {true}, "jumping": {"cat", "max"}, "bases": {2}, "product-order": {"multiply"},
	"fanouts": {[]int{2, 2}, []int{-1, 3}}, "relation-fanouts": {"r0=2,2"}, "edge-weights": {true},
	"edge-features": {[]string{"weight"}}, "features": {[]string{"x"}}, "split": {"split"}, "class-weights": {"auto"},
	"sampler": {"dense", "weighted", "labor", "pinsage"}, "walks": {3}, "walk-length": {3}, "walk-restart": {.2}, "prune": {"1,1"},
	"batch-size": {7}, "accumulate": {2}, "epochs": {2}, "patience": {1}, "lr": {.1}, "lr-schedule": {"cosine", "plateau"}, "weight-decay": {.5}, "dropout": {.1},
	"input-dropout": {.3}, "seed": {uint64(5)}, "eval-every": {2}, "precomputed-hop": {true}, "history": {true},
	"history-dtype": {"float16"}, "absent": {"ignore"}, "label-shift": {"off"}, "mixture": {"labels"}, "vectors": {"table", "memory"},
	"table": {"other"}, "plan": {"hanoi", "rows", "memory", "trainnodes"}, "buffer": {2}, "row-reads": {"packed"}, "reuse": {1},
	"mem": {int64(1 << 30)}, "io-engine": {"mmap"}, "device-plan": {"lbs", "pbs", "mirror"}, "device-macro": {2}, "device-cache": {"tracker"},
	"device-window": {3}, "record-steps": {"off"}, "sample-on": {"device"}, "threads": {1}, "checkpoint-every": {"1"}, "device-mem": {int64(1 << 30)},
	"device": {"host"}, "matmul": {"exact"},
	"checkpoint-file": {}, // is where, not what
	"resume":          {}, // of a run: resume_test.go
	"from":            {}, // a model: begin_test.go
}

// TestPairs: every pair of options works, or is refused with the reason; nothing is ignored.
func TestPairs(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 60, Edges: 420, Partitions: 5, Relations: 2})
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(1+i*i%7))
	}
	dir := storetest.Create(t, g)
	if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{}); err != nil {
		t.Fatal(err)
	}
	pairs := optionstest.Pairs[config.Config]{
		Table: config.Options(), Values: choices,
		Decides: []string{"hidden", "heads", "aggregator", "norm", "residual", "jumping", "bases", "edge-weights",
			"edge-features", "lr", "dropout", "weight-decay", "input-dropout", "seed", "class-weights", "walks", "walk-length", "walk-restart"},
		Small: config.Config{
			Epochs: 1, Hidden: 8, BatchSize: 16, Threads: 1, EvalEvery: 1, Overwrite: true,
		},
		SmallBut:  []string{"patience"},
		Normalize: (*config.Config).Normalize,
		Train: func(t *testing.T, c config.Config) (string, error) {
			cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(cp.Summary.TrainLoss, cp.Params), nil
		},
	}
	pairs.Run(t)
}
