package data

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/storegraph"
	"github.com/gstore/gstore/tools/cli/command"
)

type partitionOptions struct {
	partitioner string
	partitions  int
	hubs        hubsFlag
	hubHops     int
	order       string
	passes      int
	threads     int
	labelShare  float64
	slack       float64
	seed        uint64
	mem         command.Size
	report      bool
	resident    int
	split       string
	output      string
	scratch     string
}

// NewPartition is the command gstore partition.
func NewPartition(e *command.Env) *cobra.Command {
	var o partitionOptions
	cmd := &cobra.Command{
		Use:   "partition STORE",
		Short: "Move a store's nodes to partitions that lose few neighbours, or show what is lost",
		Long: `Partition moves the nodes of a store to other partitions, chosen by the graph, so that
neighbours lie together. The same graph, columns and ids become the next version of the
store. Readers of the old version are not disturbed.

With --output, partition writes the assignment to a file instead. --partitioner
file:PATH, here and in "gstore ingest", reads such a file, or one that METIS or another
program wrote: line i, counted from 0, is the partition of the node with id i. A
one-dimensional .npy array of integers works too.

With --report, partition only shows how good the store's partitions are: the edges that
are cut; the share of training nodes' neighbourhoods that stays in memory when
--resident partitions, drawn at random, are there beside the pinned ones; how far labels
in partitions differ from those of all training nodes (total variation, 0 to 1); and how
even nodes, edges, training nodes and bytes are.`,
		Example: "  gstore partition papers.gstore --report\n" +
			"  gstore partition papers.gstore --partitioner fennel --hubs auto --mem 16GiB",
		Args: command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			err := runPartition(cmd.Context(), e, args[0], &o)
			if errors.Is(err, partitioner.ErrOption) {
				return command.Usage(err)
			}
			return err
		},
	}
	f := cmd.Flags()
	command.Section(f, "partitions", func() {
		f.StringVar(&o.partitioner, "partitioner", "fennel", "random, range, fennel, gap, hdr or file:PATH")
		f.IntVar(&o.partitions, "partitions", 0, "partitions, hubs' not counted (default: as many as the store has, or the file)")
		f.Var(&o.hubs, "hubs", hubsUsage)
		f.StringVar(&o.split, "split", "", "split whose training nodes count (default: the store's first)")
		f.Float64Var(&o.slack, "slack", partitioner.DefaultSlack, "how much larger than average a partition may be")
		f.StringVar(&o.order, "visit-order", "", orderUsage)
		command.Alias(f, "order", "visit-order")
		f.IntVar(&o.passes, "passes", 0, passesUsage())
		f.Float64Var(&o.labelShare, "label-share", 1, labelShareUsage)
	})
	command.Section(f, "answers", func() {
		f.BoolVar(&o.report, "report", false, "show the quality of the store's own partitions, and change nothing")
		f.IntVar(&o.resident, "resident", 0, "partitions in memory at once, pinned ones not counted (default: an eighth of them)")
		f.StringVar(&o.output, "output", "", "only write the partition of each node to this file, one node to a line, in the order of ids, which must count from 0")
		f.IntVar(&o.hubHops, "hops", 2, "layers of the model: how far influence and the quality's walks reach")
	})
	f.IntVar(&o.threads, "threads", 0, "processors to use; the result does not depend on it (default: all)")
	f.Uint64Var(&o.seed, "seed", 0, "seed of all random choices")
	f.Var(&o.mem, "mem", "memory bound, such as 4GiB (default: three quarters of what the machine, or the cgroup, has, unless the graph is small)")
	command.ScratchFlag(f, &o.scratch)
	completeValues(f)
	return cmd
}

// Help of flags that ingest and partition share.
const (
	orderUsage      = "fennel with --passes 1 or 2, gap: order of visiting nodes: natural, random, bfs or degree (default: bfs, natural where the graph does not fit --mem)"
	labelShareUsage = "gap: share of balance that each label has alone; the rest is plain balance of nodes"
)

func passesUsage() string {
	return fmt.Sprintf("fennel, gap: times that the graph is read at most, for gap before labels are balanced (default %d; %d where lists do not fit --mem)",
		partitioner.DefaultLevelPasses, partitioner.DefaultPasses)
}

