package formats

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// Paths in a metadata.yaml stay in its folder, unless they are allowed not to.
func TestGraphBoltOutside(t *testing.T) {
	edges := npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1}))
	for _, path := range []string{"../secret.npy", "/other/secret.npy", "edges/../../secret.npy"} {
		fs := memFS(t, map[string][]byte{
			"d/metadata.yaml": []byte("graph:\n  nodes: [{num: 2}]\n  edges: [{format: numpy, path: " + path + "}]\n"),
			"secret.npy":      edges, "/other/secret.npy": edges, "d/edges/x": nil,
		})
		_, err := Open("d", Options{FS: fs})
		if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "leads out of d") {
			t.Errorf("%s: %v", path, err)
		}
		s, err := Open("d", Options{FS: fs, AllowOutside: true})
		if err != nil {
			t.Errorf("%s, allowed: %v", path, err)
			continue
		}
		_ = s.Close()
	}
}

// TestGraphBoltSymlinks: a symbolic link does not lead out of the folder either, of a file or of a folder on the way; one within it is followed.
func TestGraphBoltSymlinks(t *testing.T) {
	root := t.TempDir()
	for name, b := range map[string][]byte{"secret/e.npy": npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1})), "d/real.npy": npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1}))} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, b, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, "d")
	err := errors.Join(os.Symlink(filepath.Join(root, "secret", "e.npy"), filepath.Join(dir, "file.npy")),
		os.Symlink("../secret", filepath.Join(dir, "folder")), os.Symlink("real.npy", filepath.Join(dir, "own.npy")), os.Symlink(dir, filepath.Join(root, "alias")))
	if err != nil {
		t.Fatal(err)
	}
	open := func(dir, path string, outside bool) error {
		meta := "graph:\n  nodes: [{num: 2}]\n  edges: [{format: numpy, path: " + path + "}]\n"
		if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte(meta), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{FS: vfs.Default, AllowOutside: outside})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	for _, path := range []string{"file.npy", "folder/e.npy"} {
		if err := open(dir, path, false); !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%s: %v", path, err)
		}
		if err := open(dir, path, true); err != nil {
			t.Errorf("%s, allowed: %v", path, err)
		}
	}
	for _, d := range []string{dir, filepath.Join(root, "alias")} {
		if err := open(d, "own.npy", false); err != nil {
			t.Errorf("a link within %s: %v", d, err)
		}
	}
}
