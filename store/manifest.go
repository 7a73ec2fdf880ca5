package store

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/internal/meta"
)

// Manifest is one committed version of a store: what it holds and in which
// files. It is written once, as JSON, under the version's key; what concerns a
// single extent (offsets, checksums) lives in the file's footer instead.
//
// A column's rows, and the topology, may be spread over several files: the
// extent of partition p is the one in the last listed file that has one. So a
// version that appends partitions, or replaces some, adds a file and rewrites
// nothing.
type Manifest struct {
	Version uint64    `json:"version"` // ≥ 1; set by Commit
	Parent  uint64    `json:"parent"`  // the version it was made from; 0 = none; set by Commit
	Created time.Time `json:"created"` // set by Commit
	Note    string    `json:"note,omitempty"`

	Schema Schema `json:"schema"`
	Nodes  uint64 `json:"nodes"`
	Edges  uint64 `json:"edges"` // stored edges; an undirected edge counts once

	// Partitions lie in order of their first node: partition p holds the nodes
	// First ≤ id < First+Nodes, and p+1 begins where p ends.
	Partitions []PartitionInfo `json:"partitions"`
	// Pinned partitions stay resident for whole runs; ascending.
	Pinned []PartitionID `json:"pinned,omitempty"`

	Topology  []string       `json:"topology"` // files of kind Topology, oldest first
	Columns   []ColumnInfo   `json:"columns"`
	EdgeLists []EdgeListInfo `json:"edge_lists,omitempty"`
	IDs       IDInfo         `json:"ids"`
	// Files lists every data file that the version uses, by name.
	Files []FileRef `json:"files"`

	// Ingest is how the version was made: input, seed, partitioner and the
	// like, for people and for resuming. The store does not read it.
	Ingest map[string]string `json:"ingest,omitempty"`
}

// PartitionInfo describes one partition.
type PartitionInfo struct {
	First NodeID `json:"first"`
	Nodes uint64 `json:"nodes"`
	Edges uint64 `json:"edges"` // of stripe j: edges whose dst is here
	// Nodes of each split (node tasks), 0 otherwise.
	Train uint64 `json:"train,omitempty"`
	Valid uint64 `json:"valid,omitempty"`
	Test  uint64 `json:"test,omitempty"`
	// Types is how many of the nodes are of each of the schema's node types, whose rows follow each other in that order;
	// nil = that is not known, and columns have a row for each node.
	Types []uint32 `json:"types,omitempty"`
}

// ColumnInfo describes a column of nodes or edges.
type ColumnInfo struct {
	Name string          `json:"name"` // unique in the store
	Role Role            `json:"role"`
	Elem blocks.ElemType `json:"elem"`
	Dim  int             `json:"dim"` // elements a row, ≥ 1
	// Scale holds one factor a dimension for Int8: value = element × Scale[d].
	Scale []float32 `json:"scale,omitempty"`
	// Standard is how the values of a feature were standardised; nil = they are as they were given.
	Standard *Standard `json:"standard,omitempty"`
	// Elements names the elements of a row; nil = they have no names.
	Elements []string `json:"elements,omitempty"`
	// Missing counts the elements that had no value and were filled in.
	Missing uint64 `json:"missing,omitempty"`
	// NodeType limits a column to one node type (rows of others are zero); "" = all.
	NodeType string `json:"node_type,omitempty"`
	// Numbers says of labels that they are numbers ([blocks.CodedNumber]), not classes.
	Numbers bool `json:"numbers,omitempty"`
	// Sets are of labels of which a node may have several: an entry is the number of one of these ([LabelSets]). Else nil.
	Sets []byte `json:"sets,omitempty"`
	// Runs says that extents hold the rows of NodeType alone, where partitions know types (see [NodeRows]). Column [TypeColumn] has
	// no files then: it follows from them. Since format 2.
	Runs bool `json:"runs,omitempty"`
	// Values are those of a column of weights that has few: its files of one uint8 a row hold their numbers, others the
	// weights (see [ColumnInfo.Coded]). Since format 2.
	Values []float32 `json:"values,omitempty"`
	// Categories are what the numbers 1, 2, … of a node column of categories stand for; 0 is none of them.
	Categories []string `json:"categories,omitempty"`
	// Numbered is how many numbers a column gives that numbers the nodes of a type, where nodes that had some were taken out of the store; 0: as
	// many as there are nodes.
	Numbered uint64   `json:"numbered,omitempty"`
	Files    []string `json:"files"` // oldest first
	// Derived says what of the graph the column was computed from, such as "mean of x over
	// neighbours"; "" = it is data. An append drops derived columns: they would be wrong.
	Derived string `json:"derived,omitempty"`
}