// check refuses flags that say nothing, or nothing here.
func (o *partitionOptions) check(f *pflag.FlagSet) error {
	if o.report {
		for _, name := range []string{"output", "partitioner", "partitions", "hubs", "visit-order", "passes", "label-share", "slack", "threads"} {
			if f.Changed(name) {
				return command.Usagef("--report only reads: leave out --%s", name)
			}
		}
	}
	if o.hubHops < 1 {
		return command.Usagef("--hops %d: expected the layers of a model, 1 or more", o.hubHops)
	}
	if o.partitions < 0 {
		return command.Usagef("--partitions %d: expected 1 or more, or 0 for as many as there are", o.partitions)
	}
	if o.slack == 0 {
		return command.Usagef("--slack 0: expected more than 0 and at most 1")
	}
	return checkPartitioner(f, o.partitioner, o.labelShare)
}

// checkPartitioner refuses flags of ingest and partition that the partitioner does not look at, and a label share that
// would stand for the default.
func checkPartitioner(f *pflag.FlagSet, name string, labelShare float64) error {
	method, err := partitioner.ParseMethod(name)
	if err != nil {
		return command.Usage(err)
	}
	if !(labelShare > 0 && labelShare <= 1) {
		return command.Usagef("--label-share %g: expected more than 0 and at most 1", labelShare)
	}
	for _, flag := range []struct {
		name string
		of   []partitioner.Method
	}{
		{"visit-order", []partitioner.Method{partitioner.MethodFennel, partitioner.MethodGAP}},
		{"passes", []partitioner.Method{partitioner.MethodFennel, partitioner.MethodGAP}},
		{"label-share", []partitioner.Method{partitioner.MethodGAP}},
		{"slack", []partitioner.Method{partitioner.MethodFennel, partitioner.MethodGAP, partitioner.MethodHDR}},
	} {
		if f.Changed(flag.name) && !slices.Contains(flag.of, method) {
			return command.Usagef("--%s: partitioner %s does not look at it (%v do)", flag.name, method, flag.of)
		}
	}
	return nil
}

// partitionBaseBytes is what the process takes beside graph and algorithm: runtime, code, buffers of reading.
const partitionBaseBytes = 48 << 20

