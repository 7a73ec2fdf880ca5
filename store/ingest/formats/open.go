package formats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
)

// Options say how an input is to be read. The zero value detects everything.
type Options struct {
	// Format is one of Names; "" or "auto" = by what the path holds.
	Format string
	Text   TextOptions // edge lists, triples and tables
	// Nodes are further tables of nodes (text or Parquet) of an edge list or a
	// table of edges: PATH, or TYPE=PATH where ids of each type are a space of their own.
	Nodes []string
	// NodeColumns says of each of Nodes what its columns are, as Text.NodeColumns does of all; nil = as that says.
	NodeColumns [][]string
	// AllowOutside lets a GraphBolt data set name files outside its folder.
	AllowOutside bool
	FS           vfs.FS // where the input is; nil = the real file system
	// Input is what the source is called in the store, such as "-"; "" = its path.
	Input string
}

// Names lists the formats, as flags name them.
func Names() []string {
	return []string{"numpy", "npz", "ogb", "graphbolt", "typed", "tables", "triples", "openke", "marius", "edgelist", "parquet", "binary", "binary64"}
}

// Open opens the graph at path. Bad input is an ingest.ErrInput; a disk that
// fails, now or while the source is read, is not.
func Open(path string, o Options) (ingest.Source, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	watched := &watchedFS{FS: o.FS}
	o.FS = watched
	src, err := openAs(path, o)
	if err == nil {
		if x := readExported(o.FS, path); x != nil {
			x.describe(src.Describe())
		}
		if o.Input != "" {
			src.Describe().Input = o.Input
		}
		src = &watchedSource{src, watched}
	}
	if bad := watched.verdict(err); bad != nil {
		if err == nil {
			_ = src.Close()
		}
		return nil, bad
	}
	return src, nil
}

// openAs opens path in the format that o names, or the one it detects.
func openAs(path string, o Options) (ingest.Source, error) {
	format := o.Format
	if format == "" || format == "auto" {
		var err error
		if format, err = detect(o.FS, path); err != nil {
			return nil, err
		}
	}
	if len(o.Nodes) > 0 && format != "edgelist" && format != "parquet" && format != "tables" {
		return nil, fmt.Errorf("%w: tables of nodes go with formats edgelist, parquet and tables, not %s", ingest.ErrOptions, format)
	}
	if x := readExported(o.FS, path); x != nil && (format == "edgelist" || format == "parquet" || format == "triples") {
		o.Text = x.defaults(o.Text, format == "triples")
	}
	switch format {
	case "numpy":
		return openNumpy(o.FS, path)
	case "npz":
		if info, err := o.FS.Stat(path); err == nil && info.IsDir() {
			if f := findSuffix(o.FS, path, ".npz"); f != "" {
				path = f
			}
		}
		return openNPZ(o.FS, path)
	case "graphbolt":
		return openGraphBolt(o.FS, path, o.AllowOutside)
	case "typed":
		return openTyped(o.FS, path)
	case "tables":
		return openTableFolder(o.FS, path, o.Text, o.Nodes, o.NodeColumns)
	case "ogb":
		if isOGBTyped(o.FS, path) {
			return openOGBTyped(o.FS, path)
		}
		if isFile(o.FS, o.FS.PathJoin(path, "raw", "data.npz")) {
			return openOGBBinary(o.FS, path)
		}
		return openOGB(o.FS, path)
	case "triples":
		if find(o.FS, path, "train.tsv", "train.txt") == "" && find(o.FS, path, "train.npy") != "" {
			return openNumpy(o.FS, path)
		}
		return openTriples(o.FS, path, o.Text)
	case "openke":
		return openOpenKE(o.FS, path, o.Text)
	case "marius":
		return openMarius(o.FS, path)
	case "edgelist", "parquet":
		return openEdgeTables(o.FS, path, format, o.Text, o.Nodes, o.NodeColumns)
	case "binary", "binary64":
		return openBinary(o.FS, path, format == "binary64")
	}
	return nil, fmt.Errorf("%w: format %q (known: auto, %s)", ingest.ErrOptions, format, strings.Join(Names(), ", "))
}

// detect names the format of what is at path.
func detect(fs vfs.FS, path string) (string, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	if !info.IsDir() {
		name := plainName(path)
		has := func(suffixes ...string) bool {
			return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
		}
		switch {
		case has(".bin", ".i32", ".i64", ".raw"):
			return "binary", nil
		case fs.PathBase(path) == "metadata.yaml":
			return "graphbolt", nil
		case has(".npz"):
			return "npz", nil
		case has(".parquet"):
			return "parquet", nil
		case has(".tsv", ".csv", ".txt", ".edges", ".el"):
			return "edgelist", nil
		}
		return "", ingest.Inputf(path, "unknown kind of file; name its format (%s)", strings.Join(Names(), ", "))
	}
	switch {
	case isTyped(fs, path):
		return "typed", nil
	case isFile(fs, fs.PathJoin(path, "metadata.yaml")):
		return "graphbolt", nil
	case isFile(fs, fs.PathJoin(path, "dataset.yaml")) && isFile(fs, fs.PathJoin(path, "edges", "train_edges.bin")):
		return "marius", nil
	case find(fs, path, "train2id.txt") != "":
		return "openke", nil
	case find(fs, path, append([]string{"edge_index.npy", "edges.npy"}, rawNames...)...) != "":
		return "numpy", nil
	case find(fs, fs.PathJoin(path, "raw"), "edge.csv", "data.npz") != "" || isOGBTyped(fs, path):
		return "ogb", nil
	case find(fs, path, "train.npy", "train.tsv", "train.txt") != "":
		return "triples", nil
	case isTableFolder(fs, path):
		return "tables", nil
	case findTables(fs, path).train != "":
		if isParquet(fs, findTables(fs, path).train) {
			return "parquet", nil
		}
		return "edgelist", nil
	case findParquet(fs, path):
		return "parquet", nil
	case findSuffix(fs, path, ".npz") != "":
		return "npz", nil
	}
	return "", ingest.Inputf(path, "no known layout: expected edge_index.npy, raw/edge.csv.gz, edges.csv, edges.parquet, edges/SOURCE-NAME-DESTINATION.csv, or train.npy or train.tsv of triples")
}
