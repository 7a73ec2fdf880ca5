package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/storetest"
)

const (
	faultInput = "/disk/input"
	faultStore = "/disk/store"
)

// faultDisk returns a disk in memory with the files of dir as its input.
func faultDisk(t *testing.T, dir string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(faultInput, rel)
		if d.IsDir() {
			return mem.MkdirAll(to, 0o777)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := mem.Create(to, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

func ingestOn(fs vfs.FS, o ingest.Options) (*ingest.Report, error) {
	src, err := formats.Open(faultInput, formats.Options{FS: fs})
	if err != nil {
		return nil, err
	}
	o.FS = fs
	rep, err := ingest.Run(context.Background(), faultStore, src, o)
	return rep, errors.Join(err, src.Close())
}

// storedOn opens the store on fs and returns its data files by name, and the
// internal id of each of the external ids.
func storedOn(t *testing.T, fs vfs.FS, externals []string) map[string]string {
	t.Helper()
	s, err := store.Open(faultStore, store.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := map[string]string{}
	for _, x := range externals {
		id, err := s.Lookup(context.Background(), x)
		if err != nil {
			t.Fatalf("id of %q: %v", x, err)
		}
		out["id of "+x] = fmt.Sprint(id)
	}
	names, err := fs.List(fs.PathJoin(faultStore, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(faultStore, "data", name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// nothingHalf checks that what a failed ingest left does not open, or, if it
// failed while it was committed, is whole. It reports which.
func nothingHalf(t *testing.T, fs vfs.FS, when string, err error) (whole bool) {
	t.Helper()
	s, openErr := store.Open(faultStore, store.Options{FS: fs})
	if openErr == nil {
		s.Close()
		if !strings.Contains(err.Error(), "commit") {
			t.Fatalf("%s: the ingest failed (%v) and its store opens", when, err)
		}
		return true
	}
	if !errors.Is(openErr, store.ErrNotFound) && !errors.Is(openErr, store.ErrNoVersion) {
		t.Fatalf("%s: the store of a failed ingest: %v, expected ErrNotFound or ErrNoVersion", when, openErr)
	}
	return false
}

// injector fails operation number k of those it looks at, and all that follow if lasting.
type injector struct {
	k       int64
	lasting bool
	err     error
	of      func(errorfs.Op) bool // nil = all
	n       atomic.Int64
	last    atomic.Pointer[string]
}

func (i *injector) MaybeError(op errorfs.Op) error {
	if i.of != nil && !i.of(op) {
		return nil
	}
	n := i.n.Add(1) - 1
	if n == i.k || i.lasting && n > i.k {
		if n == i.k {
			what := fmt.Sprintf("%v %s", op.Kind, op.Path)
			i.last.Store(&what)
		}
		return i.err
	}
	return nil
}

func (i *injector) String() string { return "operation by number" }

// what describes the operation that failed; "" if none did.
func (i *injector) what() string {
	if s := i.last.Load(); s != nil {
		return *s
	}
	return ""
}

func writes(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpRename, errorfs.OpReuseForWrite,
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFilePreallocate, errorfs.OpFileSync, errorfs.OpFileSyncData:
		return true
	}
	return false
}

// faultInputs are small inputs that between them take every phase: dense ids
// with columns, labels, a split and relations; names with edge lists and a dictionary; several types of nodes, and weights that become codes; tables of several types.
func faultInputs(t *testing.T) map[string]struct {
	dir       string
	externals []string
} {
	t.Helper()
	dir := t.TempDir()
	for name, edges := range map[string]string{
		"train.tsv": "ann\tknows\tbob\nbob\tlikes\tcy\ncy\tknows\tdan\ndan\tlikes\tann\neve\tknows\tann\n",
		"valid.tsv": "ann\tlikes\tcy\n", "test.tsv": "eve\tlikes\tbob\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(edges), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tables := t.TempDir()
	for name, text := range map[string]string{
		"nodes/user.csv": "id,age,label,split\n1,30,0,train\n2,40,1,valid\n3,50,1,test\n", "nodes/item.csv": "id,price\n1,2.5\n2,3.5\n",
		"edges/user-bought-item.csv": "src,dst,weight\n1,1,2\n2,1,.5\n3,2,1\n", "edges/user-visits-shop.csv": "src,dst\n1,main\n2,main\n",
	} {
		path := filepath.Join(tables, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]struct {
		dir       string
		externals []string
	}{
		"tables":  {tables, []string{"user:1", "item:1", "shop:main"}},
		"numpy":   {randomGraph(7, 40, 300).write(t, true), []string{"0", "17", "39"}},
		"triples": {dir, []string{"ann", "bob", "cy", "dan", "eve"}},
		"typed":   {typedGraph(t), []string{"0", "200", "409"}},
	}
}

// TestErrorAtEveryOperation fails every operation on the disk that an ingest
// does, input and store alike: once; and, for some of them, from then on, as
// a broken or a full disk does. The error names its cause, nothing
// half-made opens, and the ingest run again, afresh or resumed, gives the
// files and look-ups of an undisturbed one.
func TestErrorAtEveryOperation(t *testing.T) {
	for name, input := range faultInputs(t) {
		o := ingest.Options{Partitions: 3, Seed: 1, Threads: 1, MemoryBytes: 256 << 20}
		base := faultDisk(t, input.dir)
		if _, err := ingestOn(base, o); err != nil {
			t.Fatal(err)
		}
		want := storedOn(t, base, input.externals)
		for _, mode := range []struct {
			name    string
			of      func(errorfs.Op) bool
			lasting bool
			err     error
			step    int
		}{
			{"once", nil, false, errorfs.ErrInjected, storetest.Every(17)},
			{"from then on", nil, true, errorfs.ErrInjected, storetest.Every(37)},
			{"disk full", writes, true, syscall.ENOSPC, storetest.Every(17)},
		} {
			t.Run(name+"/"+mode.name, func(t *testing.T) {
				failed := 0
				if name == "tables" { // has more operations than the others, most of them like theirs
					mode.step *= 2
				}
				for k := int64(0); ; k += int64(mode.step) {
					fs := faultDisk(t, input.dir)
					in := &injector{k: k, lasting: mode.lasting, err: mode.err, of: mode.of}
					_, err := ingestOn(errorfs.Wrap(fs, in), o)
					when := fmt.Sprintf("operation %d, %s", k, in.what())
					if err != nil {
						failed++
						if !errors.Is(err, mode.err) {
							t.Errorf("%s: the error hides its cause: %v", when, err)
						}
						if errors.Is(err, ingest.ErrInput) {
							t.Errorf("%s: a failing disk is taken for bad input: %v", when, err)
						}
						again := o
						again.Resume = k/int64(mode.step)%2 == 0
						whole := nothingHalf(t, fs, when, err)
						_, againErr := ingestOn(fs, again)
						if againErr != nil && !(whole && errors.Is(againErr, store.ErrExists)) {
							t.Fatalf("%s: run again, resume %t: %v", when, again.Resume, againErr)
						}
					}
					sameFiles(t, want, storedOn(t, fs, input.externals))
					if t.Failed() {
						t.Fatalf("failed at %s (%v)", when, err)
					}
					if in.what() == "" {
						if failed*mode.step < 100 {
							t.Errorf("%d of %d operations failed the ingest: the injector sees too little", failed*mode.step, k)
						}
						return
					}
				}
			})
		}
	}
}

// TestErrorsOfTheSpillFile fails the spill file of an ingest that does not fit
// its budget: when it is made, early and late while it is written, and
// when it is read.
func TestErrorsOfTheSpillFile(t *testing.T) {
	input := randomGraph(8, 3000, 2_500_000).write(t, false)
	o := ingest.Options{Partitions: 9, Seed: 5, Threads: 2, MemoryBytes: 97 << 20}
	base := faultDisk(t, input)
	rep, err := ingestOn(base, o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.BytesSpilled == 0 {
		t.Fatal("nothing was spilled: the test tests nothing")
	}
	want := storedOn(t, base, nil)
	for i, tt := range []struct {
		name string
		k    int64
		err  error
		kind errorfs.OpKind
	}{
		{"create", 0, errorfs.ErrInjected, errorfs.OpOpen},
		{"first write", 0, syscall.ENOSPC, errorfs.OpFileWriteAt},
		{"later write", 9, syscall.ENOSPC, errorfs.OpFileWriteAt},
		{"read", 3, errorfs.ErrInjected, errorfs.OpFileReadAt},
	} {
		if i%race.Every(2) != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			fs := faultDisk(t, input)
			in := &injector{k: tt.k, lasting: true, err: tt.err, of: func(op errorfs.Op) bool {
				return op.Kind == tt.kind && strings.HasSuffix(op.Path, "edges.spill")
			}}
			_, err := ingestOn(errorfs.Wrap(fs, in), o)
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), "spill") {
				t.Fatalf("got %v, expected the spill file's error", err)
			}
			nothingHalf(t, fs, tt.name, err)
			again := o
			again.Resume = true
			if _, err := ingestOn(fs, again); err != nil {
				t.Fatal(err)
			}
			sameFiles(t, want, storedOn(t, fs, nil))
		})
	}
}

// openFiles counts the files that are open on a file system.
type openFiles struct {
	vfs.FS
	mu   sync.Mutex
	open map[*countedFile]string
}

type countedFile struct {
	vfs.File
	fs *openFiles
}

func (c *openFiles) add(path string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &countedFile{f, c}
	c.open[k] = path
	return k, nil
}

func (c *openFiles) Create(name string, k vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, k)
	return c.add(name, f, err)
}

func (c *openFiles) OpenReadWrite(name string, k vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.OpenReadWrite(name, k, o...)
	return c.add(name, f, err)
}

func (f *countedFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	delete(f.fs.open, f)
	return f.File.Close()
}

// A write that fails, in whatever file, leaves no data file open.
func TestFailedIngestClosesItsFiles(t *testing.T) {
	for _, input := range []string{randomGraph(9, 40, 300).write(t, true), typedGraph(t)} {
		closesItsFiles(t, input)
	}
}

func closesItsFiles(t *testing.T, input string) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpCreate} {
		for k := int64(0); ; k++ {
			in := &injector{k: k, err: errorfs.ErrInjected, of: func(op errorfs.Op) bool {
				return op.Kind == kind && strings.HasSuffix(op.Path, ".gsb")
			}}
			c := &openFiles{FS: faultDisk(t, input), open: map[*countedFile]string{}}
			_, err := ingestOn(errorfs.Wrap(c, in), ingest.Options{Partitions: 3, Threads: 1})
			if in.what() == "" {
				if k == 0 {
					t.Errorf("no operation of kind %v was seen", kind)
				}
				break
			}
			if err == nil {
				t.Errorf("%s failed and the ingest did not", in.what())
			}
			for _, path := range c.open {
				if strings.HasSuffix(path, ".gsb") {
					t.Errorf("after %s failed: %s is still open", in.what(), path)
				}
			}
		}
	}
}