func runPartition(ctx context.Context, e *command.Env, dir string, o *partitionOptions) (err error) {
	start := time.Now()
	s, err := store.Open(dir, store.Options{Scratch: o.scratch})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	if m.IDs.Kind != store.IDsDense {
		if _, file := partitioner.Method(o.partitioner).File(); file || o.output != "" {
			return command.Usagef("assignments in files go by dense external ids; the store's are %s", m.IDs.Kind)
		}
	}
	e.Unasked(m, 0, (*int64)(&o.mem))
	classes, err := storegraph.Classes(ctx, s, o.split)
	if err != nil {
		return err
	}
	po, err := o.partitioning(m, classes)
	if err != nil {
		return err
	}
	need, budget, err := o.budget(s, po)
	if err != nil {
		return err
	}
	if o.mem > 0 { // what lies outside the heap has the rest
		defer command.LimitHeap(o.heap(m.Nodes, po))()
	}
	var a partitioner.Assigner
	if o.hubs.train {
		if a, err = pinTraining(ctx, e, s, po, o, need, budget); err != nil {
			return err
		}
	}
	bar := e.Progress(-1, "read the graph")
	g, err := storegraph.Open(ctx, s, s.ScratchDir(), budget)
	if err != nil {
		return err
	}
	closed := false
	closeGraph := func() error {
		if closed {
			return nil
		}
		closed = true
		return g.Close()
	}
	defer func() { err = errors.Join(err, closeGraph()) }()
	_ = bar.Finish()
	if o.mem > 0 {
		po.MemoryBytes = left(g, need, budget)
		if isArray(g) {
			command.LimitHeap(o.heap(m.Nodes, po) + po.MemoryBytes - need.Array)
		}
	}
	var hubs *partitioner.HubChoice
	if a == nil {
		if a, hubs, err = computeAssignment(ctx, e, s, g, po, o); err != nil {
			return err
		}
	}
	q, err := partitioner.Measure(ctx, g, a, partitioner.QualityOptions{
		Classes: classes, Resident: o.resident, Hops: o.hubHops, Seed: o.seed, BytesPerNode: storegraph.NodeBytes(m),
	})
	if err != nil {
		return err
	}
	if err := closeGraph(); err != nil { // what is written is written in its memory
		return err
	}
	if o.output != "" {
		if err := writeAssignment(ctx, s, a, o.output); err != nil {
			return err
		}
	}
	version, notes := m.Version, []string(nil)
	if o.writes() {
		if o.mem > 0 {
			command.LimitHeap(ingest.HeapBytes(ingest.Options{MemoryBytes: int64(o.mem)}))
		}
		bars := ingestProgress{e: e}
		rep, err := repartition.Run(ctx, s, a, ingest.Options{
			MemoryBytes: int64(o.mem), Seed: o.seed, Partitioner: partitioner.Method(o.partitioner), HubChoice: hubs, HubsTrain: o.hubs.train, Progress: bars.tell,
		})
		bars.close()
		if err != nil {
			return err
		}
		version, notes = rep.Manifest.Version, rep.Notes
	}
	if e.JSON {
		e.Event("summary", map[string]any{"quality": q, "hubs": hubs, "output": o.output, "version": version, "notes": notes, "array": isArray(g),
			"seconds": time.Since(start).Seconds(), "cpu_seconds": usage.CPUSeconds(), "peak_rss_bytes": usage.PeakRSSBytes()})
		return nil
	}
	if e.Quiet && !o.report {
		return nil
	}
	if hubs != nil {
		fmt.Fprintln(e.Stdout, hubs)
	}
	if err := q.WriteText(e.Stdout, 0); err != nil || o.report {
		return err
	}
	done := fmt.Sprintf("version %d", version)
	if o.output != "" {
		done = o.output
	}
	fmt.Fprintf(e.Stdout, "%s: %s in %.1f s, peak %s\n", done, partitionsText(q.Partitions, q.Pinned), time.Since(start).Seconds(), command.FormatSize(usage.PeakRSSBytes()))
	for _, n := range notes {
		fmt.Fprintf(e.Stdout, "  %s\n", n)
	}
	return nil
}

// partitionsText is "64 partitions + 1 pinned": all of them are counted, pinned ones with them.
func partitionsText(all, pinned int) string {
	if pinned == 0 {
		return fmt.Sprintf("%d partitions", all)
	}
	return fmt.Sprintf("%d partitions + %d pinned", all-pinned, pinned)
}

func isArray(g graph.Graph) bool {
	_, ok := g.(graph.RandomAccess)
	return ok
}

// partitioning returns the partitioner's options, but for the budget and Progress.
func (o *partitionOptions) partitioning(m *store.Manifest, classes []uint16) (partitioner.Options, error) {
	k := o.partitions
	if _, file := partitioner.Method(o.partitioner).File(); k == 0 && !file {
		k = len(m.Partitions) - len(m.Pinned)
	}
	po := partitioner.Options{
		Method: partitioner.Method(o.partitioner), Partitions: k, Seed: o.seed, Order: partitioner.Order(o.order),
		Passes: o.passes, Threads: o.threads, Slack: o.slack, Classes: classes, LabelShare: o.labelShare,
	}
	hubs, err := o.hubCount(m)
	if err != nil {
		return po, err
	}
	po.HubFraction = float64(hubs) / float64(max(m.Nodes, 1))
	if o.hubs.auto && po.Method == partitioner.MethodHDR {
		return po, command.Usagef("--hubs auto: hdr always pins the nodes of highest degree; give their share")
	}
	if o.hubs.train {
		if err := po.Method.PlacesRest(); err != nil {
			return po, err
		}
	}
	if classes == nil && po.Method == partitioner.MethodGAP && !o.report {
		return po, command.Usagef("gap balances labels, and the store has none; fennel needs none")
	}
	return po, nil
}

// hubCount is how many nodes --hubs pins; 0 where that is to be decided.
func (o *partitionOptions) hubCount(m *store.Manifest) (uint64, error) {
	if o.hubs.bytes > 0 {
		return partitioner.HubCount(o.hubs.bytes, storegraph.NodeBytes(m), m.Nodes)
	}
	n := uint64(math.Round(o.hubs.share * float64(m.Nodes)))
	if n == 0 && o.hubs.share > 0 {
		return 0, fmt.Errorf("%w: hubs that are %g of %d nodes are none", partitioner.ErrOption, o.hubs.share, m.Nodes)
	}
	return n, nil
}

