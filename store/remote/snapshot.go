package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// Keys and the format of what lies at an address.
const (
	formatKey      = "gstore.json"
	objectPrefix   = "objects/"
	snapshotPrefix = "snapshots/"
	snapshotSuffix = ".json"
	formatNumber   = 1
	snapshotDigits = 10
)

// Snapshot is what a store held when it was pushed.
type Snapshot struct {
	Number  uint64    `json:"number"` // from 1
	Created time.Time `json:"created"`
	Note    string    `json:"note,omitempty"`

	Version uint64 `json:"version"` // the store's newest
	Nodes   uint64 `json:"nodes"`
	Edges   uint64 `json:"edges"`

	Versions []Mark `json:"versions"` // all that the store ever had
	Runs     []Mark `json:"runs,omitempty"`
	Files    []File `json:"files"` // by Path
}

// File is a file of a store, and the object that has its bytes.
type File struct {
	Path   string `json:"path"` // in the store's folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal
	// Footer is what versions say of a data file that is never written again; nil of other files.
	Footer *uint32 `json:"footer,omitempty"`
	// Chunks are the CRC32C of every chunkBytes, little-endian: what is read in pieces is checked by them.
	Chunks []byte `json:"chunks,omitempty"`
}

// chunkBytes is how much of a file is checked, and kept, at a time.
const chunkBytes = 1 << 20

func (f *File) chunks() int64 { return (f.Size + chunkBytes - 1) / chunkBytes }

// Bytes is the size of all files.
func (s *Snapshot) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// folders are those of a store that a snapshot has files of.
var folders = []string{meta.DataName, meta.MetaName, store.RunsDir}

func (f *File) object() string { return objectPrefix + f.SHA256[:2] + "/" + f.SHA256 }

func snapshotKey(number uint64) string {
	return fmt.Sprintf("%s%0*d%s", snapshotPrefix, snapshotDigits, number, snapshotSuffix)
}

// encode is a line of JSON, and a line with its SHA-256.
func (s *Snapshot) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s\n%x\n", b, sha256.Sum256(b)), nil
}

// decode is the inverse of encode. What lies at an address is not trusted: paths stay inside of a store.
func decode(where string, b []byte) (*Snapshot, error) {
	damaged := func(format string, args ...any) error {
		return &blocks.CorruptError{Path: where, Extent: "snapshot", Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	line, sum, ok := bytes.Cut(b, []byte{'\n'})
	if want := fmt.Sprintf("%x\n", sha256.Sum256(line)); !ok || string(sum) != want {
		return nil, damaged("its checksum is not what it says")
	}
	var s Snapshot
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, damaged("%v", err)
	}
	for i := range s.Files {
		f := &s.Files[i]
		digest, err := hex.DecodeString(f.SHA256)
		if !fs.ValidPath(f.Path) || strings.Contains(f.Path, `\`) || f.Size < 0 || err != nil || len(digest) != sha256.Size {
			return nil, damaged("file %d is %q of %d bytes, SHA-256 %q", i, f.Path, f.Size, f.SHA256)
		}
		if int64(len(f.Chunks)) != 4*f.chunks() {
			return nil, damaged("file %d has %d checksums of its %d bytes", i, len(f.Chunks)/4, f.Size)
		}
		if !slices.Contains(folders, path.Dir(f.Path)) {
			return nil, damaged("file %d is %q, expected one in %v", i, f.Path, folders)
		}
		if i > 0 && s.Files[i-1].Path >= f.Path {
			return nil, damaged("files %q and %q are not in order", s.Files[i-1].Path, f.Path)
		}
	}
	return &s, nil
}

// Numbers lists the numbers of the snapshots at b, ascending.
func Numbers(ctx context.Context, b Bucket) (numbers []uint64, err error) {
	if err := checkFormat(ctx, b); err != nil {
		return nil, err
	}
	err = retry(ctx, 0, func(ctx context.Context) error {
		numbers = nil
		return b.List(ctx, snapshotPrefix, func(o Object) error {
			name := strings.TrimSuffix(strings.TrimPrefix(o.Key, snapshotPrefix), snapshotSuffix)
			if n, err := strconv.ParseUint(name, 10, 64); err == nil && n > 0 && snapshotKey(n) == o.Key {
				numbers = append(numbers, n)
			}
			return nil
		})
	})
	slices.Sort(numbers)
	return numbers, err
}

// newest reads the newest snapshot; nil where there is none.
func newest(ctx context.Context, b Bucket) (*Snapshot, error) {
	for {
		numbers, err := Numbers(ctx, b)
		if err != nil || len(numbers) == 0 {
			return nil, err
		}
		s, err := Read(ctx, b, numbers[len(numbers)-1])
		if errors.Is(err, ErrNotFound) { // another one came, and this was pruned
			continue
		}
		return s, err
	}
}

// Read reads a snapshot; number 0 is the newest. It fails with ErrNotFound.
func Read(ctx context.Context, b Bucket, number uint64) (*Snapshot, error) {
	if number == 0 {
		s, err := newest(ctx, b)
		if err == nil && s == nil {
			err = fmt.Errorf("%w: %s holds no snapshot", ErrNotFound, b)
		}
		return s, err
	}
	body, err := read(ctx, b, snapshotKey(number))
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: snapshot %d of %s: gstore ls lists what is there", ErrNotFound, number, b)
	}
	if err != nil {
		return nil, err
	}
	s, err := decode(b.String()+"/"+snapshotKey(number), body)
	if err == nil && s.Number != number {
		err = &blocks.CorruptError{Path: b.String() + "/" + snapshotKey(number), Extent: "snapshot", Offset: -1, Reason: fmt.Sprintf("it says that it is number %d", s.Number)}
	}
	return s, err
}

// formatFile is what gstore.json holds.
type formatFile struct {
	Format int `json:"format"`
}

// checkFormat fails where no store was ever pushed, or by a build whose format this one does not read.
func checkFormat(ctx context.Context, b Bucket) error {
	body, err := read(ctx, b, formatKey)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: %s holds no store (it has no %s)", ErrNotFound, b, formatKey)
	}
	if err != nil {
		return err
	}
	var m formatFile
	if err := json.Unmarshal(body, &m); err != nil || m.Format < 1 {
		return &blocks.CorruptError{Path: b.String() + "/" + formatKey, Extent: "file", Offset: -1, Reason: fmt.Sprintf("it is %.40q", body)}
	}
	if m.Format > formatNumber {
		return fmt.Errorf("%s: %w: format %d, this build reads %d", b, blocks.ErrFormatVersion, m.Format, formatNumber)
	}
	return nil
}

// begin makes sure of gstore.json at an address that is pushed to, and, where it is new, that the server keeps to conditions.
func begin(ctx context.Context, b Bucket) error {
	err := checkFormat(ctx, b)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	body, err := json.Marshal(formatFile{formatNumber})
	if err != nil {
		return err
	}
	create := func() error {
		return retry(ctx, 0, func(ctx context.Context) error { return b.Create(ctx, formatKey, body) })
	}
	if err := create(); err != nil && !errors.Is(err, ErrExists) { // another one begins too
		return err
	}
	switch err := create(); {
	case errors.Is(err, ErrExists):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(fmt.Errorf("%s: %w", b, ErrUnconditional), b.Delete(ctx, formatKey))
}
