package claim_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gstore/gstore/blocks/claim"
)

// TestFile: a claim excludes others until its file is closed, whatever name that has by then, and keeps what is in the file.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	first, err := claim.File(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim.File(path); !errors.Is(err, claim.ErrHeld) {
		t.Errorf("a second claim: %v", err)
	}
	if _, err := first.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".done"); err != nil {
		t.Fatal(err)
	}
	second, err := claim.File(path) // the first one's file has another name
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := claim.File(path + ".done"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path + ".done"); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestOneAtATime: of many that claim, write, rename and claim again none meets another's half-written file.
func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	part, whole := filepath.Join(dir, "file.partial"), filepath.Join(dir, "file")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for done := 0; done < 50; {
				f, err := claim.File(part)
				if errors.Is(err, claim.ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				done++
				if info, err := f.Stat(); err != nil || info.Size() != 0 {
					t.Errorf("a claim of a file that is being written: %v, %v", info, err)
				}
				_, err = f.WriteString("begun")
				if err := errors.Join(err, os.Rename(part, whole), f.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
