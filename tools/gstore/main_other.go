//go:build !unix

package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "gstore runs on Linux and macOS, not on %s; on Windows it runs in WSL 2 (wsl --install)\n", runtime.GOOS)
	os.Exit(1)
}
