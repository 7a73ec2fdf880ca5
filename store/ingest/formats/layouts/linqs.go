package layouts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
)

// Ends of the names of files of LINQS.
const (
	linqsContent = ".content"
	linqsCites   = ".cites"
)

// linqsNames are the graphs that a folder has both files of.
func linqsNames(fs vfs.FS, dir string) (names []string) {
	entries, err := fs.List(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e, linqsContent); ok && files.IsFile(fs, fs.PathJoin(dir, name+linqsCites)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsLINQS reports whether dir has files of LINQS.
func IsLINQS(fs vfs.FS, dir string) bool { return len(linqsNames(fs, dir)) > 0 }

// linqsName is the graph that a file is of.
func linqsName(base string) string {
	return strings.TrimSuffix(strings.TrimSuffix(base, linqsContent), linqsCites)
}

// IsLINQSFile reports whether a file lies beside the other one of its graph.
func IsLINQSFile(fs vfs.FS, path string) bool {
	return slices.Contains(linqsNames(fs, fs.PathDir(path)), linqsName(fs.PathBase(path)))
}

// OpenLINQS opens a citation graph as LINQS publishes it (Sen et al., AI Magazine 2008): Cora, CiteSeer and the WebKB graphs. A folder has
// both files of one graph, or one of the two files is named:
//
//	NAME.content  a node on each line: its id, its words as 0 and 1, and the name of its class
//	NAME.cites    an edge on each line: the id of what is cited, and that of what cites it
//
// Edges are taken as undirected, as those who train on these graphs do.
func OpenLINQS(fs vfs.FS, path string, o table.Options) (ingest.Source, error) {
	dir, names := path, []string(nil)
	if files.IsFile(fs, path) {
		dir, names = fs.PathDir(path), []string{linqsName(fs.PathBase(path))}
	} else {
		names = linqsNames(fs, path)
	}
	switch len(names) {
	case 0:
		return nil, ingest.Inputf(path, "no NAME%s with NAME%s", linqsContent, linqsCites)
	case 1:
	default:
		return nil, ingest.Inputf(path, "files of %d graphs, %s: give one of a graph's files, such as %s", len(names), strings.Join(names, ", "), fs.PathJoin(dir, names[0]+linqsCites))
	}
	content, cites := fs.PathJoin(dir, names[0]+linqsContent), fs.PathJoin(dir, names[0]+linqsCites)
	t, err := tables.OpenTable(fs, content, o)
	if err != nil {
		return nil, err
	}
	words := len(t.Columns()) - 2
	if words < 1 {
		return nil, ingest.Inputf(content, "%d fields a line, expected an id, words and a class", words+2)
	}
	if o.IDs == "" {
		if o.IDs, err = idKind(t); err != nil {
			return nil, err
		}
	}
	header := false
	o.Columns, o.Header = []string{"dst", "src"}, &header
	s, err := tables.OpenEdges(fs, cites, "linqs", o, []string{content}, [][]string{{"id", fmt.Sprintf("x*%d", words), "label"}})
	if err != nil {
		return nil, err
	}
	d := s.Describe()
	d.Input, d.Undirected = path, true
	tellFields(d.Uses, content)
	for k := range d.NodeColumns {
		if c := &d.NodeColumns[k]; c.Role == store.RoleFeature {
			c.Measured = false // which words a text has is one vector of one scale
		}
	}
	return s, nil
}

// idKind is strings if one id of a table's first column is no integer, which need not be one of the first ones: CiteSeer's are 100157 and
// bradshaw97introduction; else "".
func idKind(t table.Table) (kind store.IDKind, err error) {
	if _, ok := table.ParseID([]byte(t.Columns()[0].Name)); !ok { // of the first line, which stands for a header
		return store.IDsStrings, nil
	}
	err = table.ReadSome(context.Background(), t, []table.Want{{At: 0}}, func(b *table.Batch) error {
		for i := range b.Rows {
			if _, ok := table.ParseID(b.Text[0].At(i)); !ok {
				kind = store.IDsStrings
				return table.ErrEnough
			}
		}
		return nil
	})
	return kind, err
}

// tellFields calls the columns of a file whose first line names none by their places.
func tellFields(uses []ingest.ColumnUse, file string) {
	at := 1
	for k := range uses {
		u := &uses[k]
		if u.File != file {
			continue
		}
		n := len(u.Names)
		u.Column, u.Names = fmt.Sprintf("field %d", at), nil
		if n > 1 {
			u.Column = fmt.Sprintf("fields %d to %d", at, at+n-1)
		}
		at += n
	}
}
