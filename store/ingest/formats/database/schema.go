package database

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gstore/gstore/store/ingest"
)

// Schema says of each table of a database what its columns mean. In YAML it is
//
//	tables:
//	  results:
//	    file: results.csv          # of a folder; default: TABLE.parquet, .csv, .tsv, in the folder or its db/
//	    key: resultId              # or a list of columns; none: rows are numbered
//	    time: date                 # none: rows were always there
//	    references:
//	      - {columns: driverId, table: drivers}
//	    columns: {points: number, statusId: category, note: skip}
//	  drivers: {implied: true}     # a table without a file: its rows are what others refer to
//
// or what RelBench's manifest.yaml has of it: pkey, time_col and fkeys. A column without a kind gets the one that its values suggest.
type Schema struct {
	Name   string            `yaml:"name,omitempty"`
	Tables map[string]*Table `yaml:"tables"`
	Notes  []string          `yaml:"notes,omitempty"` // what of the database is left out, and why
}

// Table is what a schema says of a table.
type Table struct {
	File       string          `yaml:"file,omitempty"`
	Key        Names           `yaml:"key,omitempty"`
	Time       string          `yaml:"time,omitempty"`
	References []Reference     `yaml:"references,omitempty"`
	Columns    map[string]Kind `yaml:"columns,omitempty"`
	// Implied tables have no file: their rows are what others refer to, by one column.
	Implied bool `yaml:"implied,omitempty"`

	// As RelBench names them; [ParseSchema] moves them to the others.
	PKey    string            `yaml:"pkey,omitempty"`
	TimeCol string            `yaml:"time_col,omitempty"`
	FKeys   map[string]string `yaml:"fkeys,omitempty"`
}

// Reference is a foreign key: columns that hold the key of a row of a table.
type Reference struct {
	Columns Names  `yaml:"columns"`
	Table   string `yaml:"table"`
}

// Names are columns: one, or a list.
type Names []string

// UnmarshalYAML takes a string for a list of one.
func (n *Names) UnmarshalYAML(v *yaml.Node) error {
	if v.Kind == yaml.ScalarNode {
		if v.Tag != "!!null" {
			*n = Names{v.Value}
		}
		return nil
	}
	return v.Decode((*[]string)(n))
}

// MarshalYAML writes a list of one as a string.
func (n Names) MarshalYAML() (any, error) {
	if len(n) == 1 {
		return n[0], nil
	}
	return []string(n), nil
}

// Kind is what a column's values are to a model.
type Kind string

// Kinds of columns.
const (
	Number   Kind = "number"   // standardised, with a mark where some are missing
	Boolean  Kind = "boolean"  // 0 or 1
	Date     Kind = "date"     // days since 1970, standardised
	Category Kind = "category" // a learned vector for each value
	Set      Kind = "set"      // text of parts, such as Comedy|Drama: 0 or 1 for each part
	Text     Kind = "text"     // hashed n-grams
	Vector   Kind = "vector"   // a list of numbers of one length, as it is
	Label    Kind = "label"    // what models of nodes learn: a class, or a number; of one column of the database
	Skip     Kind = "skip"     // no feature
)

// Kinds lists the kinds of columns.
func Kinds() []Kind { return []Kind{Number, Boolean, Date, Category, Set, Text, Vector, Label, Skip} }

// schemaBytesMax bounds a schema's file.
const schemaBytesMax = 64 << 20

