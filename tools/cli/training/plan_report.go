package training

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/tools/cli/command"
)

// planReport is what plan found out.
type planReport struct {
	planned
	e          *command.Env
	o          *planOptions
	deviceRows *macro.DevicePlan // rows that a GPU keeps; nil if nobody asked
	m          *store.Manifest
	plans      []buffer.Plan
	epochs     []buffer.EpochForecast
	buffer     int64
	device     *blockio.Calibration
	advice     macro.Advice
	// rows is what plan rows holds and uses; nil for others.
	rows *planning.RowsForecast
}

// advise says how many partitions a fresh ingest had better make.
func (r *planReport) advise() (err error) {
	g := macro.Graph{Nodes: r.m.Nodes, Edges: r.m.Edges, MemoryBytes: r.memory, Link: r.choice.Link}
	var edgeBytes, nodeBytes int64
	for i := range r.m.Partitions {
		nodeBytes += r.f.NodeBytes(store.PartitionID(i))
		for j := range r.m.Partitions {
			edgeBytes += r.f.BucketBytes(store.PartitionID(i), store.PartitionID(j))
		}
	}
	g.NodeBytes = int(nodeBytes / int64(max(1, r.m.Nodes)))
	g.EdgeBytes = float64(edgeBytes) / float64(max(1, r.m.Edges))
	if r.device != nil {
		g.BlockBytes = r.device.GapBytes()
	}
	if g.AllBytes, err = r.f.LeastBytes(0); err != nil {
		return err
	}
	r.advice = macro.Advise(g)
	return nil
}

// sampleRows sets what plan rows reads: mini-batches are sampled for it, as train will. A run of more epochs than were asked for looks
// beyond them, as it does where --epochs is not given.
func (r *planReport) sampleRows(ctx context.Context, s *store.Store, o buffer.Options) (err error) {
	limit := 0
	if r.o.bounded {
		limit = r.o.epochs
	}
	if r.rows, err = planning.ForecastRows(&r.o.node, ctx, s, o, r.choice.Rows, r.o.epochs, limit); err == nil {
		r.epochs, r.buffer = r.rows.Epochs, r.rows.MemoryBytes()
	}
	return err
}

// bias is an epoch's edge permutation bias, with partitions taken alike and
// with their true numbers of edges.
func (r *planReport) bias(k int) (uniform, exact float64) {
	n := len(r.m.Partitions)
	return macro.Bias(r.plans[k], n), macro.BiasOf(r.plans[k], n, func(b buffer.BucketID) float64 { return float64(r.f.BucketEdges(b.Src, b.Dst)) })
}

// examples is how many training nodes or edges a step trains.
func (r *planReport) examples(s *buffer.Step) uint64 {
	n := uint64(0)
	for _, p := range s.Train {
		if r.train != nil {
			n += r.train[p]
		}
	}
	for _, b := range s.Buckets {
		n += r.f.BucketEdges(b.Src, b.Dst)
	}
	return n * uint64(max(1, s.Passes))
}

// seconds is how long the device takes; 0 if it was not measured.
func (r *planReport) seconds(t *buffer.StepForecast) float64 {
	if r.device == nil {
		return 0
	}
	return max(float64(t.Bytes())/r.device.BytesPerSecond, float64(t.Requests)*r.device.RequestCost.Seconds())
}

func amplification(t *buffer.StepForecast) float64 {
	if t.Bytes() == 0 {
		return 1
	}
	return float64(t.Bytes()) / float64(max(1, t.ColumnBytes+t.NeededBytes))
}

