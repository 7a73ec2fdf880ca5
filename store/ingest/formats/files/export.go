package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// Export is the meta.json that gstore export writes beside its files: what of the store the files themselves do not say.
type Export struct {
	Ingest      string         `json:"ingest"` // the command that reads the files
	Undirected  bool           `json:"undirected"`
	IDs         store.IDKind   `json:"ids"`
	Columns     []ExportColumn `json:"columns"`      // of arrays
	EdgeColumns []string       `json:"edge_columns"` // of tables, as --columns and --node-columns have them
	NodeColumns []string       `json:"node_columns"`
	ClassNames  []string       `json:"class_names"`
	Labels      string         `json:"labels"` // what labels are, as ingest.Labels has it; "" = not known
	// NodeTypes are given where there are several. What type a node is of its column says, in files or tables.
	NodeTypes   []store.NodeType  `json:"node_types"`
	ColumnTypes map[string]string `json:"column_types"` // by column of one type
	// Standard is how features were standardised, by name; the files have their values as they were before.
	Standard map[string]*store.Standard `json:"standard"`
}

// ExportColumn says which column a file, or a split's folder, holds.
type ExportColumn struct {
	File   string     `json:"file"`
	Column string     `json:"column"`
	Role   store.Role `json:"role"`
}

// exportedMetaMax bounds the bytes of a meta.json.
const exportedMetaMax = 16 << 20

// exportMark is what the command in an export's meta.json begins with.
const exportMark = "gstore ingest "

// ReadExport reads the meta.json of the export that input, a folder or a table in one, belongs to; nil if it belongs to none, or to
// one of another program. One that is gstore's and damaged is bad input.
func ReadExport(fs vfs.FS, input string) (*Export, error) {
	dir := input
	if info, err := fs.Stat(input); err != nil {
		return nil, nil // the error of who opens it
	} else if !info.IsDir() {
		base, _, _ := strings.Cut(fs.PathBase(input), ".")
		if dir = fs.PathDir(input); base != "edges" && base != "train" {
			return nil, nil
		}
	}
	if dir == "" {
		dir = "."
	}
	name := fs.PathJoin(dir, "meta.json")
	if !IsFile(fs, name) {
		return nil, nil
	}
	f, err := Open(fs, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, exportedMetaMax))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var x Export
	err = json.Unmarshal(b, &x)
	// Another program's meta.json is none of ours, whatever its JSON says: ours names the command that reads it.
	switch own := bytes.Contains(b, []byte(exportMark)); {
	case err != nil && (own || !json.Valid(b)):
		return nil, ingest.Inputf(name, "it is damaged (%v): export again, or remove it to read the files by what they say alone", err)
	case err != nil || !strings.HasPrefix(x.Ingest, exportMark):
		return nil, nil
	}
	return &x, nil
}

// Column finds what a file holds.
func (x *Export) Column(file string) (ExportColumn, bool) {
	if x != nil {
		for _, c := range x.Columns {
			if c.File == path.Base(PlainName(file)) {
				return c, true
			}
		}
	}
	return ExportColumn{}, false
}

// Describe adds to d what the export says of the graph as a whole.
func (x *Export) Describe(d *ingest.Description) {
	d.Labels = x.Labels
	if x.Undirected {
		d.Undirected = true
		d.Notes = append(d.Notes, "undirected, as its meta.json says")
	}
	for c := range d.NodeColumns {
		d.NodeColumns[c].Standard, d.NodeColumns[c].Measured = x.Standard[d.NodeColumns[c].Name], false // as in the store that they are of
	}
	if slices.ContainsFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Name == store.TypeColumn }) {
		x.types(d)
	}
}

// types adds to d the types of nodes, and which columns number nodes for learned vectors: files and tables have them as features.
func (x *Export) types(d *ingest.Description) {
	if len(x.NodeTypes) == 0 {
		return
	}
	d.NodeTypes, d.TypesByColumn = nil, len(x.NodeTypes) > 1
	numbers := map[string]bool{store.TypeColumn: true}
	for _, t := range x.NodeTypes {
		d.NodeTypes = append(d.NodeTypes, ingest.NodeType{Name: t.Name, Count: int64(t.Count)})
		numbers[t.Name+store.NodeSuffix] = x.ColumnTypes[t.Name+store.NodeSuffix] == t.Name
	}
	for k := range d.NodeColumns {
		c := &d.NodeColumns[k]
		if c.NodeType = x.ColumnTypes[c.Name]; !numbers[c.Name] || c.Dim != 1 {
			continue
		}
		c.Role = store.RoleNode
		for u := range d.Uses {
			if as := d.Uses[u].As; as == "feature "+c.Name || as == "feature "+c.Name+" [1]" {
				d.Uses[u].As = "numbers of learned vectors, " + c.Name
			}
		}
	}
}
