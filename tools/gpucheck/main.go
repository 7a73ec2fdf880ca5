// Command gpucheck says what only a GPU can: whether gstore's kernels are right on it, and how fast they are. It packs
// an archive where gstore is built, and run on a GPU machine, which needs no Go and no network, writes one report.
//
//	go run ./tools/gpucheck pack gpucheck.tar.gz     # here: what gpu/cuda/build.sh makes, and this program
//	tar xzf gpucheck.tar.gz && gpucheck/gpucheck run # there: report.md and report.json in the folder gpucheck
//
// "run -dry" does the same in small sizes, which the emulated driver does in minutes: GSTORE_LIBCUDA names that one.
// A check that fails, or takes too long, does not keep the others from running; the exit status is 1 then. What needs a
// tool that is not there (compute-sanitizer, PyTorch) is left out and the report says so.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(1)
	}
}

const usage = "usage: gpucheck pack ARCHIVE.tar.gz | gpucheck run [-dry] [-only NAME,…] [-dir FOLDER] [-work FOLDER]"

func command(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "pack" {
		return pack(ctx, args[1])
	}
	if len(args) == 0 || args[0] != "run" {
		return fmt.Errorf("%s", usage)
	}
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	dry := fs.Bool("dry", false, "small sizes: to see that everything runs, on the emulated driver")
	only := fs.String("only", "", "names of checks, comma-separated; default: all")
	dir := fs.String("dir", "", "folder of the archive, where the report goes; default: that of this program")
	work := fs.String("work", "", "folder for generated graphs, 20 GB; default: a temporary one, removed at the end")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if *dir == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		*dir = filepath.Dir(self)
	}
	if *work == "" {
		temporary, err := os.MkdirTemp("", "gpucheck")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(temporary) }()
		*work = temporary
	}
	root, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	r := &report{Started: time.Now().UTC().Format(time.RFC3339), Dry: *dry, dir: root}
	all := checks(root, *work, full)
	if *dry {
		all = checks(root, *work, small)
	}
	if all, err = choose(all, *only); err != nil {
		return err
	}
	for _, c := range all {
		fmt.Fprintf(os.Stderr, "%s …\n", c.name)
		r.add(c.run(ctx))
		if err := r.write(); err != nil { // each time: what ends the machine's loan ends no report
			return err
		}
	}
	fmt.Fprintln(os.Stderr, filepath.Join(root, "report.md"))
	if n := r.failed(); n > 0 {
		return fmt.Errorf("%d of %d checks failed: see %s", n, len(r.Checks), filepath.Join(root, "report.md"))
	}
	return nil
}
