package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/store"
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

// TestFileOfOne: a file that is being written is nobody else's until it is finished, and what a killed command left is taken over.
func TestFileOfOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	if err := os.WriteFile(path+".partial", []byte("what a killed command left, which is longer"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewFile(path); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second command writes the same file: %v", err)
	}
	if _, err := f.WriteString("whole"); err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "whole" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestFileOfADevice: what is no file on a disk is written to and stays what it is.
func TestFileOfADevice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("gone"); err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(nil); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != os.DevNull {
		t.Errorf("%q, %v", to, err)
	}
}
