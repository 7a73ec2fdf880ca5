package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/storegraph"
)

// outOfCore says which part of docs/accuracy.md, "Accuracy out of core", is run: the product of its lists.
type outOfCore struct {
	data      string   // folder of the data set
	methods   []method // the rows
	splits    []string
	layers    []int
	fractions []int  // memory holds 1 of so many nodes' features, pinned ones included
	epochs    []int  // counted for each: the best-validation epoch among so many first ones
	seed      uint64 // the first
	seeds     int
	threads   int
	only      []string // names of methods; none: all
	// features is what rows and the hop are stored as. A
	// float16 row and its hop take the bytes of a float32 row without one.
	features blocks.ElemType
}

// method is how a row keeps accuracy out of core.
type method struct {
	model              string             // "": sage
	partitioner        partitioner.Method // "": in memory
	hubs, hop, history bool
}

func (m method) name() string {
	if m.partitioner == "" {
		if m.model != "" {
			return "memory+" + m.model
		}
		return "memory"
	}
	parts := []string{string(m.partitioner)}
	for _, x := range []struct {
		on   bool
		name string
	}{{m.hubs, "hubs"}, {m.hop, "hop"}, {m.history, "history"}} {
		if x.on {
			parts = append(parts, x.name)
		}
	}
	return strings.Join(parts, "+")
}

// methods lists the rows: in memory, then every partitioner with and without each means.
func methods() []method {
	ms := []method{{}}
	for _, p := range []partitioner.Method{partitioner.MethodRandom, partitioner.MethodFennel, partitioner.MethodGAP} {
		for i := range 8 {
			ms = append(ms, method{partitioner: p, hubs: i&4 > 0, hop: i&2 > 0, history: i&1 > 0})
		}
	}
	return ms
}

const (
	residentPartitions = 8 // at a time; the hubs take the place of one
	outOfCoreRow       = "| %s | %d | 1/%d | %d | %s | **%.2f** %.2f | %.2f | %.1f MiB | %.1f MiB |\n"
)

// run trains the rows and prints each as soon as it is done.
func (o *outOfCore) run(ctx context.Context, asJSON bool) (err error) {
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	for _, name := range o.only {
		if !slices.ContainsFunc(o.methods, func(m method) bool { return m.name() == name }) {
			return fmt.Errorf("-only: %q is no method of the table", name)
		}
	}
	if !asJSON {
		fmt.Println("| split | layers | memory | epochs | method | test accuracy % | s/epoch | read/epoch | features and history in memory |")
		fmt.Println("|---|---|---|---|---|---|---|---|---|")
	}
	for _, split := range o.splits {
		for _, fraction := range o.fractions {
			for _, m := range o.methods {
				if len(o.only) > 0 && !slices.Contains(o.only, m.name()) {
					continue
				}
				for _, layers := range o.layers {
					if err := o.row(ctx, work, split, layers, fraction, m, asJSON); err != nil {
						return fmt.Errorf("%s, %d layers, 1/%d, %s: %w", split, layers, fraction, m.name(), err)
					}
				}
			}
		}
	}
	return nil
}

