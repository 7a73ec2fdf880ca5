package training

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// A run is given up after so many epochs at the earliest, beside so many others. A small learning rate alone makes a run slower: it is given
// up only where it is worse than others were after half as many epochs.
const (
	sweepEpochsLeast = 10
	sweepTrialsLeast = 3
	sweepHeadStart   = 2
)

// NewSweep is the command gstore sweep.
func NewSweep(e *command.Env) *cobra.Command {
	var results string
	cmd := &cobra.Command{
		Use:   "sweep STORE FILE.yaml",
		Short: "Train with many settings and compare them on validation",
		Long: `Sweep trains STORE with each combination of the flags' values that FILE.yaml lists, or
with some that it draws, and says which is best on validation nodes (edges, rows). The
test result stands beside it and decides nothing. Keys of FILE.yaml:

  flags    flags of gstore train: a value, a list of values to try, or a range to draw from,
           {min: 1e-4, max: 1e-1, log: true}
  trials   how many combinations are drawn at random (default all of the lists)
  seed     seed of the draws (default 0)
  stop     median: give up a run of nodes whose best validation so far is worse than the
           median of the others' was after half as many epochs; none: never (default median)

Every finished trial is a line of the file of results, and a run of the store with a model
of its own. The same command goes on where an earlier one ended, and with more trials or
values runs those that are new. Trials run one after another, each as gstore train would.`,
		Example: "  gstore sweep cora.gstore sweep.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.Usagef("expected STORE and FILE.yaml, got %d argument(s)", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if results == "" {
				results = strings.TrimSuffix(args[1], filepath.Ext(args[1])) + ".results.jsonl"
			}
			return (&sweep{e: e, dir: args[0], file: args[1], results: results}).run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&results, "results", "", "file of a JSON line for each finished trial (default: beside FILE.yaml, FILE.results.jsonl)")
	return cmd
}

// sweep is one command.
type sweep struct {
	e                  *command.Env
	dir, file, results string
	stop               bool
	done               []tried
	version            string
	links              bool // what trials train lies in a table of the store, which each of them replaces
}

func (s *sweep) run(ctx context.Context) (err error) {
	file, choices, err := readSweep(s.file)
	if err != nil {
		return err
	}
	trials, err := file.trials(choices)
	if err != nil {
		return err
	}
	for _, t := range trials { // before any is trained
		if _, _, err := s.parse(s.e, &t); err != nil {
			return command.Usagef("%s: %s: %v", s.file, t.key, err)
		}
	}
	if s.version, err = s.versionOf(); err != nil {
		return err
	}
	s.stop = file.Stop == "median"
	known, err := readTried(s.results)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(s.results, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return fmt.Errorf("--results: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for i := range trials {
		t := &trials[i]
		if k := slices.IndexFunc(known, func(r tried) bool { return r.Trial == t.key && r.Store == s.version }); k >= 0 {
			s.done = append(s.done, known[k])
			s.tell(i, len(trials), &known[k], true)
			continue
		}
		r, err := s.try(ctx, t)
		if err != nil {
			return fmt.Errorf("%w; %d of %d trials are finished: the same command goes on with the rest", err, len(s.done), len(trials))
		}
		line, err := json.Marshal(r)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.results, err)
		}
		s.done = append(s.done, *r)
		s.tell(i, len(trials), r, false)
	}
	return s.conclude()
}

// parse makes the command of a trial, with its flags set.
func (s *sweep) parse(e *command.Env, t *trial) (*cobra.Command, *trainOptions, error) {
	o := &trainOptions{}
	cmd := newTrain(e, o)
	for _, f := range t.flags {
		switch flag := cmd.Flags().Lookup(f[0]); {
		case flag == nil:
			return nil, nil, fmt.Errorf("%s is no flag of gstore train", f[0])
		case slices.Contains([]string{"seeds", "resume", "save", "metrics", "tensorboard", "checkpoint-file", "config"}, f[0]):
			return nil, nil, fmt.Errorf("--%s is for one run", f[0])
		}
		if err := cmd.Flags().Set(f[0], f[1]); err != nil {
			return nil, nil, err
		}
	}
	return cmd, o, nil
}

// versionOf names the store's version that is trained: results of another are no results of this one.
func (s *sweep) versionOf() (string, error) {
	o := trainOptions{}
	st, err := o.reads.open(s.dir)
	if err != nil {
		return "", err
	}
	s.links = st.Manifest().Task() == store.TaskLink
	abs, err := filepath.Abs(s.dir)
	return fmt.Sprintf("%s@%d", abs, st.Manifest().Version), errors.Join(err, st.Close())
}

