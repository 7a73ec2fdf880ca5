package edges

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// Shards is the first half of the external sort: a distribution of records
// (8-byte key, payload) over shards of the key space, in chunks. Chunks
// stay in memory while the pool lasts and go to one spill file afterwards. So a
// graph that fits is sorted without touching the disk, and one that does not
// is written once and read once, whatever its size: there is no merge.
//
// Invariants: a chunk belongs to the pool, to one writer, or to one shard's
// list; a chunk's records all belong to one shard. Which records share a chunk
// depends on threads and memory; the set of records of a shard does not.
type Shards struct {
	payload    int // bytes a record beside the key
	ChunkBytes int
	chunkRecs  int // records a chunk

	arena []byte // off the Go heap: all chunk memory
	pool  chan []byte

	fs      vfs.FS
	path    string
	mu      sync.Mutex
	file    vfs.File // nil until something is spilled
	Lists   []shardList
	slots   atomic.Int64 // chunks in the spill file
	Spilled atomic.Int64 // bytes
	Writers []*ShardWriter
}

// shardList is what a shard holds.
type shardList struct {
	Records int64
	chunks  []chunk
}

// chunk is a run of records: keys first, payloads behind room for chunkRecs keys.
type chunk struct {
	mem     []byte // nil = spilled
	slot    int64  // in the spill file
	records int
}

// ShardPlan is how a distribution uses its memory.
type ShardPlan struct {
	Shards      int
	ChunkBytes  int
	Chunks      int // of the pool
	Payload     int
	Writers     int
	SpillTo     string
	MemoryBytes int64
}

// PlanChunks chooses the size of chunks so that every writer can hold one open
// for each shard in at most half of memory; shards may have to be fewer.
func PlanChunks(memory int64, writers, shardsMax int) (chunkBytes, shards int) {
	chunkBytes, shards = 256<<10, max(1, shardsMax)
	for int64(writers)*int64(shards)*int64(chunkBytes) > memory/2 && chunkBytes > 16<<10 {
		chunkBytes /= 2
	}
	for int64(writers)*int64(shards)*int64(chunkBytes) > memory/2 && shards > 1 {
		shards = (shards + 1) / 2
	}
	return chunkBytes, shards
}

// NewShards allocates a distribution. fs and path say where to spill.
func NewShards(fs vfs.FS, path string, p ShardPlan) (*Shards, error) {
	reserved := p.Writers * p.Shards
	chunks := max(reserved, int(p.MemoryBytes/int64(p.ChunkBytes)))
	recs := p.ChunkBytes / (8 + p.Payload)
	if recs == 0 {
		return nil, fmt.Errorf("%w: edge columns of %d bytes an edge do not fit a chunk of %d", source.ErrOptions, p.Payload, p.ChunkBytes)
	}
	arena, err := scratch.Alloc(int64(chunks) * int64(p.ChunkBytes))
	if err != nil {
		return nil, fmt.Errorf("%d bytes for edge chunks: %w", int64(chunks)*int64(p.ChunkBytes), err)
	}
	s := &Shards{
		payload: p.Payload, ChunkBytes: p.ChunkBytes, chunkRecs: recs, arena: arena,
		pool: make(chan []byte, chunks), fs: fs, path: path, Lists: make([]shardList, p.Shards),
	}
	mem := func(i int) []byte { return arena[i*p.ChunkBytes : (i+1)*p.ChunkBytes : (i+1)*p.ChunkBytes] }
	for w := range p.Writers {
		sc := &ShardWriter{s: s, open: make([]openChunk, p.Shards)}
		for k := range sc.open {
			sc.open[k].spare = mem(w*p.Shards + k)
		}
		s.Writers = append(s.Writers, sc)
	}
	for i := reserved; i < chunks; i++ {
		s.pool <- mem(i)
	}
	return s, nil
}

// Close frees memory and removes the spill file.
func (s *Shards) Close() error {
	scratch.Free(s.arena)
	s.arena, s.pool, s.Lists, s.Writers = nil, nil, nil, nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if rmErr := s.fs.Remove(s.path); err == nil {
		err = rmErr
	}
	return err
}

// ShardWriter is one goroutine's way into the shards.
type ShardWriter struct {
	s    *Shards
	open []openChunk
}

