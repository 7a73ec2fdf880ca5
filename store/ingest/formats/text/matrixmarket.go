package text

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// matrixMarket begins the first line of a file of Matrix Market's format.
const matrixMarket = "%%MatrixMarket"

// OpenMatrixMarket opens a sparse matrix of Matrix Market's format (R. Boisvert, R. Pozo, K. Remington: The Matrix Market Exchange Formats, NISTIR
// 5935, 1996) as a graph: an entry of row i and column j is an edge i → j, and its value a weight. The edges of a symmetric matrix, of which
// one half is written, are undirected. Nodes without an entry are not known of, as in any list of edges.
func OpenMatrixMarket(fs vfs.FS, path string, o table.Options) (ingest.Source, error) {
	text, err := firstLines(fs, path)
	if err != nil {
		return nil, err
	}
	first, rest := NextLine(text)
	banner := strings.Fields(strings.ToLower(string(first)))
	if len(banner) != 5 || banner[0] != strings.ToLower(matrixMarket) || banner[1] != "matrix" {
		return nil, ingest.Inputf(path+": line 1", "%.60q, expected %s matrix coordinate pattern general, or the like", first, matrixMarket)
	}
	if banner[2] != "coordinate" {
		return nil, ingest.Inputf(path+": line 1", "a matrix of all entries (%s), expected one of coordinates", banner[2])
	}
	o.Columns = []string{"src", "dst"}
	switch banner[3] {
	case "pattern":
	case "real", "integer", "double":
		o.Columns = append(o.Columns, "weight")
	default:
		return nil, ingest.Inputf(path+": line 1", "values of kind %s, expected pattern, real or integer", banner[3])
	}
	if !slices.Contains([]string{"general", "symmetric"}, banner[4]) {
		return nil, ingest.Inputf(path+": line 1", "a matrix that is %s, expected general or symmetric", banner[4])
	}
	var sizes []string
	for len(rest) > 0 && len(sizes) == 0 {
		var line []byte
		if line, rest = NextLine(rest); !comment(line) {
			sizes = strings.Fields(string(line))
		}
	}
	if len(sizes) != 3 {
		return nil, ingest.Inputf(path, "sizes %q, expected the numbers of rows, columns and entries", sizes)
	}
	if sizes[0] != sizes[1] {
		return nil, ingest.Inputf(path, "a matrix of %s rows and %s columns, expected a square one of nodes", sizes[0], sizes[1])
	}
	header := true // the line of sizes
	o.Header, o.Delimiter, o.IDs = &header, ' ', store.IDsIntegers
	s, err := OpenEdges(fs, path, o, nil)
	if err != nil {
		return nil, err
	}
	s.Desc.Format, s.Desc.Undirected = "matrixmarket", banner[4] == "symmetric"
	s.Desc.Uses = table.ColumnUses(path, []string{"row", "column", "value"}[:len(o.Columns)], []string{"source", "destination", "weight"}[:len(o.Columns)])
	return s, nil
}
