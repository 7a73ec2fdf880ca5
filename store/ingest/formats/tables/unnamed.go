package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// unnamedError refuses a table of nodes whose first line names no columns, and says what they likely are. Where they have a label, or other
// tables may have it, the table is read so: a class id among the numbers would else become a feature.
type unnamedError struct {
	error
	columns []string
}

// Unwrap is for errors.Is.
func (e *unnamedError) Unwrap() error { return e.error }

// idRows is how many rows are looked at for ids.
const idRows = 1000

// open opens the table as its columns likely are, unless a row's id is another one's, too.
func (e *unnamedError) open(ctx context.Context, fs vfs.FS, path, kind string, o table.Options) (*nodeTable, error) {
	o.NodeColumns = e.columns
	t, err := OpenTable(fs, path, o)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	twice := false
	err = table.ReadSome(ctx, t, []table.Want{{At: 0}}, func(b *table.Batch) error {
		for i := range b.Rows {
			id := string(b.Text[0].At(i))
			twice = twice || seen[id] || id == ""
			if seen[id] = true; len(seen) == idRows {
				return table.ErrEnough
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if twice {
		return nil, e
	}
	n, err := openNodeTable(ctx, t, kind, &o)
	if err == nil {
		n.unnamed = true
		n.note = fmt.Sprintf("%s: its first line names no columns: they are taken for %s; --node-columns says otherwise", path, strings.Join(e.columns, ","))
	}
	return n, err
}
