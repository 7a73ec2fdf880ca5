// Command zoo runs gstore over stores of every shape; see package zoo.
//
//	go build -o gs ./tools/gstore && go run ./tools/zoo/cmd -gstore gs [-seed 1] [-time 10m] [-case nodes=1,edges=none]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gstore/gstore/tools/zoo"
)

func main() {
	var o zoo.Options
	flag.StringVar(&o.Gstore.Path, "gstore", "gstore", "path of the gstore binary")
	flag.StringVar(&o.Dir, "dir", "", "folder to work in (default: a temporary one)")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the cases")
	flag.DurationVar(&o.Time, "time", 0, "when to stop (default: after all cases of the seed; with it, seeds follow)")
	flag.StringVar(&o.Only, "case", "", "one case, as a run prints it")
	flag.BoolVar(&o.Verbose, "v", false, "print every command")
	flag.BoolVar(&o.GPU, "cuda", false, "draw cases of a GPU too, which the binary knows, or an emulated one")
	flag.Float64Var(&o.Wild, "wild", .1, "share of cases that no rule restrains, beside the others")
	flag.DurationVar(&o.Gstore.Timeout, "limit", time.Minute, "how long a command may take")
	root := flag.String("refusals", "", "root of the source: list the refusals in it that no case met")
	write := flag.String("write", "", "only write the input of -case to this new folder, and say how it is ingested")
	flag.Parse()
	if *write != "" {
		if err := writeInput(o.Only, *write); err != nil {
			fmt.Fprintln(os.Stderr, "zoo:", err)
			os.Exit(1)
		}
		return
	}
	debug.SetGCPercent(25) // a child's peak counts what this process had when it began
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := zoo.RunAll(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "zoo:", err)
		stop()
		os.Exit(1)
	}
	report.Print(os.Stdout)
	if *root != "" {
		if err := report.PrintSites(os.Stdout, *root); err != nil {
			fmt.Fprintln(os.Stderr, "zoo:", err)
		}
	}
	if len(report.Found) > 0 {
		stop()
		os.Exit(1)
	}
}

// writeInput writes a case's input, for other programs.
func writeInput(text, dir string) error {
	c, err := zoo.ParseCase(text)
	if err != nil {
		return err
	}
	in, err := zoo.Shape(c).Write(dir, c.Get("format"))
	if err == nil {
		fmt.Println(strings.Join(append([]string{"ingest", in.Path}, in.Flags...), " "))
	}
	return err
}