// openChunk is a chunk being filled. Every writer owns one chunk of memory for
// each shard from the start, so that it never waits for another.
type openChunk struct {
	spare   []byte   // memory reserved for the first chunk
	mem     []byte   // nil before the first record
	keys    []uint64 // view of mem, len chunkRecs
	payload []byte
	n       int
}

// Put adds a record; payload has s.payload bytes and is copied.
func (w *ShardWriter) Put(shard int, key uint64, payload []byte) error {
	c := &w.open[shard]
	if c.n == len(c.keys) {
		if err := w.turn(shard); err != nil {
			return err
		}
	}
	c.keys[c.n] = key
	copy(c.payload[c.n*len(payload):], payload)
	c.n++
	return nil
}

// putKey is put for records without payload.
func (w *ShardWriter) putKey(shard int, key uint64) error {
	c := &w.open[shard]
	if c.n == len(c.keys) {
		if err := w.turn(shard); err != nil {
			return err
		}
	}
	c.keys[c.n] = key
	c.n++
	return nil
}

// turn hands a full chunk over and opens an empty one.
func (w *ShardWriter) turn(shard int) error {
	c := &w.open[shard]
	if c.mem == nil {
		w.use(c, c.spare)
		return nil
	}
	select {
	case mem := <-w.s.pool:
		w.s.keep(shard, chunk{mem: c.mem, records: c.n})
		w.use(c, mem)
	default:
		if err := w.s.spill(shard, c); err != nil {
			return err
		}
		c.n = 0
	}
	return nil
}

func (w *ShardWriter) use(c *openChunk, mem []byte) {
	c.mem, c.n = mem, 0
	c.keys, _ = blocks.View[uint64](mem[:8*w.s.chunkRecs])
	c.payload = mem[8*w.s.chunkRecs:]
}

func (s *Shards) keep(shard int, c chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.Lists[shard]
	l.Records += int64(c.records)
	l.chunks = append(l.chunks, c)
}

// spill writes a full chunk to the spill file.
func (s *Shards) spill(shard int, c *openChunk) error {
	s.mu.Lock()
	if s.file == nil {
		f, err := s.fs.OpenReadWrite(s.path, scratch.Category)
		if err != nil {
			s.mu.Unlock()
			return fmt.Errorf("create spill file: %w", err)
		}
		s.file = f
	}
	f := s.file
	s.mu.Unlock()
	slot := s.slots.Add(1) - 1
	if _, err := f.WriteAt(c.mem, slot*int64(s.ChunkBytes)); err != nil {
		return fmt.Errorf("spill to %s: %w", s.path, err)
	}
	s.Spilled.Add(int64(s.ChunkBytes))
	s.keep(shard, chunk{slot: slot, records: c.n})
	return nil
}

// Finish hands over every writer's open chunks; no put may follow.
func (s *Shards) Finish() {
	for _, w := range s.Writers {
		for k := range w.open {
			if c := &w.open[k]; c.n > 0 {
				s.keep(k, chunk{mem: c.mem, records: c.n})
				c.n, c.mem, c.keys = 0, nil, nil
			}
		}
	}
}

// ResidentBytes is how much memory the kept chunks hold.
func (s *Shards) ResidentBytes() int64 {
	n := int64(0)
	for _, l := range s.Lists {
		for _, c := range l.chunks {
			if c.mem != nil {
				n += int64(s.ChunkBytes)
			}
		}
	}
	return n
}

// Read calls fn with the records of each chunk of a shard, in no order. buf has
// room for a chunk and is overwritten.
func (s *Shards) Read(shard int, buf []byte, fn func(keys []uint64, payload []byte) error) error {
	for _, c := range s.Lists[shard].chunks {
		mem := c.mem
		if mem == nil {
			mem = buf[:s.ChunkBytes]
			if _, err := s.file.ReadAt(mem, c.slot*int64(s.ChunkBytes)); err != nil {
				return fmt.Errorf("read spill file %s: %w", s.path, err)
			}
		}
		keys, err := blocks.View[uint64](mem[:8*s.chunkRecs])
		if err != nil {
			return err
		}
		if err := fn(keys[:c.records], mem[8*s.chunkRecs:][:c.records*s.payload]); err != nil {
			return err
		}
	}
	return nil
}
