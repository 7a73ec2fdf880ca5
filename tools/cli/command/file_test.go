package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFile: a file that was not written whole leaves the one before and nothing else.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.csv")
	write := func(text string, failed error) error {
		f, err := NewFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return f.Finish(failed)
	}
	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the disk is full")
	if err := write("sec", failed); !errors.Is(err, failed) {
		t.Errorf("Finish after an error: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "first" {
		t.Errorf("behind a failure: %q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("behind a failure: %v, %v", left, err)
	}
	if _, err := NewFile(dir); err == nil {
		t.Error("a folder was opened as a file")
	} else if code := new(usageError); !errors.As(err, code) {
		t.Errorf("a folder: %v, which is no usage error", err)
	}
}
