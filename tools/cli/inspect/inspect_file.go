package inspect

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli/command"
)

// inspectFile prints a block file's bytes with their meaning, at most elements
// of each array (0 = all); with --json its header and extents.
func inspectFile(e *command.Env, path string, elements int) (err error) {
	h, err := blocks.ReadHeader(vfs.Default, path)
	if err != nil {
		return err
	}
	if h.Kind == blocks.Embedding {
		return inspectEmbedding(e, path, elements)
	}
	f, err := blocks.Open(vfs.Default, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !e.JSON {
		return f.Describe(e.Stdout, blocks.DescribeOptions{Elements: elements})
	}
	for _, x := range f.Extents() {
		e.Event("extent", map[string]any{"id": x.ID, "offset": x.Offset, "bytes": x.Length, "rows": x.Rows})
	}
	info := f.Info()
	e.Event("summary", map[string]any{
		"kind": h.Kind.String(), "name": h.Name, "file_id": h.FileID, "elem": h.Elem.String(), "dim": h.Dim,
		"partitions": h.Partitions, "extents": len(f.Extents()), "rows": f.Rows(), "bytes": info.Size,
		"footer_checksum": fmt.Sprintf("%08x", info.FooterChecksum),
	})
	return nil
}

// inspectEmbedding is inspectFile for a file that is written in place.
func inspectEmbedding(e *command.Env, path string, elements int) error {
	if !e.JSON {
		return blocks.DescribeEmbedding(vfs.Default, path, e.Stdout, blocks.DescribeOptions{Elements: elements})
	}
	l, err := blocks.OpenEmbedding(vfs.Default, path)
	if err != nil {
		return err
	}
	for slot := range l.Slots {
		for p, n := range l.Nodes {
			for plane := range l.Planes {
				id := blocks.PartitionID(p)
				e.Event("extent", map[string]any{"id": p, "plane": plane, "slot": slot,
					"offset": l.Offset(id, plane, slot), "bytes": l.PayloadBytes(id), "rows": n})
			}
		}
	}
	h := l.Header
	e.Event("summary", map[string]any{
		"kind": h.Kind.String(), "name": h.Name, "file_id": h.FileID, "elem": h.Elem.String(), "dim": h.Dim,
		"partitions": h.Partitions, "extents": l.Slots * l.Planes * len(l.Nodes), "rows": l.Rows(), "bytes": l.Size(),
		"planes": l.Planes, "slots": l.Slots,
	})
	return nil
}
