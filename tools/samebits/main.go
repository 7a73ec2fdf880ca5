// Command samebits shows whether two builds of gstore train to the same bits: it runs the same trainings with both, each also
// interrupted in the middle of an epoch and resumed, by the new build and from what the old one left, and prints a table.
//
//	go run ./tools/samebits [-dir DIR] [-datasets DIR] [-only PATTERN] OLD NEW
//
// A run is of a small graph that the command makes, or of a data set where that is present. Runs on the emulated GPU need builds with
// CUDA (gpu/cuda/build.sh gstore) and GSTORE_LIBCUDA, which names the emulated driver. The exit status is 0 where all bits are equal.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := flag.String("dir", "", "folder for graphs, stores and models, which stays; default: a temporary one")
	sets := flag.String("datasets", "../shared/datasets", "folder of real graphs; where one is missing a generated one stands for it")
	only := flag.String("only", "", "run only those whose name matches this pattern")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	equal, err := compare(ctx, os.Stdout, options{dir: *dir, sets: *sets, only: *only, old: flag.Arg(0), new: flag.Arg(1)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "samebits:", err)
		os.Exit(1)
	}
	if !equal {
		os.Exit(1)
	}
}

// options are the command's.
type options struct {
	dir, sets, only string
	old, new        string // the builds
}

// compare runs all trainings and reports whether every one gave the old build's bits.
func compare(ctx context.Context, w io.Writer, o options) (equal bool, err error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return false, err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "samebits-*"); err != nil {
			return false, err
		}
		defer func() { _ = os.RemoveAll(o.dir) }()
	}
	for _, build := range []*string{&o.old, &o.new} {
		if *build, err = filepath.Abs(*build); err != nil {
			return false, err
		}
	}
	equal = true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "run\tgraph\tlosses and metrics\tparameters\tresumed\tresumed from the old build's")
	for _, r := range runs() {
		if !only.MatchString(r.name) {
			continue
		}
		if r.cuda && os.Getenv("GSTORE_LIBCUDA") == "" {
			fmt.Fprintf(t, "%s\t%s\tnot run: GSTORE_LIBCUDA names no emulated driver\t\t\t\n", r.name, r.graph)
			continue
		}
		fmt.Fprintln(os.Stderr, r.name)
		same, err := r.compare(ctx, &o)
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.name, err)
		}
		equal = equal && same.all()
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name, same.graph, same.losses, same.parameters, same.resumed, same.fromOld)
	}
	return equal, t.Flush()
}
