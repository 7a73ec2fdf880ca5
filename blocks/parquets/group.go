// Package parquets makes schemas of Parquet files that gstore writes.
package parquets

import "github.com/parquet-go/parquet-go"

// Group is a schema whose columns keep the order in which they were added; the library's own sorts them by name.
type Group struct {
	parquet.Group
	names []string
}

// Add appends a column. It reports whether there was none of that name.
func (g *Group) Add(name string, node parquet.Node) bool {
	if _, ok := g.Group[name]; ok {
		return false
	}
	if g.Group == nil {
		g.Group = parquet.Group{}
	}
	g.Group[name] = node
	g.names = append(g.names, name)
	return true
}

// Fields implements [parquet.Node].
func (g *Group) Fields() []parquet.Field {
	places := make(map[string]int, len(g.names))
	for k, name := range g.names {
		places[name] = k
	}
	fields := make([]parquet.Field, len(g.names))
	for _, f := range g.Group.Fields() {
		fields[places[f.Name()]] = f
	}
	return fields
}
