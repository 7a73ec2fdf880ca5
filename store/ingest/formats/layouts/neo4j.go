package layouts

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// neo4jNode is the type of nodes whose ids have no space.
const neo4jNode = "node"

// neo4jTables are the tables of a folder whose headers are those of Neo4j's import.
func neo4jTables(fs vfs.FS, dir string) (nodes, edges []tableFile, notes, others []string) {
	found, others := tablesIn(fs, dir)
	for _, f := range found {
		if tables.IsParquet(fs, f.path) {
			others = append(others, f.path)
			continue
		}
		h := text.ReadImportHeader(fs, f.path)
		switch {
		case h.Edges:
			f.src, f.rel, f.dst = spaceOr(h.Start), f.name, spaceOr(h.End)
			switch {
			case len(h.Types) == 1:
				f.rel = h.Types[0]
			case len(h.Types) > 1:
				notes = append(notes, fmt.Sprintf("%s has edges of types %s, which all become %q: a file for each type keeps them apart", f.path, table.Listed(h.Types), f.rel))
			}
			edges = append(edges, f)
		case h.Nodes:
			f.name = spaceOr(h.ID)
			nodes = append(nodes, f)
		default:
			others = append(others, f.path)
		}
	}
	return nodes, edges, notes, others
}

func spaceOr(space string) string {
	if space == "" {
		return neo4jNode
	}
	return strings.ReplaceAll(space, ":", "_") // ids are TYPE:ID
}

// IsNeo4j reports whether a folder has files for Neo4j's import.
func IsNeo4j(fs vfs.FS, dir string) bool {
	nodes, edges, _, _ := neo4jTables(fs, dir)
	return len(nodes) > 0 && len(edges) > 0
}

// OpenNeo4j opens a folder of CSV files for Neo4j's import, whose headers say what they are: tables of nodes with a field name:ID(Space), and
// tables of edges with fields :START_ID(Space), :END_ID(Space) and :TYPE. Each space of ids is a type of nodes.
func OpenNeo4j(fs vfs.FS, dir string, o table.Options) (ingest.Source, error) {
	if o.IDs != "" && o.IDs != store.IDsStrings {
		return nil, fmt.Errorf("%w: ids of nodes of types are strings, TYPE:ID, not %s", ingest.ErrOptions, o.IDs)
	}
	o.IDs = store.IDsStrings
	s := &tableFolder{typedGraph: newTypedGraph("neo4j", fs, dir)}
	var others []string
	s.nodes, s.edges, s.Desc.Notes, others = neo4jTables(fs, dir)
	if len(s.edges) == 0 {
		return nil, ingest.Inputf(dir, "no table of edges, with fields :START_ID and :END_ID")
	}
	for _, path := range others {
		s.Desc.Notes = append(s.Desc.Notes, path+" is not read: its header names no :ID, nor :START_ID and :END_ID")
	}
	var named []tables.Named
	for _, n := range s.nodes {
		named = append(named, tables.Named{Path: n.path, Kind: n.name})
	}
	return s, s.openTypes(o, named)
}
