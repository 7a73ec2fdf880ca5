package layouts

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// IsWikiKG reports whether dir is laid out as WikiKG90Mv2 of OGB-LSC is.
func IsWikiKG(fs vfs.FS, dir string) bool {
	return files.Find(fs, fs.PathJoin(dir, "processed"), "train_hrt.npy") != ""
}

// OpenWikiKG opens WikiKG90Mv2, or what is laid out as it is, in a folder processed:
//
//	train_hrt.npy              integers [M, 3] of head, relation, tail
//	val_hr.npy, val_t.npy      [V, 2] and [V]: the questions of validation and their answers
//	entity_feat.npy            optional, [N, D]
//	../meta.pt                 num_entities, num_relations
//
// The answers of its tests are not public.
func OpenWikiKG(fs vfs.FS, dir string) (ingest.Source, error) {
	root := fs.PathJoin(dir, "processed")
	s := parts.New("wikikg90m", dir)
	s.Desc.Task, s.Desc.HasRelation = store.TaskLink, true
	array := func(name string) (*numpy.Array, error) {
		path := files.Find(fs, root, name)
		if path == "" {
			return nil, nil
		}
		s.AddFiles(path)
		return numpy.OpenArray(fs, path)
	}
	meta := fs.PathJoin(dir, "meta.pt")
	if !files.IsFile(fs, meta) {
		return nil, ingest.Inputf(dir, "no meta.pt, which says how many entities and relations there are")
	}
	s.AddFiles(meta)
	saved, err := numpy.OpenSaved(fs, meta)
	if err != nil {
		return nil, err
	}
	nodes, relations := saved["num_entities"].Number, saved["num_relations"].Number
	if nodes < 1 || relations < 1 || relations > ingest.RelationsMax {
		return nil, ingest.Inputf(meta, "num_entities %d and num_relations %d, expected numbers, of relations at most %d", nodes, relations, ingest.RelationsMax)
	}
	s.Desc.Nodes, s.Desc.NodeTypes[0].Count = nodes, nodes
	for k := range relations {
		s.Desc.Relations = append(s.Desc.Relations, fmt.Sprint(k))
	}
	train, err := array("train_hrt.npy")
	if err == nil && train == nil {
		err = ingest.Inputf(root, "no train_hrt.npy")
	}
	if err == nil {
		err = numpy.AddEdges(s, train, nil, nil, numpy.FormTriples)
	}
	if err != nil {
		return nil, err
	}
	asked, err := array("val_hr.npy")
	if err != nil {
		return nil, err
	}
	answers, err := array("val_t.npy")
	if err != nil {
		return nil, err
	}
	if asked != nil && answers != nil {
		list, err := numpy.Answered(asked, answers)
		if err != nil {
			return nil, err
		}
		s.Desc.EdgeLists, s.ListStreams = append(s.Desc.EdgeLists, "valid"), append(s.ListStreams, list)
	}
	feat, err := array("entity_feat.npy")
	if err != nil || feat == nil {
		return s, err
	}
	if err := numpy.AddColumn(s, feat, "x", store.RoleFeature); err != nil {
		return nil, err
	}
	s.Desc.Uses = append(s.Desc.Uses, ingest.ColumnUse{File: root, Column: "entity_feat.npy", As: fmt.Sprintf("feature x [%d]", feat.Dim())})
	return s, nil
}
