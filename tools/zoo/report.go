package zoo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Options say which cases are run.
type Options struct {
	Gstore  Gstore
	Dir     string
	Seed    uint64
	Time    time.Duration // 0 = all cases of the seed
	Only    string
	Wild    float64
	GPU     bool
	Verbose bool
}

// Report is what came of many cases.
type Report struct {
	Cases, Runs int
	Missed      int // pairs of values that no case can have
	Counts      map[[2]string]*Count
	Found       []Found
	Unnamed     map[string]string // refusals that name no remedy, with a case of each
	Messages    map[string]bool
	Checked     map[string]int
	Seconds     float64
}

// Count is a cell of the table.
type Count struct{ Cases, Refused, Remedied, Defects int }

// RunAll runs the cases of a seed, in a random order, and writes defects to log as they are found.
func RunAll(ctx context.Context, o Options, log io.Writer) (r *Report, err error) {
	begin := time.Now()
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "zoo"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	r = &Report{Counts: map[[2]string]*Count{}, Unnamed: map[string]string{}, Messages: map[string]bool{}, Checked: map[string]int{}}
	defer func() { r.Seconds = time.Since(begin).Seconds() }()
	if o.Only != "" {
		c, err := ParseCase(o.Only)
		if err != nil {
			return r, err
		}
		return r, r.run(ctx, &o, c, log)
	}
	for seed := o.Seed; ; seed++ {
		cases, missed := Cases(seed, o.Wild, o.GPU)
		r.Missed = missed
		for _, c := range cases {
			if o.Time > 0 && time.Since(begin) > o.Time {
				return r, nil
			}
			if err := r.run(ctx, &o, c, log); err != nil {
				return r, err
			}
		}
		if o.Time == 0 {
			return r, nil
		}
	}
}

// Cases are those of a seed, in a random order: a covering array, and wild ones beside it.
func Cases(seed uint64, wild float64, cuda bool) (cases []Case, missed int) {
	axes := slices.Clone(Axes)
	if !cuda {
		axes = slices.DeleteFunc(axes, func(a Axis) bool { return a.Name == "device" })
	}
	cases, missed = Cover(axes, Rules, seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for _, base := range cases[:int(wild*float64(len(cases)))] {
		cases = append(cases, Wild(base, axes, rng))
	}
	rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	return cases, missed
}

func (r *Report) run(ctx context.Context, o *Options, c Case, log io.Writer) error {
	res, err := Run(ctx, &o.Gstore, c, filepath.Join(o.Dir, "case"))
	if err != nil {
		return fmt.Errorf("case %s: %w", c, err)
	}
	r.Cases++
	r.Runs += res.Runs
	key := [2]string{c.Get("edges"), c.Get("command")}
	n := r.Counts[key]
	if n == nil {
		n = &Count{}
		r.Counts[key] = n
	}
	n.Cases++
	if len(res.Refused) > 0 {
		n.Refused++
	}
	n.Remedied += min(1, res.Remedied)
	n.Defects += len(res.Found)
	for _, m := range res.Refused {
		r.Messages[m] = true
	}
	for _, m := range res.Unnamed {
		r.Unnamed[strings.ReplaceAll(m, o.Dir, "…")] = c.String()
	}
	for _, name := range res.Checked {
		r.Checked[name]++
	}
	for _, f := range res.Found {
		r.Found = append(r.Found, f)
		_, _ = fmt.Fprintf(log, "DEFECT %s\n  gstore %s\n  %s\n", f.Replay, strings.Join(f.Args, " "), f.What)
	}
	if o.Verbose {
		_, _ = fmt.Fprintf(log, "%s: %d runs, refused %q, checked %v\n", c, res.Runs, res.Refused, res.Checked)
	}
	return nil
}

// PrintSites writes the refusals in the source below root that no case met.
func (r *Report) PrintSites(out io.Writer, root string) error {
	sites, err := Sites(root)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(sites), func(s Site) bool { return s.Met(r.Messages) })
	for _, s := range left {
		_, _ = fmt.Fprintf(out, "%s: %s\n", s.At, s.Format)
	}
	_, err = fmt.Fprintf(out, "%d of %d refusals in the source were met, the others are listed\n", len(sites)-len(left), len(sites))
	return err
}

// Print writes the table of shapes and commands, and what was refused without a remedy that helped.
func (r *Report) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var commands []string
	for _, a := range Axes {
		if a.Name == "command" {
			commands = a.Values
		}
	}
	_, _ = fmt.Fprintf(w, "cases/refused/remedied/defects\t%s\n", strings.Join(commands, "\t"))
	for _, a := range Axes[1].Values {
		if !slices.ContainsFunc(commands, func(c string) bool { return r.Counts[[2]string{a, c}] != nil }) {
			continue
		}
		_, _ = fmt.Fprint(w, a)
		for _, c := range commands {
			n := r.Counts[[2]string{a, c}]
			if n == nil {
				n = &Count{}
			}
			_, _ = fmt.Fprintf(w, "\t%d/%d/%d/%d", n.Cases, n.Refused, n.Remedied, n.Defects)
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintf(out, "\nrefusals that name no remedy that was understood, or none that helped, with a case of each:\n")
	for _, m := range slices.Sorted(maps.Keys(r.Unnamed)) {
		_, _ = fmt.Fprintf(out, "  %s\n      %s\n", m, r.Unnamed[m])
	}
	_, _ = fmt.Fprintf(out, "\n%d cases, %d commands, %d defects, %.0f s; pairs that no case can have: %d; oracles agreed: %v\n",
		r.Cases, r.Runs, len(r.Found), r.Seconds, r.Missed, r.Checked)
}
