package dictionary

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/scratch"
)

// Sorter puts ids in order, in memory or by runs on disk. Records grow from the
// front of its memory, their offsets from the back.
type Sorter struct {
	Files Files
	runs  []idRun
	mem   []byte
	end   int      // of the records: u32 dense, u32 length, bytes, padded to 8
	refs  []uint64 // view of all of mem; those of the records are at its end
	count int
}

// NewSorter makes a sorter of so much memory; files are where its runs go.
func NewSorter(memory int64, files Files) (*Sorter, error) {
	mem, err := scratch.Alloc(max(memory, 2*IdBytesMax) &^ 7)
	if err != nil {
		return nil, err
	}
	refs, err := blocks.View[uint64](mem)
	return &Sorter{Files: files, mem: mem, refs: refs}, err
}

// Close frees the memory.
func (s *Sorter) Close() {
	scratch.Free(s.mem)
	s.mem, s.refs = nil, nil
}

func (s *Sorter) at(ref uint64) (id []byte, dense uint64) {
	n := binary.LittleEndian.Uint32(s.mem[ref+4:])
	return s.mem[ref+8 : ref+8+uint64(n)], uint64(binary.LittleEndian.Uint32(s.mem[ref:]))
}

// Add takes an id and its number.
func (s *Sorter) Add(id []byte, dense uint64) error {
	size := (stringRecordBytes + len(id) + 7) &^ 7
	if s.end+size+8*(s.count+1) > len(s.mem) {
		if err := s.spill(); err != nil {
			return err
		}
	}
	binary.LittleEndian.PutUint32(s.mem[s.end:], uint32(dense)) // nodes of strings are fewer than 2³²
	binary.LittleEndian.PutUint32(s.mem[s.end+4:], uint32(len(id)))
	copy(s.mem[s.end+8:], id)
	s.count++
	s.refs[len(s.refs)-s.count] = uint64(s.end)
	s.end += size
	return nil
}

// ordered calls fn with the records in memory, in order.
func (s *Sorter) ordered(fn func(id []byte, dense uint64) error) error {
	refs := s.refs[len(s.refs)-s.count:]
	slices.SortFunc(refs, func(a, b uint64) int {
		x, dx := s.at(a)
		y, dy := s.at(b)
		if c := bytes.Compare(x, y); c != 0 {
			return c
		}
		return int(dx) - int(dy)
	})
	for _, ref := range refs {
		id, dense := s.at(ref)
		if err := fn(id, dense); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sorter) spill() error {
	run, err := s.Files.write(s.ordered)
	if err != nil {
		return err
	}
	s.runs, s.end, s.count = append(s.runs, run), 0, 0
	return nil
}

// Each calls fn with all records in order; those with equal ids by dense id.
func (s *Sorter) Each(ctx context.Context, fn func(id []byte, dense uint64) error) error {
	if len(s.runs) == 0 {
		return s.ordered(fn)
	}
	if err := s.spill(); err != nil {
		return err
	}
	run, err := s.Files.mergeAll(ctx, s.runs, false)
	if err != nil {
		return err
	}
	s.runs = []idRun{run}
	return s.Files.each(ctx, run, fn)
}

// Sorted yields external ids in strictly ascending order of bytes, with their dense ids.
type Sorted func(ctx context.Context, fn func(id []byte, dense uint64) error) error
