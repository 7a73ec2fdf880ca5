package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
)

// weeks are those of a year.
const weeks = 52

// TestYear lives a year of a store that is used: each week nodes and edges come, on disks that fail and crash; edges go and change, rows and
// labels are brought up to date, nodes are taken out, the layout is renewed; and every quarter a model is trained on, from the last one's
// parameters. After each step the store is what the model in memory says.
func TestYear(t *testing.T) {
	if testing.Short() {
		t.Skip("a year takes a while")
	}
	dev := host.New(host.Options{Threads: 2})
	defer dev.Close() //nolint:errcheck // test
	lived := 0
	for seed := uint64(1); lived < 2/race.Every(2); seed++ {
		mem, err := newMem()
		if err != nil {
			t.Fatal(err)
		}
		w := &world{ctx: t.Context(), dev: dev, dir: "/disk/store", disk: newDisk(mem), counts: map[string]int{}}
		begun, err := w.year(seed)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, history(w.log))
		}
		if begun {
			lived++
			t.Logf("seed %d: %d nodes, %d edges at the end: %v", seed, len(w.now.names), len(w.now.edges), w.counts)
		}
	}
}

// year lives one, unless the seed begins with a store whose nodes are not to be classified.
func (w *world) year(seed uint64) (bool, error) {
	at := func(week, part uint64) { w.rng = rand.New(rand.NewPCG(seed, 16*week+part)) }
	for try := uint64(0); w.now == nil; try++ {
		at(1000, try)
		if err := w.ingest(); err != nil {
			return false, err
		}
	}
	if w.now.lists != nil || w.now.typed || !w.now.trainable() {
		return false, nil
	}
	var model *train.Checkpoint
	for week := uint64(0); week < weeks; week++ {
		steps := []step{{"append", 1, (*world).append}, {"take edges", 2, (*world).take}, {"update rows", 3, (*world).updateRows}, {"relabel", 4, (*world).relabel},
			{"remove nodes", 5, (*world).remove}, {"repartition", 17, (*world).repartition}}
		for k, s := range steps {
			if week%uint64(s.share) != uint64(s.share)-1 { // every so many weeks
				continue
			}
			at(week, uint64(k))
			done, err := s.do(w)
			if err != nil {
				return true, fmt.Errorf("week %d, %s: %w", week, s.name, err)
			}
			if done {
				w.counts[s.name]++
			}
		}
		if week%13 == 12 && w.now.trainable() {
			at(week, 15)
			var err error
			if model, err = w.trainOn(model); err != nil {
				return true, fmt.Errorf("week %d, train: %w", week, err)
			}
			w.counts["train"]++
		}
	}
	return true, w.finish()
}

// trainOn trains a model on the newest version: from the last one's parameters, if there is one.
func (w *world) trainOn(last *train.Checkpoint) (_ *train.Checkpoint, err error) {
	c := config.Config{Features: []string{"x"}, Split: "split", Hidden: 4, BatchSize: 8, Epochs: 2, Seed: 7, Layers: 2, Plan: "memory", Fanouts: []int{4, 4}, Threads: 1,
		Absent: config.AbsentIgnore}
	if last != nil {
		b, err := last.Begin()
		if err != nil {
			return nil, err
		}
		c.BeginWith(b)
	}
	s, err := store.Open(w.dir, w.open())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if last != nil && len(last.Params) > 0 && last.Version >= s.Manifest().Version {
		return nil, fmt.Errorf("the model is of version %d, the store at %d: expected a later one", last.Version, s.Manifest().Version)
	}
	var losses []float64
	model, err := train.Node(w.ctx, s, w.dev, c, train.Hooks{Epoch: func(e train.Epoch) { losses = append(losses, e.Loss) }})
	if err != nil {
		return nil, err
	}
	for _, l := range losses {
		if math.IsNaN(l) || l <= 0 {
			return nil, fmt.Errorf("losses %v", losses)
		}
	}
	r, err := model.Evaluate(w.ctx, s, w.dev, train.EvaluateOptions{Probabilities: true})
	if err != nil {
		return nil, err
	}
	w.note("trained version %d, losses %v", s.Manifest().Version, losses)
	return model, r.Close()
}
