package formats

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/layouts"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/tables"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// form is one form of input: how it is recognised, and how it is opened.
type form struct {
	name   string
	file   func(base string) bool                // is a file of this plain name one? nil = none is
	folder func(fs vfs.FS, dir string) bool      // is a folder one? nil = none is
	nodes  bool                                  // further tables of nodes go with it
	export func(o *TextOptions, x *files.Export) // takes over what gstore export says of it; nil = nothing
	open   func(path string, o Options) (ingest.Source, error)
}

// known are the formats. A folder is of the first that recognises it.
var known = []form{
	{name: "typed", folder: layouts.IsTyped, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenTyped(o.FS, path)
	}},
	{name: databaseFormat, folder: database.IsFolder, file: ending(".sqlite", ".sqlite3", ".db", ".db3"), open: func(path string, o Options) (ingest.Source, error) {
		return openDatabase(path, o, false)
	}},
	{name: "graphbolt", file: named("metadata.yaml"), folder: layouts.IsGraphBolt,
		open: func(path string, o Options) (ingest.Source, error) {
			return layouts.OpenGraphBolt(o.FS, path, o.AllowOutside)
		}},
	{name: "marius", folder: layouts.IsMarius, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenMarius(o.FS, path)
	}},
	{name: "openke", folder: has("train2id.txt"), open: func(path string, o Options) (ingest.Source, error) {
		return text.OpenKE(o.FS, path, o.Text)
	}},
	{name: "numpy", file: ending(".npy"), folder: has(append([]string{"edge_index.npy", "edges.npy"}, numpy.RawNames...)...), open: openNumpy},
	{name: "ogb", folder: layouts.IsOGB, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenOGB(o.FS, path)
	}},
	{name: "mag240m", folder: layouts.IsMAG, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenMAG(o.FS, path, o.label())
	}},
	{name: "wikikg90m", folder: layouts.IsWikiKG, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenWikiKG(o.FS, path)
	}},
	{name: "igb", folder: layouts.IsIGB, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenIGB(o.FS, path, o.label())
	}},
	{name: "graphsaint", folder: layouts.IsGraphSAINT, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenGraphSAINT(o.FS, path)
	}},
	{name: "reddit", folder: layouts.IsReddit, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenReddit(o.FS, path)
	}},
	{name: "interactions", folder: text.HoldsInteractions, open: func(path string, o Options) (ingest.Source, error) {
		return text.OpenInteractions(o.FS, path)
	}},
	{name: "triples", folder: func(fs vfs.FS, dir string) bool { return text.HoldsTriples(fs, dir) || has("train.npy")(fs, dir) }, export: exportedTriples, open: openTriples},
	{name: "neo4j", folder: layouts.IsNeo4j, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenNeo4j(o.FS, path, o.Text)
	}},
	{name: "tables", folder: layouts.IsTables, nodes: true, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenTables(o.FS, path, o.Text, o.Nodes, o.NodeColumns)
	}},
	{name: edgelistFormat, file: ending(append([]string{".tsv", ".csv", ".txt", ".edges", ".el"}, text.JSONSuffixes...)...), folder: tables.HoldsText, nodes: true,
		export: exportedTable, open: openEdges(edgelistFormat)},
	{name: "parquet", file: ending(".parquet"), folder: tables.HoldsParquet, nodes: true,
		export: exportedTable, open: openEdges("parquet")},
	{name: "ntriples", file: ending(".nt", ".nq", ".ntriples", ".nquads"), open: func(path string, o Options) (ingest.Source, error) {
		return text.OpenNTriples(o.FS, path, o.Text)
	}},
	{name: "matrixmarket", file: ending(".mtx"), open: func(path string, o Options) (ingest.Source, error) {
		return text.OpenMatrixMarket(o.FS, path, o.Text)
	}},
	{name: "pyg", file: ending(".pt", ".pth"), folder: layouts.IsPyG, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenPyG(o.FS, path)
	}},
	{name: "planetoid", file: layouts.IsPlanetoidFile, folder: layouts.IsPlanetoid, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenPlanetoid(o.FS, path)
	}},
	{name: "hgb", folder: layouts.IsHGB, open: func(path string, o Options) (ingest.Source, error) {
		return layouts.OpenHGB(o.FS, path)
	}},
	{name: "linqs", file: ending(".cites", ".content"), folder: layouts.IsLINQS, nodes: true, open: openLINQS},
	{name: "npz", file: ending(".npz"), folder: holdsNPZ, open: openNPZ},
	{name: "binary", file: ending(".bin", ".i32", ".i64", ".raw"), open: openPairs(false)},
	{name: "binary64", open: openPairs(true)},
}

// Names lists the formats, as flags name them.
func Names() (names []string) {
	for _, f := range known {
		names = append(names, f.name)
	}
	return names
}
