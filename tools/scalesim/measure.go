package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// measure trains the samples of all graphs in memory, and prints what their measured fields are.
func (c *checker) measure(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp(c.dir, "scalesim-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	for i := range graphs {
		g := &graphs[i]
		if !strings.Contains(g.name, c.only) {
			continue
		}
		input, store := filepath.Join(c.dir, "sample"), filepath.Join(c.dir, "sample.gstore")
		steps := [][]string{
			append([]string{"generate", g.sample[0], input, "--quiet"}, g.sample[1:]...),
			append([]string{"ingest", input, store, "--partitions", "64", "--partitioner", "random", "--quiet"}, g.ingested...),
		}
		if g.links {
			steps = [][]string{append([]string{"generate", g.sample[0], store, "--quiet", "--format", "store", "--partitions", "64"}, g.sample[1:]...)}
		}
		for _, args := range steps {
			if _, err := c.command(ctx, args...); err != nil {
				return err
			}
		}
		train := slices.Concat([]string{"train", store, "--plan", "memory", "--absent", "ignore", "--eval-every", "100"}, g.flags())
		if g.links {
			train = slices.Concat([]string{"train", store, "--plan", "memory"}, g.flags())
		}
		out, err := c.command(ctx, train...)
		if err != nil {
			return err
		}
		m := measured{cores: float64(runtime.GOMAXPROCS(0))}
		for line := range bytes.Lines(out) {
			var x trained
			if json.Unmarshal(line, &x) == nil && x.Event == "epoch" {
				m.batch = (x.Seconds - x.Profile.Wait/1e9) / x.Batches
			}
		}
		if !g.links {
			if m.rows, err = c.rowsOfBatch(ctx, g, store); err != nil {
				return err
			}
		}
		fmt.Printf("%s: measured{batch: %.4f, rows: %.0f, cores: %g}\n", g.name, m.batch, m.rows, m.cores)
		for _, made := range []string{input, store} {
			if err := os.RemoveAll(made); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOfBatch are the rows of a mini-batch, as gstore plan counts them of plan rows.
func (c *checker) rowsOfBatch(ctx context.Context, g *graph, store string) (float64, error) {
	out, err := c.command(ctx, slices.Concat([]string{"plan", store, "--plan", "rows", "--mem", "8GiB", "--absent", "ignore", "--json"}, g.train)...)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var examples, used float64
	for _, line := range lines {
		var x struct {
			Event    string
			Examples float64
			Rows     struct{ Used float64 }
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			return 0, err
		}
		examples, used = max(examples, x.Examples), max(used, x.Rows.Used)
	}
	if examples == 0 {
		return 0, fmt.Errorf("gstore plan says nothing of rows: %s", lines[len(lines)-1])
	}
	return used / examples * perBatch, nil
}
