package train

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

var allPairs = flag.Bool("pairs", false, "train every pair of options with every pair of values, instead of one")

// choices are values of options to try, of each of the table's. An option without any is not tried, for the reason beside it.
var choices = map[string][]any{
	"model": {"gcn", "gat", "gin", "rgcn", "rsage", "rgat", "mlp"}, "layers": {3, 1}, "hidden": {12}, "heads": {2}, "aggregator": {"max"},
	"norm": {"layer", "batch"}, "residual": {true}, "jumping": {"cat", "max"}, "bases": {2}, "product-order": {"multiply"},
	"fanouts": {[]int{2, 2}, []int{-1, 3}}, "relation-fanouts": {"r0=2,2"}, "edge-weights": {true},
	"edge-features": {[]string{"weight"}}, "features": {[]string{"x"}}, "split": {"split"},
	"sampler": {"dense", "weighted", "labor", "pinsage"}, "walks": {3}, "walk-length": {3}, "walk-restart": {.2}, "prune": {"1,1"},
	"batch-size": {7}, "accumulate": {2}, "epochs": {2}, "patience": {1}, "lr": {.1}, "weight-decay": {.5}, "dropout": {.1},
	"input-dropout": {.3}, "seed": {uint64(5)}, "eval-every": {2}, "precomputed-hop": {true}, "history": {true},
	"history-dtype": {"float16"}, "absent": {"ignore"}, "label-shift": {"off"}, "mixture": {"labels"}, "vectors": {"table", "memory"},
	"table": {"other"}, "plan": {"hanoi", "rows", "memory", "trainnodes"}, "buffer": {2}, "row-reads": {"packed"}, "reuse": {1},
	"mem": {int64(1 << 30)}, "io-engine": {"mmap"}, "device-plan": {"lbs", "pbs", "mirror"}, "device-macro": {2}, "device-cache": {"tracker"},
	"device-window": {3}, "record-steps": {"off"}, "sample-on": {"device"}, "threads": {1}, "checkpoint-every": {"1"}, "device-mem": {int64(1 << 30)},
	"device": {"host"}, "matmul": {"exact"},
	"checkpoint-file": {}, // is where, not what
	"resume":          {}, // of a run: resume_test.go
}

// decides are options that decide what is learned: one that changes nothing beside another was ignored. Those that bear on what is
// drawn change nothing where nothing is, and so on: only what always counts is here.
var decides = []string{"hidden", "heads", "aggregator", "norm", "residual", "jumping", "bases", "edge-weights", "edge-features", "lr", "dropout",
	"weight-decay", "input-dropout", "seed", "walks", "walk-length", "walk-restart"}

// pairing is a configuration with one or two options set.
type pairing struct {
	config config.Config
	set    []string
}

// with sets an option.
func (p pairing) with(name string, value any) pairing {
	p.set = append(slices.Clone(p.set), name)
	for _, f := range config.Options().Bind(&p.config).Fields {
		if f.Flag != name {
			continue
		}
		if f.Value.Kind() == reflect.Pointer {
			f.Value.Set(reflect.New(f.Value.Type().Elem()))
			f.Value.Elem().Set(reflect.ValueOf(value))
		} else {
			f.Value.Set(reflect.ValueOf(value))
		}
		p.config.Given = append(slices.Clone(p.config.Given), f.Name)
	}
	return p
}

// TestPairs: every pair of options works, or is refused with the reason; nothing is ignored.
func TestPairs(t *testing.T) {
	table := config.Options()
	var names []string
	for _, f := range table.Bind(new(config.Config)).Fields {
		if _, ok := choices[f.Flag]; !ok {
			t.Errorf("no value of %s is tried", f.Flag)
		}
		names = append(names, f.Flag)
	}
	if len(names) != len(choices) {
		t.Errorf("%d options, values for %d", len(names), len(choices))
	}
	g := storetest.Random(storetest.Options{Nodes: 60, Edges: 420, Partitions: 5, Relations: 2})
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(1+i*i%7))
	}
	dir := storetest.Create(t, g)
	if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{}); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // outcomes, by what was set
	run := func(p pairing) string {
		key := fmt.Sprintf("%+v", p.config)
		if _, ok := known[key]; !ok {
			known[key] = runPairing(t, dir, p)
		}
		return known[key]
	}
	for i, a := range names {
		for _, b := range names[i+1:] {
			trained := false
			for _, x := range choices[a] {
				for _, y := range choices[b] {
					first, second := pairing{}.with(a, x), pairing{}.with(b, y)
					both := first.with(b, y)
					if check := both.config; check.Normalize() == nil && trained && !*allPairs {
						continue
					}
					got := run(both)
					if trained = trained || strings.HasPrefix(got, "trained"); !strings.HasPrefix(got, "trained") {
						continue
					}
					for _, k := range []struct {
						name string
						rest pairing
					}{{a, second}, {b, first}} {
						if slices.Contains(decides, k.name) && run(k.rest) == got {
							t.Errorf("%v and %v of %s and %s: %s is ignored", x, y, a, b, k.name)
						}
					}
				}
			}
		}
	}
	counts := map[bool]int{}
	for _, outcome := range known {
		counts[strings.HasPrefix(outcome, "trained")]++
	}
	t.Logf("%d combinations trained, %d were refused", counts[true], counts[false])
	if testing.Verbose() {
		for _, text := range slices.Compact(slices.Sorted(maps.Values(known))) {
			if !strings.HasPrefix(text, "trained") {
				t.Log(text)
			}
		}
	}
}

// runPairing trains, small where the options leave it open, and says what came of it.
func runPairing(t *testing.T, dir string, p pairing) string {
	t.Helper()
	small := config.Config{Epochs: 1, Hidden: 8, BatchSize: 16, Threads: 1, EvalEvery: 1, Overwrite: true}
	c := p.config
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if v.Field(i).CanSet() && v.Field(i).IsZero() && !slices.Contains(p.set, "patience") {
			v.Field(i).Set(reflect.ValueOf(small).Field(i))
		}
	}
	cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
	var refusal *options.Refusal
	switch {
	case err == nil:
		return fmt.Sprintf("trained %v %v", cp.Summary.TrainLoss, cp.Params)
	case errors.As(err, &refusal):
	case strings.Contains(err.Error(), "shape"):
		t.Errorf("%v: %v", p.set, err)
	case !errors.Is(err, store.ErrInvalid) && !errors.Is(err, macro.ErrPlan) && !errors.Is(err, store.ErrNotFound):
		t.Errorf("%v: %v, expected a refusal", p.set, err)
	}
	return err.Error()
}
