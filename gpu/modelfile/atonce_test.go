package modelfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/claim"
)

// TestSaveAtOnce: several save to one path, none fails and none takes another's half-written file; what a killed run left is replaced.
func TestSaveAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gsm")
	killed := make([]byte, 1<<20)
	if err := os.WriteFile(path+".tmp", killed, 0o666); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		b, err := Read(vfs.Default, path)
		if err != nil {
			t.Fatal(err)
		}
		var head struct{ Saver int }
		params, err := Decode(path, Node, b, &head)
		if err != nil || len(params) != 4*(1000+head.Saver) {
			t.Fatalf("%d bytes of saver %d: %v", len(params), head.Saver, err)
		}
	}
	var all sync.WaitGroup
	for saver := range 8 {
		all.Go(func() {
			for range 10 {
				err := Save(vfs.Default, path, Node, struct{ Saver int }{saver}, make([]byte, 4*(1000+saver)))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	check()

	other, err := claim.File(path + ".tmp") // another process, half way
	if err != nil {
		t.Fatal(err)
	}
	err = Save(vfs.Default, path, Node, struct{ Saver int }{1}, make([]byte, 4*1001))
	if err := errors.Join(err, os.Rename(other.Name(), path+".other"), other.Close()); err != nil {
		t.Fatalf("the other's file is gone: %v", err)
	}
	check()
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) != 1 {
		t.Errorf("beside the model lie %q, %v, expected the other's file alone", left, err)
	}
}
