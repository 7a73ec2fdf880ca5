package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// readAll reads everything in a store.
func readAll(s *store.Store) error {
	var err error
	for p := range s.Manifest().Partitions {
		id := store.PartitionID(p)
		_, _, e1 := s.ReadStripe(ctx, id, nil)
		_, _, e2 := s.ReadExternal(ctx, id, nil)
		err = errors.Join(err, e1, e2)
		for _, c := range s.Manifest().Columns {
			_, e := s.ReadColumn(ctx, c.Name, id, nil)
			err = errors.Join(err, e)
		}
	}
	for _, l := range s.Manifest().EdgeLists {
		r, e := s.EdgeList(ctx, l.Name)
		if e == nil {
			for r.Next() {
			}
			e = r.Err()
		}
		err = errors.Join(err, e)
	}
	return err
}

// TestDamagedFiles truncates, extends, flips, swaps and removes each data
// file. Either opening fails or reading does, with the file's name.
func TestDamagedFiles(t *testing.T) {
	g := storetest.Random(storetest.Options{Relations: 2, IDs: store.IDsIntegers})
	dir := storetest.Create(t, g)
	files, err := filepath.Glob(dir + "/data/*.gsb")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damage := map[string][]byte{
			"removed": nil, "empty": {}, "cut by a byte": whole[:len(whole)-1], "cut in half": whole[:len(whole)/2],
			"cut to its header": whole[:4096], "a byte longer": append(bytes.Clone(whole), 0),
		}
		for _, at := range []int{0, 9, 20, 4095, 4096, 4097, len(whole) / 2, len(whole) - 4096, len(whole) - 100, len(whole) - 1} {
			b := bytes.Clone(whole)
			b[at] ^= 0x10
			damage["byte "+string(rune('a'+at%26))+" flipped"] = b
		}
		for name, b := range damage {
			if b == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, b, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(dir, store.Options{})
			if err == nil {
				err = readAll(s)
				_ = s.Close()
			}
			var c *blocks.CorruptError
			switch {
			case errors.Is(err, store.ErrFormatVersion): // the version's own bytes
			case err == nil && bytes.Equal(b, whole):
			case err == nil && strings.HasSuffix(name, "flipped") && paddingOnly(whole, b): // verify's business
			case !errors.As(err, &c) || c.Path != path || c.Extent == "":
				t.Errorf("%s %s: %v, expected a CorruptError with its path", filepath.Base(path), name, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Check(t, storetest.Open(t, dir, store.Options{}), g)
}

// paddingOnly reports whether the damage is beyond what readers look at: zeros
// between extents.
func paddingOnly(whole, b []byte) bool {
	for i := range whole {
		if whole[i] != b[i] {
			return whole[i] == 0
		}
	}
	return true
}

// TestDamagedMetadata flips bytes of Pebble's files. Opening must not panic, and must not
// show anything but the true manifest.
func TestDamagedMetadata(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{IDs: store.IDsStrings}))
	want, err := json.Marshal(storetest.Open(t, dir, store.Options{}).Manifest())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(dir + "/meta/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found, total := 0, 0
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at += max(1, storetest.Every(4)*(len(whole)/40)) {
			b := bytes.Clone(whole)
			b[at] ^= 0x20
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(dir, store.Options{})
			total++
			if err != nil {
				found++
				continue
			}
			got, _ := json.Marshal(s.Manifest())
			if string(got) != string(want) {
				t.Errorf("%s byte %d: another manifest: %s", filepath.Base(path), at, got)
			}
			_ = s.Close()
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if found < total/8 { // much is preallocated log and old options
		t.Errorf("%d of %d flips noticed: the test damages nothing that matters", found, total)
	}
}

// TestVersionIsNotLost damages the manifest of metadata whose writer did not come to an end: Pebble takes what is left for
// a shorter history, but a version that the broken seal knows is committed does not vanish, nor are its files swept.
func TestVersionIsNotLost(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{IDs: store.IDsStrings}))
	again, err := store.OpenWriter(dir, store.WriterOptions{}) // metadata that were opened again
	if err == nil {
		err = again.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	seal := filepath.Join(dir, "meta", "SEAL")
	if err := os.Rename(seal, seal+".broken"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "meta", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	path := manifests[len(manifests)-1]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for at := 0; at < len(whole); at++ {
		b := bytes.Clone(whole)
		clear(b[at:min(at+4, len(b))])
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(dir, store.Options{})
		if err == nil {
			err = s.Close()
		} else if errors.Is(err, store.ErrCorrupt) {
			if strings.Contains(err.Error(), "was committed") {
				lost++
			}
			w, e := store.Create(dir, store.WriterOptions{})
			if err = nil; !errors.Is(e, store.ErrCorrupt) {
				t.Errorf("4 bytes from %d: a fresh ingest: %v, expected ErrCorrupt", at, e)
			}
			if e == nil {
				_ = w.Close()
			}
		}
		if err != nil {
			t.Errorf("4 bytes from %d: %v, expected ErrCorrupt or the store", at, err)
		}
		if after, err := os.ReadDir(filepath.Join(dir, "data")); err != nil || len(after) != len(data) {
			t.Fatalf("4 bytes from %d: %d of %d data files are left", at, len(after), len(data))
		}
	}
	if lost == 0 {
		t.Errorf("of %d damages none was one that Pebble takes for an end", len(whole))
	}
}

// TestLostMetadata removes or empties each file beside the data: whatever opens the store calls it damaged, and a fresh
// ingest does not take it for the remains of an interrupted one, which it would sweep. It does so with the
// seal that a writer leaves, and without, as after a crash.
func TestLostMetadata(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{IDs: store.IDsStrings}))
		data, err := os.ReadDir(filepath.Join(dir, "data"))
		if err != nil {
			t.Fatal(err)
		}
		seal := filepath.Join(dir, "meta", "SEAL")
		if !sealed {
			if err := os.Remove(seal); err != nil {
				t.Fatal(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "meta", "*"))
		if err != nil || len(files) < 5 {
			t.Fatal(files, err)
		}
		for _, path := range append(files, filepath.Join(dir, "LOCK"), filepath.Join(dir, "meta")) {
			moved := filepath.Join(t.TempDir(), "moved")
			if err := os.Rename(path, moved); err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(path)
			s, err := store.Open(dir, store.Options{})
			switch {
			case err == nil:
				_ = s.Close()
				if sealed && path != seal {
					t.Errorf("%s is not missed", name)
				}
			case !errors.Is(err, store.ErrCorrupt):
				t.Errorf("without %s (sealed: %v): %v, expected ErrCorrupt", name, sealed, err)
			}
			if strings.HasPrefix(name, "marker.manifest") || name == "meta" { // the store would be taken for none
				if err == nil {
					t.Errorf("without %s it opens", name)
				}
				if w, err := store.Create(dir, store.WriterOptions{}); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("a fresh ingest without %s (sealed: %v): %v, expected ErrCorrupt", name, sealed, err)
					if err == nil {
						_ = w.Close()
					}
				}
				if after, err := os.ReadDir(filepath.Join(dir, "data")); err != nil || len(after) != len(data) {
					t.Fatalf("%d of %d data files are left", len(after), len(data))
				}
			}
			if err := os.Rename(moved, path); err != nil {
				t.Fatal(err)
			}
		}
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
	}
}

// TestDataFileIsNone: a data file that became a folder, or a link that leads to itself, is damage as one that is gone is.
func TestDataFileIsNone(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	files, err := filepath.Glob(dir + "/data/*.gsb")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	path := files[0]
	for name, make := range map[string]func() error{
		"a folder": func() error { return os.Mkdir(path, 0o777) },
		"a loop":   func() error { return os.Symlink(filepath.Base(path), path) },
	} {
		if err := errors.Join(os.RemoveAll(path), make()); err != nil {
			t.Fatal(err)
		}
		var c *blocks.CorruptError
		if s, err := store.Open(dir, store.Options{}); !errors.As(err, &c) || c.Path != path {
			t.Errorf("%s: %v, %v, expected a CorruptError with its path", name, s, err)
		}
	}
}
