package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/gstore/gstore/store"
)

// PushOptions say how a store is pushed. The zero value is what most callers want.
type PushOptions struct {
	Note string
	// Force pushes a store that has not all versions and runs of the newest snapshot, which stays to be pulled by its number.
	Force bool
	// Progress is told bytes that were uploaded, of how many, from several goroutines; may be nil.
	Progress func(done, total int64)
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Moved is what a push or a pull did.
type Moved struct {
	Snapshot *Snapshot // that the store is now
	Fresh    bool      // a push made it, a pull changed the store; else there was nothing to do
	Files    int       // that went over the network
	Bytes    int64     // of these
}

// transfers is how many files are hashed or moved at a time.
const transfers = 4

// freshAge is for how long an object that no snapshot names is taken for one of a push under way: by another try of that push, which
// uses it, and by Prune, which leaves it for twice as long.
const freshAge = 12 * time.Hour

// Push uploads what the store in dir holds and the newest snapshot at b does not, and makes the next snapshot. It fails with ErrConflict
// where that would hide versions or runs, and with store.ErrLocked while a table of the store is trained. Interrupted, it is taken up by the
// next push within half a day.
func Push(ctx context.Context, b Bucket, dir string, o PushOptions) (p Moved, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	backup, err := store.OpenBackup(ctx, dir, store.Options{})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	if err := begin(ctx, b); err != nil {
		return p, err
	}
	up := upload{bucket: b, backup: backup, o: o, mine: map[string]bool{}, sums: map[string]File{}, p: &p}
	for {
		head, err := newest(ctx, b)
		if err != nil {
			return p, err
		}
		if head == nil {
			head = &Snapshot{}
		}
		next, err := up.follow(ctx, head)
		if err != nil {
			return p, err
		}
		if head.Number > 0 && !changed(head, next) {
			p.Snapshot = head
			return p, nil
		}
		body, err := next.encode()
		if err != nil {
			return p, err
		}
		key := snapshotKey(next.Number)
		err = retry(ctx, 0, func(ctx context.Context) error { return b.Create(ctx, key, body) })
		if errors.Is(err, ErrExists) {
			// By another push, or by this one, whose answer was lost.
			got, rerr := read(ctx, b, key)
			if rerr != nil {
				return p, rerr
			}
			if !bytes.Equal(got, body) {
				continue
			}
			err = nil
		}
		p.Snapshot, p.Fresh = next, true
		return p, err
	}
}

// upload is a push under way.
type upload struct {
	bucket Bucket
	backup *store.Backup
	o      PushOptions
	mine   map[string]bool // objects, by SHA-256, that it has uploaded: nobody removes them for a day
	sums   map[string]File // checksums by path, once they are known
	p      *Moved
}

// follow uploads what head does not name and returns the snapshot behind it.
func (u *upload) follow(ctx context.Context, head *Snapshot) (*Snapshot, error) {
	m, has := u.backup.Manifest, marksOf(u.backup.History)
	next := &Snapshot{Number: head.Number + 1, Created: u.o.Now().UTC(), Note: u.o.Note, Version: m.Version, Nodes: m.Nodes, Edges: m.Edges, Versions: has.versions, Runs: has.runs}
	if l := head.marks().lackIn(has, u.backup.Dropped); l != nil && !u.o.Force {
		return nil, u.hidden(head, l)
	}
	known, there := map[string]File{}, maps.Clone(u.mine)
	for _, f := range head.Files {
		known[f.Path] = f
		there[f.SHA256] = true
	}
	next.Files = make([]File, len(u.backup.Files))
	var hash []int
	for i := range u.backup.Files {
		f := &u.backup.Files[i]
		next.Files[i] = File{Path: f.Path, Size: f.Size, SHA256: u.sums[f.Path].SHA256, Chunks: u.sums[f.Path].Chunks}
		if f.Ref != nil {
			next.Files[i].Footer = &f.Ref.FooterChecksum
			if k := known[f.Path]; k.Footer != nil && *k.Footer == f.Ref.FooterChecksum && k.Size == f.Size {
				next.Files[i].SHA256, next.Files[i].Chunks = k.SHA256, k.Chunks
			}
		}
		if next.Files[i].SHA256 == "" {
			hash = append(hash, i)
		}
	}
	err := make(limit, transfers).each(ctx, len(hash), func(ctx context.Context, k int) (err error) {
		i := hash[k]
		crc := chunkSums{}
		next.Files[i].SHA256, err = sumOf(ctx, io.TeeReader(io.NewSectionReader(u.backup.Files[i], 0, u.backup.Files[i].Size), &crc))
		if next.Files[i].Chunks = crc.end(); err != nil {
			err = fmt.Errorf("read %s: %w", u.backup.Files[i].Path, err)
		}
		return err
	})
	for _, f := range next.Files {
		u.sums[f.Path] = f
	}
	if err != nil {
		return nil, err
	}
	return next, u.missing(ctx, next, there)
}

// hidden says what of head the store has not.
func (u *upload) hidden(head *Snapshot, l *lack) error {
	if l.other == nil {
		return fmt.Errorf("%w: %s: snapshot %d has %s %d, of %s: pull it first, into another folder or with --force, or push with --force",
			ErrConflict, u.bucket, head.Number, l.what, l.mark.Number, l.mark.Time.Format(time.RFC3339))
	}
	return fmt.Errorf("%w: %s: %s %d of snapshot %d is of %s, this store's is of %s: they are different stores, or have grown apart; push to another address, or with --force",
		ErrConflict, u.bucket, l.what, l.mark.Number, head.Number, l.mark.Time.Format(time.RFC3339), l.other.Time.Format(time.RFC3339))
}

// missing uploads the objects of a snapshot that are not there, and notes them there.
func (u *upload) missing(ctx context.Context, next *Snapshot, there map[string]bool) error {
	var up []int
	total := int64(0)
	for i, f := range next.Files {
		if !there[f.SHA256] {
			there[f.SHA256] = true
			up = append(up, i)
			total += f.Size
		}
	}
	var tally tally
	return make(limit, transfers).each(ctx, len(up), func(ctx context.Context, k int) error {
		i := up[k]
		f := &next.Files[i]
		r := io.NewSectionReader(u.backup.Files[i], 0, f.Size)
		old, err := u.bucket.Stat(ctx, f.object())
		there := err == nil && old.Size == f.Size && time.Since(old.Modified) < freshAge
		if !there {
			err := retry(ctx, f.Size, func(ctx context.Context) error {
				return u.bucket.Put(ctx, f.object(), io.NewSectionReader(r, 0, f.Size))
			})
			if err != nil {
				return fmt.Errorf("upload %s: %w", f.Path, err)
			}
		}
		tally.mu.Lock()
		defer tally.mu.Unlock()
		u.mine[f.SHA256] = true
		if tally.done += f.Size; !there {
			u.p.Files++
			u.p.Bytes += f.Size
		}
		if u.o.Progress != nil {
			u.o.Progress(tally.done, total)
		}
		return nil
	})
}

// changed reports whether two snapshots differ in what they hold.
func changed(a, b *Snapshot) bool {
	return !slices.EqualFunc(a.Files, b.Files, func(x, y File) bool { return x.Path == y.Path && x.SHA256 == y.SHA256 })
}

// sumOf is the SHA-256 of what r reads, in hexadecimal.
func sumOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{readerOf(ctx, r)}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// chunkSums takes the checksum of every chunk that is written to it.
type chunkSums struct {
	sums []byte
	crc  uint32
	n    int // bytes of the chunk under way
}

// Write implements [io.Writer].
func (c *chunkSums) Write(b []byte) (int, error) {
	for left := b; len(left) > 0; {
		part := left[:min(len(left), chunkBytes-c.n)]
		c.crc = crc32.Update(c.crc, castagnoli, part)
		if c.n += len(part); c.n == chunkBytes {
			c.end()
		}
		left = left[len(part):]
	}
	return len(b), nil
}

// end returns the checksums of all that was written.
func (c *chunkSums) end() []byte {
	if c.n > 0 {
		c.sums = binary.LittleEndian.AppendUint32(c.sums, c.crc)
		c.crc, c.n = 0, 0
	}
	return c.sums
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
