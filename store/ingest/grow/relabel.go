package grow

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// RelabelOptions say what [Relabel] gives beside what tables say.
type RelabelOptions struct {
	// Labels says what labels are, of a store that has none yet; "" = what they are likely to be.
	Labels ingest.Labels
	// Split, if not nil, divides the labelled nodes anew: the store's first split is replaced. A store without a split gets one anyway.
	Split *ingest.RandomSplit
	// Time, if not nil, divides them by a column of theirs.
	Time *TimeSplit
	// Rows, if not nil, are the same tables as columns of the store: their features replace those of the nodes that they name.
	Rows source.Source
}

// Relabelled is what [Relabel] did.
type Relabelled struct {
	Given   uint64 `json:"given"`   // nodes of which the tables say a label: what is empty says nothing
	New     uint64 `json:"new"`     // of these, those that had none
	Changed uint64 `json:"changed"` // and those that had another
	// Parted is the nodes of which the tables say a part of a split, and Unparted the labelled ones that are in no part of the first one.
	Parted      uint64   `json:"parted"`
	Unparted    uint64   `json:"unparted"`
	Updated     uint64   `json:"updated"` // nodes whose features are the tables'
	Unknown     uint64   `json:"unknown"` // rows of nodes that the store does not have, which are left out
	UnknownSome []string `json:"-"`       // a few of them
	Notes       string   `json:"-"`       // for people, a line each
}

// Relabel gives nodes of the store in dir labels and parts of splits, as its next version: those that rows of src say, tables of nodes
// whose ids are the store's. Other nodes keep theirs. nil: nothing but a split is given. Labels are of the kind that the store's are; names
// of classes that it does not have come behind those that it has. Two columns are written, 5 bytes a node.
//
// Failures leave the store as with [Append].
func Relabel(ctx context.Context, dir string, src source.Source, of RelabelOptions, o Options) (*Report, error) {
	a, err := openAppend(dir, src, o)
	if err != nil {
		return nil, err
	}
	return a.close((&relabeller{appender: a, of: of, rep: &Relabelled{}}).run(ctx))
}

// relabeller is one Relabel.
type relabeller struct {
	*appender
	of     RelabelOptions
	rep    *Relabelled
	label  *rowsGiven            // nil: the tables have no labels
	parts  map[string]*rowsGiven // by split: a byte each
	merged *mergedLabels         // nil: no node has a label

	counted bool   // rows of nodes that the store does not have
	note    string // how [TimeSplit] divided
}

func (l *relabeller) run(ctx context.Context) error {
	l.appender.rep.Relabelled = l.rep
	if err := l.read(ctx); err != nil {
		return err
	}
	if l.of.Rows != nil {
		if err := l.updateRows(ctx); err != nil {
			return err
		}
	}
	if l.of.Rows == nil || l.label != nil || l.parts != nil || l.of.Split != nil || l.of.Time != nil {
		if err := l.relabel(ctx); err != nil {
			return err
		}
	}
	return l.commit(ctx)
}

// relabel writes labels and splits.
func (l *relabeller) relabel(ctx context.Context) error {
	old := l.m.Labels()
	if l.label == nil && old == nil {
		return source.Inputf(l.w.Dir(), "the store has no labels, and no table has any: --nodes TABLE --label COLUMN gives them")
	}
	var err error
	if l.merged, err = l.merge(old); err != nil {
		return err
	}
	r := l.edges
	r.Manifest.Ingest = map[string]string{} // for notes
	r.Manifest.Partitions = slices.Clone(l.m.Partitions)
	r.Manifest.Schema.NodeTypes = l.m.Schema.NodeTypes
	r.Options.Labels, r.Like = l.merged.kind, map[string]*store.ColumnInfo{}
	r.LabelNames = ingest.LabelNames{Count: l.m.Schema.Classes, Names: l.m.Schema.ClassNames, Own: true}
	if old != nil && old.Sets != nil {
		r.Like[old.Name] = old
	}
	desc := &source.Description{Input: "the tables", IDs: store.IDsDense, Nodes: int64(l.m.Nodes), NodeColumns: []source.ColumnSpec{l.merged.spec}, ClassNames: l.merged.names, Task: store.TaskNode}
	if l.desc != nil {
		desc.Input = l.desc.Input
	}
	r.Desc, r.Source = desc, l.merged
	if err := l.placeInternal(ctx); err != nil {
		return err
	}
	if l.label != nil {
		if err := r.Column(ctx, 0); err != nil {
			return err
		}
		if err := l.number(ctx, desc); err != nil {
			return err
		}
	}
	if err := l.splits(ctx, desc); err != nil {
		return err
	}
	if err := l.count(ctx); err != nil {
		return err
	}
	l.adoptColumns(old)
	l.rep.Notes = strings.Trim(r.Manifest.Ingest["notes"]+"\n"+l.note, "\n")
	return nil
}

// number writes the columns that number the nodes of a store without features, as an ingest of the graph with its labels would have: models learn a
// vector for each.
func (l *relabeller) number(ctx context.Context, desc *source.Description) error {
	reads := func(c store.ColumnInfo) bool { return c.Role == store.RoleFeature || c.Name == store.TypeColumn }
	if len(l.m.Schema.NodeTypes) != 1 || slices.ContainsFunc(l.m.Columns, reads) {
		return nil
	}
	desc.NodeTypes = []source.NodeType{{Name: l.m.Schema.NodeTypes[0].Name, Count: int64(l.m.Nodes)}}
	l.merged.number = source.NumberColumns(desc)
	for _, c := range l.merged.number {
		if desc.NodeColumns = append(desc.NodeColumns, c.Spec); c.Note != "" {
			l.note = strings.Trim(l.note+"\n"+c.Note, "\n")
		}
		if err := l.edges.Column(ctx, len(desc.NodeColumns)-1); err != nil {
			return err
		}
	}
	return nil
}

