package remote_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/blockio/blockiotest"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/store/verify"
)

// makeWide ingests a graph with features of several chunks.
func makeWide(t *testing.T) (dir string) {
	t.Helper()
	const nodes, dim = 6000, 300
	g := &ingest.Slices{Nodes: nodes, Input: "test"}
	x := make([]float32, nodes*dim)
	for i := range x {
		x[i] = float32(i%977) / 3
	}
	for i := range uint64(3 * nodes) {
		g.Src, g.Dst = append(g.Src, i%nodes), append(g.Dst, (i*7+1)%nodes)
	}
	g.NodeColumns = []ingest.SliceColumn{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: dim, Data: blocks.Bytes(x)}}
	src, err := ingest.FromSlices(g)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "made")
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func attach(t *testing.T, b remote.Bucket, dir string, cacheBytes int64) remote.Moved {
	t.Helper()
	p, err := remote.Pull(t.Context(), b, dir, remote.PullOptions{Lazy: true, CacheBytes: cacheBytes})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sound fails unless every byte of a store reads as it must.
func sound(t *testing.T, dir string) {
	t.Helper()
	for _, engine := range []string{"auto", "pread", "mmap"} {
		if r, err := verify.Store(t.Context(), dir, verify.Options{Workers: 3, Engine: engine}); err != nil || len(r.Damage) > 0 {
			t.Fatalf("%s by %s: %v, damage %v", dir, engine, err, r.Damage)
		}
	}
}

func filesIn(t *testing.T, dir string) (n int, bytes int64) {
	t.Helper()
	remote.Kept()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n, bytes = n+1, bytes+info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, bytes
}

// A store whose data lie elsewhere reads, and grows, like any other; what it has read it keeps, and no more than it may.
func TestLazy(t *testing.T) {
	dir, b := makeWide(t), open(t)
	first := push(t, b, dir)
	there := filepath.Join(t.TempDir(), "there")
	p := attach(t, b, there, 0)
	if n, _ := filesIn(t, filepath.Join(there, "data")); n != 0 || p.Bytes > first.Bytes/4 {
		t.Fatalf("%d data files, %d bytes of %d were moved", n, p.Bytes, first.Bytes)
	}
	sound(t, there)
	if _, kept := filesIn(t, filepath.Join(there, "cache")); kept == 0 || kept > first.Bytes {
		t.Errorf("%d bytes are kept of %d", kept, first.Bytes)
	}
	if again := attach(t, b, there, 0); again.Fresh {
		t.Error("once more it was not the same")
	}

	// All of it was read: the bucket is not asked again.
	root := strings.TrimPrefix(b.String(), "file://")
	if err := os.Rename(root, root+"-away"); err != nil {
		t.Fatal(err)
	}
	sound(t, there)
	if err := os.Rename(root+"-away", root); err != nil {
		t.Fatal(err)
	}
	// What a crash left of a chunk is read anew.
	chunks, err := filepath.Glob(filepath.Join(there, "cache", "*", "*", "*", "*"))
	if err != nil || len(chunks) < 5 {
		t.Fatal(chunks, err)
	}
	for i, path := range chunks {
		if err := os.Truncate(path, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	sound(t, there)

	// A version more, here, with the files of the one before there.
	commit(t, there)
	sound(t, there)
	second := push(t, b, there)
	if second.Snapshot.Version != 2 || second.Bytes > first.Bytes/4 {
		t.Errorf("%d bytes were pushed: %+v", second.Bytes, second.Snapshot)
	}
	// The other store gets it, and an attached one too, which keeps its cache.
	if _, err := remote.Pull(t.Context(), b, dir, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	sound(t, dir)
	commit(t, dir)
	push(t, b, dir)
	before, _ := filesIn(t, filepath.Join(there, "cache"))
	if up := attach(t, b, there, 0); !up.Fresh || up.Snapshot.Version != 3 {
		t.Errorf("%+v", up)
	}
	if n, _ := filesIn(t, filepath.Join(there, "cache")); n != before {
		t.Errorf("%d chunks are kept, %d were", n, before)
	}
	sound(t, there)
	// Without --lazy all of it comes.
	if p, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil || !p.Fresh {
		t.Fatalf("%+v, %v", p, err)
	}
	same(t, dir, there)
}

// The cache is bounded, and what is evicted is read again.
func TestLazyBounded(t *testing.T) {
	dir, b := makeWide(t), open(t)
	push(t, b, dir)
	there := filepath.Join(t.TempDir(), "there")
	const most = 3 << 20
	attach(t, b, there, most)
	for range 2 {
		sound(t, there)
		if _, kept := filesIn(t, filepath.Join(there, "cache")); kept > most {
			t.Errorf("%d bytes are kept, %d may be", kept, most)
		}
	}
}

// Damage of an object is found in what is read of it, and nothing else is.
func TestLazyDamage(t *testing.T) {
	dir, b := makeWide(t), open(t)
	p := push(t, b, dir)
	root := strings.TrimPrefix(b.String(), "file://")
	for _, f := range p.Snapshot.Files {
		if !strings.HasPrefix(f.Path, "data/column-x") {
			continue
		}
		path := filepath.Join(root, "objects", f.SHA256[:2], f.SHA256)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, flip(whole, len(whole)/2), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	there := filepath.Join(t.TempDir(), "there")
	attach(t, b, there, 0)
	if r, err := verify.Store(t.Context(), there, verify.Options{Workers: 2}); err != nil || len(r.Damage) == 0 || !strings.Contains(errors.Join(r.Damage...).Error(), "column-x") {
		t.Errorf("%v, damage %v", err, r.Damage)
	}
	if err := errors.Join(os.RemoveAll(root), os.RemoveAll(filepath.Join(there, "cache"))); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(there, store.Options{}); err == nil {
		t.Error("a store whose bucket is gone was opened")
	}
	body, err := os.ReadFile(filepath.Join(there, "REMOTE"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(body); i += 97 {
		if err := os.WriteFile(filepath.Join(there, "REMOTE"), flip(body, i), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(there, store.Options{}); err == nil {
			t.Fatalf("byte %d of REMOTE flipped: the store was opened", i)
		}
	}
}

// Engines keep to what every engine must where a program reads files from elsewhere, too.
func TestEnginesBesideElsewhere(t *testing.T) {
	for _, name := range []string{"pread", "auto"} {
		t.Run(name, func(t *testing.T) {
			blockiotest.Run(t, func(t testing.TB, o blockio.Options) blockio.Engine {
				e, _, err := blockio.New(name, o)
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
}

// What is read in order is fetched ahead, and what a plan names before it is read.
func TestFetch(t *testing.T) {
	dir, b := makeWide(t), open(t)
	push(t, b, dir)
	there := filepath.Join(t.TempDir(), "there")
	attach(t, b, there, 0)
	largest, size := "", int64(0)
	files, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil {
			t.Fatal(err)
		} else if info.Size() > size {
			largest, size = f.Name(), info.Size()
		}
	}
	engine, _, err := blockio.New("auto", blockio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := engine.Open(filepath.Join(there, "data", largest), blockio.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	here, err := engine.Open(filepath.Join(dir, "data", largest), blockio.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if near, far := blockio.AheadBytes(here), blockio.AheadBytes(f); near != 0 || far == 0 {
		t.Errorf("%d bytes may be fetched ahead of a file on disk, %d of one elsewhere", near, far)
	}
	_, before := filesIn(t, filepath.Join(there, "cache"))
	if err := errors.Join(blockio.Fetch(here, 0, size), blockio.Fetch(f, size-1, 1), blockio.Fetch(f, size-1, 100)); err != nil {
		t.Fatal(err)
	}
	if _, after := filesIn(t, filepath.Join(there, "cache")); after <= before || after > before+1<<20 {
		t.Errorf("%d bytes are kept, %d were before the last one was fetched", after, before)
	}
	if err := errors.Join(f.Close(), here.Close(), engine.Close()); err != nil {
		t.Fatal(err)
	}
}
