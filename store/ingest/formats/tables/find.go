package tables

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// edgeTables are the files of a folder, or the one file, that hold edges.
type edgeTables struct {
	train string
	lists []string // paths of further edge lists
	names []string // "valid", "test"
	nodes []string // tables of nodes
	// triples says that the edges are called train, as those of a knowledge graph are.
	triples bool
}

// TextSuffixes are the endings of text files of edges and nodes, plain or packed.
var TextSuffixes = append([]string{".tsv", ".csv", ".txt"}, text.JSONSuffixes...)

// findTables looks for edges and tables of nodes in a folder: files or, of
// Parquet, folders called edges (or train, valid, test) and nodes.
func findTables(fs vfs.FS, dir string) edgeTables {
	look := func(base string) string {
		if path := fs.PathJoin(dir, base+".parquet"); files.IsFile(fs, path) {
			return path
		}
		for _, s := range TextSuffixes {
			if path := files.Find(fs, dir, base+s); path != "" {
				return path
			}
		}
		if path := fs.PathJoin(dir, base); FindParquet(fs, path) {
			return path
		}
		return ""
	}
	var t edgeTables
	if t.train = look("edges"); t.train == "" {
		if t.train = look("train"); t.train == "" {
			return t
		}
		t.triples = true
		for _, part := range []string{"valid", "test"} {
			if path := look(part); path != "" {
				t.lists, t.names = append(t.lists, path), append(t.names, part)
			}
		}
	}
	if path := look("nodes"); path != "" {
		t.nodes = append(t.nodes, path)
	}
	return t
}

// FindParquet reports whether dir is a folder with Parquet files.
func FindParquet(fs vfs.FS, dir string) bool {
	if info, err := fs.Stat(dir); err != nil || !info.IsDir() {
		return false
	}
	names, err := fs.List(dir)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".parquet") })
}

// IsParquet reports whether path is, or holds, Parquet.
func IsParquet(fs vfs.FS, path string) bool {
	return strings.HasSuffix(path, ".parquet") || FindParquet(fs, path)
}

// HoldsText reports whether a folder has a text file of edges.
func HoldsText(fs vfs.FS, dir string) bool {
	t := findTables(fs, dir)
	return t.train != "" && !IsParquet(fs, t.train)
}

// HoldsParquet reports whether a folder has edges as Parquet, or is itself a table of Parquet files.
func HoldsParquet(fs vfs.FS, dir string) bool {
	t := findTables(fs, dir)
	return t.train != "" && IsParquet(fs, t.train) || FindParquet(fs, dir)
}
