package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// training is a run that ends early whenever the disk is disturbed and goes on in a later step, until it comes to its end.
type training struct {
	version uint64         // of the store
	node    *config.Config // or
	link    *link.Config
	want    string // what an uninterrupted run ends with
	kept    kept   // the last checkpoint that was there before the disk stopped
}

// kept says how far a checkpoint is; the zero value: there is none. A run of nodes begins with one of no batches, the
// first of links has number 1.
type kept struct {
	any     bool
	number  uint64 // of a table's checkpoint
	epochs  int
	batches int64 // of the epoch after those
}

// before reports whether the checkpoint k was followed by o.
func (k kept) before(o kept) bool {
	return cmp.Or(cmp.Compare(k.number, o.number), cmp.Compare(k.epochs, o.epochs), cmp.Compare(k.batches, o.batches)) < 0
}

// train begins a run or goes on with the one that has not ended.
func (w *world) train() (bool, error) {
	if w.training == nil {
		if err := w.newTraining(); err != nil || w.training == nil {
			return false, err
		}
	}
	return true, w.goOn(true)
}

// newTraining makes up a run and what it must end with: what an uninterrupted run of one thread does, which keeps nothing
// to be resumed from. The store may be one that is not to be trained on.
func (w *world) newTraining() (err error) {
	t := &training{version: w.version}
	g := w.now
	switch {
	case g.lists == nil && g.trainable():
		t.node = w.nodeConfig()
		if g.typed && g.relations > 1 {
			t.node.Model, t.node.Features = pick(w, "rsage", "rgcn"), []string{"x", pick(w, "c.node", store.TypeColumn)}
		}
	case g.lists != nil && !g.undirected && len(g.edges) > 0:
		t.link = w.linkConfig()
	default:
		return nil
	}
	whole := *t
	if t.node != nil {
		c := *t.node
		c.CheckpointFile, c.Threads, c.Resume = "", 1, false
		whole.node = &c
	} else {
		if err := w.dropTable("whole"); err != nil {
			return err
		}
		c := *t.link
		c.Table, c.CheckpointEvery, c.Threads, c.Resume = "whole", "0", 1, false
		whole.link = &c
	}
	if t.want, err = whole.run(w, w.open()); err != nil {
		return fmt.Errorf("uninterrupted: %w", err)
	}
	if t.link != nil {
		err = errors.Join(w.dropTable("whole"), w.dropTable(t.link.Table)) // the one before was named alike
	} else {
		err = w.makeRuns()
	}
	w.training = t
	return err
}

// trainable reports whether a node has a label and is to be trained on.
func (g *graph) trainable() bool {
	for _, n := range g.nodes {
		if n.split == store.SplitTrain && n.label >= 0 {
			return true
		}
	}
	return false
}

func (w *world) nodeConfig() *config.Config {
	c := &config.Config{Features: []string{"x"}, Split: "split", Hidden: 4 + 4*w.rng.IntN(2), BatchSize: 1 + w.rng.IntN(12), Epochs: 1 + w.rng.IntN(3), Seed: w.rng.Uint64(),
		Model: pick(w, "sage", "sage", "gcn", "gat"), Layers: 1 + w.rng.IntN(2), Plan: pick(w, "memory", "hanoi", "trainnodes"), Absent: pick(w, config.AbsentAuto, config.AbsentIgnore),
		Threads: 1 + w.rng.IntN(2), CheckpointEvery: strconv.Itoa(1+w.rng.IntN(3)) + "steps", CheckpointFile: w.runFile(), Resume: true}
	for range c.Layers {
		c.Fanouts = append(c.Fanouts, 1+w.rng.IntN(4))
	}
	if c.Plan != "memory" {
		c.Buffer = 1 + w.rng.IntN(2)
	}
	return c
}

