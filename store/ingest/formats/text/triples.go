package text

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// partNames are what people call the files of a knowledge graph's parts.
var partNames = [][]string{{"train"}, {"valid", "val", "dev"}, {"test"}}

// tripleFiles are the files of a folder that hold a knowledge graph's edges to train, validate and test with: train.tsv (or .txt) and the like, or
// those of names that end so, such as wikidata5m_transductive_train.txt; "" where there is none.
func tripleFiles(fs vfs.FS, dir string) (found [3]string) {
	for k, names := range partNames {
		for _, n := range names {
			if found[k] == "" {
				found[k] = files.Find(fs, dir, n+".tsv", n+".txt")
			}
		}
	}
	if found[0] != "" {
		return found
	}
	entries, err := fs.List(dir)
	if err != nil {
		return [3]string{}
	}
	stem := "" // of the files' names
	for _, e := range entries {
		for _, ending := range []string{"train.tsv", "train.txt"} {
			before, ok := strings.CutSuffix(files.PlainName(e), ending)
			if !ok || before == "" || !strings.Contains("-_.", before[len(before)-1:]) {
				continue
			}
			if stem != "" || len(FirstFields(fs, fs.PathJoin(dir, e))) != len(triplePlaces) {
				return [3]string{}
			}
			stem = before
		}
	}
	if stem == "" {
		return [3]string{}
	}
	found = [3]string{}
	for k, names := range partNames {
		for _, n := range names {
			if found[k] == "" {
				found[k] = files.Find(fs, dir, stem+n+".tsv", stem+n+".txt")
			}
		}
	}
	return found
}

// HoldsTriples reports whether a folder has the files of a knowledge graph, as [OpenTriples] opens them.
func HoldsTriples(fs vfs.FS, dir string) bool { return tripleFiles(fs, dir)[0] != "" }

// LikeTriples reports whether a file is likely one of triples: three names a line apart by tabs, of which the second is one of few, and nodes of the
// first are among the third.
func LikeTriples(fs vfs.FS, path string) bool {
	t, err := sampleText(fs, path, &table.Options{})
	if err != nil || t.delimiter != '\t' || t.commented || len(t.names) != len(triplePlaces) {
		return false
	}
	rows := append([][]string{t.names}, t.rows...)
	heads, relations, shared := map[string]bool{}, map[string]bool{}, false
	for _, row := range rows {
		if len(row) != len(triplePlaces) || slices.ContainsFunc(row, func(f string) bool { return f == "" || table.IsNumber([]byte(f)) || table.IsDate(f) }) {
			return false
		}
		heads[row[0]], relations[row[1]] = true, true
	}
	for _, row := range rows {
		shared = shared || heads[row[2]]
	}
	meaning, named := table.EdgeMeanings(t.names, &table.Options{})
	if named { // unless nodes are called so
		_, nodes := t.numbered(slices.Index(meaning, "src"), slices.Index(meaning, "dst"))
		named = !nodes
	}
	return shared && !named && !relations[t.names[0]] && 2*len(relations) <= len(rows)
}

// OpenTriples opens a folder of train, valid and test files of
// head<TAB>relation<TAB>tail names, or one such file.
func OpenTriples(fs vfs.FS, path string, o table.Options) (ingest.Source, error) {
	parts := [3]string{path}
	if info, err := fs.Stat(path); err == nil && info.IsDir() {
		if parts = tripleFiles(fs, path); parts[0] == "" {
			return nil, ingest.Inputf(path, "no train.tsv (nor train.txt, nor one file whose name ends so) of triples")
		}
	}
	if o.Delimiter == 0 {
		o.Delimiter = '\t'
	}
	if o.IDs == "" {
		o.IDs = store.IDsStrings
	}
	s, err := OpenEdges(fs, parts[0], o, triplePlaces)
	if err != nil {
		return nil, err
	}
	for k, name := range []string{"valid", "test"} {
		if list := parts[k+1]; list != "" {
			if err := s.AddList(name, list); err != nil {
				return nil, err
			}
		}
	}
	s.Desc.Format, s.Desc.Input, s.Desc.Task = "triples", path, store.TaskLink
	return s, nil
}