func (r *planReport) print() error {
	if r.e.JSON {
		return r.printJSON()
	}
	w, c := r.e.Stdout, &r.choice
	fmt.Fprintf(w, "store   %d nodes, %d edges, %d partitions", r.m.Nodes, r.m.Edges, len(r.m.Partitions))
	if len(c.Pinned) > 0 {
		fmt.Fprintf(w, ", %d of them pinned", len(c.Pinned))
	}
	fmt.Fprintf(w, "\nplan    %s, %d steps an epoch, buffer of %s\n", c.Policy, len(r.plans[0].Steps), command.FormatSize(r.buffer))
	for _, why := range r.why {
		fmt.Fprintf(w, "        %s\n", why)
	}
	warnOutlook(r.e, r.outlook)
	if r.rows != nil {
		fmt.Fprintf(w, "rows    room for %d rows, %s, of %d nodes; %d rows of mini-batches are known ahead\n", r.rows.Slots, command.FormatSize(r.rows.SlotBytes()), r.m.Nodes, r.rows.WindowRows)
		if r.rows.PackWindows == 2 {
			fmt.Fprintln(w, "        in each of two windows: one is read while the other is trained")
		}
		for k, used := range r.rows.Used {
			if r.rows.PackBatches > 0 {
				fmt.Fprintf(w, "        epoch %d: mini-batches use %d rows; %s are written to a temporary file\n", k+1, used, command.FormatSize(used*int64(r.rows.RowBytes)))
				continue
			}
			read := int64(r.epochs[k].Total.Loads)
			fmt.Fprintf(w, "        epoch %d: mini-batches use %d rows, %.1f %% of them are in the cache\n", k+1, used, 100*float64(used-read)/float64(max(1, used)))
		}
	}
	if r.device != nil {
		fmt.Fprintf(w, "device  %v\n", r.device)
	}
	fmt.Fprintf(w, "reads   %v\n", r.f.Tuning())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nepoch\tstep\tresident\tloads\tread\tcolumns\tedges\tread/needed\trequests\texamples\tdisk s\tbias\t\n")
	line := func(epoch, step string, resident int, f *buffer.StepForecast, examples uint64, bias string) {
		disk := "-"
		if r.device != nil {
			disk = fmt.Sprintf("%.3f", r.seconds(f))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%.2f\t%d\t%d\t%s\t%s\t\n", epoch, step, resident, f.Loads, command.FormatSize(f.Bytes()),
			command.FormatSize(f.ColumnBytes), command.FormatSize(f.TopologyBytes), amplification(f), f.Requests, examples, disk, bias)
	}
	for k := range r.plans {
		var sum uint64
		most := 0
		for i := range r.plans[k].Steps {
			s := &r.plans[k].Steps[i]
			n := r.examples(s)
			sum += n
			most = max(most, len(s.Resident))
			if r.o.steps {
				line(fmt.Sprint(k+1), fmt.Sprint(i), len(s.Resident), &r.epochs[k].Steps[i], n, "")
			}
		}
		bias := "-"
		if r.choice.Link {
			u, x := r.bias(k)
			bias = fmt.Sprintf("%.3f (by edges %.3f)", u, x)
		}
		line(fmt.Sprint(k+1), "all", most, &r.epochs[k].Total, sum, bias)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if bound := r.bound(); bound > 0 {
		fmt.Fprintf(w, "\nno plan with this buffer reads fewer than %d partitions in its first epoch\n", bound)
	}
	fmt.Fprintf(w, "\nadvice  a fresh ingest for this budget: --partitions %d", r.advice.Partitions)
	if r.advice.Hubs > 0 {
		fmt.Fprint(w, " --hubs auto")
	}
	fmt.Fprintln(w)
	for _, why := range r.advice.Why {
		fmt.Fprintf(w, "        %s\n", why)
	}
	return nil
}

// bound is the fewest loads of an epoch that begins with an empty buffer.
func (r *planReport) bound() int {
	c := &r.choice
	loose := len(r.m.Partitions) - len(c.Pinned)
	switch {
	case c.Policy == macro.TrainNodes, c.Capacity == 0:
		return 0
	case c.Link:
		return c.Capacity + macro.SwapsBound(loose, c.Capacity)
	}
	return len(r.m.Partitions)
}

func (r *planReport) printJSON() error {
	forecast := func(f *buffer.StepForecast) map[string]any {
		m := map[string]any{"loads": f.Loads, "bytes_read": f.Bytes(), "column_bytes": f.ColumnBytes, "topology_bytes": f.TopologyBytes,
			"needed_topology_bytes": f.NeededBytes, "requests": f.Requests, "amplification": amplification(f)}
		if r.device != nil {
			m["disk_seconds"] = r.seconds(f)
		}
		return m
	}
	for k := range r.plans {
		sum := uint64(0)
		for i := range r.plans[k].Steps {
			s := &r.plans[k].Steps[i]
			n := r.examples(s)
			sum += n
			if r.o.steps {
				m := forecast(&r.epochs[k].Steps[i])
				m["epoch"], m["step"], m["examples"] = k+1, i, n
				m["resident"], m["train"], m["buckets"], m["passes"] = s.Resident, s.Train, len(s.Buckets), max(1, s.Passes)
				r.e.Event("step", m)
			}
		}
		m := forecast(&r.epochs[k].Total)
		m["epoch"], m["steps"], m["examples"] = k+1, len(r.plans[k].Steps), sum
		if r.choice.Link {
			m["bias"], m["bias_by_edges"] = r.bias(k)
		}
		r.e.Event("epoch", m)
	}
	c := &r.choice
	summary := map[string]any{"plan": c.Policy, "partitions": len(r.m.Partitions), "pinned": len(c.Pinned), "capacity": c.Capacity,
		"logical": c.Logical, "reuse": c.Reuse, "seed": c.Seed, "steps": len(r.plans[0].Steps), "buffer_bytes": r.buffer,
		"bytes_read": r.epochs[len(r.epochs)-1].Total.Bytes(), "loads_bound": r.bound(), "why": r.why,
		"advice": map[string]any{"partitions": r.advice.Partitions, "capacity": r.advice.Capacity, "logical": r.advice.Logical, "hubs": r.advice.Hubs, "why": r.advice.Why}}
	t := r.f.Tuning()
	summary["reads"] = map[string]any{"gap_bytes": t.GapBytes, "request_bytes": t.RequestBytes, "queue_depth": t.Depth, "why": t.Why}
	if r.device != nil {
		summary["device"] = map[string]any{"engine": r.device.Engine, "bytes_per_second": r.device.BytesPerSecond, "latency_seconds": r.device.Latency.Seconds(),
			"request_seconds": r.device.RequestCost.Seconds(), "block_bytes": r.device.GapBytes()}
	}
	if r.history != nil {
		summary["history"] = r.history
	}
	if r.outlook != nil {
		summary["outlook"] = r.outlook
	}
	if r.rows != nil {
		summary["rows"] = map[string]any{"slots": r.rows.Slots, "row_bytes": r.rows.RowBytes, "window_rows": r.rows.WindowRows, "packed": r.rows.PackBatches > 0, "used": r.rows.Used[len(r.rows.Used)-1]}
	}
	if r.deviceRows != nil {
		summary["device_rows"] = map[string]any{"plan": r.deviceRows.Cost.Plan, "policy": r.deviceRows.Cost.Policy, "places": r.deviceRows.Cache.Places, "batch_places": r.deviceRows.Cache.Batch, "batches": r.deviceRows.Batches,
			"feature_bytes": r.deviceRows.Cost.FeatureBytes, "back_bytes": r.deviceRows.Cost.BackBytes, "block_bytes": r.deviceRows.Cost.BlockBytes, "drawn": r.deviceRows.Cost.Drawn, "hit_rate": r.deviceRows.Cost.Stats.HitRate()}
	}
	r.e.Event("summary", summary)
	return nil
}
