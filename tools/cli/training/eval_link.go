package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
	"github.com/gstore/gstore/tools/device"
)

// runEvalLink ranks edge lists by a table's checkpoint.
func runEvalLink(ctx context.Context, e *command.Env, st *store.Store, o *evalOptions) (err error) {
	if o.candidates < 0 {
		return command.Usagef("--candidates %d: expected 0 or more", o.candidates)
	}
	if !o.flags.Changed("lists") {
		o.lists = slices.DeleteFunc(slices.Clone(o.lists), func(name string) bool { _, err := st.Manifest().EdgeList(name); return err != nil })
		if len(o.lists) == 0 {
			return command.Usagef("%s has no edge lists to rank", st.Dir())
		}
	}
	for _, name := range o.lists {
		if _, err := st.Manifest().EdgeList(name); err != nil {
			return command.Usage(fmt.Errorf("--lists: %w", err))
		}
	}
	if err := eval.CheckAgainst(o.against, o.candidates); err != nil {
		return command.Usage(fmt.Errorf("--against, --candidates: %w", err))
	}
	table, run, err := models.OpenTrained(ctx, st, o.table, o.checkpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	start := time.Now()
	dev, err := command.OpenDevice(device.Options{Name: o.device, Threads: o.threads, MemoryBytes: int64(o.deviceMem)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	metrics, read, err := link.Evaluate(ctx, st, dev, table, run,
		eval.RankerOptions{MemoryBytes: int64(o.mem), Threads: o.threads, Against: o.against, Candidates: o.candidates, Seed: o.seed, Detail: o.byRelation}, o.lists...)
	if err != nil {
		return err
	}
	if e.JSON {
		f := map[string]any{"table": o.table, "checkpoint": table.LastCheckpoint().Number, "epochs": run.Epochs, "middle": run.Middle, "seconds": time.Since(start).Seconds(), "cpu_seconds": usage.CPUSeconds(), "peak_rss_bytes": usage.PeakRSSBytes(), "bytes_read": read}
		for i, name := range o.lists {
			for k, v := range command.Fields(metrics[i]) { // with --by-relation a detail
				f[name+"_"+k] = v
			}
		}
		e.Event("summary", f)
		return nil
	}
	fmt.Fprintf(e.Stdout, "%-6s  %-8s  %10s  %7s  %7s  %7s  %7s\n", "list", "ranks", "queries", "MRR", "hits@1", "@3", "@10")
	var against []string
	for i, name := range o.lists {
		m := metrics[i]
		what := fmt.Sprintf("against %d nodes", m.Candidates)
		if m.Shared {
			what = fmt.Sprintf("against the %d negatives that all of its edges share: hits@20 %.4f, @50 %.4f, @100 %.4f", m.Candidates-1, m.Hits20, m.Hits50, m.Hits100)
		} else if m.Given {
			what = fmt.Sprintf("against the data set's own negatives, at most %d", m.Candidates-1)
		}
		if against = append(against, name+" "+what); m.Given {
			fmt.Fprintf(e.Stdout, "%-6s  %-8s  %10d  %7.4f  %7.4f  %7.4f  %7.4f\n", name, "given", m.Queries, m.MRR, m.Hits1, m.Hits3, m.Hits10)
			continue
		}
		fmt.Fprintf(e.Stdout, "%-6s  %-8s  %10d  %7.4f  %7.4f  %7.4f  %7.4f\n", name, "filtered", m.Queries, m.MRR, m.Hits1, m.Hits3, m.Hits10)
		fmt.Fprintf(e.Stdout, "%-6s  %-8s  %10d  %7.4f  %7.4f  %7.4f  %7.4f\n", name, "raw", m.Queries, m.RawMRR, m.RawHits1, m.RawHits3, m.RawHits10)
	}
	for i, name := range o.lists {
		if d := metrics[i].Detail; d != nil {
			printRankDetail(e.Stdout, name, d)
		}
	}
	after := fmt.Sprintf("after %d epochs", run.Epochs)
	if run.Middle {
		after = fmt.Sprintf("in the middle of epoch %d", run.Epochs+1)
	}
	fmt.Fprintf(e.Stdout, "%s; %.2f s, %s read, %s peak memory; table %s, checkpoint %d, %s\n",
		strings.Join(against, ", "), time.Since(start).Seconds(), command.FormatSize(read), command.FormatSize(usage.PeakRSSBytes()), o.table, table.LastCheckpoint().Number, after)
	return nil
}

// printRankDetail prints what a list's ranks are made of: a line for both sides together, each kind and each relation, heads and
// tails side by side.
func printRankDetail(w io.Writer, list string, d *eval.RankDetail) {
	fmt.Fprintf(w, "\n%s, filtered: head asked for, tail asked for\n%-9s  %9s  %7s  %7s  %7s    %9s  %7s  %7s  %7s  %s\n", list,
		"kind", "queries", "MRR", "hits@1", "@10", "queries", "MRR", "hits@1", "@10", "relation")
	line := func(kind string, head, tail eval.SideMetrics, name string) {
		text := fmt.Sprintf("%-9s  %9d  %7.4f  %7.4f  %7.4f    %9d  %7.4f  %7.4f  %7.4f  %s",
			kind, head.Queries, head.MRR, head.Hits1, head.Hits10, tail.Queries, tail.MRR, tail.Hits1, tail.Hits10, name)
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
	line("all", d.Head, d.Tail, "")
	for _, k := range d.Kinds {
		line(k.Kind, k.Head, k.Tail, fmt.Sprintf("(%d relations)", k.Relations))
	}
	for _, r := range d.Relations {
		line(r.Kind, r.Head, r.Tail, r.Relation)
	}
}
