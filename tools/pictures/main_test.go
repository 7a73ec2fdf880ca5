package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures instead of comparing them")

// TestPicturesAreCurrent: docs/pictures has what this command draws, and nothing else.
func TestPicturesAreCurrent(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "pictures")
	if *rewrite {
		if err := draw(folder); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		picture := pictures[f.Name()]
		if picture == nil {
			t.Errorf("docs/pictures/%s is drawn by nothing", f.Name())
			continue
		}
		got, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != picture().String() {
			t.Errorf("docs/pictures/%s differs from what is drawn now: go run ./tools/pictures", f.Name())
		}
	}
	if len(files) != len(pictures) {
		t.Errorf("docs/pictures has %d files, expected %d", len(files), len(pictures))
	}
}
