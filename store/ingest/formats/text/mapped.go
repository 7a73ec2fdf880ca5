package text

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// MappedNames is a text file with a name and its id on each line, the id last:
// OpenKE's entity2id.txt, MariusGNN's node_mapping.txt. Ids are 0 … count−1,
// each once, in any order.
type MappedNames struct {
	fs      vfs.FS
	path    string
	skip    uint64 // lines before the first name
	Count   int64
	bytes   int64 // of names
	inOrder bool
}

// OpenMapped reads the file once, to learn whether names stand in the order of
// their ids; skip lines are no names.
func OpenMapped(fs vfs.FS, path string, skip uint64) (*MappedNames, error) {
	m := &MappedNames{fs: fs, path: path, skip: skip, inOrder: true}
	err := m.each(context.Background(), func(name []byte, id uint64, _ uint64) error {
		m.inOrder = m.inOrder && id == uint64(m.Count)
		m.Count++
		m.bytes += int64(len(name))
		return nil
	})
	return m, err
}

// each calls fn with every line.
func (m *MappedNames) each(ctx context.Context, fn func(name []byte, id, line uint64) error) error {
	return SerialBlocks(ctx, m.fs, m.path, Dialect{}, func(b Block) error {
		number := b.Line
		for rest := b.Data; len(rest) > 0; number++ {
			var line []byte
			line, rest = NextLine(rest)
			if number <= m.skip {
				continue
			}
			line = trim(line)
			if len(line) == 0 && len(rest) == 0 {
				return nil
			}
			cut := bytes.LastIndexAny(line, "\t, ")
			id, ok := uint64(0), false
			if cut >= 0 {
				id, ok = table.ParseUint(line[cut+1:])
			}
			if !ok {
				return ingest.Inputf(fmt.Sprintf("%s: line %d", m.path, number), "column %d: expected a name and its id (an integer ≥ 0)", cut+2)
			}
			if err := fn(trim(line[:cut]), id, number); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *MappedNames) outOfRange(id, line uint64) error {
	return ingest.Inputf(fmt.Sprintf("%s: line %d", m.path, line), "id %d, expected 0 ≤ id < %d (the number of names)", id, m.Count)
}

// List returns all names in memory: those of relations.
func (m *MappedNames) List() ([]string, error) {
	if m.Count > ingest.RelationsMax {
		return nil, ingest.Inputf(m.path, "%d names, at most %d are possible", m.Count, ingest.RelationsMax)
	}
	names, have := make([]string, m.Count), make([]bool, m.Count)
	err := m.each(context.Background(), func(name []byte, id, line uint64) error {
		if id >= uint64(m.Count) {
			return m.outOfRange(id, line)
		}
		if have[id] {
			return ingest.Inputf(fmt.Sprintf("%s: line %d", m.path, line), "id %d has a name already", id)
		}
		names[id], have[id] = string(name), true
		return nil
	})
	return names, err
}

const (
	mappedBucketBytes = 4 << 20 // of names that are put in order at once, while buckets are fewer than
	mappedBucketsMax  = 256
)

// Names streams the names of ids 0, 1, …. Those in no order are first
// distributed over scratch files, by ranges of ids, each of which is then put in order in
// memory: what it takes is 1/256 of the names, or 4 MiB, and 8 bytes a name.
func (m *MappedNames) Names(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	out := &nameBatch{path: m.path, emit: emit}
	if m.inOrder {
		err := m.each(ctx, func(name []byte, _, line uint64) error { return out.add(name, line) })
		if err != nil {
			return err
		}
		return out.flush()
	}
	buckets := min(m.bytes/mappedBucketBytes+1, mappedBucketsMax)
	width := uint64((m.Count + buckets - 1) / buckets)
	files, err := m.distribute(ctx, env, width)
	defer func() {
		for _, path := range files {
			_ = env.FS.Remove(path)
		}
	}()
	if err != nil {
		return err
	}
	for k, path := range files {
		n := min(width, uint64(m.Count)-uint64(k)*width)
		if err := m.ordered(env.FS, path, n, out); err != nil {
			return err
		}
	}
	return out.flush()
}

// distribute writes the names of each range of ids to a file of its own.
func (m *MappedNames) distribute(ctx context.Context, env ingest.Env, width uint64) (paths []string, err error) {
	if env.ScratchDir == "" {
		return nil, fmt.Errorf("%s: needs a scratch directory to put its names in order", m.path)
	}
	var files []vfs.File
	var buffers []*bufio.Writer
	defer func() {
		for k, f := range files {
			err = errors.Join(err, buffers[k].Flush(), f.Close())
		}
	}()
	for k := range (uint64(m.Count) + width - 1) / width {
		path := env.FS.PathJoin(env.ScratchDir, fmt.Sprintf("names-%d", k))
		f, err := env.FS.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return paths, fmt.Errorf("put the names of %s in order: %w", m.path, err)
		}
		paths, files, buffers = append(paths, path), append(files, f), append(buffers, bufio.NewWriterSize(f, 32<<10))
	}
	var head []byte
	err = m.each(ctx, func(name []byte, id, line uint64) error {
		if id >= uint64(m.Count) {
			return m.outOfRange(id, line)
		}
		head = binary.AppendUvarint(head[:0], id%width)
		head = binary.AppendUvarint(head, line)
		head = binary.AppendUvarint(head, uint64(len(name)))
		w := buffers[id/width]
		if _, err := w.Write(head); err != nil {
			return err
		}
		_, err := w.Write(name)
		return err
	})
	return paths, err
}

// ordered adds the n names of a range in the order of their ids.
func (m *MappedNames) ordered(fs vfs.FS, path string, n uint64, out *nameBatch) (err error) {
	f, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("names of %s: %w", m.path, err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("names of %s: %w", m.path, err)
	}
	if len(b) > math.MaxUint32 {
		return ingest.Inputf(m.path, "%d names of %d bytes cannot be put in order", m.Count, m.bytes)
	}
	at := make([]uint32, n) // 1 + where the record of each id continues after it
	for rest := b; len(rest) > 0; {
		id, k := binary.Uvarint(rest)
		rest = rest[k:]
		record := len(b) - len(rest)
		line, k := binary.Uvarint(rest)
		rest = rest[k:]
		size, k := binary.Uvarint(rest)
		rest = rest[k+int(size):]
		if at[id] != 0 {
			return ingest.Inputf(fmt.Sprintf("%s: line %d", m.path, line), "a second name for the same id")
		}
		at[id] = uint32(record) + 1
	}
	for id, record := range at {
		if record == 0 {
			return ingest.Inputf(m.path, "no name for the %d-th id of a range of %d", id, n)
		}
		rest := b[record-1:]
		line, k := binary.Uvarint(rest)
		size, j := binary.Uvarint(rest[k:])
		if err := out.add(rest[k+j:][:size], line); err != nil {
			return err
		}
	}
	return nil
}

// nameBatch gathers names.
type nameBatch struct {
	path  string
	ids   ingest.IDs
	lines []uint64
	emit  func(*ingest.IDs, ingest.Position) error
}

func (b *nameBatch) add(name []byte, line uint64) error {
	b.ids.Append(name)
	b.lines = append(b.lines, line)
	if len(b.ids.Text) < 1<<18 && len(b.lines) < 1<<14 {
		return nil
	}
	return b.flush()
}

func (b *nameBatch) flush() error {
	if len(b.lines) == 0 {
		return nil
	}
	err := b.emit(&b.ids, ingest.Position{File: b.path, Unit: "line", Index: b.lines[0], Lines: b.lines})
	b.ids.Reset()
	b.lines = b.lines[:0]
	return err
}
