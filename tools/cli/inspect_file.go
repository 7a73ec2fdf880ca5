package cli

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
)

// inspectFile prints a block file's bytes with their meaning, at most elements
// of each array (0 = all); with --json its header and extents.
func inspectFile(e *env, path string, elements int) (err error) {
	f, err := blocks.Open(vfs.Default, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !e.json {
		return f.Describe(e.stdout, blocks.DescribeOptions{Elements: elements})
	}
	for _, x := range f.Extents() {
		e.event("extent", map[string]any{"id": x.ID, "offset": x.Offset, "bytes": x.Length, "rows": x.Rows})
	}
	h, info := f.Header(), f.Info()
	e.event("summary", map[string]any{
		"kind": h.Kind.String(), "name": h.Name, "file_id": h.FileID, "elem": h.Elem.String(), "dim": h.Dim,
		"partitions": h.Partitions, "extents": len(f.Extents()), "rows": f.Rows(), "bytes": info.Size,
		"footer_checksum": fmt.Sprintf("%08x", info.FooterChecksum),
	})
	return nil
}
