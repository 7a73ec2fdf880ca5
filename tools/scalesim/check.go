package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/tools/remotebench/served"
)

// checker compares replays with epochs that are trained here. Trainers are measured on a graph of half the size, so that what is foretold
// is not what was measured.
type checker struct {
	gstore, server, dir string
	nodes               int // of the larger graph
	rate                float64
	latency             time.Duration
	repeats             int
	only                string
}

// checkedEpoch is an epoch that is trained and foretold.
type checkedEpoch struct {
	name    string
	links   bool
	budget  float64  // MiB at most, for 1,000,000 nodes; 0: none
	train   []string // flags
	address bool     // the store is at the server
	kept    bool     // and here, from the epoch before
}

var checkedEpochs = []checkedEpoch{
	{name: "memory, on disk", train: []string{"--plan", "memory"}},
	{name: "hanoi, on disk", budget: 280, train: []string{"--plan", "hanoi", "--history=false"}},
	{name: "hanoi with history, on disk", budget: 280, train: []string{"--plan", "hanoi", "--history"}},
	{name: "rows, on disk", budget: 330, train: []string{"--plan", "rows"}},
	{name: "hanoi, from the server", budget: 280, train: []string{"--plan", "hanoi", "--history=false"}, address: true},
	{name: "hanoi, kept from before", budget: 280, train: []string{"--plan", "hanoi", "--history=false"}, address: true, kept: true},
	{name: "rows, from the server", budget: 330, train: []string{"--plan", "rows"}, address: true},
	{name: "comet, on disk", links: true, budget: 60, train: []string{"--plan", "comet"}},
}

// run prints a line an epoch.
func (c *checker) run(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp(c.dir, "scalesim-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	for _, links := range []bool{false, true} {
		for half, nodes := range map[string]int{"small": c.nodes / 2, "large": c.nodes} {
			if err := c.generate(ctx, links, half, nodes); err != nil {
				return err
			}
		}
	}
	address, stop, err := served.Start(served.Options{Server: c.server, Folder: filepath.Join(c.dir, "server"), MBPerSecond: c.rate, Latency: c.latency})
	if err != nil {
		return err
	}
	defer stop()
	at := address("store")
	if _, err := c.command(ctx, "push", c.store(false, "large"), at); err != nil {
		return err
	}
	m, err := c.machine(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("disk %.2f GB/s, writing %.2f; server %.0f MB/s after %v\n", m.disk.bytesPerSecond/1e9, m.diskWrites/1e9, c.rate, c.latency)
	trainers := map[string]trainer{}
	for _, e := range checkedEpochs {
		if !strings.Contains(e.name, c.only) {
			continue
		}
		key := fmt.Sprint(e.links, e.train)
		t, known := trainers[key]
		if !known {
			if t, err = c.trainer(ctx, e); err != nil {
				return err
			}
			trainers[key] = t
		}
		p, err := c.plan(ctx, e, "large", c.nodes)
		if err != nil {
			return err
		}
		of := c.store(e.links, "large")
		if e.address {
			of = at
		}
		said := replay(m, p.replayed(t, e))
		var took []float64
		for range c.repeats {
			if e.address && !e.kept {
				if err := os.RemoveAll(c.cache()); err != nil {
					return err
				}
			}
			r, err := c.epoch(ctx, e, of, c.nodes)
			if err != nil {
				return err
			}
			took = append(took, r.Seconds)
		}
		slices.Sort(took)
		real := took[len(took)/2]
		fmt.Printf("%-28s %6.2f s, replayed %6.2f s, %+.0f %%; %.2f GB read, %.2f served, %d steps\n", e.name, real, said.seconds, 100*(said.seconds/real-1), said.read/1e9, said.served/1e9, len(p.steps))
	}
	return nil
}

// replayed is what the trainer does in a planned epoch.
func (p *planned) replayed(t trainer, e checkedEpoch) (steps []step) {
	unread := 0. // at the server
	if e.address && !e.kept {
		unread = p.all
	}
	serve := func(bytes float64) float64 {
		bytes = min(bytes, unread)
		unread -= bytes
		return bytes
	}
	if t.history > 0 {
		steps = append(steps, step{read: p.all, served: serve(p.all), compute: t.history * p.nodes, alone: true})
	}
	if p.rows != nil {
		s := p.steps[0]
		columns := s.read - p.rows.Used*p.rows.RowBytes // in one pass or more
		n := max(1, math.Ceil(p.rows.Used/p.rows.Window))
		steps = p.rows.windows(columns/n, t.batch*s.examples/p.perBatch, t.pack)
		steps[0].served = serve(columns / n)
		return steps
	}
	seen := map[int]bool{}
	for _, s := range p.steps {
		first := 1. // share of what is read that was not read before
		if len(s.resident) > 0 {
			fresh := 0.
			for _, id := range s.resident {
				if !seen[id] {
					fresh, seen[id] = fresh+1, true
				}
			}
			first = min(1, fresh/max(s.loads, 1))
		}
		x := step{read: s.read, requests: s.requests, served: serve(s.read * first), compute: t.batch * s.examples / p.perBatch}
		if e.links {
			x.written = s.read
		}
		steps = append(steps, x)
	}
	return steps
}

// generate makes a store.
func (c *checker) generate(ctx context.Context, links bool, name string, nodes int) error {
	if links { // a tenth of the nodes, whose vectors are as many bytes as the other graph's rows
		_, err := c.command(ctx, "generate", "kg", c.store(links, name), "--nodes", strconv.Itoa(nodes/10), "--edges", strconv.Itoa(nodes), "--relations", "11", "--format", "store", "--partitions", "32", "--quiet")
		return err
	}
	_, err := c.command(ctx, "generate", "sbm", c.store(links, name), "--nodes", strconv.Itoa(nodes), "--edges", strconv.Itoa(8*nodes), "--features", "128", "--classes", "16", "--train", ".05", "--valid", ".001", "--test", ".001",
		"--format", "store", "--partitions", "64", "--quiet")
	return err
}

func (c *checker) store(links bool, name string) string {
	if links {
		name = "kg-" + name
	}
	return filepath.Join(c.dir, name)
}

func (c *checker) cache() string { return filepath.Join(c.dir, "cache") }

// flags are those of an epoch of a graph of so many nodes.
func (e *checkedEpoch) flags(nodes int) []string {
	flags := slices.Clone(e.train)
	if e.budget > 0 {
		flags = append(flags, "--mem", fmt.Sprintf("%dMiB", 100+int(e.budget*float64(nodes)/1e6)))
	}
	if !e.links {
		flags = append(flags, "--layers", "2")
	}
	return flags
}

// unranked are those of training alone: nothing is evaluated in between.
func (e *checkedEpoch) unranked() []string {
	if e.links {
		return []string{"--eval-every", "-1", "--overwrite"}
	}
	return []string{"--eval-every", "100"}
}

// trained is an epoch's event of gstore train.
type trained struct {
	Event   string
	Seconds float64
	Batches float64
	History float64 `json:"history_seconds"`
	Profile struct{ Wait float64 }
}

// epoch trains one epoch, with nothing of the store in the page cache where that is allowed.
func (c *checker) epoch(ctx context.Context, e checkedEpoch, store string, nodes int) (t trained, err error) {
	_ = exec.Command("sync").Run()
	_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) // root's alone
	out, err := c.command(ctx, slices.Concat([]string{"train", store, "--epochs", "1", "--json"}, e.flags(nodes), e.unranked())...)
	if err != nil {
		return t, err
	}
	for line := range bytes.Lines(out) {
		var x trained
		if json.Unmarshal(line, &x) == nil && x.Event == "epoch" {
			return x, nil
		}
	}
	return t, fmt.Errorf("no epoch in %.300s", out)
}

