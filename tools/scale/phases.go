package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// The shape of ogbn-papers100M.
const (
	wholeNodes  = 111_059_956
	wholeEdges  = 1_615_685_872
	features    = 128
	classes     = 172
	wholeBudget = 20 << 30 // a tenth is given 2 GiB
	leastBudget = 256 << 20
	asked       = 1000 // nodes to predict
)

// runner runs the phases of one size after another.
type runner struct {
	gstore func(ctx context.Context, args ...string) *exec.Cmd
	only   string
	epochs int
	tables []*table

	part         int64
	nodes, edges int64
	mem          int64
	dir          string
	disk         float64 // bytes a second of sequential direct reads
	trained      map[string]any
}

// phase is one command, or two where one is killed.
type phase struct {
	name  string
	needs bool // whether later phases need it
	// bytes are what it has to move between memory and the disk at least.
	bytes func(r *runner) int64
	run   func(*runner, context.Context) (cost, string, error)
}

var phases = []phase{
	{"generate", true, (*runner).input, (*runner).generate},
	{"ingest", true, func(r *runner) int64 { return r.input() + r.stored() }, (*runner).ingest},
	{"inspect", false, none, (*runner).inspect},
	{"verify", false, (*runner).stored, (*runner).verify},
	{"plan", false, none, (*runner).plan},
	{"train", true, (*runner).stored, (*runner).train},
	{"kill and resume", false, (*runner).stored, (*runner).resume},
	{"evaluate", false, (*runner).stored, (*runner).evaluate},
	{"predict 1,000", false, none, (*runner).predict},
	{"export", false, func(r *runner) int64 { return 2 * r.input() }, (*runner).export},
	{"append 1 %", false, none, (*runner).append},
}

func none(*runner) int64 { return 0 }

// input is how many bytes the generated files have.
func (r *runner) input() int64 { return r.edges*16 + r.nodes*(features*4+8) }

