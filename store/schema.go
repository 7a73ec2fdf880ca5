package store

import (
	"fmt"
	"slices"
	"strings"
)

// Schema says what a store's nodes and edges are.
type Schema struct {
	// NodeTypes has at least one entry. Nodes of all types share one id space.
	NodeTypes []NodeType `json:"node_types"`
	// Relations are the edge types; a [RelationID] is an index. At least one.
	Relations []Relation `json:"relations"`
	// Undirected graphs are stored once (src ≤ dst by internal id) and mirrored
	// when a macro-batch is built.
	Undirected bool `json:"undirected"`
	// Task is what the data is labelled for: TaskNode, TaskLink or "" (nothing).
	Task string `json:"task,omitempty"`
	// Classes is the number of label classes of a node task: labels are −1 or 0 ≤ l < Classes. 0 where labels are numbers.
	// Where a node may have several labels it is how many there are to have ([LabelSets]).
	Classes int `json:"classes,omitempty"`
	// ClassNames is nil or one name a class.
	ClassNames []string `json:"class_names,omitempty"`
}

// Tasks.
const (
	TaskNode = "node" // labels and a split lie on nodes
	TaskLink = "link" // valid and test edge lists
)

// NodeType is one kind of node.
type NodeType struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// Relation is one kind of edge.
type Relation struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"` // stored edges of this relation
}

// RelationNamed is the relation of a name, or of what is between the types in its name (source:name:destination) where no other has
// the same.
func (s *Schema) RelationNamed(name string) (RelationID, error) {
	var names []string
	found := -1
	for r, relation := range s.Relations {
		if relation.Name == name {
			return RelationID(r), nil
		}
		names = append(names, relation.Name)
	}
	for r, full := range names {
		if parts := strings.Split(full, ":"); len(parts) == 3 && parts[1] == name {
			if found >= 0 {
				return 0, Invalid(fmt.Errorf("relation %q is %s and %s: name one of them", name, names[found], full))
			}
			found = r
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("%w: the store has no relation %q (it has %q)", ErrNotFound, name, names)
	}
	return RelationID(found), nil
}

// Ends returns the numbers of the node types that a relation's edges lead from and to, by the types in its name (source:name:destination)
// or where there is one type alone; false where neither says.
func (s *Schema) Ends(r RelationID) (src, dst int, ok bool) {
	if len(s.NodeTypes) == 1 {
		return 0, 0, true
	}
	if parts := strings.Split(s.Relations[r].Name, ":"); len(parts) == 3 {
		src, dst = s.nodeType(parts[0]), s.nodeType(parts[2])
		return src, dst, src >= 0 && dst >= 0
	}
	return 0, 0, false
}

// ShortName is what is between the types in a relation's name, if [Schema.RelationNamed] takes it, or all of the name.
func (s *Schema) ShortName(r RelationID) string {
	name := s.Relations[r].Name
	if parts := strings.Split(name, ":"); len(parts) == 3 {
		if of, err := s.RelationNamed(parts[1]); err == nil && of == r {
			return parts[1]
		}
	}
	return name
}

// Role says what a column is for.
type Role string

// Roles. The strings are part of the format.
const (
	RoleFeature  Role = "feature"  // node rows that feed a model
	RoleLabel    Role = "label"    // int32 per node, a class, the code of a number or the number of a set of labels, −1 = none
	RoleSplit    Role = "split"    // uint8 per node, one of the Split values
	RoleNode     Role = "node"     // any other node column
	RoleRelation Role = "relation" // uint8 or uint16 per edge: its RelationID
	RoleWeight   Role = "weight"   // float32 per edge
	RoleEdge     Role = "edge"     // any other edge column
)

// OnEdges reports whether rows of the role are edges; they are nodes otherwise.
func (r Role) OnEdges() bool { return r == RoleRelation || r == RoleWeight || r == RoleEdge }

func (r Role) known() bool {
	switch r {
	case RoleFeature, RoleLabel, RoleSplit, RoleNode, RoleRelation, RoleWeight, RoleEdge:
		return true
	}
	return false
}

// Values of a split column. Part of the format; never renumber.
const (
	SplitNone  uint8 = 0
	SplitTrain uint8 = 1
	SplitValid uint8 = 2
	SplitTest  uint8 = 3
)

// SplitNames names the values of a split column, by value.
func SplitNames() []string { return []string{"none", "train", "valid", "test"} }

func (s *Schema) validate(nodes uint64) error {
	if len(s.NodeTypes) == 0 || len(s.Relations) == 0 {
		return fmt.Errorf("%w: schema has %d node types and %d relations, expected at least one of each", ErrInvalid, len(s.NodeTypes), len(s.Relations))
	}
	var total uint64
	for _, t := range s.NodeTypes {
		total += t.Count
	}
	if total != nodes {
		return fmt.Errorf("%w: node types count %d nodes, the manifest says %d", ErrInvalid, total, nodes)
	}
	switch s.Task {
	case "", TaskNode, TaskLink:
	default:
		return fmt.Errorf("%w: unknown task %q (known: %q, %q)", ErrInvalid, s.Task, TaskNode, TaskLink)
	}
	if s.ClassNames != nil && len(s.ClassNames) != s.Classes {
		return fmt.Errorf("%w: %d class names for %d classes", ErrInvalid, len(s.ClassNames), s.Classes)
	}
	return nil
}

// SplitValue returns a split's value in a split column, SplitNone if there is none of that name.
func SplitValue(name string) uint8 {
	if i := slices.Index(SplitNames(), name); i > 0 {
		return uint8(i)
	}
	return SplitNone
}
