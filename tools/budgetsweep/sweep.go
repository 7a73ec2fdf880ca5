package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/tools/budgetcheck/child"
)

// sweep goes over budgets.
type sweep struct {
	command, datasets, only, dir string
	steps, seeds                 int
	points                       float64

	done   int
	broken []string
}

// outcome is what came of a budget.
type outcome struct {
	mib     int
	refused string    // what the command said
	warned  bool      // ingest said that training would be refused
	plan    string    // of the last seed
	tests   []float64 // a seed: accuracy, or MRR
	peak    int64     // bytes, the most of ingest and training
	seconds float64   // of training, the mean
}

// graph sweeps over the budgets of one graph.
func (s *sweep) graph(ctx context.Context, g graph) error {
	dir := filepath.Join(s.dir, g.name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	input := g.input(s.datasets, dir)
	if g.generate != nil {
		if _, said, _, err := s.child(ctx, append([]string{"generate", g.generate[0], input}, g.generate[1:]...)); err != nil {
			return fmt.Errorf("generate: %w: %s", err, said)
		}
	} else if _, err := os.Stat(input); err != nil {
		fmt.Printf("%s: skipped: %v\n", g.name, err)
		return nil
	}
	whole, err := s.budget(ctx, g, input, dir, 0)
	if err != nil {
		return err
	}
	if whole.refused != "" {
		return fmt.Errorf("without a budget: %s", whole.refused)
	}
	_, said, _, _ := s.child(ctx, slices.Concat([]string{"ingest", input, filepath.Join(dir, "store"), "--mem", "1MiB"}, g.ingest))
	least, named := child.Smallest(said)
	if !named {
		return fmt.Errorf("ingest --mem 1MiB says %q, expected the smallest budget", said)
	}
	most := max(float64(whole.peak>>20)*1.1, float64(least)*2)
	var taken []outcome
	for k := range s.steps {
		mib := int(math.Ceil(float64(least) * math.Pow(most/float64(least), float64(k)/float64(max(s.steps-1, 1)))))
		o, err := s.budget(ctx, g, input, dir, mib)
		if err != nil {
			return err
		}
		s.done++
		s.judge(g, o, taken)
		if o.refused == "" {
			taken = append(taken, o)
		}
	}
	s.judge(g, whole, taken)
	return nil
}

// differing is the share of tests that two models of the same quality answer differently, about: the test set's own part of the noise.
const differing = .05

// judge compares a budget with those below it, and prints it.
func (s *sweep) judge(g graph, o outcome, taken []outcome) {
	budget := "none"
	if o.mib > 0 {
		budget = fmt.Sprint(o.mib, "MiB")
	}
	breaks := func(format string, args ...any) {
		s.broken = append(s.broken, fmt.Sprintf("%s, --mem %s: ", g.name, budget)+fmt.Sprintf(format, args...))
		fmt.Println("BROKEN", s.broken[len(s.broken)-1])
	}
	if o.refused != "" {
		fmt.Printf("%-14s %8s  refused\n", g.name, budget)
		if len(taken) > 0 {
			breaks("refused where %dMiB was taken: %s", taken[0].mib, o.refused)
		} else if !o.warned {
			breaks("the smallest that ingest names is refused: %s", o.refused)
		}
		return
	}
	mean, sem := moments(o.tests)
	fmt.Printf("%-14s %8s  %-10s %6.2f ± %.2f  peak %5d MiB  %6.1f s\n", g.name, budget, o.plan, 100*mean, 100*sem, o.peak>>20, o.seconds)
	if o.mib > 0 && o.peak > int64(o.mib)<<20 {
		breaks("a peak of %.1f MiB", float64(o.peak)/(1<<20))
	}
	for _, t := range taken {
		less, lessErr := moments(t.tests)
		noise := math.Sqrt(sem*sem + lessErr*lessErr + differing/g.tests)
		if drop := less - mean; 100*drop > s.points && drop > 2*noise {
			breaks("%.2f, and %.2f with %dMiB", 100*mean, 100*less, t.mib)
			return
		}
	}
}

// budget ingests and trains a graph within so many MiB; 0: without a bound.
func (s *sweep) budget(ctx context.Context, g graph, input, dir string, mib int) (o outcome, err error) {
	o.mib = mib
	var bound []string
	if mib > 0 {
		bound = []string{"--mem", fmt.Sprint(mib, "MiB")}
	}
	store := filepath.Join(dir, "store")
	for seed := range s.seeds {
		numbered := append([]string{"--seed", strconv.Itoa(seed), "--json"}, bound...)
		for _, args := range [][]string{slices.Concat([]string{"ingest", input, store}, numbered, g.ingest), slices.Concat([]string{"train", store}, numbered, g.train)} {
			out, said, peak, err := s.child(ctx, args)
			if err != nil {
				if _, named := child.Smallest(said); ctx.Err() != nil || mib == 0 || !named {
					return o, fmt.Errorf("gstore %s: %w: %s", strings.Join(args, " "), errors.Join(err, ctx.Err()), said)
				}
				o.refused = args[0] + ": " + said
				return o, os.RemoveAll(store)
			}
			o.peak = max(o.peak, peak)
			o.warned = o.warned || args[0] == "ingest" && strings.Contains(said+string(out), "is refused")
			if args[0] == "train" {
				if err := o.keep(out); err != nil {
					return o, err
				}
			}
		}
		if err := os.RemoveAll(store); err != nil {
			return o, err
		}
	}
	o.seconds /= float64(s.seeds)
	return o, nil
}

// keep takes from the output of a training what is compared.
func (o *outcome) keep(out []byte) error {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var summary struct {
		Plan     string
		Accuracy *float64 `json:"test_accuracy"`
		MRR      *float64 `json:"test_mrr"`
		Seconds  float64  `json:"total_seconds"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil {
		return err
	}
	test := summary.Accuracy
	if test == nil {
		test = summary.MRR
	}
	if test == nil {
		return fmt.Errorf("the summary of train has no test result: %s", lines[len(lines)-1])
	}
	o.plan, o.tests, o.seconds = summary.Plan, append(o.tests, *test), o.seconds+summary.Seconds
	return nil
}

// moments are the mean and its standard error; of one value the error is not known, and 0.
func moments(x []float64) (mean, sem float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		sem += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sem / float64(len(x)-1) / float64(len(x)))
}

// child runs gstore. said is what it wrote to standard error, and the message of its last event where it failed; peak its peak resident bytes.
func (s *sweep) child(ctx context.Context, args []string) (out []byte, said string, peak int64, err error) {
	out, errs, peak, err := child.Run(ctx, s.command, nil, args...)
	said = string(errs)
	if err != nil {
		said += string(out[max(0, len(out)-4000):])
	}
	return out, strings.TrimSpace(said), peak, err
}
