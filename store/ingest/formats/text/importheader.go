package text

import (
	"regexp"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// ImportHeader is what the header of a file for Neo4j's import says: the fields name:ID(Space) of nodes, :START_ID(Space), :END_ID(Space) and
// :TYPE of edges. A space, which may be missing, is one of ids.
type ImportHeader struct {
	Nodes, Edges   bool
	ID, Start, End string   // spaces
	Types          []string // of the edges of the first lines
}

// importField is a field of ids, and its space.
var importField = regexp.MustCompile(`^(.*:(?:ID|START_ID|END_ID))(?:\((.+)\))?$`)

// cutSpaces takes the spaces of ids from the names of columns.
func (t *textSample) cutSpaces() {
	for k, n := range t.names {
		m := importField.FindStringSubmatch(n)
		if m == nil {
			continue
		}
		if t.spaces == nil {
			t.spaces = make([]string, len(t.names))
		}
		t.names[k], t.spaces[k] = m[1], m[2]
	}
}

// ReadImportHeader reads the header of a text file.
func ReadImportHeader(fs vfs.FS, path string) (h ImportHeader) {
	t, err := sampleText(fs, path, &table.Options{})
	if err != nil || t.spaces == nil {
		return h
	}
	for k, n := range t.names {
		m := importField.FindStringSubmatch(n)
		switch {
		case n == ":TYPE":
			for _, row := range t.rows {
				if k < len(row) && !slices.Contains(h.Types, row[k]) {
					h.Types = append(h.Types, row[k])
				}
			}
		case m == nil:
		case n == ":START_ID":
			h.Start = t.spaces[k]
		case n == ":END_ID":
			h.End = t.spaces[k]
		default:
			h.Nodes, h.ID = true, t.spaces[k]
		}
	}
	h.Edges = slices.Contains(t.names, ":START_ID") && slices.Contains(t.names, ":END_ID")
	return h
}
