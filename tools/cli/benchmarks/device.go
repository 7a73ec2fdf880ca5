package benchmarks

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/bench"
	"github.com/gstore/gstore/tools/cli/command"
)

type benchDeviceOptions struct {
	bench bench.DeviceOptions
	link  link.Config // what a run of links has beside bench.Train
	rooms []float64   // percent
}

func newBenchDevice(e *command.Env) *cobra.Command {
	var o benchDeviceOptions
	c := &o.bench.Train
	cmd := &cobra.Command{
		Use:   "device STORE",
		Short: "Count the bytes that cross to a device in an epoch of training, by policy and room",
		Long: `Sample an epoch as training would, and count what each policy sends to a device that keeps some of the feature rows:
nothing is sent and no device is needed. A room is a share of the feature rows of a step, beside which the device
holds the rows of one mini-batch. The epochs before the one that is measured warm the caches and count visits.

  naive             every batch sends all its rows
  tracker           the rows of the last batches stay
  lookahead         of rows and --window announced batches, what is needed soonest stays
  … + reorder       the same, windows of --reorder batches in the order of Match-Reorder
  presc             the rows that the epochs before visited most stay for good, as tracker where they leave room
  static optimum    those that this epoch visits most
  oracle            Belady with the whole epoch known: what no policy can beat
  dual cache        sampling on the device: room divided between features and adjacency lists
  mirror            whole steps, where they fit; "sampling there" with neighbour lists, which lie beside the room: the
                    device draws the mini-batches, and no block crosses
  lbs, pbs          gstore train --x device-plan=lbs and pbs, samplers: results differ. Structure is blocks, and of pbs
                    the states that its history adds

presc, static optimum and dual cache are left out where steps change what is in memory, pbs where that is not all.
Of a store of links, rows are embeddings with their optimiser's state, which batches change and which go back before
others take their places, and features: naive, tracker, lookahead and oracle are counted.

"ahead of time" sends only rows that were sampled. The plan that training would choose has a star.`,
		Example: "  gstore-lab bench device debdeps.gstore --fanouts 15,10 --rooms 5,10,25,50\n  gstore-lab bench device papers.gstore --batches 100 --json",
		Args:    command.StoreArgs("STORE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runBenchDevice(cmd, e, args[0], &o) },
	}
	f := cmd.Flags()
	f.Float64SliceVar(&o.rooms, "rooms", []float64{5, 10, 25, 50}, "rooms on the device, in percent of a step's feature rows")
	f.IntSliceVar(&c.Fanouts, "fanouts", nil, "neighbours sampled per node and hop, outward (default 15,10)")
	f.IntVar(&c.BatchSize, "batch-size", 0, "target nodes, of links edges, of a mini-batch (default 1000)")
	f.IntVar(&o.link.Dim, "dim", 0, "links: numbers of an embedding (default 100)")
	f.StringVar(&o.link.Encoder, "encoder", "", "links: graph neural network over the nodes' inputs (default none)")
	f.IntVar(&o.link.Negatives, "negatives", 0, "links: wrong answers for each edge and side (default 500)")
	f.IntVar(&c.Hidden, "hidden", 0, "nodes: columns of hidden states, for pbs (default 128)")
	f.StringVar(&c.Split, "split", "", "nodes: split column (default: the store's first)")
	f.StringSliceVar(&c.Features, "features", nil, "feature columns (default: those computed from no other; of links none)")
	f.StringVar(&c.Plan, "plan", "", "plan of partitions in memory: auto, memory, hanoi or trainnodes; of links auto, memory, comet or beta")
	f.IntVar(&c.Buffer, "buffer", 0, "partitions in memory at once (default: all)")
	f.Uint64Var(&c.Seed, "seed", 0, "of every random choice")
	f.IntVar(&o.bench.Batches, "batches", 0, "mini-batches of an epoch, at most (0 = all)")
	f.IntVar(&o.bench.Epochs, "epochs", 1, "epochs before the one that is measured")
	f.IntVar(&o.bench.Window, "window", 0, "batches that lookahead knows, up to 62 (0 = what training takes: 16, or more where those move less)")
	f.IntVar(&o.bench.Reorder, "reorder", 16, "nodes: batches that are reordered")
	return cmd
}

func runBenchDevice(cmd *cobra.Command, e *command.Env, path string, o *benchDeviceOptions) (err error) {
	for _, r := range o.rooms {
		if r <= 0 || r > 100 {
			return command.Usagef("--rooms %v: expected percents above 0 and up to 100", o.rooms)
		}
		o.bench.Shares = append(o.bench.Shares, r/100)
	}
	if o.bench.Batches < 0 || o.bench.Epochs < 1 {
		return command.Usagef("--batches %d, --epochs %d: expected 0 or more, and 1 or more", o.bench.Batches, o.bench.Epochs)
	}
	st, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	task := st.Manifest().Task()
	others, of := []string{"dim", "encoder", "negatives"}, "link prediction"
	if task == store.TaskLink {
		others, of = []string{"hidden", "split", "reorder"}, "node classification"
	}
	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return command.Usagef("--%s is for %s; %s has another task", name, of, path)
		}
	}
	if c := o.bench.Train; task == store.TaskLink {
		l := o.link
		l.Fanouts, l.BatchSize, l.Features, l.Plan, l.Buffer, l.Seed, l.EvalEvery = c.Fanouts, c.BatchSize, c.Features, c.Plan, c.Buffer, c.Seed, -1
		if err := l.Normalize(); err != nil {
			return command.Usage(err)
		}
		o.bench.Link = &l
	} else if err := c.Normalize(); err != nil {
		return command.Usage(err)
	}
	o.bench.Log = func(what string) {
		if !e.Quiet && !e.JSON {
			fmt.Fprintf(e.Stderr, "%s …\n", what)
		}
	}
	share := 0.0
	g, err := bench.RunDevice(cmd.Context(), st, o.bench, func(r bench.DeviceRow) {
		e.Event("row", map[string]any{"row": r})
		if e.JSON {
			return
		}
		if r.Share != share {
			share = r.Share
			fmt.Fprintf(e.Stdout, "\nroom for %.3g %% of the rows\n%26s %10s %10s %10s %7s %8s %7s %9s\n", 100*share, "policy", "features", "back", "structure", "of all", "of rows", "hits %", "CPU s")
		}
		name := r.Policy
		if r.Window > 0 {
			name += fmt.Sprintf(" (%d)", r.Window)
		}
		if r.Chosen {
			name = "* " + name
		}
		if r.Sampler {
			name += " †"
		}
		hits := ""
		if r.HitRate > 0 {
			hits = fmt.Sprintf("%.1f", 100*r.HitRate)
		}
		fmt.Fprintf(e.Stdout, "%26s %10s %10s %10s %7.3f %8.3f %7s %9.3f\n", name, command.FormatSize(r.FeatureBytes), command.FormatSize(r.BackBytes), command.FormatSize(r.StructureBytes), r.OfNaive, r.FeaturesOf, hits, r.Seconds)
	})
	if err != nil {
		return err
	}
	if e.JSON {
		e.Event("summary", map[string]any{"store": path, "graph": g})
		return nil
	}
	fmt.Fprintf(e.Stdout, "\n%d nodes, %d B a row; %d batches of %.0f rows, the largest of %d. † another sampler: results differ\n", g.Nodes, g.RowBytes, g.Batches, g.BatchRows, g.Largest)
	return nil
}
