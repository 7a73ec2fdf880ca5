package remote

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
)

const (
	// runChunks is how many chunks that follow each other are read by one request.
	runChunks = 16
	// spread is over how many folders an object's chunks lie: making a file keeps others from its folder.
	spread = 16
	// touchAge is how old a chunk's time may be when it is used: it is what eviction goes by.
	touchAge = time.Minute
)

// cache keeps chunks of objects as files. Several processes share one: what a crash left of a chunk, or another process is writing, is told
// by its checksum. What was not used for longest goes where there is more than most bytes.
type cache struct {
	dir  string
	most int64 // 0 = no bound

	mu      sync.Mutex
	busy    map[string]chan struct{} // chunks that are being read, by path
	checked map[string][]uint64      // chunks that were found right, a bit each, by SHA-256
	bytes   int64                    // of all chunks, as far as is known
	counted bool
	writes  map[string]int // chunks that are being written, by SHA-256
	written sync.Cond      // that one was
}

func newCache(dir string, most int64) *cache {
	c := &cache{dir: dir, most: most, busy: map[string]chan struct{}{}, checked: map[string][]uint64{}, writes: map[string]int{}}
	c.written.L = &c.mu
	return c
}

func (c *cache) path(f *File, chunk int64) string {
	return filepath.Join(c.dir, f.SHA256[:2], f.SHA256, strconv.FormatInt(chunk%spread, 10), strconv.FormatInt(chunk, 10))
}

// chunkLen is the length of a chunk.
func (f *File) chunkLen(chunk int64) int64 { return min(chunkBytes, f.Size-chunk*chunkBytes) }

// right reports whether b is what a chunk must be.
func (f *File) right(chunk int64, b []byte) bool {
	return int64(len(b)) == f.chunkLen(chunk) && crc32.Checksum(b, castagnoli) == binary.LittleEndian.Uint32(f.Chunks[4*chunk:])
}

// read fills b, which lies inside of the file, from at.
func (c *cache) read(bucket Bucket, f *File, b []byte, at int64) error {
	for len(b) > 0 {
		chunk := at / chunkBytes
		n := min(int64(len(b)), (chunk+1)*chunkBytes-at)
		if !c.kept(f, chunk, b[:n], at-chunk*chunkBytes) {
			end, err := c.get(bucket, f, b, at)
			if err != nil {
				return err
			}
			n = min(int64(len(b)), end-at)
		}
		b, at = b[n:], at+n
	}
	return nil
}

// get reads the chunks that b lies in, as many as follow each other and nobody else reads, and fills what of b lies in them: from at to
// end, which is at where another reader has them now.
func (c *cache) get(bucket Bucket, f *File, b []byte, at int64) (end int64, err error) {
	first, last := at/chunkBytes, (at+int64(len(b))-1)/chunkBytes
	c.mu.Lock()
	if wait, ok := c.busy[c.path(f, first)]; ok {
		c.mu.Unlock()
		<-wait
		return at, nil
	}
	n := c.claim(f, first, last, true)
	c.mu.Unlock()
	next, err := c.fetch(bucket, f, first, n, func(chunk int64, content []byte) {
		if from := chunk * chunkBytes; from <= at {
			copy(b, content[at-from:])
		} else {
			copy(b[from-at:], content)
		}
	})
	for ; next < first+n; next++ { // those that did not come
		c.idle(f, next)
	}
	return (first + n) * chunkBytes, err
}

// claim takes the chunks from first to last that follow each other and nobody reads, as many as one request is for. Those that are there
// are not taken, but for the first where it is not right. The lock is held.
func (c *cache) claim(f *File, first, last int64, wrong bool) (n int64) {
	for n < runChunks && first+n <= last && c.busy[c.path(f, first+n)] == nil && (n == 0 && wrong || !c.there(f, first+n)) {
		c.busy[c.path(f, first+n)] = make(chan struct{})
		n++
	}
	return n
}

// ahead has the chunks kept that length bytes from at lie in, where they are not.
func (c *cache) ahead(bucket Bucket, f *File, at, length int64) error {
	for chunk, last := at/chunkBytes, (at+length-1)/chunkBytes; chunk <= last; {
		c.mu.Lock()
		n := c.claim(f, chunk, last, false)
		c.mu.Unlock()
		next, err := chunk, error(nil)
		if n > 0 {
			next, err = c.fetch(bucket, f, chunk, n, func(int64, []byte) {})
		}
		for ; next < chunk+n; next++ {
			c.idle(f, next)
		}
		if err != nil {
			return err
		}
		chunk += max(n, 1)
	}
	return nil
}

// idle lets others have a chunk.
func (c *cache) idle(f *File, chunk int64) {
	path := c.path(f, chunk)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.busy[path])
	delete(c.busy, path)
}

func (c *cache) there(f *File, chunk int64) bool {
	_, err := os.Stat(c.path(f, chunk))
	return err == nil
}

// buffers are of chunks: those that are read from a bucket, or checked, at a time. Accounts of memory do not know of them; so they are
// outside of Go's heap, which would else be collected without end where it is small.
var buffers = make(chan []byte, 12)

func init() {
	for range cap(buffers) {
		buffers <- nil
	}
}

// take waits for a buffer, which release gives back.
func take() []byte {
	b := <-buffers
	if b != nil {
		return b
	}
	if slab, err := blockio.AllocSlab(chunkBytes, blockio.SlabOptions{Lazy: true}); err == nil {
		return slab.Bytes()
	}
	return make([]byte, chunkBytes)
}

func release(b []byte) { buffers <- b }

