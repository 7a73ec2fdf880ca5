// Command gstore-lab is gstore with the command bench: the benchmarks whose figures docs/benchmarks.md quotes, and what they
// measure beside. Who uses gstore needs none of it.
//
//	go run ./tools/gstore-lab bench --help
package main

import (
	"os"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/benchmarks"
)

func main() { os.Exit(cli.Main(benchmarks.NewBench)) }
