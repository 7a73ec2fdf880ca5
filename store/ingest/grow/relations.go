package grow

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// relationFile is what a file of one relation's edges is called, without what says its kind.
func relationFile(r *store.Relation) string { return strings.ReplaceAll(r.Name, ":", "-") }

// relationOf is the relation of all edges of a file that says none of each: the one that it is called by, or the store's only one; −1 if there
// is none.
func (a *appender) relationOf(file string) int {
	s := &a.m.Schema
	base, _, _ := strings.Cut(filepath.Base(file), ".")
	for k := range s.Relations {
		if base == relationFile(&s.Relations[k]) || base == s.ShortName(store.RelationID(k)) {
			return k
		}
	}
	if len(s.Relations) == 1 {
		return 0
	}
	return -1
}

// addRelations extends the schema by relations that the store does not have yet. What is between the types in a relation's name says it where
// no other has the same.
func (a *appender) addRelations() error {
	r, m := a.edges, a.m
	r.RelationIndex = map[string]uint32{}
	for k, rel := range m.Schema.Relations {
		r.RelationIndex[rel.Name] = uint32(k)
	}
	if !r.Desc.HasRelation {
		return nil
	}
	names := a.desc.Relations
	if len(names) == 0 {
		names = r.State.Relations // found among the edges
	}
	for _, name := range names {
		if _, ok := r.RelationIndex[name]; ok {
			continue
		}
		switch k, err := a.base.Manifest().Schema.RelationNamed(name); {
		case err == nil:
			r.RelationIndex[name] = uint32(k)
		case !errors.Is(err, store.ErrNotFound):
			return source.Inputf(a.desc.Input, "%v", err)
		case a.o.Change == Delete:
			r.RelationIndex[name] = noRelation
		default:
			r.RelationIndex[name] = uint32(len(m.Schema.Relations))
			m.Schema.Relations = append(m.Schema.Relations, store.Relation{Name: name})
			a.rep.NewRelations = append(a.rep.NewRelations, name)
		}
	}
	most := source.RelationsMax
	if c := m.ColumnsOf(store.RoleRelation)[0]; c.Elem == blocks.Uint8 {
		most = 1 << 8
	}
	if n := len(m.Schema.Relations); n > most {
		return source.Inputf(a.desc.Input, "%d relations with those of the store, whose column has room for %d", n, most)
	}
	return nil
}
