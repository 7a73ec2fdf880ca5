//go:build unix

// Command gstore ingests graphs larger than memory and trains graph neural
// networks on them out of core. Run "gstore --help".
package main

import (
	"os"

	"github.com/gstore/gstore/tools/cli"
)

func main() { os.Exit(cli.Main()) }