// kept fills dst from a place in a chunk that is kept; false if it is not, or damaged. The whole of it is checked once.
func (c *cache) kept(f *File, chunk int64, dst []byte, at int64) bool {
	path := c.path(f, chunk)
	if h := hold(path, !c.wasRight(f, chunk)); h != nil {
		defer let(h)
		h.once.Do(func() { h.whole = c.check(path, f, chunk, h.take()) })
		return copy(dst, h.whole[min(at, int64(len(h.whole))):]) == len(dst)
	}
	r, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }()
	c.touch(r, path)
	from, b := at, dst
	if at%blocks.Alignment != 0 || len(dst)%blocks.Alignment != 0 || !aligned(dst) {
		buffer := take()
		defer release(buffer)
		from -= at % blocks.Alignment
		b = buffer[:min(chunkBytes, (at-from+int64(len(dst))+blocks.Alignment-1)/blocks.Alignment*blocks.Alignment)]
	}
	n, err := blocks.ReadDirect(r, b, from)
	if err != nil || int64(n) < at-from+int64(len(dst)) {
		return false
	}
	if &b[0] != &dst[0] {
		copy(dst, b[at-from:])
	}
	return true
}

// check reads a chunk's file into a buffer, and returns what of it the chunk is; nothing where it is not right.
func (c *cache) check(path string, f *File, chunk int64, buffer []byte) []byte {
	r, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	c.touch(r, path)
	n, err := blocks.ReadDirect(r, buffer, 0)
	if err != nil || !f.right(chunk, buffer[:n]) {
		return nil
	}
	c.isRight(f, chunk)
	return buffer[:n]
}

// touch says that a chunk is used, which eviction goes by.
func (c *cache) touch(r *os.File, path string) {
	if info, err := r.Stat(); err == nil && time.Since(info.ModTime()) > touchAge {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // a folder that cannot be written to evicts nothing either
	}
}

// aligned reports whether a buffer begins where direct reads may.
func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%blocks.Alignment == 0
}

// wasRight reports whether this process has checked a chunk.
func (c *cache) wasRight(f *File, chunk int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.checked[f.SHA256]
	return set != nil && set[chunk/64]>>(chunk%64)&1 == 1
}

func (c *cache) isRight(f *File, chunk int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checked[f.SHA256] == nil {
		c.checked[f.SHA256] = make([]uint64, f.chunks()/64+1)
	}
	c.checked[f.SHA256][chunk/64] |= 1 << (chunk % 64)
}

// keeping is what nobody waits for: writes of chunks whose readers have them already, and what is fetched ahead.
var keeping panics.Group

// fetch reads n chunks from the bucket, hands each to got and has it kept, and returns the first that did not come. What arrives wrong
// twice is damage.
func (c *cache) fetch(bucket Bucket, f *File, first, n int64, got func(chunk int64, content []byte)) (next int64, err error) {
	next, wrong := first, 0
	err = retry(context.Background(), n*chunkBytes, func(ctx context.Context) (err error) {
		at := next * chunkBytes
		r, err := bucket.Get(ctx, f.object(), at, min((first+n)*chunkBytes, f.Size)-at)
		if err != nil {
			return unread(ctx, bucket, f, err)
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		for next < first+n {
			whole := take()
			b := whole[:f.chunkLen(next)]
			if _, err := io.ReadFull(r, b); err != nil {
				release(whole)
				return unread(ctx, bucket, f, err)
			}
			if !f.right(next, b) {
				release(whole)
				if wrong++; wrong > 1 {
					return damagedObject(bucket, f, "the checksum of its bytes %d to %d is wrong", next*chunkBytes, next*chunkBytes+int64(len(b)))
				}
				return errWrong
			}
			chunk := next
			got(chunk, b)
			next++
			c.write(f, 1)
			keeping.Go(func() {
				defer c.write(f, -1)
				defer c.idle(f, chunk)
				defer release(whole)
				c.keep(f, chunk, b)
			})
		}
		return nil
	})
	return next, err
}

// write counts the chunks of an object that are being written.
func (c *cache) write(f *File, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes[f.SHA256] += n
	c.written.Broadcast()
}

// settle waits until what was read of an object is written.
func (c *cache) settle(f *File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writes[f.SHA256] > 0 {
		c.written.Wait()
	}
}

var errWrong = errors.New("remote: a checksum is wrong")

// keep writes a chunk, past the page cache, which would cost more than the network does. Where there is no room it is read again next
// time; so is what a crash leaves of it, or another process has written half of.
func (c *cache) keep(f *File, chunk int64, b []byte) {
	path := c.path(f, chunk)
	w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(path), 0o777) == nil {
		w, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	}
	if err != nil {
		return
	}
	if err := errors.Join(blocks.WriteDirect(w, b), w.Close()); err != nil {
		_ = os.Remove(path)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most == 0 {
		return
	}
	if c.bytes += int64(len(b)); !c.counted || c.bytes > c.most {
		c.evict()
	}
}

// evict counts what is kept, and removes what was not used for longest down to nine tenths of what may be.
func (c *cache) evict() {
	type entry struct {
		path string
		size int64
		used time.Time
	}
	var all []entry
	c.bytes, c.counted = 0, true
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // another process evicts too
		}
		if info, err := d.Info(); err == nil {
			all = append(all, entry{path, info.Size(), info.ModTime()})
			c.bytes += info.Size()
		}
		return nil
	})
	if c.bytes <= c.most {
		return
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, e := range all {
		if c.bytes <= c.most/10*9 {
			return
		}
		if os.Remove(e.path) == nil {
			c.bytes -= e.size
		}
	}
}
