package remote_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/remote"
)

func follow(t *testing.T, b remote.Bucket, home string) *remote.Followed {
	t.Helper()
	f, err := remote.Follow(t.Context(), b, home, remote.FollowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func closed(t *testing.T, f *remote.Followed) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// The folder of an address is brought up to date while nobody uses it, keeps what the address lacks, and takes no side.
func TestFollow(t *testing.T) {
	dir, b, home := makeStore(t, 300), open(t), t.TempDir()
	if _, err := remote.Follow(t.Context(), b, home, remote.FollowOptions{}); !errors.Is(err, remote.ErrNotFound) {
		t.Fatalf("an empty address: %v", err)
	}
	push(t, b, dir)
	f := follow(t, b, home)
	if f.Behind || f.Ahead || !f.Moved.Fresh || f.Snapshot.Number != 1 || filepath.Base(f.Dir) != "bucket.gstore" || !strings.HasPrefix(f.Dir, filepath.Join(home, "bucket-")) {
		t.Fatalf("%+v", f)
	}
	sound(t, f.Dir)
	other, err := remote.Open(strings.TrimSuffix(b.Address(), "bucket") + "more/bucket")
	if err != nil {
		t.Fatal(err)
	}
	push(t, other, dir)
	g := follow(t, other, home)
	if g.Dir == f.Dir {
		t.Errorf("two addresses in %s", g.Dir)
	}
	closed(t, g)
	// A snapshot more while it is used.
	commit(t, dir)
	push(t, b, dir)
	if g = follow(t, b, home); !g.Behind || g.Moved.Fresh || g.Snapshot.Number != 2 || g.Dir != f.Dir {
		t.Errorf("while it is used: %+v", g)
	}
	closed(t, g)
	closed(t, f)
	if f = follow(t, b, home); f.Behind || !f.Moved.Fresh {
		t.Errorf("when it is not used: %+v", f)
	}
	// What is written here goes there.
	commit(t, f.Dir)
	closed(t, f)
	if f = follow(t, b, home); !f.Ahead || f.Behind || f.Moved.Fresh {
		t.Errorf("with a version more: %+v", f)
	}
	if p := push(t, b, f.Dir); p.Snapshot.Number != 3 || p.Snapshot.Version != 3 {
		t.Errorf("pushed: %+v", p)
	}
	closed(t, f)
	if f = follow(t, b, home); f.Ahead || f.Behind {
		t.Errorf("pushed: %+v", f)
	}
	sound(t, f.Dir)
	commit(t, f.Dir)
	closed(t, f)
	// And somebody else's there, too.
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if _, err := remote.Pull(t.Context(), b, elsewhere, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	commit(t, elsewhere)
	push(t, b, elsewhere)
	if _, err := remote.Follow(t.Context(), b, home, remote.FollowOptions{}); !errors.Is(err, remote.ErrConflict) {
		t.Errorf("both have what the other lacks: %v", err)
	}
}

// Programs that begin at once share one folder, which one of them pulls.
func TestFollowAtOnce(t *testing.T) {
	dir, b, home := makeStore(t, 300), open(t), t.TempDir()
	push(t, b, dir)
	var wg sync.WaitGroup
	fs, errs := make([]*remote.Followed, 8), make([]error, 8)
	for i := range fs {
		wg.Go(func() { fs[i], errs[i] = remote.Follow(t.Context(), b, home, remote.FollowOptions{}) })
	}
	wg.Wait()
	fresh := 0
	for i, f := range fs {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if f.Moved.Fresh {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of %d pulled it", fresh, len(fs))
	}
	sound(t, fs[0].Dir)
	for _, f := range fs {
		closed(t, f)
	}
}

// A run that is under way, of which the history does not know yet, is not pulled over.
func TestUnfinishedRun(t *testing.T) {
	dir, b, home := makeStore(t, 300), open(t), t.TempDir()
	push(t, b, dir)
	f := follow(t, b, home)
	checkpoint := filepath.Join(f.Dir, store.RunsDir, "last"+store.RunExtension)
	write := func(path string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte("epoch 3"), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write(checkpoint)
	write(filepath.Join(f.Dir, store.RunsDir, "last"+store.MetricsExtension)) // it has not ended
	closed(t, f)
	if f = follow(t, b, home); !f.Unfinished || f.Behind || f.Ahead || f.Moved.Fresh {
		t.Errorf("no newer snapshot: %+v", f)
	}
	closed(t, f)
	commit(t, dir)
	push(t, b, dir)
	if f = follow(t, b, home); !f.Unfinished || !f.Behind || f.Moved.Fresh {
		t.Errorf("a newer snapshot: %+v", f)
	}
	if got, err := os.ReadFile(checkpoint); err != nil || string(got) != "epoch 3" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := remote.Pull(t.Context(), b, f.Dir, remote.PullOptions{}); !errors.Is(err, remote.ErrConflict) || !strings.Contains(err.Error(), "unfinished run (runs/last.gsr)") {
		t.Errorf("pulled: %v", err)
	}
	closed(t, f)
	// One that has ended, or that came with a snapshot, has no measurements beside it.
	write(filepath.Join(dir, store.RunsDir, "last"+store.RunExtension))
	push(t, b, dir)
	other := t.TempDir()
	closed(t, follow(t, b, other))
	commit(t, dir)
	push(t, b, dir)
	if f = follow(t, b, other); f.Unfinished || f.Behind || !f.Moved.Fresh {
		t.Errorf("pulled with a run: %+v", f)
	}
	closed(t, f)
}
