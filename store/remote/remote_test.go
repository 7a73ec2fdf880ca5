package remote_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/store/verify"
)

// makeStore ingests a small graph with text ids, so that there is a dictionary.
func makeStore(t *testing.T, nodes int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "made")
	g := &ingest.Slices{Nodes: uint64(nodes), Input: "test"}
	for i := range nodes {
		g.Names = append(g.Names, strings.Repeat("n", 1+i%7)+string(rune('a'+i%26))+strings.Repeat("x", i))
		g.Src, g.Dst = append(g.Src, uint64(i)), append(g.Dst, uint64((i*7+1)%nodes))
	}
	src, err := ingest.FromSlices(g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// commit adds a version to a store: the same once more.
func commit(t *testing.T, dir string) {
	t.Helper()
	w, err := store.OpenWriter(dir, store.WriterOptions{KeepVersions: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Commit(t.Context(), w.Base().Clone()), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) remote.Bucket {
	t.Helper()
	b, err := remote.Open("file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "bucket")))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// same fails unless two stores hold the same files, and b's is whole.
func same(t *testing.T, a, b string) {
	t.Helper()
	for _, folder := range []string{"data", "meta", "runs"} {
		list, err := os.ReadDir(filepath.Join(a, folder))
		if err != nil && folder != "runs" {
			t.Fatal(err)
		}
		for _, e := range list {
			want, err := os.ReadFile(filepath.Join(a, folder, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(b, folder, e.Name())); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s/%s differs: %v", folder, e.Name(), err)
			}
		}
	}
	r, err := verify.Store(t.Context(), b, verify.Options{Workers: 1})
	if err != nil || len(r.Damage) > 0 {
		t.Fatalf("%s: %v, damage %v", b, err, r.Damage)
	}
}

func push(t *testing.T, b remote.Bucket, dir string) remote.Moved {
	t.Helper()
	p, err := remote.Push(t.Context(), b, dir, remote.PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A store goes there and back; then only what is new.
func TestPushPull(t *testing.T) {
	dir, b := makeStore(t, 300), open(t)
	if _, err := remote.Read(t.Context(), b, 0); !errors.Is(err, remote.ErrNotFound) {
		t.Fatalf("an empty address: %v", err)
	}
	first := push(t, b, dir)
	if !first.Fresh || first.Snapshot.Number != 1 || first.Files == 0 || first.Bytes != first.Snapshot.Bytes() {
		t.Fatalf("%+v", first)
	}
	if again := push(t, b, dir); again.Fresh || again.Files != 0 {
		t.Fatalf("once more: %+v", again)
	}
	there := filepath.Join(t.TempDir(), "there")
	pulled, err := remote.Pull(t.Context(), b, there, remote.PullOptions{})
	if err != nil || !pulled.Fresh || pulled.Bytes != first.Bytes {
		t.Fatalf("%+v, %v", pulled, err)
	}
	same(t, dir, there)
	if again, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil || again.Fresh {
		t.Fatalf("once more: %+v, %v", again, err)
	}
	// A version more: its metadata move, its data are there.
	commit(t, dir)
	second := push(t, b, dir)
	if !second.Fresh || second.Snapshot.Number != 2 || second.Snapshot.Version != 2 || second.Bytes >= first.Bytes/2 {
		t.Fatalf("%d bytes of %d: %+v", second.Bytes, first.Bytes, second)
	}
	reader, err := store.Open(there, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if pulled, err = remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil || pulled.Bytes >= first.Bytes/2 {
		t.Fatalf("%+v, %v", pulled, err)
	}
	same(t, dir, there)
	if err := reader.LookupStrings(t.Context(), []string{"na"}, make([]store.NodeID, 1)); err != nil { // a reader of before goes on
		t.Errorf("a reader of version 1: %v", err)
	}
	if _, err := os.Stat(there + remote.PullSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	// The first one is still to be had.
	old := filepath.Join(t.TempDir(), "old")
	if _, err := remote.Pull(t.Context(), b, old, remote.PullOptions{Snapshot: 1}); err != nil {
		t.Fatal(err)
	}
	if s, err := store.Open(old, store.Options{}); err != nil || s.Manifest().Version != 1 {
		t.Errorf("snapshot 1: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
	// A pulled store is written to like any other.
	commit(t, there)
	if p := push(t, b, there); p.Snapshot.Number != 3 || p.Snapshot.Version != 3 {
		t.Errorf("%+v", p.Snapshot)
	}
}

// A pull that was killed at its last step, with the store's own LOCK in the folder that takes its place or that it took the place of, is
// ended by the next one.
func TestPullEndsExchange(t *testing.T) {
	dir, b := makeStore(t, 300), open(t)
	push(t, b, dir)
	there := filepath.Join(t.TempDir(), "there")
	for range 2 {
		if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		same(t, dir, there)
		commit(t, dir)
		push(t, b, dir)
		if err := os.Mkdir(there+remote.PullSuffix, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(there, "LOCK"), filepath.Join(there+remote.PullSuffix, "LOCK")); err != nil {
			t.Fatal(err)
		}
		w, err := store.OpenWriter(there, store.WriterOptions{}) // it may be the other pull
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); !errors.Is(err, store.ErrLocked) {
			t.Errorf("beside a writer: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Two stores that have grown apart do not hide each other's versions and runs.
func TestConflict(t *testing.T) {
	dir, b := makeStore(t, 40), open(t)
	push(t, b, dir)
	other := filepath.Join(t.TempDir(), "other")
	if _, err := remote.Pull(t.Context(), b, other, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordRun(t.Context(), other, store.Run{Version: 1, Started: time.Now()}, store.Options{}); err != nil {
		t.Fatal(err)
	}
	push(t, b, other)
	commit(t, dir)
	if _, err := remote.Push(t.Context(), b, dir, remote.PushOptions{}); !errors.Is(err, remote.ErrConflict) || !strings.Contains(err.Error(), "run 1") {
		t.Errorf("a push that hides a run: %v", err)
	}
	if _, err := remote.Pull(t.Context(), b, dir, remote.PullOptions{}); !errors.Is(err, remote.ErrConflict) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a pull that loses a version: %v", err)
	}
	commit(t, other)
	push(t, b, other)
	if _, err := remote.Push(t.Context(), b, dir, remote.PushOptions{}); !errors.Is(err, remote.ErrConflict) || !strings.Contains(err.Error(), "grown apart") {
		t.Errorf("version 2 of each: %v", err)
	}
	p, err := remote.Push(t.Context(), b, dir, remote.PushOptions{Force: true})
	if err != nil || p.Snapshot.Number != 4 {
		t.Fatalf("by force: %+v, %v", p, err)
	}
	if _, err := remote.Pull(t.Context(), b, other, remote.PullOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, other)
	if _, err := remote.Push(t.Context(), open(t), makeStore(t, 30), remote.PushOptions{}); err != nil {
		t.Errorf("another address: %v", err)
	}
	if _, err := remote.Push(t.Context(), b, makeStore(t, 30), remote.PushOptions{}); !errors.Is(err, remote.ErrConflict) {
		t.Errorf("another store: %v", err)
	}
}

// Of many that push at once one makes each snapshot, and none is lost.
func TestPushAtOnce(t *testing.T) { testPushAtOnce(t, open(t)) }

func testPushAtOnce(t *testing.T, b remote.Bucket) {
	const stores = 6
	first := makeStore(t, 60)
	push(t, b, first)
	dirs := make([]string, stores)
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), "copy")
		if _, err := remote.Pull(t.Context(), b, dirs[i], remote.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		commit(t, dirs[i])
	}
	var wg sync.WaitGroup
	errs := make([]error, stores)
	for i := range dirs {
		wg.Go(func() { _, errs[i] = remote.Push(context.Background(), b, dirs[i], remote.PushOptions{}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, remote.ErrConflict) {
			t.Error(err)
		}
	}
	if numbers, err := remote.Numbers(t.Context(), b); err != nil || won != 1 || len(numbers) != 2 {
		t.Errorf("%d pushes of different versions 2 went through, %v are there, %v", won, numbers, err)
	}
}

// Every flip at rest is found, by Verify and by Pull, and what is missing too.
func TestDamageAtRest(t *testing.T) {
	dir, b := makeStore(t, 50), open(t)
	p := push(t, b, dir)
	root := strings.TrimPrefix(b.String(), "file://")
	all := []string{"snapshots/0000000001.json"}
	for _, f := range p.Snapshot.Files {
		all = append(all, "objects/"+f.SHA256[:2]+"/"+f.SHA256)
	}
	for i, key := range all {
		path := filepath.Join(root, filepath.FromSlash(key))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, damaged := range [][]byte{flip(whole, i*31), whole[:len(whole)/2], nil} {
			if bytes.Equal(damaged, whole) {
				continue
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if damaged != nil {
				if err := os.WriteFile(path, damaged, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			c, err := remote.Verify(t.Context(), b, 0, nil)
			lost := damaged == nil && i == 0 // no snapshot at all
			if err != nil || len(c.Damage) != 1 && !lost {
				t.Fatalf("%s of %d bytes, %d are left: damage %v, %v", key, len(whole), len(damaged), c.Damage, err)
			}
			into := filepath.Join(t.TempDir(), "x")
			if _, err := remote.Pull(t.Context(), b, into, remote.PullOptions{}); !errors.Is(err, store.ErrCorrupt) && !lost {
				t.Errorf("%s: pulled: %v", key, err)
			}
			if _, err := os.Stat(into); err == nil {
				t.Errorf("%s: a damaged store was put in place", key)
			}
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := remote.Verify(t.Context(), b, 0, nil); err != nil || len(c.Damage) > 0 || c.Bytes != p.Snapshot.Bytes() {
		t.Errorf("mended: %+v, %v", c, err)
	}
}

func flip(b []byte, at int) []byte {
	c := bytes.Clone(b)
	if len(c) > 0 {
		c[at%len(c)] ^= 1 << (at % 8)
	}
	return c
}

// Prune keeps the newest snapshots and their objects, and what a push under way has uploaded.
func TestPrune(t *testing.T) {
	dir, b := makeStore(t, 50), open(t)
	push(t, b, dir)
	for range 2 {
		commit(t, dir)
		push(t, b, dir)
	}
	root := strings.TrimPrefix(b.String(), "file://")
	if p, err := remote.Prune(t.Context(), b, 1); err != nil || len(p.Snapshots) != 2 || p.Objects != 0 {
		t.Fatalf("objects of today: %+v, %v", p, err)
	}
	err := filepath.WalkDir(filepath.Join(root, "objects"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, time.Time{}, time.Now().Add(-25*time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := remote.Prune(t.Context(), b, 0); err != nil || len(p.Snapshots) != 0 || p.Objects == 0 {
		t.Fatalf("of yesterday: %+v, %v", p, err)
	}
	if c, err := remote.Verify(t.Context(), b, 0, nil); err != nil || len(c.Damage) > 0 || c.Snapshots != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	there := filepath.Join(t.TempDir(), "there")
	if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, there)
}

// failing fails requests by turns, cuts bodies short, and may lose the answers of writes.
type failing struct {
	remote.Bucket
	mu   sync.Mutex
	n    int
	each int
}

var errFails = errors.New("the network")

func (f *failing) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n%f.each == 0
}

func (f *failing) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := f.Bucket.Get(ctx, key, offset, length)
	if err != nil || !f.fails() {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 7), errReader{}), r}, nil
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errFails }

func (f *failing) Put(ctx context.Context, key string, r *io.SectionReader) error {
	if f.fails() {
		return errFails
	}
	return f.Bucket.Put(ctx, key, r)
}

func (f *failing) Create(ctx context.Context, key string, b []byte) error {
	err := f.Bucket.Create(ctx, key, b)
	if err == nil && f.fails() { // it is there, and nobody says so
		return errFails
	}
	return err
}

// What fails now and then is tried again, and a snapshot whose answer was lost is there once.
func TestRetries(t *testing.T) {
	dir, b := makeStore(t, 50), open(t)
	f := &failing{Bucket: b, each: 3}
	for n := range 4 {
		p, err := remote.Push(t.Context(), f, dir, remote.PushOptions{})
		if err != nil || p.Snapshot.Number != uint64(n+1) {
			t.Fatalf("push %d: %+v, %v", n, p.Snapshot, err)
		}
		commit(t, dir)
	}
	there := filepath.Join(t.TempDir(), "there")
	if _, err := remote.Pull(t.Context(), f, there, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err := verify.Store(t.Context(), there, verify.Options{}); err != nil || len(r.Damage) > 0 {
		t.Errorf("%v, %v", r.Damage, err)
	}
}

// overtaken pushes another store before a snapshot is created, and removes the one before it with what nothing needs any more.
type overtaken struct {
	remote.Bucket
	once sync.Once
	by   func()
}

func (o *overtaken) Create(ctx context.Context, key string, b []byte) error {
	if strings.HasPrefix(key, "snapshots/") {
		o.once.Do(o.by)
	}
	return o.Bucket.Create(ctx, key, b)
}

// A push that another one comes before relies on nothing that only the snapshot before that had.
func TestPushAfterPrune(t *testing.T) {
	dir, other, b := makeStore(t, 50), makeStore(t, 20), open(t)
	push(t, b, dir)
	objects, err := filepath.Glob(filepath.Join(strings.TrimPrefix(b.String(), "file://"), "objects", "*", "*"))
	for _, path := range objects { // of yesterday
		err = errors.Join(err, os.Chtimes(path, time.Time{}, time.Now().Add(-25*time.Hour)))
	}
	if err != nil {
		t.Fatal(err)
	}
	commit(t, dir)
	o := &overtaken{Bucket: b, by: func() {
		if _, err := remote.Push(t.Context(), b, other, remote.PushOptions{Force: true}); err != nil {
			t.Error(err)
		}
		if p, err := remote.Prune(t.Context(), b, 1); err != nil || p.Objects == 0 {
			t.Errorf("%+v, %v", p, err)
		}
	}}
	p, err := remote.Push(t.Context(), o, dir, remote.PushOptions{Force: true})
	if err != nil || p.Snapshot.Number != 3 {
		t.Fatalf("%+v, %v", p.Snapshot, err)
	}
	if c, err := remote.Verify(t.Context(), b, 0, nil); err != nil || len(c.Damage) > 0 || c.Snapshots != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	there := filepath.Join(t.TempDir(), "there")
	if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, there)
}

// What a disk refuses is not tried again.
func TestDiskErrorsAreFinal(t *testing.T) {
	begin := time.Now()
	_, err := remote.Push(t.Context(), mustOpen(t, "file:///dev/null/bucket"), makeStore(t, 20), remote.PushOptions{})
	if took := time.Since(begin); err == nil || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "gs://x/y", "s3:///x", "file://x/y", "s3://me:secret@bucket/x", "s3://me:secret@bucket/%zz", "s3://b/x?acl=public", "s3://b/x?endpoint=nowhere", "shop.gstore"} {
		_, err := remote.Open(bad)
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the message tells the password: %v", bad, err)
		}
	}
	for address, want := range map[string]string{"s3://b": "s3://b", "s3://b/": "s3://b", "s3://b/x/y/?region=eu": "s3://b/x/y", "file:///x/y": "file:///x/y"} {
		if b, err := remote.Open(address); err != nil || b.String() != want {
			t.Errorf("%q: %v, %v", address, b, err)
		}
	}
	for _, address := range []string{"s3://b/x/?endpoint=http%3A%2F%2Fh%3A1&region=eu", "s3://b/", "file:///x y/50% #1?"} {
		if b, err := remote.Open(address); err != nil || b.Address() != address {
			t.Errorf("%q: %v, %v", address, b, err)
		}
	}
}