// Standard says how a feature was brought to mean 0 and deviation 1: element d of a row is
// (value − Mean[d]) / Deviation[d]. Rows that are added later are brought to it too.
type Standard struct {
	Mean      []float64 `json:"mean"`
	Deviation []float64 `json:"deviation"` // > 0
}

// Validate says what is wrong with s for rows of dim elements.
func (s *Standard) Validate(dim int) error {
	if len(s.Mean) != dim || len(s.Deviation) != dim {
		return fmt.Errorf("%w: %d means and %d deviations for %d dimensions", ErrInvalid, len(s.Mean), len(s.Deviation), dim)
	}
	for d, v := range s.Deviation {
		if m := s.Mean[d]; !(v > 0) || math.IsInf(v, 0) || math.IsInf(m, 0) || math.IsNaN(m) {
			return fmt.Errorf("%w: mean %v and deviation %v of dimension %d", ErrInvalid, m, v, d)
		}
	}
	return nil
}

// RowBytes is the size of one row.
func (c *ColumnInfo) RowBytes() int { return c.Dim * c.Elem.Size() }

// EdgeListInfo describes a list of edges that lie outside the graph: the
// validation and test triples of a link task.
type EdgeListInfo struct {
	Name string `json:"name"` // "valid", "test", …; unique
	Rows uint64 `json:"rows"`
	File string `json:"file"`
}

// NegativesSuffix ends the name of an edge list of wrong answers: "valid_negatives" has as many edges that are not in the graph for each edge
// of list valid, in its order. What edges of a store are right does not include them.
const NegativesSuffix = "_negatives"

// SharedNegativesSuffix ends the name, which is OGB's, of an edge list of wrong answers that all edges of another share: any number of them
// in "valid_edge_neg" for those of list valid. The names of lists are part of the format.
const SharedNegativesSuffix = "_edge_neg"

// Negatives reports whether the list holds wrong answers.
func (l *EdgeListInfo) Negatives() bool {
	return strings.HasSuffix(l.Name, NegativesSuffix) || strings.HasSuffix(l.Name, SharedNegativesSuffix)
}

// IDKind says what external ids are.
type IDKind string

// Kinds of external ids. The strings are part of the format.
const (
	IDsDense    IDKind = "dense"    // integers 0 ≤ e < Nodes: array look-up both ways
	IDsIntegers IDKind = "integers" // any uint64: dictionary in Pebble
	IDsStrings  IDKind = "strings"  // UTF-8 or any bytes: dictionary in Pebble
)

// IDInfo says how external and internal ids map to each other.
type IDInfo struct {
	Kind IDKind `json:"kind"`
	// External lists files of kind ExternalIDs (internal → external), oldest first.
	External []string `json:"external"`
	// Map is the file of kind IDMap (external → internal); dense ids only. Maps are
	// further ones, oldest first, whose extents add to it or replace some of its own.
	Map  string   `json:"map,omitempty"`
	Maps []string `json:"maps,omitempty"`
	// Dictionaries name the generations of dictionary entries in Pebble
	// (external → internal), oldest first; other kinds only.
	Dictionaries []uint64 `json:"dictionaries,omitempty"`
}

// FileRef names a data file and binds its contents.
type FileRef struct {
	Name           string `json:"name"` // in the store's data directory
	Size           int64  `json:"size"` // bytes
	FooterChecksum uint32 `json:"footer_checksum"`
}

// Column returns the column called name.
func (m *Manifest) Column(name string) (*ColumnInfo, error) {
	for i := range m.Columns {
		if m.Columns[i].Name == name {
			return &m.Columns[i], nil
		}
	}
	return nil, fmt.Errorf("%w: column %q (the store has %v)", ErrNotFound, name, m.ColumnNames(""))
}

// ColumnsOf lists the columns of a role, in the manifest's order.
func (m *Manifest) ColumnsOf(role Role) []*ColumnInfo {
	var cs []*ColumnInfo
	for i := range m.Columns {
		if m.Columns[i].Role == role {
			cs = append(cs, &m.Columns[i])
		}
	}
	return cs
}

