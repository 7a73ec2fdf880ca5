package export

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Sentinels.
var (
	// ErrOptions marks options that make no sense, or not for this store.
	ErrOptions = errors.New("export options")
	// ErrExists marks a target that is there already.
	ErrExists = errors.New("exists")
)

// Format is a form of files.
type Format string

// Formats.
const (
	Numpy   Format = "numpy"
	TSV     Format = "tsv"
	Parquet Format = "parquet"
)

// What is a part of a store.
type What string

// Parts. Columns in Options.Extra are written whatever parts are asked for.
const (
	Graph    What = "graph"    // edges with their columns, and edge lists
	Features What = "features" // feature columns and others of role node
	Labels   What = "labels"
	Splits   What = "splits"
	IDs      What = "ids" // internal ids of external ones
)

// Parts lists every part, Formats every format.
func Parts() []What { return []What{Graph, Features, Labels, Splits, IDs} }

// Formats lists every format.
func Formats() []Format { return []Format{Numpy, TSV, Parquet} }

// Options say what is exported and how. The zero value writes graph, features, labels
// and splits as NumPy arrays.
type Options struct {
	Format Format // "" = Numpy
	What   []What // nil = Graph, Features, Labels, Splits, or nothing but Extra and Attached if there are any
	// Columns limits features and other node columns to these names; nil = all but those that are computed and no features.
	Columns []string
	// Extra are further columns of nodes.
	Extra []NodeColumn
	// Attached are further files of the folder.
	Attached []Attachment
	// HeldBytes of MemoryBytes are the caller's: columns and files that lie in memory.
	HeldBytes int64
	// MemoryBytes bounds resident memory; 0 = 1 GiB.
	MemoryBytes int64
	// FS is where the target is; nil = the operating system's.
	FS vfs.FS
	// Progress, if not nil, is told how far a phase is.
	Progress func(Progress)
}

// Progress is how far a phase is.
type Progress struct {
	Phase, Unit string // "graph", "edges"
	Done, Total int64
}

// Validate reports the first option that makes no sense.
func (o *Options) Validate() error {
	if o.Format != "" && !slices.Contains(Formats(), o.Format) {
		return fmt.Errorf("%w: format %q (known: %v)", ErrOptions, o.Format, Formats())
	}
	for _, w := range o.What {
		if !slices.Contains(Parts(), w) {
			return fmt.Errorf("%w: part %q (known: %v)", ErrOptions, w, Parts())
		}
	}
	if o.MemoryBytes < 0 || o.HeldBytes < 0 {
		return fmt.Errorf("%w: memory budget of %d bytes", ErrOptions, o.MemoryBytes)
	}
	for i, c := range o.Extra {
		if c.Read == nil || c.Name == "" || c.Dim < 1 || c.Elem.Size() == 0 {
			return fmt.Errorf("%w: extra column %d, %q, is %d × %v", ErrOptions, i, c.Name, c.Dim, c.Elem)
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Format == "" {
		o.Format = Numpy
	}
	if o.What == nil && len(o.Extra) == 0 && len(o.Attached) == 0 {
		o.What = []What{Graph, Features, Labels, Splits}
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 1 << 30
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

// Attachment is a file of the folder that is made by the caller.
type Attachment struct {
	Name  string // in the folder
	Rows  uint64 // to report
	Write func(w io.Writer) error
}

// Report is what was written.
type Report struct {
	Files []File `json:"files"`
	Bytes int64  `json:"bytes"`
}

// File is one file of the target.
type File struct {
	Name  string `json:"name"` // in the target, with slashes
	Rows  uint64 `json:"rows"` // edges, nodes, or lines
	Bytes int64  `json:"bytes"`
}
