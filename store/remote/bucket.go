package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gstore/gstore/store"
)

var (
	// ErrNotFound is of an object or a snapshot that is not there.
	ErrNotFound = store.ErrNotFound
	// ErrExists is of an object that was to be created and is there already.
	ErrExists = store.ErrExists
	// ErrConflict says that a push would hide, or a pull lose, versions or runs.
	ErrConflict = errors.New("remote: versions or runs would be hidden or lost")
	// ErrUnconditional says that a server overwrites what it was asked to create.
	ErrUnconditional = errors.New("remote: the server ignores conditional writes (If-None-Match), so that two pushes could overwrite each other")
)

// Object is an entry of a bucket.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Bucket is a place for objects below a prefix. Methods may be called from any number of goroutines. What an object is written as is durable,
// and seen whole, once they return.
type Bucket interface {
	// Get reads length bytes from offset; all from there with length −1. It fails with ErrNotFound.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Put writes an object, in place of one that is there.
	Put(ctx context.Context, key string, r *io.SectionReader) error
	// Create writes a small object that is not there, or fails with ErrExists.
	Create(ctx context.Context, key string, b []byte) error
	// Stat fails with ErrNotFound.
	Stat(ctx context.Context, key string) (Object, error)
	// List calls fn with each object whose key has the prefix, in any order.
	List(ctx context.Context, prefix string, fn func(Object) error) error
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// Abandoned removes what writes left that were interrupted before a moment, and counts it.
	Abandoned(ctx context.Context, before time.Time) (n int, err error)
	// Address is what opens it again; String is its short form, for people.
	Address() string
	String() string
}

// IsAddress reports whether s is an address and not the path of a store.
func IsAddress(s string) bool {
	return strings.HasPrefix(s, "s3://") || strings.HasPrefix(s, "file://")
}

// Open opens what an address names, without a look at it:
//
//	s3://BUCKET/PREFIX[?endpoint=URL][&region=NAME]   credentials and what is not said by AWS's variables and files
//	file:///PATH                                      a folder, made if need be
func Open(address string) (Bucket, error) {
	if path, ok := strings.CutPrefix(address, "file://"); ok { // as a shell has it, not escaped
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%w: %s, expected file:///PATH with three slashes", store.ErrInvalid, address)
		}
		return folder(filepath.Clean(filepath.FromSlash(path))), nil
	}
	u, err := url.Parse(address)
	if err != nil {
		var cause *url.Error // without the address, which may hold a password
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("%w: address: %w", store.ErrInvalid, err)
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: %s holds a name or password: credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the file ~/.aws/credentials", store.ErrInvalid, u.Redacted())
	}
	if u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("%w: %s, expected s3://BUCKET/PREFIX or file:///PATH", store.ErrInvalid, address)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return openS3(u.Host, prefix, u.Query())
}

// read reads a whole small object.
func read(ctx context.Context, b Bucket, key string) (all []byte, err error) {
	err = retry(ctx, 0, func(ctx context.Context) error {
		r, err := b.Get(ctx, key, 0, -1)
		if err != nil {
			return err
		}
		all, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	return all, err
}

const (
	attempts   = 7
	firstWait  = 250 * time.Millisecond
	longest    = 4 * time.Second // of a wait
	slowest    = 128 << 10       // bytes a second: less is taken for a server that hangs
	answerTime = time.Minute
)

// retry does what moves so many bytes until it works, a few times with growing waits between them. What the server refuses is not tried again.
func retry(ctx context.Context, bytes int64, do func(context.Context) error) error {
	wait := firstWait
	for try := 1; ; try++ {
		once, cancel := context.WithTimeout(ctx, answerTime+time.Duration(bytes/slowest)*time.Second)
		err := do(once)
		cancel()
		if err == nil || ctx.Err() != nil || try == attempts || refused(err) {
			if cause := ctx.Err(); cause != nil && err != nil {
				return cause
			}
			return err
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, longest)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refused reports whether an error is an answer that comes again: a server's, or that of a disk.
func refused(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrCorrupt) || refusedByServer(err)
}