// stored is how many bytes the store's data files have, 0 before there are any.
func (r *runner) stored() (n int64) {
	_ = filepath.WalkDir(r.at("store/data"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

func (r *runner) at(name string) string { return filepath.Join(r.dir, name) }

func (r *runner) budget() string { return fmt.Sprintf("%dMiB", r.mem>>20) }

// size takes the part-th part of the whole graph through the phases.
func (r *runner) size(ctx context.Context, dir string, part int64) (_ *table, err error) {
	if r.dir, err = os.MkdirTemp(dir, "scale-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	r.part, r.nodes, r.edges = part, wholeNodes/part, wholeEdges/part
	r.mem, r.disk, r.trained = max(leastBudget, wholeBudget/part), 0, nil
	t := &table{part: part, nodes: r.nodes, edges: r.edges, mem: r.mem}
	for _, p := range phases {
		if !p.needs && !strings.Contains(p.name, r.only) {
			continue
		}
		c, said, err := p.run(r, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if p.name == "ingest" {
			if err := r.calibrate(ctx); err != nil {
				return nil, err
			}
			t.disk = r.disk
		}
		t.rows = append(t.rows, row{name: p.name, cost: c, bytes: p.bytes(r), said: said})
		fmt.Fprintf(os.Stderr, "1/%d %s: %.1f s, %.1f CPU s, peak %d MiB; %s\n", part, p.name, c.seconds, c.cpu, c.peak>>20, said)
	}
	return t, nil
}

// calibrate measures the disk under the store by direct reads of its largest file.
func (r *runner) calibrate(ctx context.Context) error {
	var largest string
	var most int64
	err := filepath.WalkDir(r.at("in"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > most {
			largest, most = path, info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	c, err := blockio.Calibrate(ctx, "auto", largest, blockio.CalibrateOptions{Duration: 2 * time.Second})
	r.disk = c.BytesPerSecond
	return err
}

func (r *runner) generate(ctx context.Context) (cost, string, error) {
	communities := max(1, r.nodes/1000/classes) * classes // of a thousand nodes each
	c, _, err := r.child(ctx, 0, "generate", "sbm", r.at("in"), "--nodes", fmt.Sprint(r.nodes), "--edges", fmt.Sprint(r.edges),
		"--features", fmt.Sprint(features), "--classes", fmt.Sprint(classes), "--communities", fmt.Sprint(communities),
		"--skew", "3", "--train", ".011", "--valid", ".001", "--test", ".002")
	return c, "", err
}

func (r *runner) ingest(ctx context.Context) (cost, string, error) {
	c, said, err := r.child(ctx, 0, "ingest", r.at("in"), r.at("store"), "--mem", r.budget())
	return c, fmt.Sprintf("%v partitions", said["partitions"]), err
}

func (r *runner) inspect(ctx context.Context) (cost, string, error) {
	c, _, err := r.child(ctx, 0, "inspect", r.at("store"))
	return c, "", err
}

func (r *runner) verify(ctx context.Context) (cost, string, error) {
	c, _, err := r.child(ctx, 0, "verify", r.at("store"))
	return c, "", err
}

// model are the flags of what is trained.
func (r *runner) model() []string {
	return []string{"--layers", "3", "--fanouts", "15,10,5", "--hidden", "128", "--mem", r.budget()}
}

func (r *runner) plan(ctx context.Context) (cost, string, error) {
	c, said, err := r.child(ctx, 0, append([]string{"plan", r.at("store")}, r.model()...)...)
	return c, fmt.Sprintf("%v, %v steps", said["plan"], said["steps"]), err
}

func (r *runner) training(more ...string) []string {
	args := append([]string{"train", r.at("store"), "--epochs", fmt.Sprint(r.epochs), "--eval-every", fmt.Sprint(r.epochs)}, r.model()...)
	return append(args, more...)
}

func (r *runner) train(ctx context.Context) (cost, string, error) {
	c, said, err := r.child(ctx, 0, r.training()...)
	r.trained = said
	return c, r.quality(said), err
}

func (r *runner) quality(said map[string]any) string {
	return fmt.Sprintf("%v, valid %.4v, test %.4v", said["plan"], said["valid_accuracy"], said["test_accuracy"])
}

// resume kills a training in the middle of the time that the whole one took, and goes on with it.
func (r *runner) resume(ctx context.Context) (cost, string, error) {
	wait, _ := r.trained["total_seconds"].(float64)
	var killed cost
	for err := error(nil); err == nil; wait /= 2 { // it may end before
		if killed, _, err = r.child(ctx, time.Duration(wait/2*float64(time.Second)), r.training("--checkpoint-every", "10steps")...); ctx.Err() != nil {
			return killed, "", err
		}
	}
	c, said, err := r.child(ctx, 0, r.training("--checkpoint-every", "10steps", "--resume")...)
	if err != nil {
		return c, "", err
	}
	for _, name := range []string{"train_loss", "valid_accuracy", "test_accuracy", "batches"} {
		if said[name] != r.trained[name] {
			return c, "", fmt.Errorf("%s is %v after a kill, %v without", name, said[name], r.trained[name])
		}
	}
	c.seconds, c.cpu, c.read, c.written = c.seconds+killed.seconds, c.cpu+killed.cpu, c.read+killed.read, c.written+killed.written
	c.peak = max(c.peak, killed.peak)
	return c, fmt.Sprintf("killed after %.1f s, the same results", killed.seconds), nil
}

func (r *runner) evaluate(ctx context.Context) (cost, string, error) {
	c, _, err := r.child(ctx, 0, "eval", r.at("store"), "--mem", r.budget())
	return c, "", err
}

func (r *runner) predict(ctx context.Context) (cost, string, error) {
	rng := rand.New(rand.NewPCG(1, 0))
	err := lines(r.at("nodes.txt"), asked, func(w *bufio.Writer) (int, error) { return fmt.Fprintln(w, rng.Int64N(r.nodes)) })
	if err != nil {
		return cost{}, "", err
	}
	c, _, err := r.child(ctx, 0, "predict", r.at("store"), "--input", r.at("nodes.txt"), "--out", r.at("classes.csv"), "--mem", r.budget())
	return c, "", err
}

func (r *runner) export(ctx context.Context) (cost, string, error) {
	c, _, err := r.child(ctx, 0, "export", r.at("store"), r.at("out"), "--mem", r.budget())
	return c, "", errors.Join(err, os.RemoveAll(r.at("out")))
}

// append adds a hundredth of the edges.
func (r *runner) append(ctx context.Context) (cost, string, error) {
	rng := rand.New(rand.NewPCG(2, 0))
	err := lines(r.at("more.tsv"), r.edges/100, func(w *bufio.Writer) (int, error) {
		return fmt.Fprintf(w, "%d\t%d\n", rng.Int64N(r.nodes), rng.Int64N(r.nodes))
	})
	if err != nil {
		return cost{}, "", err
	}
	c, _, err := r.child(ctx, 0, "append", r.at("store"), r.at("more.tsv"), "--columns", "src,dst", "--mem", r.budget())
	if err != nil {
		return c, "", err
	}
	s, err := store.Open(r.at("store"), store.Options{})
	if err != nil {
		return c, "", err
	}
	m := s.Manifest()
	return c, fmt.Sprintf("version %d", m.Version), s.Close()
}

// lines writes a file of n lines.
func lines(path string, n int64, line func(*bufio.Writer) (int, error)) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	for range n {
		if _, err := line(w); err != nil {
			return err
		}
	}
	return w.Flush()
}
