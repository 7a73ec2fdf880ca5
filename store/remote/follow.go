package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// FollowOptions say how the store at an address is followed. The zero value is what most callers want.
type FollowOptions struct {
	CacheBytes int64 // as PullOptions has it
	// Progress is told bytes that were downloaded, of how many, from several goroutines; may be nil.
	Progress func(done, total int64)
}

// Followed is the folder through which a machine uses the store at an address. It is in use until Close: nobody brings it up to date.
type Followed struct {
	Dir      string    // of a store, lazy, which is opened as any other
	Snapshot *Snapshot // the newest at the address
	Moved    Moved     // what bringing it up to date did
	Behind   bool      // it has not all that the snapshot has: another program uses it as it is, or a run is unfinished
	Ahead    bool      // it has versions or runs that are not at the address yet: Push sends them
	// Unfinished says that a run under way, which the address does not have, is why it was left as it is.
	Unfinished bool

	lock *meta.Lock
}

// Follow makes the store at an address usable: in a folder below home ("" = gstore/stores in the user's folder for caches), of the
// address' name, lies a store that is pulled lazily ([PullOptions].Lazy), and is brought to the newest snapshot unless a program is using it. What programs write stays in it, and is not
// pulled over. It fails with ErrConflict where both it and the snapshot have what the other lacks.
func Follow(ctx context.Context, b Bucket, home string, o FollowOptions) (_ *Followed, err error) {
	if home == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return nil, store.Invalid(fmt.Errorf("%w: say where stores at addresses are kept (--cache-dir)", err))
		}
		home = filepath.Join(caches, "gstore", "stores")
	}
	name, place := followedName(b.Address())
	place = filepath.Join(home, place)
	if err := os.MkdirAll(place, 0o777); err != nil {
		return nil, err
	}
	f := &Followed{Dir: filepath.Join(place, name+".gstore")}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	e := meta.NewEnv(place, vfs.Default, 0)
	for f.lock == nil {
		alone, err := e.Lock(ctx, meta.LockWriter, true, 0)
		if err == nil {
			if err := errors.Join(f.update(ctx, b, o), alone.Close()); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, store.ErrLocked) {
			return nil, err
		}
		lock, err := e.Lock(ctx, meta.LockWriter, false, untilPulled)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(f.Dir); err == nil {
			f.lock = lock
		} else if err := lock.Close(); err != nil { // who was pulling it has failed
			return nil, err
		}
	}
	if f.Snapshot = f.Moved.Snapshot; f.Snapshot == nil {
		if f.Snapshot, err = Read(ctx, b, 0); err != nil {
			return nil, err
		}
	}
	h, err := store.ReadHistory(ctx, f.Dir, store.Options{})
	if err != nil {
		return nil, err
	}
	here, there := marksOf(h), f.Snapshot.marks()
	f.Behind, f.Ahead = there.lackIn(here, nil) != nil, here.lackIn(there, nil) != nil
	if f.Behind && f.Ahead {
		return nil, fmt.Errorf("%w: %s and snapshot %d of %s have each what the other lacks: gstore push %s to another address keeps what it has, without the folder the address is read anew",
			ErrConflict, f.Dir, f.Snapshot.Number, b, f.Dir)
	}
	return f, nil
}

// update pulls the newest snapshot, unless the folder has what that lacks, or is being written to.
func (f *Followed) update(ctx context.Context, b Bucket, o FollowOptions) (err error) {
	f.Moved, err = Pull(ctx, b, f.Dir, PullOptions{Lazy: true, CacheBytes: o.CacheBytes, Progress: o.Progress})
	f.Unfinished = errors.Is(err, errUnfinished)
	if _, missing := os.Stat(f.Dir); missing == nil && (errors.Is(err, ErrConflict) || errors.Is(err, store.ErrLocked)) {
		return nil
	}
	return err
}

// untilPulled is how long Follow waits for another program that is pulling the same address.
const untilPulled = time.Hour

// Close lets others bring the folder up to date.
func (f *Followed) Close() error {
	err := f.lock.Close()
	f.lock = nil
	return err
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// followedName is what the store of an address is called, and the folder that it lies in.
func followedName(address string) (name, folder string) {
	short, _, _ := strings.Cut(address, "?")
	name = strings.TrimSuffix(notInNames.ReplaceAllString(path.Base(short), "-"), ".gstore")
	sum := sha256.Sum256([]byte(address))
	return name, name + "-" + hex.EncodeToString(sum[:4])
}
