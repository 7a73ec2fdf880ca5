package table

import (
	"github.com/gstore/gstore/store"
)

// Options say how text and tables are to be read. The zero value detects everything.
type Options struct {
	// Columns names the fields of edges in order: "src", "dst", "relation", "weight",
	// "timestamp"; "-" skips one, "-*N" N of them, "-*" at the end all that follow. Any other name is a numeric
	// feature of the edge: NAME or NAME:TYPE of one field, NAME*N or NAME:TYPE*N
	// of N fields. nil = as the first line names them, or src, dst of two fields.
	Columns []string
	// Delimiter separates fields; 0 = the first of tab, comma, semicolon and bar that
	// the first line has, or else runs of blanks and tabs.
	Delimiter byte
	// Quotes says that fields in double quotes are what stands in them (RFC 4180), or that quotes
	// are text; nil = the former, but where tabs or blanks separate the latter (unless every field of the first line is in quotes).
	Quotes *bool
	// Header says that the first line that is no comment names fields and is no
	// edge; nil = it is one if it names both ends, or stands where --columns expects numbers.
	Header *bool
	// IDs is the kind of node ids: dense integers (0 ≤ id, no gaps expected), any
	// integers, or strings; "" = integers if the first lines have them, else strings.
	IDs store.IDKind
	// NodeColumns names the columns of tables of nodes in order: "id", "label",
	// "split", "train_mask", "valid_mask", "test_mask", "-", or features as in
	// Columns. nil = by their names.
	NodeColumns []string
	// ID names the column of a table of nodes that has their ids; "" = as it is called.
	ID string
	// Label names the column of a table of nodes that has the labels, as NAME or, of one type's, TYPE.NAME; several are 1 where a node has
	// the label of their name, else 0; nil = as they are called.
	Label []string
	// OrLabel is Label where that is nil and a table has all of these; LabelsOnly leaves out what is neither an id, a label nor a split.
	OrLabel    []string
	LabelsOnly bool
	// Skip names columns of tables that are left out, Use columns of dates that are features.
	Skip, Use []string
	// Like, if not nil, is the version of a store that tables of nodes are added to: their text is coded as its classes and
	// features are, and the elements of features have its order.
	Like *store.Manifest
	// LikeTypes are the node types that the ids of that store begin with, TYPE:ID; nil = ids do not say their types.
	LikeTypes []string
	types     []string // of tables' nodes, where they have types
	ends      []string // types of a table's sources and destinations, where its name says them; its relation then too
	// Lists says that columns of text which hold lists of as many numbers are features, [0.1, 0.2] or 0,1.
	Lists bool
	// SkipBadMax is how many malformed lines are skipped; one more fails. 0 = the first fails.
	SkipBadMax int64
	// OnBad, if not nil, is told of each skipped line; calls may be concurrent.
	OnBad func(error)
}

// OfTypes is o for edges between nodes of types, whose ids are strings, TYPE:ID; none = o.
func (o Options) OfTypes(types []string) Options {
	o.types = types
	return o
}

// Between is o for a table of edges whose name says the types of their ends and the relation.
func (o Options) Between(src, dst string) Options {
	o.ends = []string{src, dst}
	return o
}
