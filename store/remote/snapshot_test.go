package remote

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// valid is a snapshot as push makes them.
func valid() *Snapshot {
	footer := uint32(7)
	sum := fmt.Sprintf("%x", sha256.Sum256(nil))
	return &Snapshot{Number: 3, Created: time.Unix(1, 0).UTC(), Version: 2, Versions: []Mark{{1, time.Unix(0, 5).UTC()}}, Files: []File{
		{Path: "data/topology-000001.gsb", Size: chunkBytes + 1, SHA256: sum, Footer: &footer, Chunks: make([]byte, 8)},
		{Path: "meta/SEAL", Size: 3, SHA256: sum, Chunks: make([]byte, 4)},
		{Path: "runs/1.gsm", SHA256: sum},
	}}
}

// A snapshot whose checksum is right may still have been made by somebody else: nothing in it leads out of a store.
func TestSnapshotsAreNotTrusted(t *testing.T) {
	s := valid()
	b, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode("x", b); err != nil || len(got.Files) != 3 || got.Files[0].Path != s.Files[0].Path || *got.Files[0].Footer != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		c := append([]byte{}, b...)
		c[i] ^= 1 << (i % 8)
		if _, err := decode("x", c); !errors.Is(err, blocks.ErrCorrupt) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	for what, change := range map[string]func(*Snapshot){
		"a path upwards":       func(s *Snapshot) { s.Files[0].Path = "data/../../x" },
		"an absolute path":     func(s *Snapshot) { s.Files[0].Path = "/etc/passwd" },
		"another folder":       func(s *Snapshot) { s.Files[0].Path = "cache/x" },
		"no folder":            func(s *Snapshot) { s.Files[0].Path = "REMOTE" },
		"a deeper folder":      func(s *Snapshot) { s.Files[0].Path = "data/x/y" },
		"a path of Windows":    func(s *Snapshot) { s.Files[0].Path = `data/..\..\x` },
		"a file twice":         func(s *Snapshot) { s.Files[1] = s.Files[0] },
		"a negative size":      func(s *Snapshot) { s.Files[2].Size = -1 },
		"no checksums":         func(s *Snapshot) { s.Files[0].Chunks = nil },
		"too large a size":     func(s *Snapshot) { s.Files[0].Size = 1 << 60 },
		"a short SHA-256":      func(s *Snapshot) { s.Files[0].SHA256 = "ab" },
		"a SHA-256 that leads": func(s *Snapshot) { s.Files[0].SHA256 = strings.Repeat("../", 21) + "x" },
	} {
		s := valid()
		change(s)
		b, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode("x", b); !errors.Is(err, blocks.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Two pulls into one folder do not meet.
func TestPullsExclude(t *testing.T) {
	b := folder(t.TempDir())
	s := valid()
	body, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), snapshotKey(s.Number), body); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() + "/store"
	if err := os.MkdirAll(dir+PullSuffix, 0o777); err != nil {
		t.Fatal(err)
	}
	lock, err := meta.NewEnv(dir+PullSuffix, nil, 0).Lock(t.Context(), meta.LockWriter, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Pull(t.Context(), b, dir, PullOptions{Snapshot: s.Number}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("%v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Pull(t.Context(), b, dir, PullOptions{Snapshot: s.Number}); !errors.Is(err, store.ErrCorrupt) { // its objects are missing
		t.Errorf("%v", err)
	}
}

// FuzzSnapshot: whatever a snapshot says, it is refused, or its files lie in a store and its checksums are as many as they must be.
func FuzzSnapshot(f *testing.F) {
	for _, change := range []func(*Snapshot){func(*Snapshot) {}, func(s *Snapshot) { s.Files = nil }, func(s *Snapshot) { s.Files[0].Path = "data/../x" }} {
		s := valid()
		change(s)
		b, err := s.encode()
		if err != nil {
			f.Fatal(err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := decode("x", fmt.Appendf(nil, "%s\n%x\n", line, sha256.Sum256(line)))
		if err != nil {
			return
		}
		for i := range s.Files {
			file := &s.Files[i]
			at := filepath.Join("/store", filepath.FromSlash(file.Path))
			if !strings.HasPrefix(at, "/store/") || strings.Count(at, "/") != 3 || len(file.object()) != len(objectPrefix)+3+64 || int64(len(file.Chunks)) != 4*file.chunks() {
				t.Errorf("%+v", file)
			}
			if n := file.chunks(); n > 0 {
				file.right(n-1, nil)
			}
		}
	})
}
