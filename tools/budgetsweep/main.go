// Command budgetsweep shows that budgets are monotone: more --mem never refuses what less accepted, and never trains a worse model by
// more than noise. For each graph it asks for the smallest budget, trains once without a bound to see what memory takes, and goes from
// one to the other in equal ratios. At each budget "gstore ingest INPUT STORE --mem M" and "gstore train STORE --mem M" run with no other
// choice, so that a store made within M must train within M, or ingest warns that it will not.
//
//	go build -o /tmp/gstore ./tools/gstore && go run ./tools/budgetsweep -gstore /tmp/gstore [-steps 12] [-seeds 3] [-only debdeps]
//
// It prints a line a budget: the plan, the test result with its standard error over seeds, the peak and the seconds; and ends with exit
// code 1 if a budget is refused above one that was taken, if a peak is above its budget, or if a result is worse than the best of a
// smaller budget by more than -points and by more than two standard errors of the difference, in which the size of the test set counts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	var s sweep
	flag.StringVar(&s.command, "gstore", "gstore", "path of the gstore binary")
	flag.StringVar(&s.datasets, "datasets", "../shared/datasets", "folder of the real graphs; those that are absent are skipped")
	flag.StringVar(&s.only, "only", "", "only graphs whose name contains this")
	flag.IntVar(&s.steps, "steps", 12, "budgets of a graph, from the smallest to memory")
	flag.IntVar(&s.seeds, "seeds", 1, "runs at each budget")
	flag.Float64Var(&s.points, "points", .5, "by how many hundredths a result may be worse than at a smaller budget")
	dir := flag.String("dir", "", "folder to work in (default: a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.run(ctx, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "budgetsweep:", err)
		stop()
		os.Exit(1)
	}
}

// run sweeps all graphs, in a folder of dir that it removes.
func (s *sweep) run(ctx context.Context, dir string) (err error) {
	if s.dir, err = os.MkdirTemp(dir, "budgetsweep-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	for _, g := range graphs {
		if !strings.Contains(g.name, s.only) {
			continue
		}
		if err := s.graph(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	if len(s.broken) > 0 {
		return fmt.Errorf("%d of %d budgets broke:\n%s", len(s.broken), s.done, strings.Join(s.broken, "\n"))
	}
	fmt.Printf("%d budgets, none refused above a smaller one, none above itself, none worse by more than %g points\n", s.done, s.points)
	return nil
}