// splits writes the splits that are given, made or changed.
func (l *relabeller) splits(ctx context.Context, desc *source.Description) error {
	r := l.edges
	first, err := l.m.SplitColumn("")
	none := err != nil
	name := "split"
	if !none {
		name = first.Name
	}
	split := l.of.Split
	if l.of.Time != nil {
		if split != nil || len(l.parts) > 0 {
			return source.Inputf(desc.Input, "a split by time is asked for beside a random one, or one that the tables have: give one of them")
		}
		parts, err := l.byTime(ctx, name)
		if err != nil {
			return err
		}
		l.parts = map[string]*rowsGiven{name: parts}
	}
	if split == nil && none && len(l.parts) == 0 {
		split = &ingest.RandomSplit{Train: .6, Valid: .2, Test: .2, Unasked: true}
	}
	var names []string
	if split != nil {
		if len(l.parts) > 0 {
			return source.Inputf(desc.Input, "the tables say parts of a split, and a random one is asked for: give one of both")
		}
		names = []string{name}
	} else {
		for n := range l.parts {
			names = append(names, n)
		}
		slices.Sort(names)
	}
	r.Options.SplitRandom = split
	for k, n := range names {
		counted := n == name || none && k == 0
		if counted {
			for p := range r.Manifest.Partitions {
				info := &r.Manifest.Partitions[p]
				info.Train, info.Valid, info.Test = 0, 0, 0
			}
		}
		desc.Splits = names
		if l.merged.parts = l.parts[n]; l.merged.parts != nil {
			l.rep.Parted += uint64(len(l.merged.parts.ids))
		}
		if err := r.SplitColumn(ctx, k, counted); err != nil {
			return err
		}
	}
	return nil
}

// adoptColumns puts what was written in place of what it replaces.
func (l *relabeller) adoptColumns(old *store.ColumnInfo) {
	r := l.edges
	for _, made := range r.Manifest.Columns {
		switch {
		case made.Role != store.RoleLabel:
		case old != nil:
			made.NodeType, made.Elements = old.NodeType, old.Elements
		default:
			made.NodeType = l.merged.nodeType
		}
		k := slices.IndexFunc(l.m.Columns, func(c store.ColumnInfo) bool { return c.Name == made.Name })
		if k < 0 {
			l.m.Columns = append(l.m.Columns, made)
			continue
		}
		l.m.Columns[k] = made
	}
	l.m.Files = append(l.m.Files, r.Manifest.Files...)
	l.m.Partitions = r.Manifest.Partitions
	if l.m.Schema.Task == "" {
		l.m.Schema.Task = store.TaskNode
	}
	if l.label != nil {
		l.m.Schema.Classes = max(l.m.Schema.Classes, r.Manifest.Schema.Classes)
		if names := r.Manifest.Schema.ClassNames; names != nil {
			l.m.Schema.ClassNames = names
		}
	}
}

// placeInternal has source ids be the store's internal ones.
func (l *relabeller) placeInternal(ctx context.Context) error {
	r := l.edges
	var sizes []uint32
	for _, p := range l.m.Partitions {
		sizes = append(sizes, uint32(p.Nodes))
	}
	layout, err := edges.NewLayout(sizes, 0, 1<<30)
	if err != nil {
		return err
	}
	r.Layout, r.State.Nodes = layout, l.m.Nodes
	if err := r.Divide(ctx, edges.PlaceBytes(l.m.Nodes, layout.PlaceBits())); err != nil {
		return err
	}
	if r.Places, err = edges.AllocPlaces(l.m.Nodes, layout); err != nil {
		return err
	}
	for p, info := range l.m.Partitions {
		for k := range info.Nodes {
			r.Places.Set(uint64(info.First)+k, uint64(p)<<layout.LocalBits|k)
		}
	}
	return ctx.Err()
}

// count compares labels and parts with those of the version before.
func (l *relabeller) count(ctx context.Context) error {
	var labels, parts []byte
	old, split := l.base.Manifest().Labels(), ""
	if c, err := l.base.Manifest().SplitColumn(""); err == nil {
		split = c.Name
	}
	rewritten := slices.ContainsFunc(l.edges.Manifest.Columns, func(c store.ColumnInfo) bool { return c.Role == store.RoleSplit && (split == "" || c.Name == split) })
	for p, info := range l.m.Partitions {
		var err error
		if old != nil {
			if labels, err = l.base.ReadColumn(ctx, old.Name, store.PartitionID(p), labels); err != nil {
				return err
			}
		}
		if split != "" && (!rewritten || l.of.Split == nil) {
			if parts, err = l.base.ReadColumn(ctx, split, store.PartitionID(p), parts); err != nil {
				return err
			}
		}
		for k := range info.Nodes {
			was := int32(-1)
			if old != nil {
				was = int32(binary.LittleEndian.Uint32(labels[4*k:]))
			}
			now := was >= 0
			if given := l.label.row(uint64(info.First) + k); given != nil {
				l.rep.Given++
				if now = true; was < 0 {
					l.rep.New++
				} else if !l.merged.same(given, was) {
					l.rep.Changed++
				}
			}
			if !now || parts == nil || int(k) >= len(parts) {
				continue
			}
			part := parts[k]
			if given := l.parts[split].row(uint64(info.First) + k); given != nil {
				part = given[0]
			}
			if part == store.SplitNone {
				l.rep.Unparted++
			}
		}
	}
	return nil
}
