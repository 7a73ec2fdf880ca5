package text

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Types and relation of interactions.
const (
	userType         = "user"
	itemType         = "item"
	interactRelation = "interacts"
)

// HoldsInteractions reports whether a folder has train.txt of lists as [OpenInteractions] reads them: lines of numbers apart by single blanks,
// not all as many.
func HoldsInteractions(fs vfs.FS, dir string) bool {
	path := files.Find(fs, dir, "train.txt")
	if path == "" || files.Find(fs, dir, "test.txt") == "" {
		return false
	}
	text, err := firstLines(fs, path)
	if err != nil {
		return false
	}
	widths := map[int]bool{}
	for len(text) > 0 {
		var line []byte
		if line, text = NextLine(text); len(line) == 0 {
			continue
		}
		fields := splitLine(nil, line, ' ')
		if slices.ContainsFunc(fields, func(f []byte) bool { _, ok := table.ParseID(f); return !ok }) {
			return false
		}
		widths[len(fields)] = true
	}
	return len(widths) > 1
}

// OpenInteractions opens a folder of what users took, as NGCF and LightGCN (He et al., SIGIR 2020) have Gowalla, Yelp2018 and AmazonBook: a line of
// train.txt, and of test.txt for the items that are to be predicted, is a user and all their items. Without valid.txt some of train.txt's are kept to
// validate with.
func OpenInteractions(fs vfs.FS, dir string) (ingest.Source, error) {
	train, valid, test := files.Find(fs, dir, "train.txt"), files.Find(fs, dir, "valid.txt", "val.txt"), files.Find(fs, dir, "test.txt")
	if train == "" {
		return nil, ingest.Inputf(dir, "no train.txt of users and their items")
	}
	s := parts.New("interactions", dir)
	s.Desc.IDs, s.Desc.Task, s.Desc.Relations = store.IDsStrings, store.TaskLink, []string{userType + ":" + interactRelation + ":" + itemType}
	s.Desc.NodeTypes = []ingest.NodeType{{Name: itemType, Count: -1}, {Name: userType, Count: -1}}
	s.Desc.TypesByPrefix = true
	list := func(name, path string, takes taken) {
		s.AddFiles(path)
		s.Desc.EdgeLists = append(s.Desc.EdgeLists, name)
		s.ListStreams = append(s.ListStreams, func(ctx context.Context, _ ingest.Env, emit func(*ingest.EdgeBatch) error) error {
			var batch ingest.EdgeBatch
			return SerialBlocks(ctx, fs, path, Dialect{}, func(b Block) error { return interactions(path, b, takes, &batch, emit) })
		})
	}
	s.AddFiles(train)
	var stay taken
	if valid != "" {
		list("valid", valid, nil)
	} else {
		s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("there is no valid.txt: of users with %d items or more one of %d, by its place, is for validation", heldLeast, heldOf))
		list("valid", train, isHeld)
		stay = func(line uint64, place, items int) bool { return !isHeld(line, place, items) }
	}
	if test != "" {
		list("test", test, nil)
	}
	s.EdgeStreams = []parts.Edges{func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		batches := make([]ingest.EdgeBatch, env.Threads)
		return parallelBlocks(ctx, env, fs, train, Dialect{}, func(worker int, b Block) error {
			return interactions(train, b, stay, &batches[worker], func(e *ingest.EdgeBatch) error { return emit(worker, e) })
		})
	}}
	return s, nil
}

// taken says whether the item at a place of a line, from 1, of so many items is an edge; nil: all are.
type taken func(line uint64, place, items int) bool

// Of a user with heldLeast items or more about one of heldOf is kept to validate with, where the input keeps none.
const (
	heldLeast = 5
	heldOf    = 20
)

// isHeld is what is kept to validate with.
func isHeld(line uint64, place, items int) bool {
	return items >= heldLeast && (line*7+uint64(place))%heldOf == 0
}

// interactions emits those edges of a block that are taken, if there are any.
func interactions(path string, b Block, takes taken, e *ingest.EdgeBatch, emit func(*ingest.EdgeBatch) error) error {
	e.Src.Reset()
	e.Dst.Reset()
	var lines []uint64
	var user, item []byte
	var fields [][]byte
	number := b.Line
	for rest := b.Data; len(rest) > 0; number++ {
		var line []byte
		line, rest = NextLine(rest)
		fields = splitLine(fields[:0], bytes.TrimRight(line, " \t"), ' ')
		for k, f := range fields {
			id, ok := table.ParseID(f)
			if !ok {
				return ingest.Inputf(fmt.Sprintf("%s: line %d", path, number), "column %d: %.40q is no number of a user or an item (an integer ≥ 0)", columnOf(line, f), f)
			}
			if k == 0 {
				user = strconv.AppendUint(append(user[:0], userType+":"...), id, 10)
				continue
			}
			if takes != nil && !takes(number, k, len(fields)-1) {
				continue
			}
			item = strconv.AppendUint(append(item[:0], itemType+":"...), id, 10)
			e.Src.Append(user)
			e.Dst.Append(item)
			lines = append(lines, number)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	e.At = ingest.Position{File: path, Unit: "line", Index: b.Line, Lines: lines}
	return emit(e)
}