// trainer measures on the smaller graph what an epoch's trainer does.
func (c *checker) trainer(ctx context.Context, e checkedEpoch) (t trainer, err error) {
	r, err := c.epoch(ctx, e, c.store(e.links, "small"), c.nodes/2)
	if err != nil {
		return t, err
	}
	t.history = r.History / float64(c.nodes/2)
	t.batch = (r.Seconds - r.History - r.Profile.Wait/1e9) / r.Batches
	p, err := c.plan(ctx, e, "small", c.nodes/2)
	if err == nil && p.rows != nil {
		t.pack = r.Profile.Wait / 1e9 / p.rows.Used
		fmt.Printf("laying a row aside takes %.0f ns\n", t.pack*1e9)
	}
	return t, err
}

// plan asks gstore what an epoch reads.
func (c *checker) plan(ctx context.Context, e checkedEpoch, name string, nodes int) (p planned, err error) {
	out, err := c.command(ctx, slices.Concat([]string{"plan", c.store(e.links, name), "--json", "--steps"}, e.flags(nodes))...)
	if err != nil {
		return p, err
	}
	if p, err = readPlan(out); err != nil {
		return p, err
	}
	p.nodes = float64(nodes)
	p.perBatch = 1000
	return p, filepath.WalkDir(filepath.Join(c.store(e.links, name), "data"), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			p.all += float64(info.Size())
		}
		return err
	})
}

// machine measures the disk, and takes the server as the proxy makes it.
func (c *checker) machine(ctx context.Context) (*machine, error) {
	out, err := c.command(ctx, "plan", c.store(false, "large"), "--mem", "1GiB", "--plan", "hanoi", "--json")
	if err != nil {
		return nil, err
	}
	var s struct {
		Device struct {
			Bytes   float64 `json:"bytes_per_second"`
			Latency float64 `json:"latency_seconds"`
		}
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		return nil, err
	}
	writes, err := c.writes()
	return &machine{disk: way{s.Device.Bytes, s.Device.Latency, 32}, diskWrites: writes, server: way{c.rate * 1e6, c.latency.Seconds(), 8}}, err
}

// writes measures how many bytes a second the disk takes.
func (c *checker) writes() (rate float64, err error) {
	f, err := os.Create(filepath.Join(c.dir, "written"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	slab, err := blockio.AllocSlab(16<<20, blockio.SlabOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	b := slab.Bytes()
	const n = 64
	began := time.Now()
	for range n {
		if err := blocks.WriteDirect(f, b); err != nil {
			return 0, err
		}
	}
	return n * float64(len(b)) / time.Since(began).Seconds(), nil
}

func (c *checker) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.gstore, args...)
	cmd.Env = append(os.Environ(), "GSTORE_CACHE_DIR="+c.cache())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return out, nil
}
