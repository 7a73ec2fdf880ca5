package text

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// konectKinds are what the first comment of KONECT's files says of a graph (Kunegis, KONECT, WWW 2013): the form of its edges.
var konectKinds = []string{"sym", "asym", "bip"}

// nameByComments takes names of columns from the comments before the first line, where these name the ends and the line has more fields than two:
// SNAP's files name them in the last one, and KONECT's have the same columns always, of which the first one tells the kinds.
func (t *textSample) nameByComments(comments [][]byte, o *table.Options) {
	if len(comments) == 0 || t.commented || o.Header != nil || o.Columns != nil || o.NodeColumns != nil {
		return
	}
	names, undirected := konectNames(comments[0], len(t.names)), false
	if names != nil {
		undirected = bytes.Contains(comments[0], []byte(" sym "))
	} else {
		last, _ := t.split(nil, bytes.TrimLeft(bytes.Clone(comments[len(comments)-1]), "#% \t"))
		for _, f := range last {
			names = append(names, string(f))
		}
		if _, ends := table.EdgeMeanings(names, o); !ends || len(names) != len(t.names) || len(names) <= 2 {
			return
		}
	}
	t.rows, t.names, t.commented, t.undirected = slices.Insert(t.rows, 0, t.names), names, true, undirected
}

// konectNames are those of n columns, by the first comment of a file of KONECT; nil = the file is none of KONECT's, or names say nothing more.
func konectNames(comment []byte, n int) []string {
	w := strings.Fields(strings.TrimLeft(string(comment), "%"))
	if len(w) != 2 || comment[0] != '%' || !slices.Contains(konectKinds, w[0]) || n < 2 || n > 4 {
		return nil
	}
	names := []string{"src", "dst", "weight", "timestamp"}
	if w[0] == "bip" {
		names[0], names[1] = "left_id", "right_id"
	}
	if strings.Contains(w[1], "signed") || strings.HasSuffix(w[1], "weighted") && !strings.HasPrefix(w[1], "pos") { // ratings, which may be less than 0
		names[2] = "rating"
	}
	return names[:n]
}

// nameList gives a name to each field of the rows where the header has one for all that follow: JODIE's files (Kumar et al., KDD 2019), and with
// them TGB's, call them comma_separated_list_of_features.
func (t *textSample) nameList() {
	last := len(t.names) - 1
	if last < 2 || len(t.rows) == 0 || !strings.Contains(strings.ToLower(t.names[last]), "list_of_features") {
		return
	}
	width := len(t.rows[0])
	if width <= last || slices.ContainsFunc(t.rows, func(row []string) bool { return len(row) != width }) {
		return
	}
	t.names = t.names[:last]
	for k := range width - last {
		t.names = append(t.names, fmt.Sprintf("features.%d", k))
	}
}