// writes reports whether a new version is written.
func (o *partitionOptions) writes() bool { return !o.report && o.output == "" }

// budget divides --mem between the partitioner (or the report, or the hubs after it) and the graph. One that is too small
// for these, or to write the new version afterwards, is refused with the smallest that works.
func (o *partitionOptions) budget(s *store.Store, po partitioner.Options) (partitioner.Need, storegraph.Budget, error) {
	if o.mem == 0 {
		return partitioner.Need{}, storegraph.Budget{}, nil
	}
	nodes := s.Manifest().Nodes
	need := partitioner.Need{Array: 4 * int64(nodes), Stream: 4 * int64(nodes)}
	if !o.report {
		need = po.Need(nodes)
		if two := 8 * int64(nodes); o.twice(po) {
			need = partitioner.Need{Array: max(need.Array, two), Stream: max(need.Stream, two)}
		}
		if (po.HubFraction > 0 || o.hubs.auto) && po.Method != partitioner.MethodHDR {
			hubs := partitioner.HubBytes(nodes)
			need = partitioner.Need{Array: max(need.Array, hubs), Stream: max(need.Stream, hubs)}
		}
	}
	other := partitionBaseBytes + 2*int64(nodes) // classes
	graph, err := storegraph.LeastBytes(s)
	if err != nil {
		return need, storegraph.Budget{}, err
	}
	least := other + need.Stream + graph
	if o.writes() {
		partitions, largest := o.largest(po, nodes)
		write, err := repartition.Bytes(s, partitions, largest)
		if err != nil {
			return need, storegraph.Budget{}, err
		}
		least = max(least, write)
	}
	if int64(o.mem) < least {
		return need, storegraph.Budget{}, fmt.Errorf("%w: --mem %s for a graph of %d nodes; the smallest that works is %dMiB",
			partitioner.ErrBudget, command.FormatSize(int64(o.mem)), nodes, (least+1<<20-1)>>20)
	}
	return need, storegraph.Budget{Array: int64(o.mem) - other - need.Array, Stream: int64(o.mem) - other - need.Stream}, nil
}

// left is what a budget leaves to the partitioner beside g. Half of what is left beside its least is for coarser graphs,
// the other half for the heap's garbage while they are made.
func left(g graph.Graph, need partitioner.Need, budget storegraph.Budget) int64 {
	if isArray(g) {
		return need.Array + (budget.Array-graph.CSRBytes(g.Nodes(), g.Entries()/2))/2
	}
	return need.Stream
}

// twice reports whether two assignments are in memory at a time: by external and by internal id, or of the nodes that do
// not train and of all.
func (o *partitionOptions) twice(po partitioner.Options) bool {
	return !o.report && (!po.Method.NeedsGraph() || o.hubs.train)
}

// heap is the part of the memory before a version is written that is for the Go heap: half of the program's, classes,
// assignments, and tables of the partitioner.
func (o *partitionOptions) heap(nodes uint64, po partitioner.Options) int64 {
	n := int64(nodes)
	bytes := partitionBaseBytes/2 + 6*n
	if o.twice(po) || po.HubFraction > 0 || o.hubs.auto {
		bytes += 4 * n
	}
	if po.Method != partitioner.MethodHDR {
		bytes += max(0, po.Need(nodes).Stream-4*n)
	}
	return bytes
}

// largest is how many partitions there may be, and the most nodes of one.
func (o *partitionOptions) largest(po partitioner.Options, nodes uint64) (partitions int, largest uint64) {
	if _, file := po.Method.File(); file {
		return ingest.PartitionsMax, nodes
	}
	share := float64(nodes) / float64(po.Partitions)
	largest = max(uint64(math.Ceil((1+po.Slack)*share)), uint64(max(po.HubFraction, partitioner.DefaultHDRFraction)*float64(nodes)))
	if o.hubs.train { // at most as many and as large as the others
		return 2*po.Partitions + 1, largest
	}
	return po.Partitions + 1, largest
}