// Labels is the column of labels; nil = there is none.
func (m *Manifest) Labels() *ColumnInfo {
	if cs := m.ColumnsOf(RoleLabel); len(cs) > 0 {
		return cs[0]
	}
	return nil
}

// NumberLabels reports whether the labels are numbers, which models are fitted to by regression.
func (m *Manifest) NumberLabels() bool {
	c := m.Labels()
	return c != nil && c.Numbers
}

// SplitColumn returns the split column called name, the first one for "". A
// name of no split column is [ErrNotFound], and lists those there are.
func (m *Manifest) SplitColumn(name string) (*ColumnInfo, error) {
	for _, c := range m.ColumnsOf(RoleSplit) {
		if name == "" || c.Name == name {
			return c, nil
		}
	}
	if name == "" {
		return nil, fmt.Errorf("%w: a column of role %s", ErrNotFound, RoleSplit)
	}
	return nil, fmt.Errorf("%w: split column %q (the store has %q)", ErrNotFound, name, m.ColumnNames(RoleSplit))
}

// TimeNames are the names by which a column of times is known: those that ingest takes from files.
func TimeNames() []string { return []string{"timestamp", "time", "ts"} }

// TimeColumn returns the column that says when each edge was: one int64 an edge, called one of [TimeNames]. Without one
// the error is [ErrNotFound].
func (m *Manifest) TimeColumn() (*ColumnInfo, error) {
	for _, c := range m.ColumnsOf(RoleEdge) {
		if slices.Contains(TimeNames(), c.Name) && c.Elem == blocks.Int64 && c.Dim == 1 {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: a column of times: one int64 an edge, called one of %q (edges have %q)", ErrNotFound, TimeNames(), m.ColumnNames(RoleEdge))
}

// RelationColumn returns the column that says of which relation each edge is; nil of a store of one relation without such a
// column: all its edges are of that one. Without the column of a store of several the error is [ErrNotFound].
func (m *Manifest) RelationColumn() (*ColumnInfo, error) {
	if cs := m.ColumnsOf(RoleRelation); len(cs) > 0 {
		return cs[0], nil
	}
	if n := len(m.Schema.Relations); n > 1 {
		return nil, fmt.Errorf("%w: a column of role %s, of %d relations", ErrNotFound, RoleRelation, n)
	}
	return nil, nil
}

// Category is a column that names one of a number of learned vectors for each node: a uint32 node column called [TypeColumn], for
// a node type without features TYPE + [NodeSuffix], or any with [ColumnInfo].Categories. 0 means none, the vectors count from 1.
type Category struct {
	Column string
	Nodes  uint64 // how many vectors there are
}

// Names of columns of categories.
const (
	TypeColumn = "node_type" // of every node the number of its type
	NodeSuffix = ".node"     // of every node of a type its number in it
	// TimeSuffix ends the name of the column of the times of a node type's rows, TYPE.row_time: int64, seconds since 1970.
	TimeSuffix = ".row_time"
)

// RowTime returns the column of the times of a node type's nodes, int64 in seconds since 1970, before which nothing is known of them;
// nil where they have none: they were always there. [math.MaxInt64] is a time that is missing.
func (m *Manifest) RowTime(nodeType string) *ColumnInfo {
	c, err := m.Column(nodeType + TimeSuffix)
	if err != nil || c.Role != RoleNode || c.Elem != blocks.Int64 || c.Dim != 1 || c.NodeType != nodeType {
		return nil
	}
	return c
}

// Category returns the column of categories called name, if there is one.
func (m *Manifest) Category(name string) (Category, bool) {
	c, err := m.Column(name)
	if err != nil || c.Role != RoleNode || c.Elem != blocks.Uint32 || c.Dim != 1 {
		return Category{}, false
	}
	if c.Categories != nil {
		return Category{Column: name, Nodes: uint64(len(c.Categories))}, true
	}
	if name == TypeColumn {
		return Category{Column: name, Nodes: uint64(len(m.Schema.NodeTypes))}, true
	}
	for _, t := range m.Schema.NodeTypes {
		if name == t.Name+NodeSuffix {
			return Category{Column: name, Nodes: max(t.Count, c.Numbered)}, true
		}
	}
	return Category{}, false
}

// Categories lists the columns of categories, in the store's order.
func (m *Manifest) Categories() (list []Category) {
	for _, c := range m.ColumnsOf(RoleNode) {
		if k, ok := m.Category(c.Name); ok {
			list = append(list, k)
		}
	}
	return list
}

// Task is what the store is for: the schema's task, or, where that says nothing, TaskLink if there are edges to predict, lists
// valid and test.
func (m *Manifest) Task() string {
	if m.Schema.Task != "" {
		return m.Schema.Task
	}
	for _, name := range []string{"valid", "test"} {
		if _, err := m.EdgeList(name); err != nil {
			return ""
		}
	}
	return TaskLink
}

// Lists reports whether there is an edge list called name that has edges.
func (m *Manifest) Lists(name string) bool {
	l, err := m.EdgeList(name)
	return err == nil && l.Rows > 0
}

// EdgeList returns the edge list called name.
func (m *Manifest) EdgeList(name string) (*EdgeListInfo, error) {
	for i := range m.EdgeLists {
		if m.EdgeLists[i].Name == name {
			return &m.EdgeLists[i], nil
		}
	}
	return nil, fmt.Errorf("%w: edge list %q", ErrNotFound, name)
}

// Partition returns the partition that holds an internal id.
func (m *Manifest) Partition(id NodeID) (PartitionID, error) {
	if uint64(id) >= m.Nodes {
		return 0, fmt.Errorf("%w: node %d (the store has %d nodes)", ErrNotFound, id, m.Nodes)
	}
	// The last partition whose First is ≤ id; empty partitions share a First, the last of them holds the node.
	i, _ := slices.BinarySearchFunc(m.Partitions, uint64(id)+1, func(p PartitionInfo, next uint64) int {
		if uint64(p.First) < next {
			return -1
		}
		return 1
	})
	for i--; i > 0 && m.Partitions[i].Nodes == 0; i-- {
	}
	return PartitionID(i), nil
}

// ColumnNames are the names of a role's columns, of all columns for "", in the manifest's order.
func (m *Manifest) ColumnNames(role Role) []string {
	names := []string{}
	for _, c := range m.Columns {
		if role == "" || c.Role == role {
			names = append(names, c.Name)
		}
	}
	return names
}

// HubsWhy is why the partitioning has pinned hubs, or none, in words; "" if nobody asked.
func (m *Manifest) HubsWhy() string { return m.Ingest["hubs_why"] }

// DatabaseSchema is what the database was taken for that the version was made of, in YAML; "" if it was made of something else.
func (m *Manifest) DatabaseSchema() string { return m.Ingest["schema"] }

// Bytes is the size of the version's data files together.
func (m *Manifest) Bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Clone returns a deep copy: the usual start of a next version.
func (m *Manifest) Clone() *Manifest {
	b, err := json.Marshal(m)
	if err != nil { // no field can fail
		panic(err)
	}
	c := new(Manifest)
	if err := json.Unmarshal(b, c); err != nil {
		panic(err)
	}
	return c
}

// Validate checks that the manifest does not contradict itself. Files are not
// looked at.
func (m *Manifest) Validate() error {
	if err := m.Schema.validate(m.Nodes); err != nil {
		return err
	}
	if len(m.Partitions) == 0 {
		return fmt.Errorf("%w: no partitions", ErrInvalid)
	}
	var nodes, edges uint64
	for j, p := range m.Partitions {
		if uint64(p.First) != nodes {
			return fmt.Errorf("%w: partition %d begins at node %d, expected %d", ErrInvalid, j, p.First, nodes)
		}
		if p.Train+p.Valid+p.Test > p.Nodes {
			return fmt.Errorf("%w: partition %d has more nodes in splits (%d+%d+%d) than nodes (%d)", ErrInvalid, j, p.Train, p.Valid, p.Test, p.Nodes)
		}
		nodes += p.Nodes
		edges += p.Edges
	}
	if nodes != m.Nodes || edges != m.Edges {
		return fmt.Errorf("%w: partitions add up to %d nodes and %d edges, the manifest says %d and %d", ErrInvalid, nodes, edges, m.Nodes, m.Edges)
	}
	for i, p := range m.Pinned {
		if int(p) >= len(m.Partitions) || i > 0 && m.Pinned[i-1] >= p {
			return fmt.Errorf("%w: pinned partitions %v, expected ascending ids below %d", ErrInvalid, m.Pinned, len(m.Partitions))
		}
	}
	if err := m.validateTypes(); err != nil {
		return err
	}
	return m.validateFiles()
}

func (m *Manifest) validateFiles() error {
	known := map[string]bool{}
	for _, f := range m.Files {
		if known[f.Name] || !meta.ValidFileName(f.Name) {
			return fmt.Errorf("%w: file name %q is repeated or not a plain *%s name", ErrInvalid, f.Name, meta.FileSuffix)
		}
		known[f.Name] = true
	}
	used := map[string]bool{}
	use := func(what string, names ...string) error {
		for _, n := range names {
			if !known[n] {
				return fmt.Errorf("%w: %s names file %q, which the manifest does not list", ErrInvalid, what, n)
			}
			used[n] = true
		}
		return nil
	}
	if len(m.Topology) == 0 {
		return fmt.Errorf("%w: no topology file", ErrInvalid)
	}
	if err := use("topology", m.Topology...); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, c := range m.Columns {
		switch {
		case c.Name == "" || names[c.Name]:
			return fmt.Errorf("%w: column name %q is empty or repeated", ErrInvalid, c.Name)
		case !c.Role.known():
			return fmt.Errorf("%w: column %q has unknown role %q", ErrInvalid, c.Name, c.Role)
		case c.Dim < 1 || c.Elem.Size() == 0:
			return fmt.Errorf("%w: column %q is %d × %v", ErrInvalid, c.Name, c.Dim, c.Elem)
		case c.Scale != nil && len(c.Scale) != c.Dim:
			return fmt.Errorf("%w: column %q has %d scales for %d dimensions", ErrInvalid, c.Name, len(c.Scale), c.Dim)
		case c.Elements != nil && len(c.Elements) != c.Dim:
			return fmt.Errorf("%w: column %q has %d names for %d dimensions", ErrInvalid, c.Name, len(c.Elements), c.Dim)
		case c.Standard != nil && c.Standard.Validate(c.Dim) != nil:
			return fmt.Errorf("column %q: %w", c.Name, c.Standard.Validate(c.Dim))
		case c.Values != nil && (c.Role != RoleWeight || c.Elem != blocks.Float32 || c.Dim != 1 || len(c.Values) > 1<<8):
			return fmt.Errorf("%w: column %q of role %s is %d × %v of %d values, expected at most 256 of role %s, 1 × %v", ErrInvalid, c.Name, c.Role, c.Dim, c.Elem, len(c.Values), RoleWeight, blocks.Float32)
		case m.validateSets(&c) != nil:
			return m.validateSets(&c)
		case len(c.Files) == 0 && !c.followsTypes():
			return fmt.Errorf("%w: column %q has no file", ErrInvalid, c.Name)
		}
		names[c.Name] = true
		if err := use("column "+c.Name, c.Files...); err != nil {
			return err
		}
	}
	for _, l := range m.EdgeLists {
		if err := use("edge list "+l.Name, l.File); err != nil {
			return err
		}
	}
	if err := m.validateIDs(use); err != nil {
		return err
	}
	for _, f := range m.Files {
		if !used[f.Name] {
			return fmt.Errorf("%w: file %q is listed but nothing uses it", ErrInvalid, f.Name)
		}
	}
	return nil
}

func (m *Manifest) validateIDs(use func(string, ...string) error) error {
	switch m.IDs.Kind {
	case IDsDense:
		if m.IDs.Map == "" || len(m.IDs.Dictionaries) > 0 {
			return fmt.Errorf("%w: dense ids need a map file and no dictionary", ErrInvalid)
		}
		if err := use("id map", append([]string{m.IDs.Map}, m.IDs.Maps...)...); err != nil {
			return err
		}
	case IDsIntegers, IDsStrings:
		if m.IDs.Map != "" || len(m.IDs.Maps) > 0 || len(m.IDs.Dictionaries) == 0 {
			return fmt.Errorf("%w: %s ids need a dictionary and no map file", ErrInvalid, m.IDs.Kind)
		}
	default:
		return fmt.Errorf("%w: unknown id kind %q", ErrInvalid, m.IDs.Kind)
	}
	if len(m.IDs.External) == 0 {
		return fmt.Errorf("%w: no external id file", ErrInvalid)
	}
	return use("external ids", m.IDs.External...)
}
