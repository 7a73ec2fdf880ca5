package ingest

import (
	"context"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// SelfLoops says what to do with edges from a node to itself.
type SelfLoops string

// Self-loop rules.
const (
	SelfLoopsKeep SelfLoops = "keep"
	SelfLoopsDrop SelfLoops = "drop"
	// SelfLoopsAdd gives every node exactly one self loop: those of the input
	// are dropped, one per node is added (of relation 0, other edge columns 0).
	SelfLoopsAdd SelfLoops = "add"
)

// Dedup says which edges are duplicates of each other.
type Dedup string

// Rules for duplicates. In a graph of several relations DedupRelation keeps an edge of each between two nodes: models of relations
// need them, others count that neighbour once for each.
const (
	DedupNo       Dedup = "no"
	DedupRelation Dedup = "relation" // those equal in source, destination and relation
	DedupPair     Dedup = "pair"     // those equal in source and destination
)

// DedupOf is the rule that a version was made by; earlier programs wrote true and false.
func DedupOf(m *store.Manifest) Dedup {
	switch d := Dedup(m.Ingest["dedup"]); d {
	case DedupNo, DedupRelation, DedupPair:
		return d
	case "true":
		return DedupRelation
	}
	if m.Schema.Undirected {
		return DedupRelation
	}
	return DedupNo
}

// Options say how a source becomes a store. The zero value takes every default.
type Options struct {
	// Partitions is the number of partitions, hubs' not counted; 0 = chosen from nodes and bytes, or
	// as many as a file of an assignment names.
	Partitions int
	// Partitioner assigns nodes to partitions; "" = random, balanced to ±1 node.
	Partitioner partitioner.Method
	// Hubs is the share of nodes, by influence on the training nodes (hdr: by
	// degree), that become one more partition, pinned; 0 = none.
	Hubs float64
	// HubBytes, if not 0, is instead of Hubs what the hubs' node columns may take.
	HubBytes int64
	// HubsAuto, if set, is instead of both: hubs where [partitioner.AutoHubs] finds that they pay.
	HubsAuto bool
	// HubsTrain, if set, is instead of all three: the training nodes, and only they, are pinned, in
	// partitions about as large as the others ([partitioner.PinTraining]). [Repartition] takes it for the record.
	HubsTrain bool
	// HubChoice is what AutoHubs said of the assignment given to [Repartition], for the record.
	HubChoice *partitioner.HubChoice
	// Split names the split whose training nodes count for hubs and gap; "" = the first.
	Split string
	// HubHops is how far the influence of hubs reaches, the layers of the model; 0 = 2.
	HubHops int
	// Order of visiting nodes, Passes over the graph and LabelShare are the partitioner's, as in
	// [partitioner.Options]; their zero values are its defaults.
	Order      partitioner.Order
	Passes     int
	LabelShare float64
	// Undirected stores each edge once, canonically (src ≤ dst by internal id),
	// and drops duplicates of one relation, in either direction, unless Dedup says otherwise.
	Undirected bool
	// Dedup says which edges are duplicates, of which one stays: the one whose column bytes sort first. "" = DedupNo,
	// or DedupRelation where Undirected.
	Dedup Dedup
	// SelfLoops is the rule for self loops; "" = keep.
	SelfLoops SelfLoops
	// Nodes is the number of nodes of an input with dense ids that does not say it, or says the same; 0 = one more than the largest id,
	// which a pass over the edges finds.
	Nodes int64
	// MemoryBytes bounds peak resident memory of the process; 0 = half of what
	// the cgroup, or else the machine, allows.
	MemoryBytes int64
	// FeatureElem is what feature columns are converted to; Invalid = as they
	// are (float64 and integers become float32).
	FeatureElem blocks.ElemType
	// Labels says whether labels are classes, numbers or several a node; "" = [LabelsAuto].
	Labels Labels
	// SplitRandom, if not nil, divides the labelled nodes or the edges of an input without a split.
	SplitRandom *RandomSplit
	// Missing is the rule for elements of features without a value; "" = MissingMean for those that Normalize's zero value
	// standardises, else MissingError.
	Missing Missing
	// MissingMask adds, for each feature of floats, a feature NAME_missing that is 1 where an element is missing.
	MissingMask bool
	// Normalize says which features are standardised: each element of a row becomes (value − mean) / deviation, over the input's rows.
	// The store keeps both ([store.ColumnInfo].Standard); what is appended is brought to them. "" = NormalizeTables.
	Normalize Normalize
	// Seed keys everything random; the same input, options and seed give
	// identical files.
	Seed uint64
	// Resume continues an interrupted ingest after its last finished phase.
	Resume bool
	// Later, if not nil, is what is done with the store after the ingest. The version says so ([Due]), for an ingest that is
	// interrupted after its commit.
	Later *Later
	// Decide, if not nil, chooses what the caller left open of the layout (Partitioner, Partitions, HubsAuto) and sets Later in o, for a budget
	// of o.MemoryBytes. It is asked when nodes are counted, and again with other budgets where that one is too small for its choice; settle is
	// called for the choice that is taken. A resumed ingest takes no other.
	Decide func(ctx context.Context, p *Prospect, o *Options) (settle func(), err error)
	// Heap, if not nil, is told how many bytes are meant for the Go heap from then on, before partitioning, after it and where Decide chose.
	// A program that does nothing else passes them to debug.SetMemoryLimit.
	Heap func(bytes int64)
	// Threads is the number of goroutines that compute; 0 = GOMAXPROCS.
	Threads int
	// FS is where the store goes; nil = the real file system.
	FS vfs.FS
	// Progress, if not nil, is told what is done; it is called often, from
	// several goroutines, and must be quick.
	Progress func(Progress)
	// Passed, if not nil, is told what each pass of the partitioner did, after it.
	Passed func(partitioner.Pass)
	// Note is kept in the version's manifest.
	Note string
}

// Progress is how far a phase is.
type Progress struct {
	Phase string
	Unit  string // "edges", "rows", "ids"
	Done  int64
	Total int64 // −1 = unknown
}

// Validate reports the first option that makes no sense.
func (o *Options) Validate() error {
	switch {
	case o.Partitions < 0 || o.Partitions > PartitionsMax:
		return fmt.Errorf("%w: %d partitions (0 = auto, most: %d)", source.ErrOptions, o.Partitions, PartitionsMax)
	case o.MemoryBytes < 0:
		return fmt.Errorf("%w: memory budget of %d bytes", source.ErrOptions, o.MemoryBytes)
	case !(o.Hubs >= 0 && o.Hubs <= 0.5):
		return fmt.Errorf("%w: %g of the nodes as hubs, expected 0 to 0.5", source.ErrOptions, o.Hubs)
	case o.HubBytes < 0 || o.HubBytes > 0 && o.Hubs > 0:
		return fmt.Errorf("%w: hubs of %d bytes and %g of the nodes, expected one of the two", source.ErrOptions, o.HubBytes, o.Hubs)
	case o.HubsAuto && (o.Hubs > 0 || o.HubBytes > 0):
		return fmt.Errorf("%w: hubs both as needed and a fixed number of them, expected one of the two", source.ErrOptions)
	case o.HubsAuto && o.Partitioner == partitioner.MethodHDR:
		return fmt.Errorf("%w: partitioner hdr always pins the nodes of highest degree, so hubs cannot be left out as needed: give their share", source.ErrOptions)
	case o.HubsTrain && (o.Hubs > 0 || o.HubBytes > 0 || o.HubsAuto):
		return fmt.Errorf("%w: both training nodes and others as hubs, expected one of the two", source.ErrOptions)
	case o.HubHops < 0:
		return fmt.Errorf("%w: %d hops, expected the layers of a model, 1 or more", source.ErrOptions, o.HubHops)
	case o.Passes < 0 || !(o.LabelShare >= 0 && o.LabelShare <= 1):
		return fmt.Errorf("%w: %d passes and label share %g, expected 0 or more and 0 to 1", source.ErrOptions, o.Passes, o.LabelShare)
	case o.Nodes < 0 || o.Nodes > nodesMax:
		return fmt.Errorf("%w: %d nodes, expected 0 (to be counted) to %d", source.ErrOptions, o.Nodes, int64(nodesMax))
	case o.Threads < 0:
		return fmt.Errorf("%w: %d threads", source.ErrOptions, o.Threads)
	}
	if o.HubsTrain {
		if err := o.Partitioner.PlacesRest(); err != nil {
			return fmt.Errorf("%w: %w", source.ErrOptions, err)
		}
	}
	if _, err := partitioner.ParseOrder(string(o.Order)); err != nil {
		return fmt.Errorf("%w: %w", source.ErrOptions, err)
	}
	switch o.SelfLoops {
	case "", SelfLoopsKeep, SelfLoopsDrop, SelfLoopsAdd:
	default:
		return fmt.Errorf("%w: self-loop rule %q (known: keep, drop, add)", source.ErrOptions, o.SelfLoops)
	}
	switch o.Dedup {
	case "", DedupNo, DedupRelation, DedupPair:
	default:
		return fmt.Errorf("%w: rule for duplicates %q (known: pair, relation, no)", source.ErrOptions, o.Dedup)
	}
	switch o.Missing {
	case "", MissingError, MissingZero, MissingMean:
	default:
		return fmt.Errorf("%w: rule for missing values %q (known: error, zero, mean)", source.ErrOptions, o.Missing)
	}
	if o.MissingMask && (o.Missing == MissingError || o.Missing == "" && o.Normalize == NormalizeNone) {
		return fmt.Errorf("%w: a mask of missing values, which are refused; take them as zero or mean", source.ErrOptions)
	}
	if err := o.Normalize.validate(); err != nil {
		return err
	}
	switch o.FeatureElem {
	case blocks.Invalid, blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8, blocks.Float64:
	default:
		return fmt.Errorf("%w: features of type %v (known: float32, float16, bfloat16, float64, int8)", source.ErrOptions, o.FeatureElem)
	}
	return nil
}

// pins reports whether hubs are wanted.
func (o *Options) pins() bool { return o.Hubs > 0 || o.HubBytes > 0 || o.HubsAuto }

// PartitionsMax is the largest number of partitions: the directory of a
// stripe has an entry for each, so p partitions cost 24p² bytes.
const PartitionsMax = 1 << 16

// WithDefaults fills in what zero stands for.
func (o Options) WithDefaults() Options {
	if o.SelfLoops == "" {
		o.SelfLoops = SelfLoopsKeep
	}
	if o.Dedup == "" {
		o.Dedup = DedupNo
		if o.Undirected {
			o.Dedup = DedupRelation
		}
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = scratch.DefaultMemoryBytes()
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

// Report is what an ingest did.
type Report struct {
	Manifest     *store.Manifest
	Nodes        uint64
	EdgesRead    uint64
	EdgesStored  uint64                 // after undirected, dedup and self-loop rules
	Duplicates   uint64                 // edges dropped as duplicates
	SelfLoops    uint64                 // self loops dropped
	NotText      uint64                 // ids that are no UTF-8, kept as they are
	NotTextSuch  string                 // one of them
	Hubs         *partitioner.HubChoice // with Options.HubsAuto
	Resumed      []string
	BytesSpilled int64 // written to scratch files
	BytesStored  int64 // the version's files
	PeakRSSBytes int64
	Notes        []string // of Repartition, for people: what of the store stays as it was, and why
}

// Later is what is done with a store after its ingest.
type Later struct {
	// Name names it, as "hop".
	Name string
	// LeastBytes returns the smallest MemoryBytes for it; an ingest with less is refused. It is asked before edges are read, with a
	// manifest of the schema, columns and partitions as far as they are known, and once more when edges are counted.
	LeastBytes func(m *store.Manifest) int64
}

// Due names what was to be done with a store after its ingest and is not, [Later].Name; "" = nothing.
func Due(m *store.Manifest) string {
	if m.Version != 1 { // it makes a version, and so does what a user did since
		return ""
	}
	return m.Ingest[dueFact]
}

// dueFact is where a manifest's facts of its ingest say what follows.
const dueFact = "then"