// row trains one row once a seed and prints a line for each count of epochs:
// the first epochs of a run are those of a shorter one. The partitioning has the run's seed too.
func (o *outOfCore) row(ctx context.Context, work, split string, layers, fraction int, m method, asJSON bool) error {
	lines := make([]result, len(o.epochs))
	var seconds []float64
	var resident, read int64
	for seed := o.seed; seed < o.seed+uint64(o.seeds); seed++ {
		dir, err := o.store(ctx, work, split, layers, fraction, m, seed)
		if err != nil {
			return err
		}
		c := config.Config{Model: m.model, Layers: layers, Epochs: slices.Max(o.epochs), LR: .005, Seed: seed, Threads: o.threads, Split: split,
			PrecomputedHop: m.hop, History: m.history, Absent: config.AbsentIgnore, LabelShift: config.ShiftOff, Mixture: config.MixtureRandom, InputDropout: share(0), Plan: "memory"} // nothing but what the row names
		if m.partitioner != "" {
			c.Plan, c.Buffer = "hanoi", residentPartitions
			if m.hubs {
				c.Buffer--
			}
		}
		var epochs []train.Epoch
		s, err := trainStore(ctx, dir, c, train.Hooks{Epoch: func(e train.Epoch) { epochs = append(epochs, e) }})
		if err != nil {
			return err
		}
		for i, n := range o.epochs {
			lines[i].Accuracies = append(lines[i].Accuracies, 100*testOfBest(epochs[:n]))
		}
		resident = max(resident, s.FeatureResidentBytes+s.HistoryResidentBytes)
		seconds = append(seconds, s.EpochSeconds...)
		read = (s.BytesRead + s.HistoryRowBytes) / int64(len(s.EpochSeconds))
	}
	for i, n := range o.epochs {
		r := &lines[i]
		name := m.name()
		if o.features != blocks.Float32 {
			name += " " + o.features.String()
		}
		r.Name, r.BytesEpoch, r.ResidentBytes = fmt.Sprintf("%s %d layers 1/%d %d epochs %s", split, layers, fraction, n, name), read, resident
		r.summarize(seconds)
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		fmt.Printf(outOfCoreRow, split, layers, fraction, n, name, r.Mean, r.SD, r.EpochSeconds, float64(read)/(1<<20), float64(resident)/(1<<20))
	}
	return nil
}

// testOfBest is the test accuracy after the epoch of the best validation accuracy.
func testOfBest(epochs []train.Epoch) float64 {
	best := epochs[0]
	for _, e := range epochs {
		if e.ValidAccuracy > best.ValidAccuracy {
			best = e
		}
	}
	return best.TestAccuracy
}

// store makes the store of a row, or returns the one made for a row before.
func (o *outOfCore) store(ctx context.Context, work, split string, layers, fraction int, m method, seed uint64) (string, error) {
	partitions := residentPartitions * fraction
	if m.partitioner == "" {
		m.partitioner = partitioner.MethodRandom
	}
	name := fmt.Sprintf("%s-%s-%d-%d-%d.gstore", m.partitioner, split, layers, partitions, seed)
	if m.hubs {
		name = "hubs-" + name
	}
	dir := filepath.Join(work, name)
	if _, err := os.Stat(dir); err != nil {
		if err := makeStore(ctx, o.data, dir, ingest.Options{Partitions: partitions, Undirected: true, Seed: seed, FeatureElem: o.features}); err != nil {
			return "", err
		}
		if m.hubs || m.partitioner != partitioner.MethodRandom {
			if err := moved(ctx, dir, split, layers, partitions, m, seed); err != nil {
				return "", err
			}
		}
	}
	if m.hop {
		dev := host.New(host.Options{Threads: o.threads})
		_, err := precompute.Hop(ctx, dir, dev, precompute.Options{})
		if err = errors.Join(err, dev.Close()); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// moved assigns the nodes by m with the split's training nodes alone: labels of others are not seen.
func moved(ctx context.Context, dir, split string, layers, partitions int, m method, seed uint64) (err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	classes, err := storegraph.Classes(ctx, st, split)
	if err != nil {
		return err
	}
	g, err := storegraph.Open(ctx, st, "", storegraph.Budget{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	po := partitioner.Options{Method: m.partitioner, Partitions: partitions, Seed: seed, Classes: classes, LabelShare: 1}
	hubs := 0.
	if m.hubs { // one partition's worth: it takes the place of one
		hubs = 1 / float64(partitions)
		po.HubFraction = hubs
	}
	a, err := partitioner.Partition(ctx, g, po)
	if err == nil && m.hubs {
		a, err = partitioner.SelectHubs(ctx, g, a, partitioner.HubOptions{Fraction: hubs, Hops: layers, Classes: classes})
	}
	if err == nil {
		_, err = repartition.Run(ctx, st, a, ingest.Options{Seed: seed, Partitioner: m.partitioner})
	}
	return err
}
