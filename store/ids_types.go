package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gstore/gstore/store/internal/meta"
)

// TypePrefix is what the external ids of a node type begin with where ids of each type are a space of their own: TYPE:ID.
func TypePrefix(nodeType string) string { return nodeType + ":" }

// UntypedName is the name of the one node type of a graph without types.
const UntypedName = "node"

// prefixNames are the types that ids may begin with; nil = they cannot.
func (m *Manifest) prefixNames() (names []string) {
	types := m.Schema.NodeTypes
	if m.IDs.Kind != IDsStrings || len(types) == 1 && types[0].Name == UntypedName {
		return nil
	}
	for _, t := range types {
		names = append(names, t.Name)
	}
	return names
}

// TypesOfIDs are the node types that the external ids begin with, TYPE:ID, in the schema's order; nil where ids do not say their types. It
// looks at one id of each type.
func (s *Store) TypesOfIDs(ctx context.Context) (types []string, err error) {
	names := s.manifest.prefixNames()
	if names == nil {
		return nil, nil
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	m, err := meta.Open(ctx, s.env, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for t, name := range names {
		found := s.manifest.Schema.NodeTypes[t].Count == 0
		for _, gen := range s.manifest.IDs.Dictionaries {
			if found {
				break
			}
			err := m.Iterate(string(meta.DictionaryKey(nil, gen, []byte(TypePrefix(name)))), func(it *pebble.Iterator) error {
				found = it.First()
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		if !found {
			return nil, nil
		}
	}
	return names, nil
}

// LookupNames is [Store.LookupStrings] for ids that people give, who may leave out the type: C100000 is customer:C100000, if no other
// type has it. An id that several types have is an ErrNotFound that names them; NoNode stands where none has it.
func (s *Store) LookupNames(ctx context.Context, external []string, ids []NodeID) error {
	if err := s.LookupStrings(ctx, external, ids); err != nil {
		return err
	}
	var open []int // what was not found
	for i, id := range ids {
		if id == NoNode {
			open = append(open, i)
		}
	}
	types := s.manifest.prefixNames()
	if len(open) == 0 || types == nil {
		return nil
	}
	names, found := make([]string, len(open)), make([]NodeID, len(open))
	of := make([]string, len(open)) // the type in which each was found
	for _, t := range types {
		for k, i := range open {
			names[k] = TypePrefix(t) + external[i]
		}
		if err := s.LookupStrings(ctx, names, found); err != nil {
			return err
		}
		for k, i := range open {
			switch {
			case found[k] == NoNode:
			case of[k] != "":
				return fmt.Errorf("%w: %q is a node of several types: write %s%s or %s", ErrNotFound, external[i], TypePrefix(of[k]), external[i], names[k])
			default:
				ids[i], of[k] = found[k], t
			}
		}
	}
	return nil
}
