package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/stats"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/runs"
)

// inspectStore shows what a store's manifest and history say, and the sizes of
// its files. Opening checks headers and footers; payloads are verify's business.
func inspectStore(ctx context.Context, e *command.Env, dir string, o inspectOptions) (err error) {
	s, err := store.Open(dir, store.Options{Version: o.version, CacheDir: command.CacheDir()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	tables, err := table.Describe(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	engine, why, err := blockio.New("auto", blockio.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	reads, err := buffer.TuningKnown(ctx, s, buffer.Options{})
	if err != nil {
		return err
	}
	m := s.Manifest()
	sizes, err := stats.SizesOf(s)
	if err != nil {
		return err
	}
	var degrees *stats.Degrees
	if o.degrees == "yes" || o.degrees == "auto" && fileBytes(m, m.Topology) <= unaskedBytes {
		if degrees, err = stats.DegreesOf(ctx, s, int64(o.mem)); err != nil {
			return err
		}
	}
	var columns *stats.Columns
	if o.stats == "yes" || o.stats == "auto" && stats.ColumnsBytes(m) <= unaskedBytes {
		if columns, err = stats.ColumnsOf(ctx, s); err != nil {
			return err
		}
	}
	if e.JSON {
		e.Event("summary", map[string]any{"store": dir, "manifest": m, "bytes": m.Bytes(), "history": h, "tables": tables, "io_engine": engine.Name(), "io_engine_why": why,
			"sizes": sizes, "degrees": degrees, "columns": columns,
			"reads": map[string]any{"gap_bytes": reads.GapBytes, "request_bytes": reads.RequestBytes, "queue_depth": reads.Depth, "why": reads.Why}})
		return nil
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	printVersion(w, dir, m, o.elements)
	fmt.Fprintf(w, "i/o here\t%s\n\t%v\n", why, reads)
	printPartitions(w, m, o.elements)
	printHistograms(w, m, sizes, degrees)
	printColumns(w, s)
	printValues(w, m, columns, o.elements)
	if m.Ingest["columns"]+m.Ingest["notes"] != "" {
		fmt.Fprintln(w, "\nwhat the input's columns became")
		command.PrintUses(w, m)
	}
	printFiles(w, m)
	printTables(w, tables)
	printHistory(w, h, o.elements)
	return w.Flush()
}

// unaskedBytes is how much is read for a count that nobody asked for: a fraction of a second.
const unaskedBytes = 256 << 20

// printHistograms shows distributions side by side, a power of two a line.
func printHistograms(w io.Writer, m *store.Manifest, sizes *stats.Sizes, degrees *stats.Degrees) {
	type column struct {
		name string
		h    *stats.Histogram
	}
	table := func(title string, columns ...column) {
		fmt.Fprintf(w, "\n%s", title)
		bins := 0
		for _, c := range columns {
			fmt.Fprintf(w, "\t%s", c.name)
			bins = max(bins, len(c.h.Bins))
		}
		fmt.Fprintln(w)
		row := func(name string, cell func(h *stats.Histogram) string) {
			fmt.Fprint(w, name)
			for _, c := range columns {
				fmt.Fprintf(w, "\t%s", cell(c.h))
			}
			fmt.Fprintln(w)
		}
		row("  mean", func(h *stats.Histogram) string { return fmt.Sprintf("%.1f", h.Mean()) })
		row("  largest", func(h *stats.Histogram) string { return fmt.Sprint(h.Max) })
		for k := range bins {
			empty := true
			for _, c := range columns {
				empty = empty && (k >= len(c.h.Bins) || c.h.Bins[k] == 0)
			}
			if empty {
				continue
			}
			lo, hi := stats.Bin(k)
			name := fmt.Sprintf("  %d–%d", lo, hi)
			if lo == hi {
				name = fmt.Sprintf("  %d", lo)
			}
			row(name, func(h *stats.Histogram) string {
				if k >= len(h.Bins) {
					return "0"
				}
				return fmt.Sprint(h.Bins[k])
			})
		}
	}
	table("size of", column{"partitions: nodes", &sizes.Nodes}, column{"edges", &sizes.Edges},
		column{"extents: topology bytes", &sizes.Topology}, column{"column bytes", &sizes.Columns})
	switch {
	case degrees == nil:
		fmt.Fprintf(w, "\ndegrees\tnot counted (--degrees yes reads %s)\n", command.FormatSize(fileBytes(m, m.Topology)))
	case m.Schema.Undirected:
		table("degree of", column{"nodes", &degrees.In})
	default:
		table("degree of", column{"nodes, in", &degrees.In}, column{"nodes, out", &degrees.Out})
	}
}

func printVersion(w io.Writer, dir string, m *store.Manifest, limit int) {
	kind := "directed"
	if m.Schema.Undirected {
		kind = "undirected, each edge stored once"
	}
	fmt.Fprintf(w, "%s\tversion %d of %s\n", dir, m.Version, m.Created.Format(time.RFC3339))
	fmt.Fprintf(w, "nodes\t%d\n", m.Nodes)
	if len(m.Schema.NodeTypes) > 1 {
		for _, t := range m.Schema.NodeTypes {
			fmt.Fprintf(w, "  %s\t%d\n", t.Name, t.Count)
		}
	}
	fmt.Fprintf(w, "edges\t%d (%s)\n", m.Edges, kind)
	if n := len(m.Schema.Relations); n > 1 {
		var names []string
		for i, r := range m.Schema.Relations {
			if limit > 0 && i == limit {
				names = append(names, fmt.Sprintf("%d more", n-limit))
				break
			}
			names = append(names, fmt.Sprintf("%s (%d edges)", r.Name, r.Count))
		}
		fmt.Fprintf(w, "relations\t%d: %s\n", n, strings.Join(names, ", "))
	}
	switch m.Task() {
	case store.TaskNode:
		var train, valid, test uint64
		for _, p := range m.Partitions {
			train, valid, test = train+p.Train, valid+p.Valid, test+p.Test
		}
		what := fmt.Sprintf("node classification, %d classes", m.Schema.Classes)
		switch {
		case m.NumberLabels():
			what = "node regression"
		case m.LabelSets() != nil:
			what = fmt.Sprintf("multi-label node classification, %d labels", m.Schema.Classes)
		}
		fmt.Fprintf(w, "task\t%s; train %d, valid %d, test %d\n", what, train, valid, test)
	case store.TaskLink:
		fmt.Fprintf(w, "task\tlink prediction\n")
	}
	for _, l := range m.EdgeLists {
		fmt.Fprintf(w, "edge list %s\t%d edges\n", l.Name, l.Rows)
	}
	fmt.Fprintf(w, "external ids\t%s\n", m.IDs.Kind)
	fmt.Fprintf(w, "data files\t%d, %s", len(m.Files), command.FormatSize(m.Bytes()))
	if m.Edges > 0 {
		fmt.Fprintf(w, "; topology %.3f bytes an edge", float64(fileBytes(m, m.Topology))/float64(m.Edges))
	}
	fmt.Fprintln(w)
}

// fileBytes adds up the sizes of the named files.
func fileBytes(m *store.Manifest, names []string) (n int64) {
	for _, f := range m.Files {
		if slices.Contains(names, f.Name) {
			n += f.Size
		}
	}
	return n
}

func printPartitions(w io.Writer, m *store.Manifest, limit int) {
	nodes, edges := make([]uint64, len(m.Partitions)), make([]uint64, len(m.Partitions))
	for i, p := range m.Partitions {
		nodes[i], edges[i] = p.Nodes, p.Edges
	}
	slices.Sort(nodes)
	slices.Sort(edges)
	mid, last := len(nodes)/2, len(nodes)-1
	fmt.Fprintf(w, "\npartitions\t%d", len(m.Partitions))
	if len(m.Pinned) > 0 {
		fmt.Fprintf(w, ", pinned %v", m.Pinned)
	}
	fmt.Fprintf(w, "\n  nodes each\tmin %d, median %d, max %d\n  edges each\tmin %d, median %d, max %d\n",
		nodes[0], nodes[mid], nodes[last], edges[0], edges[mid], edges[last])
	fmt.Fprintln(w, "\n  partition\tfirst node\tnodes\tedges\ttrain\tvalid\ttest")
	for i, p := range m.Partitions {
		if limit > 0 && i == limit {
			fmt.Fprintf(w, "  … %d more\n", len(m.Partitions)-i)
			break
		}
		fmt.Fprintf(w, "  %d\t%d\t%d\t%d\t%d\t%d\t%d\n", i, p.First, p.Nodes, p.Edges, p.Train, p.Valid, p.Test)
	}
}

func printColumns(w io.Writer, s *store.Store) {
	fmt.Fprintln(w, "\ncolumn\trole\trow\tbytes\tfiles")
	for _, c := range s.Manifest().Columns {
		role := string(c.Role)
		if c.Standard != nil {
			role += ", standardised"
		}
		if c.Values != nil {
			role += fmt.Sprintf(" of %d values", len(c.Values))
		}
		if c.Runs {
			role += " of " + cmp.Or(c.NodeType, "types")
		}
		fmt.Fprintf(w, "%s\t%s\t%d × %v\t%s\t%s\n", c.Name, role, c.Dim, c.Elem, command.FormatSize(fileBytes(s.Manifest(), c.Files)), strings.Join(c.Files, " "))
	}
}

func printFiles(w io.Writer, m *store.Manifest) {
	fmt.Fprintln(w, "\nfile\tbytes\tfooter checksum")
	for _, f := range m.Files {
		fmt.Fprintf(w, "%s\t%d\t%08x\n", f.Name, f.Size, f.FooterChecksum)
	}
}

// printTables lists the embedding tables, which belong to no version's files.
func printTables(w io.Writer, tables []table.Info) {
	if len(tables) == 0 {
		return
	}
	fmt.Fprintln(w, "\ntable\tversion\trow\tbytes\tcheckpoints")
	for _, t := range tables {
		first, last := t.Checkpoints[0], t.Checkpoints[len(t.Checkpoints)-1]
		fmt.Fprintf(w, "%s\t%d\t%d × %d float32\t%s\t%d to %d of at most %d, the last of %s\n", t.Name, t.Version, 1+t.States, t.Dim, command.FormatSize(t.Bytes),
			first.Number, last.Number, t.Keep, last.Created.Format(time.RFC3339))
	}
}

func printHistory(w io.Writer, h *store.History, limit int) {
	fmt.Fprintln(w, "\nversion\tparent\tcommitted\tnodes\tedges\tpartitions\tbytes\treadable\tnote")
	for _, v := range h.Versions {
		fmt.Fprintf(w, "%d\t%d\t%s\t%d\t%d\t%d\t%s\t%t\t%s\n", v.Version, v.Parent, v.Created.Format(time.RFC3339),
			v.Nodes, v.Edges, v.Partitions, command.FormatSize(v.Bytes), v.Readable, v.Note)
	}
	if len(h.Runs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nrun\tversion\tstarted\tmodel\tplan\tepochs\tbest\tdiffers by")
	from := 0
	if limit > 0 {
		from = max(0, len(h.Runs)-limit)
	}
	listed := h.Runs[from:]
	configs := make([]runs.Settings, len(listed))
	for i, r := range listed {
		configs[i] = runs.SettingsOf(r.Config)
	}
	differ := runs.Differences(configs, "model", "encoder", "plan", "epochs", "checkpoint_file", "checkpoint_every")
	for i, r := range listed {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\n", r.Number, r.Version, r.Started.Format(time.RFC3339), runText(r), differ[i])
	}
}

// runText is a run's columns.
func runText(r store.Run) string {
	t := runs.Tell(r)
	if t.Model == "" {
		return r.Command + "\t\t\t"
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s", t.Model, t.Plan, t.Epochs, t.Best)
}
