package main

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
	"text/tabwriter"

	"github.com/gstore/gstore/tools/budgetcheck/child"
	"github.com/gstore/gstore/tools/cli/command"
)

// factors are the budgets of a command, in parts of the smallest that it names.
var factors = []float64{1, 1.25, 2}

// tooSmall is a budget that every command must refuse.
const tooSmall = "1MiB"

// checker runs the combinations of commands, graphs and budgets.
type checker struct {
	command, only, dir string
	scale              float64

	done   int
	broken []string
	worst  []worst // by command, in their order
}

// worst is the run of a command that came closest to its budget.
type worst struct {
	name, graph  string
	runs         int
	peak, budget int64 // bytes, of that run
}

// graph makes a graph and checks its commands one after the other.
func (c *checker) graph(ctx context.Context, g graph) error {
	dir := filepath.Join(c.dir, g.name)
	checks := slices.DeleteFunc(g.checks(dir), func(k check) bool { return !strings.Contains(k.name, c.only) })
	if len(checks) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for i, args := range g.prepare(dir, c.scale) {
		if said, _, err := c.child(ctx, args); err != nil {
			return fmt.Errorf("gstore %s: %w: %s", strings.Join(args, " "), err, said)
		}
		if i == 0 { // which made the folder
			if err := errors.Join(g.relate(dir), g.times(dir, c.scale), g.write(dir)); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(g.pack(dir), g.ask(dir)); err != nil {
		return err
	}
	for _, k := range checks {
		if err := c.check(ctx, g, dir, k); err != nil {
			return err
		}
	}
	return nil
}

// check runs one command with one budget after the other.
func (c *checker) check(ctx context.Context, g graph, dir string, k check) error {
	said, _, _, err := c.budgeted(ctx, dir, k, tooSmall)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	least, named := child.Smallest(said)
	if err == nil || !named {
		c.done++
		c.breaks("%s, %s: --mem %s: %v: %s: expected a refusal that names the smallest budget", g.name, k.name, tooSmall, err, strings.TrimSpace(said))
		return nil
	}
	for _, f := range factors {
		budget := int64(float64(least)*f) << 20
		said, peak, over, err := c.budgeted(ctx, dir, k, fmt.Sprintf("%dMiB", budget>>20))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.done++
		verdict := ""
		switch {
		case err != nil:
			verdict = "FAILED"
			c.breaks("%s, %s: --mem %dMiB, %g of the smallest: %v: %s", g.name, k.name, budget>>20, f, err, strings.TrimSpace(said))
		case peak > budget:
			verdict = "ABOVE"
			c.breaks("%s, %s: --mem %dMiB, %g of the smallest: a peak of %.1f MiB%s", g.name, k.name, budget>>20, f, mib(peak), over)
		}
		fmt.Printf("%-8s %-26s %5d MiB  peak %7.1f MiB  %.2f %s%s\n", g.name, k.name, budget>>20, mib(peak), float64(peak)/float64(budget), verdict, over)
		if err == nil {
			c.keep(k.name, g.name, peak, budget)
		}
	}
	return nil
}

// budgeted runs a command with a budget, on a copy of the store if it writes one. over names the lines of its account of which more was
// held at some mark.
func (c *checker) budgeted(ctx context.Context, dir string, k check, mem string) (said string, peak int64, over string, err error) {
	work := filepath.Join(dir, "work")
	if err := os.RemoveAll(work); err != nil {
		return "", 0, "", err
	}
	if k.copied != "" {
		if err := os.CopyFS(work, os.DirFS(k.copied)); err != nil {
			return "", 0, "", err
		}
	}
	said, peak, err = c.child(ctx, append(slices.Clone(k.args), "--mem", mem, "--quiet"))
	over, marksErr := c.outgrown()
	return said, peak, over, errors.Join(err, marksErr)
}

// outgrown says which lines of its account the last child outgrew, and by how much.
func (c *checker) outgrown() (string, error) {
	b, err := os.ReadFile(c.marks())
	if errors.Is(err, os.ErrNotExist) { // it was killed
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var s strings.Builder
	for line := range bytes.Lines(b) {
		var m command.MemoryMark
		if err := json.Unmarshal(line, &m); err != nil {
			return "", err
		}
		for _, l := range m.Lines {
			if slices.Contains(m.Over, l.Name) && l.Account > 0 {
				fmt.Fprintf(&s, "; %s: %s %.1f of %.1f MiB", m.Mark, l.Name, mib(l.Held), mib(l.Account))
			}
		}
	}
	return s.String(), os.Remove(c.marks())
}

// marks is the file of a child's marks.
func (c *checker) marks() string { return filepath.Join(c.dir, "marks") }

// child runs gstore and returns what it wrote to standard error and its peak resident bytes.
func (c *checker) child(ctx context.Context, args []string) (said string, peak int64, err error) {
	_, errs, peak, err := child.Run(ctx, c.command, []string{command.MemoryMarksEnv + "=" + c.marks()}, args...)
	return string(errs), peak, err
}

func (c *checker) breaks(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
	fmt.Println("BROKEN", c.broken[len(c.broken)-1])
}

func (c *checker) keep(name, graph string, peak, budget int64) {
	i := slices.IndexFunc(c.worst, func(w worst) bool { return w.name == name })
	if i < 0 {
		i = len(c.worst)
		c.worst = append(c.worst, worst{name: name, budget: 1})
	}
	w := &c.worst[i]
	w.runs++
	if float64(peak)/float64(budget) > float64(w.peak)/float64(w.budget) {
		w.graph, w.peak, w.budget = graph, peak, budget
	}
}

// summary prints the worst of each command.
func (c *checker) summary(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "\n%d combinations, %d broken\ncommand\truns\tworst on\tbudget MiB\tpeak MiB\tpeak/budget\n", c.done, len(c.broken))
	for _, r := range c.worst {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%.1f\t%.2f\n", r.name, r.runs, r.graph, r.budget>>20, mib(r.peak), float64(r.peak)/float64(r.budget))
	}
	_ = w.Flush()
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
