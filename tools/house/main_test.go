package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRoomCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.go")
	src := "package a\n\nconst A, b = 1, 2\n\ntype T struct{}\n\nfunc (T) M() {}\n\nfunc F() {\n\t_ = b\n}\n\nfunc g() {}\n"
	if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	var r room
	if err := r.add(path); err != nil || r != (room{files: 1, exported: 3, lines: 3, longest: "F"}) {
		t.Errorf("%+v, %v: expected one file with A, T and F, the longest function F of 3 lines", r, err)
	}
}