// try trains a trial. What its flags refuse, or where it diverges, is its result; what ends the sweep is an error.
func (s *sweep) try(ctx context.Context, t *trial) (*tried, error) {
	var lines bytes.Buffer
	e := &command.Env{Stdin: s.e.Stdin, Stdout: &lines, Stderr: io.Discard, JSON: true}
	cmd, o, err := s.parse(e, t)
	if err != nil {
		return nil, err
	}
	r := &tried{Trial: t.key, Store: s.version}
	best := 0.
	o.enough = func(x train.Epoch) bool {
		if v := score(&x); v != nil && (len(r.Curve) == 0 || *v > best) {
			best = *v
		}
		r.Curve = append(r.Curve, best)
		r.Stopped = s.stop && s.loses(r.Curve)
		return r.Stopped
	}
	o.baselines = false
	o.overwrite = s.links || slices.Contains(t.flags, [2]string{"vectors", "table"}) // the table of the trial before
	start := time.Now()
	cmd.SetContext(ctx)
	if err := cmd.RunE(cmd, []string{s.dir}); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		r.Failed = err.Error()
	}
	r.Seconds = time.Since(start).Seconds()
	return r, r.take(lines.Bytes())
}

// loses reports whether a run is worse than half of the others were after a part of its epochs.
func (s *sweep) loses(curve []float64) bool {
	if len(curve) < sweepEpochsLeast {
		return false
	}
	var others []float64
	for _, r := range s.done {
		if n := len(r.Curve); n > 0 {
			others = append(others, r.Curve[min(n, len(curve)/sweepHeadStart)-1])
		}
	}
	if len(others) < sweepTrialsLeast {
		return false
	}
	slices.Sort(others)
	return curve[len(curve)-1] < others[len(others)/2]
}

// score is what an epoch's validation came to, the more the better; nil without one.
func score(r *train.Epoch) *float64 {
	share := func(x float64) *float64 {
		if x < 0 {
			return nil
		}
		return &x
	}
	switch {
	case r.Errors != nil && r.ValidMAE != nil:
		x := -*r.ValidMAE
		return &x
	case r.Errors != nil:
		return nil
	case r.F1 != nil:
		return r.ValidMicro
	case r.ValidBalanced != nil:
		return r.ValidBalanced
	case r.RarePrecision != nil:
		x := (r.ValidAccuracy + *r.RarePrecision) / 2
		return &x
	}
	return share(r.ValidAccuracy)
}

// tell says what a trial came to.
func (s *sweep) tell(i, of int, r *tried, before bool) {
	fields := command.Fields(*r)
	delete(fields, "curve")
	fields["number"], fields["of"], fields["before"] = i+1, of, before
	s.e.Event("trial", fields)
	if s.e.JSON {
		return
	}
	what := fmt.Sprintf("valid %s, test %s, %d epochs, %.1f s", r.figure(r.Valid), r.figure(r.Test), r.Epochs, r.Seconds)
	switch {
	case r.Failed != "":
		what = "failed: " + r.Failed
	case r.Stopped:
		what += ", given up"
	}
	if before {
		what += " (before)"
	}
	fmt.Fprintf(s.e.Told(), "%d of %d: %s  %s\n", i+1, of, r.Trial, what)
}

// ranked is how many trials the table at the end has.
const ranked = 10

// conclude says which trials were best.
func (s *sweep) conclude() error {
	slices.SortStableFunc(s.done, func(a, b tried) int { return better(&a, &b) })
	best := &s.done[0]
	if best.Valid == nil {
		s.e.Event("summary", map[string]any{"trials": len(s.done)})
		if best.Failed != "" {
			return fmt.Errorf("all %d trials failed, such as %s: %s", len(s.done), best.Trial, best.Failed)
		}
		return fmt.Errorf("there is nothing to compare the trials by: the store has nothing to validate with")
	}
	again := fmt.Sprintf("gstore train %s %s", s.dir, best.Trial)
	s.e.Event("summary", map[string]any{"trials": len(s.done), "metric": best.Metric, "best": best.Trial, "valid": best.Valid, "test": best.Test, "best_run": best.Run, "command": again})
	if s.e.JSON {
		return nil
	}
	to := s.e.Stdout
	fmt.Fprintf(to, "\n%-10s  %-10s  %6s  %s\n", "valid", "test", "epochs", map[bool]string{true: "least error first", false: "best first"}[best.lower()])
	for k := range min(ranked, len(s.done)) {
		r := &s.done[k]
		fmt.Fprintf(to, "%-10s  %-10s  %6d  %s\n", r.figure(r.Valid), r.figure(r.Test), r.Epochs, r.Trial)
	}
	if best.Run > 0 {
		fmt.Fprintf(to, "the best model is run %d of the store: gstore predict %s --checkpoint %d\n", best.Run, s.dir, best.Run)
	}
	fmt.Fprintf(to, "the same again: %s\n", again)
	return nil
}
