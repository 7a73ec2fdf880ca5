package formats

import (
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/ingest"
)

// A folder for Neo4j's import is one of types: spaces of ids are the types, :TYPE the relation.
func TestNeo4j(t *testing.T) {
	files := map[string][]byte{
		"d/people.csv": []byte("code:ID(Person),name,age:int,:LABEL\na,Ann,30,Person\nb,Bo,31,Person;Actor\n"),
		"d/films.csv":  []byte(":ID(Movie),year:int\n1,1999\n2,2001\n"),
		"d/acted.csv":  []byte(":START_ID(Person),role,:END_ID(Movie),:TYPE\na,x,1,ACTED_IN\nb,y,1,ACTED_IN\n"),
		"d/other.csv":  []byte(":END_ID(Person),:START_ID(Person),since:int,:TYPE\na,b,5,KNOWS\nb,a,6,LIKES\n"),
		"d/notes.csv":  []byte("a,b\n1,2\n"),
	}
	s, err := Open("d", Options{FS: memFS(t, files)})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Describe()
	edges, err := show(t, s)
	if slices.Sort(edges); err != nil || !slices.Equal(edges, []string{"Person:a Movie:1 0 [0]", "Person:a Person:b 1 [6]", "Person:b Movie:1 0 [0]", "Person:b Person:a 1 [5]"}) {
		t.Errorf("edges %q, %v", edges, err)
	}
	var types []string
	for _, n := range d.NodeTypes {
		types = append(types, n.Name)
	}
	slices.Sort(types)
	if d.Format != "neo4j" || !slices.Equal(types, []string{"Movie", "Person"}) || !slices.Equal(d.Relations, []string{"Person:ACTED_IN:Movie", "Person:other:Person"}) {
		t.Errorf("%s, types %q, relations %q", d.Format, types, d.Relations)
	}
	notes := strings.Join(d.Notes, "\n")
	if !strings.Contains(notes, `d/other.csv has edges of types ["KNOWS" "LIKES"]`) || !strings.Contains(notes, "d/notes.csv is not read") {
		t.Errorf("notes %q", d.Notes)
	}
	used := func(column, as string) bool {
		return slices.ContainsFunc(d.Uses, func(u ingest.ColumnUse) bool { return u.Column == column && u.As == as })
	}
	if !used(`"code:ID"`, "id") || !used(`":ID"`, "id") || !used(`"age:int"`, "feature Person.x") || !used(`":END_ID"`, "destination of type Movie") {
		t.Errorf("told of %+v", d.Uses)
	}
	// Ids of one space without a name, and files that are named.
	one := map[string][]byte{"d/n.csv": []byte("id:ID,x:float\n1,.5\n2,1\n"), "d/e.csv": []byte(":START_ID,:END_ID,:TYPE\n1,2,T\n")}
	if s, err = Open("d", Options{FS: memFS(t, one)}); err != nil || !slices.Equal(s.Describe().Relations, []string{"node:T:node"}) {
		t.Errorf("%v, %+v", err, s)
	}
	if s, err = Open("d/acted.csv", Options{FS: memFS(t, files), Nodes: []string{"Person=d/people.csv", "Movie=d/films.csv"}}); err != nil {
		t.Fatal(err)
	}
	if edges, err = show(t, s); err != nil || len(edges) != 2 || !strings.HasPrefix(edges[0], "Person:a Movie:1") {
		t.Errorf("by --nodes: %q, %v", edges, err)
	}
}
