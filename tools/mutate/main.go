// Command mutate asks of tests whether they would notice a wrong decision. It changes operators that compare or connect,
// conditions, constants that are added, and returns of errors in a package's files, one at a time, and runs the package's
// own tests: a mutant that they fail by is killed. The mutants of a package are compiled together, through an overlay that
// leaves the tree alone, and switched on by an environment variable, so that a mutant costs a run of the tests only: of
// those that come by it, which is found out once, the quick ones first.
//
//	go run ./tools/mutate [-n 150] [-seed 1] [-least .95] ./blocks ./store/...
//	go run ./tools/mutate -n 0 -survivors LOG -not-own -zoo 60 ./store/...
//	go run ./tools/mutate -n 0 -survivors LOG -not-own -by ./store/ingest/formats,./tools/cli/data ./store/...
//
// Mutants that behave like the original are named in equivalent.txt beside this file, with the reason; a survivor that is
// neither killed nor named there is a test that is missing. Exit code 1: fewer than -least of the others were killed.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
)

//go:embed equivalent.txt
var equivalent string

func main() {
	o := options{Log: os.Stdout, Reasons: reasons(equivalent)}
	flag.IntVar(&o.Count, "n", 150, "mutants to sample, of all packages together; 0: all")
	flag.Uint64Var(&o.Seed, "seed", 1, "of the sample")
	flag.Int64Var(&o.MemoryKB, "max-kib", 16<<20, "address space of a test's process, in KiB; 0: no bound")
	flag.DurationVar(&o.Slow, "slow", 0, "leave out tests that take more processor time than this alone, such as 3s: who survives then might not survive all")
	flag.Func("by", "packages, with commas between, whose tests are run for mutants that survive those of their own package", func(s string) error {
		o.By = strings.Split(s, ",")
		return nil
	})
	flag.IntVar(&o.Zoo, "zoo", 0, "cases of the zoo to run with gstore for mutants that survive all tests; their seed is the sample's")
	flag.BoolVar(&o.NotOwn, "not-own", false, "leave the tests of the mutants' own packages out")
	flag.Func("survivors", "log of an earlier run: take the mutants that survived it", func(s string) (err error) {
		o.Only, err = survivorsOf(s)
		return err
	})
	flag.Func("only", "regular expression of the mutants to take, over file, function and change as survivors are printed", func(s string) (err error) {
		o.Only, err = regexp.Compile(s)
		return err
	})
	least := flag.Float64("least", .95, "share of mutants that must be killed")
	flag.Parse()
	o.Packages = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out, err := measure(ctx, o)
	share := report(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if err != nil || share < *least {
		stop()
		os.Exit(1)
	}
}

var survived = regexp.MustCompile(`(?m)^SURVIVED +(\S+\.go):\d+ (\S+): [^:]+: (.*)$`)

// survivorsOf matches the keys of the mutants that survived, by a run's log.
func survivorsOf(path string) (*regexp.Regexp, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, m := range survived.FindAllStringSubmatch(string(b), -1) {
		keys = append(keys, regexp.QuoteMeta(strings.Join(m[1:], "\t")))
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no mutant survived %s", path)
	}
	return regexp.Compile("^(" + strings.Join(keys, "|") + ")$")
}

// reasons reads lines of a mutant's key and, after a tab, the reason; # begins a comment.
func reasons(text string) map[string]string {
	out := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		line := s.Text()
		if i := strings.LastIndexByte(line, '\t'); i > 0 && line[0] != '#' {
			out[line[:i]] = line[i+1:]
		}
	}
	return out
}

// report prints the sum and who survived, and returns the share of killed ones among those that can be.
func report(out []outcome) float64 {
	killed, same := 0, 0
	for _, r := range out {
		switch {
		case r.Killed:
			killed++
		case r.Reason != "":
			same++
			fmt.Printf("equivalent: %s:%d: %s → %s: %s\n", r.File, r.Line, r.From, r.To, r.Reason)
		default:
			fmt.Printf("survived: %s\n", r.key())
		}
	}
	share := float64(killed) / float64(max(1, len(out)-same))
	fmt.Printf("%d mutants: %d killed, %d equivalent, %d survived: %.1f %%\n", len(out), killed, same, len(out)-killed-same, 100*share)
	return share
}
