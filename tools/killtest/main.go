// Command killtest kills gstore processes with SIGKILL at random moments, and looks at what they left.
//
// Ingests: it generates two mid-sized graphs (one of dense ids with features, labels and a split, one of sparse ids in text),
// ingests each once undisturbed, and then again and again in a process that is killed and followed, by turns, by --resume and
// by a fresh run. Every time the store must verify and its data files be those of the undisturbed one, byte for byte; what the
// kill itself left must either not open or be whole already.
//
// Trainings of links: it generates a knowledge graph, trains embeddings on it undisturbed with the plans comet, memory and
// beta, and then again in processes that are killed and resumed until they end by themselves: after every kill the last
// checkpoint must verify, and every run must end with the bits of the undisturbed one.
//
// Commands: append, partition, precompute, training of nodes, eval, export and verify on copies of one store. What a kill
// leaves must verify and read as the store did before the command or as it does after it, with all of an output folder or
// none; run again, with --resume where it trains, the command must end as undisturbed.
//
//	go build -o /tmp/gstore ./tools/gstore && go run ./tools/killtest -gstore /tmp/gstore [-kills 500] [-what ingest,train,commands] [-json]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

// part is what is killed, its share of the kills, and the size of its graph by default.
type part struct {
	name         string
	share        int // in tenths
	nodes, edges int64
	run          func(context.Context, options) (result, error)
}

// result is what kills left.
type result interface{ print(io.Writer) }

var parts = []part{
	{"ingest", 3, 25_000, 250_000, func(ctx context.Context, o options) (result, error) { return killIngests(ctx, o) }},
	{"train", 2, 4000, 30_000, func(ctx context.Context, o options) (result, error) { return killTraining(ctx, o) }},
	{"commands", 5, 8000, 80_000, func(ctx context.Context, o options) (result, error) { return killCommands(ctx, o) }},
}

func main() {
	var o options
	flag.StringVar(&o.Command, "gstore", "gstore", "path of the gstore binary")
	flag.StringVar(&o.Dir, "dir", "", "empty or new directory to work in, removed afterwards (default: a temporary one)")
	flag.IntVar(&o.Kills, "kills", 500, "processes to kill, of all parts together")
	flag.Int64Var(&o.Nodes, "nodes", 0, "nodes of each graph (default: by part)")
	flag.Int64Var(&o.Edges, "edges", 0, "edges of each graph (default: by part)")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the moments")
	what := flag.String("what", "ingest,train,commands", "what is killed")
	asJSON := flag.Bool("json", false, "print the results as JSON, a line a part")
	flag.Parse()
	o.Log = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := kill(ctx, o, strings.Split(*what, ","), *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "killtest:", err)
		stop()
		os.Exit(1)
	}
}

// kill runs the named parts, each with its share of the kills, and prints what came of them.
func kill(ctx context.Context, o options, names []string, asJSON bool) error {
	var chosen []part
	shares := 0
	for _, name := range names {
		for _, p := range parts {
			if p.name == name {
				chosen, shares = append(chosen, p), shares+p.share
			}
		}
	}
	if len(chosen) != len(names) {
		return fmt.Errorf("-what %s: expected some of ingest, train, commands", strings.Join(names, ","))
	}
	for _, p := range chosen {
		po := o
		po.Kills = (o.Kills*p.share + shares - 1) / shares
		if po.Nodes == 0 {
			po.Nodes = p.nodes
		}
		if po.Edges == 0 {
			po.Edges = p.edges
		}
		r, err := p.run(ctx, po)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		r.print(os.Stdout)
	}
	return nil
}

func (r *ingestResult) print(w io.Writer) {
	fmt.Fprintf(w, "%d kills of ingests in %.0f s: all stores whole and equal to the undisturbed one\n", r.Kills, r.Seconds)
	fmt.Fprintf(w, "killed before anything was finished: %d, with finished phases to resume: %d, after the commit: %d (%d before the hop that follows it)\n", r.Nothing, r.Resumable, r.Committed, r.Due)
	fmt.Fprintf(w, "then resumed: %d (%d of them took up finished phases), begun afresh: %d\n", r.Resumed, r.TookUp, r.Fresh)
}
