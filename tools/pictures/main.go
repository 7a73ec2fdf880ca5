// Command pictures draws the pictures of the pages under docs as SVG: go run ./tools/pictures writes docs/pictures.
//
// A picture lies on a light card of its own, so that it can be read on dark pages too, and is as wide as a page shows it.
// What a picture claims of a plan is asked of the planner that training asks.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// pictures are all of them, by the name of their file.
var pictures = map[string]func() *canvas{
	"memory.svg":     memory,
	"store.svg":      storeOnDisk,
	"minibatch.svg":  miniBatch,
	"plans.svg":      plans,
	"evaluation.svg": evaluation,
}

func main() {
	folder := filepath.Join("docs", "pictures")
	if err := draw(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// draw writes every picture into a folder.
func draw(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(picture().String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
