package export

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/claim"
	"github.com/gstore/gstore/store"
)

// outputCategory names exported files in vfs metrics.
const outputCategory vfs.DiskWriteCategory = "gstore-export"

// folder is the target while it is written: a folder beside it, named like it
// and ".partial", that is renamed when it is complete.
type folder struct {
	fs      vfs.FS
	target  string
	dir     string
	claimed *os.File        // beside dir, so that one export at a time writes it; nil where the file system is not the system's
	made    map[string]bool // folders below dir
	taken   map[string]bool // names of files and folders, in lower case: some file systems tell no cases apart
	columns []exportedFile
	rep     Report
}

// newFolder begins the target, which must not exist. A folder that a killed export left is replaced; one that an export
// under way writes to is [store.ErrLocked].
func newFolder(fs vfs.FS, target string) (_ *folder, err error) {
	f := &folder{fs: fs, target: target, dir: strings.TrimRight(target, "/") + ".partial", made: map[string]bool{}, taken: map[string]bool{"meta.json": true}}
	if err := f.vacant(); err != nil {
		return nil, err
	}
	if vfs.Root(fs) == vfs.Default {
		if err := f.claim(); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.release())
		}
	}()
	if err := f.vacant(); err != nil { // once more: the one that had claimed it may have come to its end
		return nil, err
	}
	if err := fs.RemoveAll(f.dir); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := fs.MkdirAll(f.dir, 0o777); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return f, nil
}

// vacant says that the target exists, if it does.
func (f *folder) vacant() error {
	_, err := f.fs.Stat(f.target)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s; name a new folder", ErrExists, f.target)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// claim keeps other exports from the folder, until release.
func (f *folder) claim() error {
	if err := f.fs.MkdirAll(f.fs.PathDir(f.dir), 0o777); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	file, err := claim.File(f.dir + ".lock")
	if errors.Is(err, claim.ErrHeld) {
		return fmt.Errorf("%w: %s: another export is writing it: wait for that, or name another folder", store.ErrLocked, f.target)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	f.claimed = file
	return nil
}

func (f *folder) release() error {
	if f.claimed == nil {
		return nil
	}
	file := f.claimed
	f.claimed = nil
	return errors.Join(os.Remove(file.Name()), file.Close()) // in this order: a claim behind the close is of a file of its own
}

// exportedFile says in meta.json which column a file of an array holds.
type exportedFile struct {
	File   string     `json:"file"`
	Column string     `json:"column"`
	Role   store.Role `json:"role"` // "" = none of the store's: embeddings, predictions, internal ids
}

// reserve keeps names for files that have them whatever columns are called.
func (f *folder) reserve(names ...string) {
	for _, n := range names {
		f.taken[strings.ToLower(n)] = true
	}
}

// free is a name for base and suffix that no other file or folder has: "base", or "base-2", "base-3", ….
func (f *folder) free(base, suffix string) string {
	name := base + suffix
	for n := 2; f.taken[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s-%d%s", base, n, suffix)
	}
	f.reserve(name)
	return name
}

// commit gives the folder its name.
func (f *folder) commit() error {
	dirs := []string{f.dir}
	for d := range f.made {
		dirs = append(dirs, f.fs.PathJoin(f.dir, d))
	}
	for _, d := range dirs {
		if err := f.syncDir(d); err != nil {
			return err
		}
	}
	if err := f.fs.Rename(f.dir, f.target); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return errors.Join(f.syncDir(f.fs.PathDir(f.target)), f.release())
}

func (f *folder) syncDir(path string) error {
	d, err := f.fs.OpenDir(path)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// abandon removes what was written.
func (f *folder) abandon() error { return errors.Join(f.fs.RemoveAll(f.dir), f.release()) }

// file is one file of the folder, written through cursors.
type file struct {
	folder *folder
	name   string
	f      vfs.File
	rows   uint64
	open   []*cursor
}

// create makes a file; name may have one folder in it.
func (f *folder) create(name string) (*file, error) {
	if d, _, ok := strings.Cut(name, "/"); ok && !f.made[d] {
		if err := f.fs.MkdirAll(f.fs.PathJoin(f.dir, d), 0o777); err != nil {
			return nil, fmt.Errorf("export %s: %w", name, err)
		}
		f.made[d] = true
	}
	if _, err := f.fs.Stat(f.fs.PathJoin(f.dir, name)); err == nil {
		return nil, fmt.Errorf("%w: %s is written twice", ErrExists, name)
	}
	vf, err := f.fs.OpenReadWrite(f.fs.PathJoin(f.dir, name), outputCategory)
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", name, err)
	}
	return &file{folder: f, name: name, f: vf}, nil
}

// close flushes the cursors, makes the file durable and lists it.
func (f *file) close() error {
	var err error
	size := int64(0)
	for _, c := range f.open {
		err = errors.Join(err, c.flush())
		size = max(size, c.at)
	}
	if err == nil {
		err = f.f.Sync()
	}
	if err = errors.Join(err, f.f.Close()); err != nil {
		return fmt.Errorf("export %s: %w", f.name, err)
	}
	f.folder.rep.Files = append(f.folder.rep.Files, File{Name: f.name, Rows: f.rows, Bytes: size})
	f.folder.rep.Bytes += size
	return nil
}

// cursorBytes is what a cursor collects before it writes.
const cursorBytes = 256 << 10

// cursor writes a file from some offset on.
type cursor struct {
	f   vfs.File
	at  int64 // where buf goes
	buf []byte
}

// cursor starts writing at an offset.
func (f *file) cursor(at int64) *cursor {
	c := &cursor{f: f.f, at: at, buf: make([]byte, 0, cursorBytes)}
	f.open = append(f.open, c)
	return c
}

// Write implements io.Writer.
func (c *cursor) Write(b []byte) (int, error) {
	if len(c.buf)+len(b) > cap(c.buf) {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if len(b) >= cap(c.buf) {
			_, err := c.f.WriteAt(b, c.at)
			c.at += int64(len(b))
			return len(b), err
		}
	}
	c.buf = append(c.buf, b...)
	return len(b), nil
}

func (c *cursor) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.f.WriteAt(c.buf, c.at)
	c.at += int64(len(c.buf))
	c.buf = c.buf[:0]
	return err
}

// text writes a small file of lines.
func (f *folder) text(name string, lines []string) error {
	o, err := f.create(name)
	if err != nil {
		return err
	}
	c := o.cursor(0)
	for _, l := range lines {
		if strings.ContainsAny(l, "\n\r") {
			return errors.Join(fmt.Errorf("export %s: %q has a line break", name, l), o.close())
		}
		if _, err := c.Write(append([]byte(l), '\n')); err != nil {
			return errors.Join(err, o.close())
		}
	}
	o.rows = uint64(len(lines))
	return o.close()
}

// attach writes a file of the caller's.
func (f *folder) attach(a Attachment) error {
	o, err := f.create(a.Name)
	if err != nil {
		return err
	}
	o.rows = a.Rows
	return errors.Join(a.Write(o.cursor(0)), o.close())
}

// plainText refuses an id that lines of text cannot hold.
func plainText(id []byte, not string) error {
	if bytes.ContainsAny(id, not) {
		return fmt.Errorf("export: id %q has a tab or line break; Parquet takes any id", id)
	}
	return nil
}

// fileName turns a column's name into part of a file name.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, name)
}