// ParseSchema reads a schema of YAML; where is for messages. References to tables that it lacks and the like are found by validate.
func ParseSchema(where string, b []byte) (*Schema, error) {
	if len(b) > schemaBytesMax {
		return nil, ingest.Inputf(where, "a schema of %d bytes, at most %d are read", len(b), schemaBytesMax)
	}
	s := &Schema{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(s); err != nil {
		return nil, ingest.Inputf(where, "no schema: %v", err)
	}
	for _, name := range s.names() {
		t := s.Tables[name]
		if t == nil {
			t = &Table{}
			s.Tables[name] = t
		}
		if t.PKey != "" {
			t.Key = append(t.Key, t.PKey)
		}
		if t.TimeCol != "" {
			t.Time = t.TimeCol
		}
		for _, column := range slices.Sorted(maps.Keys(t.FKeys)) {
			t.References = append(t.References, Reference{Names{column}, t.FKeys[column]})
		}
		t.PKey, t.TimeCol, t.FKeys = "", "", nil
		t.imply()
	}
	return s, s.validate(where)
}

// imply gives an implied table the key that others refer to.
func (t *Table) imply() {
	if t.Implied && len(t.Key) == 0 {
		t.Key = Names{"id"}
	}
}

// implies reports whether the schema has implied tables.
func (s *Schema) implies() bool {
	for _, t := range s.Tables {
		if t.Implied {
			return true
		}
	}
	return false
}

// label is the column of labels, as TABLE.COLUMN; "" = there is none.
func (s *Schema) label() string {
	for _, name := range s.names() {
		for _, column := range slices.Sorted(maps.Keys(s.Tables[name].Columns)) {
			if s.Tables[name].Columns[column] == Label {
				return name + "." + column
			}
		}
	}
	return ""
}

// names lists the tables in order.
func (s *Schema) names() []string { return slices.Sorted(maps.Keys(s.Tables)) }

// Write writes the schema as YAML.
func (s *Schema) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return err
	}
	return e.Close()
}

// tableNameMax bounds the name of a table, which every node's id begins with.
const tableNameMax = 200

// validate says what is wrong with the schema in itself.
func (s *Schema) validate(where string) error {
	if len(s.Tables) == 0 {
		return ingest.Inputf(where, "no tables, expected tables: {NAME: {key: …, time: …, references: …}}")
	}
	labels := 0
	for _, name := range s.names() {
		t := s.Tables[name]
		bad := func(format string, args ...any) error {
			return ingest.Inputf(where, "table %q: %s", name, fmt.Sprintf(format, args...))
		}
		if name == "" || strings.ContainsAny(name, ":\x00") || len(name) > tableNameMax {
			return bad("expected a name of 1 to %d bytes without a colon, which ends it in the ids of its rows", tableNameMax)
		}
		if t.Implied && (t.File != "" || t.Time != "" || len(t.References)+len(t.Columns) > 0 || len(t.Key) > 1) {
			return bad("it is implied by what refers to it, and so has no file, time, references and columns")
		}
		if twice := twiceIn(t.Key); twice != "" {
			return bad("column %q stands twice in its key", twice)
		}
		taken := map[string]bool{}
		for _, r := range t.References {
			to := s.Tables[r.Table]
			switch {
			case len(r.Columns) == 0 || slices.Contains(r.Columns, ""):
				return bad("a reference to %q of columns %q, expected names of columns", r.Table, []string(r.Columns))
			case to == nil:
				return bad("columns %q refer to table %q, which is not there: the tables are %q", []string(r.Columns), r.Table, s.names())
			case len(to.Key) == 0:
				return bad("columns %q refer to table %q, which has no key", []string(r.Columns), r.Table)
			case len(to.Key) != len(r.Columns):
				return bad("columns %q refer to table %q, whose key has %d columns, %q", []string(r.Columns), r.Table, len(to.Key), []string(to.Key))
			}
			relation := r.relation(name)
			if taken[relation] {
				return bad("columns %q refer to table %q twice", []string(r.Columns), r.Table)
			}
			taken[relation] = true
		}
		for column, kind := range t.Columns {
			if kind == Label {
				labels++
			}
			if labels > 1 {
				return bad("column %q is a second one of labels, beside %s: a model learns one", column, s.label())
			}
			if !slices.Contains(Kinds(), kind) {
				return bad("column %q is of kind %q, expected one of %v", column, kind, Kinds())
			}
		}
	}
	return nil
}

// twiceIn is the first name that stands there twice; "" = none does.
func twiceIn(names []string) string {
	for k, n := range names {
		if slices.Contains(names[:k], n) {
			return n
		}
	}
	return ""
}

// relation is the name of the relation that the reference of a table is: TABLE:COLUMNS:TABLE, whose parts have no other colons.
func (r *Reference) relation(table string) string {
	return strings.Join([]string{table, strings.ReplaceAll(strings.Join(r.Columns, "+"), ":", "."), r.Table}, ":")
}
