// Command budgetcheck proves that --mem is kept: it runs every command that takes a budget on graphs of several shapes, first
// with 1 MiB, which must be refused with the smallest budget that works, then with that one and with more. Every run must
// end well with a peak resident memory, as the kernel counts it for the process (ru_maxrss of wait4), of no more than its
// budget. It prints a line a combination and the worst of each command, and ends with exit code 1 if one breaks.
// Behind a combination stand the lines of its account of which more was held at some mark of the run: what outgrows its line is found
// where others still take less than theirs.
//
//	go build -o /tmp/gstore ./tools/gstore && go run ./tools/budgetcheck -gstore /tmp/gstore [-only train] [-scale 1]
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
	var c checker
	flag.StringVar(&c.command, "gstore", "gstore", "path of the gstore binary")
	flag.StringVar(&c.only, "only", "", "only commands whose name contains this")
	flag.Float64Var(&c.scale, "scale", 1, "how large the graphs are")
	dir := flag.String("dir", "", "directory to work in (default: a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "budgetcheck:", err)
		stop()
		os.Exit(1)
	}
}

// run checks all graphs in a folder of dir that it removes.
func (c *checker) run(ctx context.Context, dir string) (err error) {
	if c.dir, err = os.MkdirTemp(dir, "budgetcheck-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(c.dir) }()
	for _, g := range graphs {
		if err := c.graph(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	c.summary(os.Stdout)
	if len(c.broken) > 0 {
		return fmt.Errorf("%d of %d combinations broke:\n%s", len(c.broken), c.done, strings.Join(c.broken, "\n"))
	}
	return nil
}