func (w *world) linkConfig() *link.Config {
	c := &link.Config{Model: pick(w, "distmult", "complex", "transe", "dot"), Encoder: pick(w, "none", "none", "sage"), Dim: 2 + 2*w.rng.IntN(3), BatchSize: 5 + w.rng.IntN(60),
		Epochs: 1 + w.rng.IntN(3), Seed: w.rng.Uint64(), Negatives: 1 + w.rng.IntN(5), Chunks: 1 + w.rng.IntN(2), Optimizer: pick(w, "adagrad", "adam"),
		Plan: pick(w, "memory", "comet", "beta"), Threads: 1 + w.rng.IntN(2), CheckpointEvery: strconv.Itoa(1+w.rng.IntN(4)) + "steps", KeepCheckpoints: 1 + w.rng.IntN(2), Table: "run", Resume: true}
	if c.Encoder != "none" {
		c.Fanouts = []int{1 + w.rng.IntN(4)}
	}
	if c.Plan != "memory" {
		c.Buffer = 2
	}
	return c
}

// runFile is where checkpoints of nodes lie, as the command line has it.
func (w *world) runFile() string {
	return w.disk.fs.PathJoin(w.dir, store.RunsDir, "last"+store.RunExtension)
}

// makeRuns makes a folder of checkpoints without one; a crash leaves it so.
func (w *world) makeRuns() error {
	fs := w.disk.fs
	runs := fs.PathDir(w.runFile())
	if err := errors.Join(fs.MkdirAll(runs, 0o777), fs.RemoveAll(w.runFile())); err != nil {
		return err
	}
	for _, dir := range []string{w.dir, runs} {
		d, err := fs.OpenDir(dir)
		if err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) dropTable(name string) error {
	err := table.Drop(w.ctx, w.dir, name, w.open())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// goOn takes the run up where its last checkpoint is, or begins it, and settles what came of it.
func (w *world) goOn(disturbed bool) error {
	t := w.training
	fault, hit, down := sound, false, false
	if disturbed {
		w.disk.begin(w.rng)
	}
	got := ""
	err := w.beside(w.now, w.now, func() (err error) {
		got, err = t.run(w, w.open())
		return err
	})
	if disturbed {
		fault, hit, down = w.disk.end()
	}
	outcome := "ended"
	if err != nil {
		outcome = err.Error()
	}
	w.note("%s; disk: %s; %s", t, fault, outcome)
	// A table keeps its version; a checkpoint of nodes does not.
	if (t.node != nil || !t.kept.any) && t.version != w.version && errors.Is(err, store.ErrNotFound) {
		w.training = nil
	} else if err := w.excused(err, hit); err != nil {
		return err
	}
	if down {
		w.counts["crashes"]++
		if err := w.restart(); err != nil {
			return err
		}
	} else if hit {
		w.counts["disk errors"]++
	}
	if _, err := w.check(w.now); err != nil {
		return err
	}
	if err := w.keeps(); err != nil {
		return fmt.Errorf("after training: %w", err)
	}
	if err != nil {
		return nil
	}
	if got != t.want {
		return fmt.Errorf("the run ends with %s, uninterrupted with %s", got, t.want)
	}
	if !down || !hit {
		w.training = nil
		w.counts["runs of "+t.task()+" ended"]++
	}
	return nil
}

// task is what the run learns.
func (t *training) task() string {
	if t.node != nil {
		return "nodes"
	}
	return "links"
}

// String names the run in the log.
func (t *training) String() string {
	if t.node != nil {
		return fmt.Sprintf("train nodes of version %d with %s, plan %s, from %+v", t.version, t.node.Model, t.node.Plan, t.kept)
	}
	return fmt.Sprintf("train links of version %d with %s, encoder %s, plan %s, from %+v", t.version, t.link.Model, t.link.Encoder, t.link.Plan, t.kept)
}

// run trains on the store that o opens and returns what the run ends with.
func (t *training) run(w *world, o store.Options) (got string, err error) {
	o.Version = t.version
	s, err := store.Open(w.dir, o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	from := t.kept
	if from.any {
		w.counts["runs of "+t.task()+" resumed"]++
	}
	keep := func(k kept) {
		if k.any = true; o.FS == w.disk.fs && !w.disk.stopped() {
			t.kept = k
		}
	}
	resumed := func(found bool) error {
		if from.any && !found && o.FS == w.disk.fs { // not of a damaged copy
			return errors.New("it begins anew though it had a checkpoint")
		}
		return nil
	}
	var lost error
	if t.node != nil {
		batches := int64(0)
		cp, err := train.Node(w.ctx, s, w.dev, *t.node, train.Hooks{
			Batch: func(_ int, n int64) { batches = n },
			Checkpoint: func(epochs, step, batch int) {
				if step == 0 && batch == 0 {
					batches = 0
				}
				keep(kept{epochs: epochs, batches: batches})
			},
			Resume: func(found bool, _, _, _ int) { lost = resumed(found) }})
		if err = errors.Join(err, lost); err != nil {
			return "", err
		}
		m := &cp.Summary
		return fmt.Sprintf("parameters %08x, loss %v, best epoch %d, accuracies %v and %v, %d batches, %d sampled edges",
			crc32.ChecksumIEEE(cp.Params), m.TrainLoss, m.BestEpoch, m.ValidAccuracy, m.TestAccuracy, m.Batches, m.SampledEdges), nil
	}
	_, err = link.Train(w.ctx, s, w.dev, *t.link, link.Hooks{
		Checkpoint: func(number uint64, epochs, _, _ int) { keep(kept{number: number, epochs: epochs}) },
		Resume:     func(found bool, _, _, _ int) { lost = resumed(found) }})
	if err = errors.Join(err, lost); err != nil {
		return "", err
	}
	_, got, err = w.readTable(s, t.link.Table)
	return got, err
}

// readTable reads a table's last checkpoint, all rows and states of them: its number and what it holds.
func (w *world) readTable(s *store.Store, name string) (number uint64, what string, err error) {
	t, err := table.Open(w.ctx, s, table.Options{Name: name, ReadOnly: true})
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	h := crc32.NewIEEE()
	for p := range t.Partitions() {
		id := store.PartitionID(p)
		n := t.PlaneBytes(id)
		slab, err := blockio.AllocSlab(max(1, n*int64(t.Planes())), blockio.SlabOptions{Threads: 1})
		if err != nil {
			return 0, "", err
		}
		var planes [][]byte
		for i := range int64(t.Planes()) {
			planes = append(planes, slab.Bytes()[i*n:(i+1)*n])
		}
		err = t.Read(w.ctx, id, planes...)
		for _, b := range planes {
			_, _ = h.Write(b[:int64(t.Nodes(id))*int64(t.Dim())*4])
		}
		if err = errors.Join(err, slab.Free()); err != nil {
			return 0, "", err
		}
	}
	run, err := link.Load(w.ctx, t)
	if err != nil {
		return 0, "", err
	}
	m := &run.Summary
	return t.LastCheckpoint().Number, fmt.Sprintf("rows %08x, parameters %08x, %d epochs, loss %v, MRR %v and %v, %d batches",
		h.Sum32(), crc32.ChecksumIEEE(run.Model), run.Epochs, m.TrainLoss, m.ValidMRR, m.TestMRR, m.Batches), nil
}

// keeps checks that the run that has not ended is no further back than its last checkpoint, and that this can be read.
func (w *world) keeps() (err error) {
	t := w.training
	if t == nil || !t.kept.any {
		return nil
	}
	found := kept{any: true}
	if t.node != nil {
		at, err := train.ReadPosition(w.disk.fs, w.runFile())
		if err != nil {
			return fmt.Errorf("checkpoint %+v is lost: %w", t.kept, err)
		}
		found.epochs, found.batches = at.Finished, at.Batches
	} else {
		o := w.open()
		o.Version = t.version
		s, err := store.Open(w.dir, o)
		if err != nil {
			return fmt.Errorf("version %d with a table: %w", t.version, err)
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if found.number, _, err = w.readTable(s, t.link.Table); err != nil {
			return fmt.Errorf("checkpoint %+v is lost: %w", t.kept, err)
		}
		found.epochs = t.kept.epochs
	}
	if found.before(t.kept) {
		return fmt.Errorf("the last checkpoint is %+v, expected %+v or a later one", found, t.kept)
	}
	return nil
}
