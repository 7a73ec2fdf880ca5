package text

import (
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// OpenKE opens a folder in OpenKE's form: entity2id.txt and relation2id.txt
// of names with their ids, train2id.txt and, optional, valid2id.txt and
// test2id.txt of triples of ids in the order head, tail, relation. Each file's
// first line is the number of those that follow.
func OpenKE(fs vfs.FS, dir string, o table.Options) (ingest.Source, error) {
	s := parts.New("openke", dir)
	s.Desc.Task, s.Desc.HasRelation, s.Desc.Edges = store.TaskLink, true, 0
	names := map[string]*MappedNames{}
	for _, file := range []string{"entity2id.txt", "relation2id.txt"} {
		path := files.Find(fs, dir, file)
		if path == "" {
			return nil, ingest.Inputf(dir, "no %s", file)
		}
		n, err := countLine(fs, path)
		if err != nil {
			return nil, err
		}
		m, err := OpenMapped(fs, path, 1)
		if err != nil {
			return nil, err
		}
		if m.Count != n {
			return nil, ingest.Inputf(path, "%d names, expected %d (line 1)", m.Count, n)
		}
		s.AddFiles(path)
		names[file] = m
	}
	entities := names["entity2id.txt"]
	s.Desc.Nodes, s.Desc.Named, s.NameStream = entities.Count, true, entities.Names
	var err error
	if s.Desc.Relations, err = names["relation2id.txt"].List(); err != nil {
		return nil, err
	}
	yes := true // the first line is no edge, though no header either
	o.Columns, o.IDs, o.Header = []string{"src", "dst", "relation"}, store.IDsDense, &yes
	for _, part := range []string{"train", "valid", "test"} {
		path := files.Find(fs, dir, part+"2id.txt")
		if path == "" {
			if part == "train" {
				return nil, ingest.Inputf(dir, "no train2id.txt")
			}
			continue
		}
		n, err := countLine(fs, path)
		if err != nil {
			return nil, err
		}
		list, err := OpenEdgeLines(fs, path, o)
		if err != nil {
			return nil, err
		}
		list.headers[path] = 1
		s.AddFiles(path)
		t := &openKETriples{list: list, relations: len(s.Desc.Relations), count: n}
		if part == "train" {
			s.Desc.Edges, s.EdgeStreams = n, []parts.Edges{t.edges}
		} else {
			s.Desc.EdgeLists, s.ListStreams = append(s.Desc.EdgeLists, part), append(s.ListStreams, t.inOrder)
		}
	}
	if o.SkipBadMax > 0 {
		s.Desc.Edges = -1 // some may be skipped
	}
	return s, nil
}

// countLine reads the number that is a file's first line.
func countLine(fs vfs.FS, path string) (int64, error) {
	text, err := firstLines(fs, path)
	if err != nil {
		return 0, err
	}
	line, _ := NextLine(text)
	n, ok := table.ParseUint(trim(line))
	if !ok || n >= 1<<48 {
		return 0, ingest.Inputf(path+": line 1", "%.40q, expected the number of lines that follow", line)
	}
	return int64(n), nil
}

// openKETriples is a file of triples with numbered relations.
type openKETriples struct {
	list      *EdgeLines
	relations int
	count     int64
}

// Stream streams the triples of all threads.
func (t *openKETriples) edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	counts := make([]int64, env.Threads)
	err := t.list.Edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
		counts[worker] += int64(b.Len())
		if err := t.number(b); err != nil {
			return err
		}
		return emit(worker, b)
	})
	if err != nil {
		return err
	}
	total := t.list.bad.Load()
	for _, n := range counts {
		total += n
	}
	return t.checkCount(total)
}

// InOrder streams the triples in the order of the file.
func (t *openKETriples) inOrder(ctx context.Context, _ ingest.Env, emit func(*ingest.EdgeBatch) error) error {
	var p lineParser
	t.list.bad.Store(0)
	total := int64(0)
	err := SerialBlocks(ctx, t.list.FS, t.list.Path, Dialect{}, func(block Block) error {
		if err := t.list.parse(&p, t.list.Path, block); err != nil || p.batch.Len() == 0 {
			return err
		}
		total += int64(p.batch.Len())
		if err := t.number(&p.batch); err != nil {
			return err
		}
		return emit(&p.batch)
	})
	if err != nil {
		return err
	}
	return t.checkCount(total + t.list.bad.Load())
}

func (t *openKETriples) checkCount(n int64) error {
	if n != t.count {
		return ingest.Inputf(t.list.Path, "%d triples, expected %d (line 1)", n, t.count)
	}
	return nil
}

// number turns the relations' text into numbers.
func (t *openKETriples) number(b *ingest.EdgeBatch) error {
	b.Relations = b.Relations[:0]
	for i := range b.Len() {
		text := b.RelationNames.At(i)
		r, ok := table.ParseUint(text)
		if !ok || r >= uint64(t.relations) {
			return ingest.Inputf(b.At.Of(i), "relation %.40q, expected 0 ≤ id < %d", text, t.relations)
		}
		b.Relations = append(b.Relations, uint32(r))
	}
	b.RelationNames.Reset()
	return nil
}
