package predict

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/tools/cli/command"
)

// Values of --only beside the names of node types.
const (
	onlyAuto       = "auto"
	onlyAll        = "all"
	onlyUnlabelled = "unlabelled"
)

// nodeFilter says which nodes are predicted, by further columns of theirs.
type nodeFilter struct {
	columns  []export.NodeColumn
	typed    bool // the first says whether a node is of the type, a byte
	labelled bool // the last is the label, int32
}

// filterNodes is what --only says. A node of a type without labels has no class: what a model says of it means nothing.
func (p *prediction) filterNodes() (f nodeFilter, err error) {
	m, labels, kind := p.st.Manifest(), p.st.Manifest().Labels(), ""
	types := make([]string, 0, len(m.Schema.NodeTypes))
	for _, t := range m.Schema.NodeTypes {
		types = append(types, t.Name)
	}
	switch p.only {
	case onlyAuto, onlyUnlabelled:
		if labels != nil {
			kind = labels.NodeType
		}
	case onlyAll:
	default:
		if kind = p.only; !slices.Contains(types, kind) {
			return f, command.Usagef("--only %s: expected auto, all, unlabelled or one of the store's node types %q", p.only, types)
		}
	}
	if t := slices.Index(types, kind); t >= 0 && len(types) > 1 && m.Partitions[0].Types != nil {
		f.typed = true
		f.columns = append(f.columns, export.NodeColumn{Name: "of " + kind, Elem: blocks.Uint8, Dim: 1, Read: func(_ context.Context, part store.PartitionID, first uint64, rows []byte) error {
			for i := range rows {
				of, known := m.TypeOf(part, first+uint64(i))
				rows[i] = 0
				if !known || of == t {
					rows[i] = 1
				}
			}
			return nil
		}})
	}
	if p.only == onlyUnlabelled && labels != nil {
		f.labelled = true
		f.columns = append(f.columns, export.NodeColumn{Name: labels.Name})
	}
	return f, nil
}

// takes reports whether node i of some is predicted, by its rows of the filter's columns.
func (f *nodeFilter) takes(rows [][]byte, i int) bool {
	if f.typed && rows[0][i] == 0 {
		return false
	}
	return !f.labelled || int32(binary.LittleEndian.Uint32(rows[len(rows)-1][4*i:])) < 0
}
