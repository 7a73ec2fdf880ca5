package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gstore/gstore/blocks"
)

// Checked is what was verified at an address.
type Checked struct {
	Snapshots int
	Objects   int
	Bytes     int64
	Damage    []error // each a *blocks.CorruptError
}

// Verify reads the objects of a snapshot, or with number 0 of all of them, and compares them with their checksums. Damage is no error:
// it is in what it returns.
func Verify(ctx context.Context, b Bucket, number uint64, progress func(done, total int64)) (c Checked, err error) {
	numbers := []uint64{number}
	if number == 0 {
		if numbers, err = Numbers(ctx, b); err != nil {
			return c, err
		}
	}
	var files []File
	queued, total := map[string]bool{}, int64(0)
	for _, n := range numbers {
		s, err := Read(ctx, b, n)
		if errors.Is(err, blocks.ErrCorrupt) {
			c.Damage = append(c.Damage, err)
			continue
		}
		if err != nil {
			return c, err
		}
		c.Snapshots++
		for _, f := range s.Files {
			if !queued[f.SHA256] {
				queued[f.SHA256] = true
				files = append(files, f)
				total += f.Size
			}
		}
	}
	var mu sync.Mutex
	err = make(limit, transfers).each(ctx, len(files), func(ctx context.Context, i int) error {
		bad, err := checkObject(ctx, b, &files[i])
		mu.Lock()
		defer mu.Unlock()
		if bad != nil {
			c.Damage = append(c.Damage, bad)
		}
		c.Objects++
		c.Bytes += files[i].Size
		if progress != nil {
			progress(c.Bytes, total)
		}
		return err
	})
	return c, err
}

// checkObject reads an object. What is wrong with it is damage; what keeps it from being read is an error.
func checkObject(ctx context.Context, b Bucket, f *File) (damage, err error) {
	sum := ""
	for try := 0; try < 2 && err == nil && sum != f.SHA256; try++ { // the first may have gone wrong on its way
		err = retry(ctx, f.Size, func(ctx context.Context) error {
			r, err := b.Get(ctx, f.object(), 0, -1)
			if err != nil {
				return unread(ctx, b, f, err)
			}
			sum, err = sumOf(ctx, r)
			return errors.Join(err, r.Close())
		})
	}
	if err == nil && sum != f.SHA256 {
		err = damagedObject(b, f, "its SHA-256 is %s", sum)
	}
	if errors.Is(err, blocks.ErrCorrupt) {
		return err, nil
	}
	return nil, err
}

// unread says why a file's object could not be read: it is missing or of another length, which are damage, or err.
func unread(ctx context.Context, b Bucket, f *File, err error) error {
	if errors.Is(err, ErrNotFound) {
		return damagedObject(b, f, "it is missing")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || refusedByServer(err) { // which is what a place behind the end is
		if o, serr := b.Stat(ctx, f.object()); serr == nil && o.Size != f.Size {
			return damagedObject(b, f, "it has %d bytes, expected %d", o.Size, f.Size)
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// damagedObject is an object whose bytes are not what its key says.
func damagedObject(b Bucket, f *File, format string, args ...any) error {
	return &blocks.CorruptError{Path: b.String() + "/" + f.object(), Extent: "object", Offset: -1, Reason: fmt.Sprintf("of %s: ", f.Path) + fmt.Sprintf(format, args...)}
}

// Pruned is what Prune removed.
type Pruned struct {
	Snapshots []uint64
	Objects   int
	Bytes     int64
}

// Prune removes all but the newest keep snapshots, and the objects that none of the others names, once they are a day old: younger ones
// may be of a push under way. keep 0 removes no snapshot.
func Prune(ctx context.Context, b Bucket, keep int) (p Pruned, err error) {
	numbers, err := Numbers(ctx, b)
	if err != nil {
		return p, err
	}
	if drop := len(numbers) - keep; keep > 0 && drop > 0 {
		for _, n := range numbers[:drop] {
			if err := b.Delete(ctx, snapshotKey(n)); err != nil {
				return p, err
			}
			p.Snapshots = append(p.Snapshots, n)
		}
	}
	return p, sweep(ctx, b, time.Now().Add(-2*freshAge), &p)
}

// sweep removes objects from before a moment that no snapshot names.
func sweep(ctx context.Context, b Bucket, before time.Time, p *Pruned) error {
	numbers, err := Numbers(ctx, b) // again: of those that were made meanwhile, too
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, n := range numbers {
		s, err := Read(ctx, b, n)
		if errors.Is(err, ErrNotFound) { // pruned by another
			continue
		}
		if err != nil {
			return err
		}
		for i := range s.Files {
			named[s.Files[i].object()] = true
		}
	}
	var old []Object
	err = b.List(ctx, objectPrefix, func(o Object) error {
		if !named[o.Key] && o.Modified.Before(before) {
			old = append(old, o)
		}
		return nil
	})
	for _, o := range old {
		if err = errors.Join(err, b.Delete(ctx, o.Key)); err != nil {
			return err
		}
		p.Objects++
		p.Bytes += o.Size
	}
	if err != nil {
		return err
	}
	n, err := b.Abandoned(ctx, before)
	p.Objects += n
	return err
}
