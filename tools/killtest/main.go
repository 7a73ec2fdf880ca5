// Command killtest kills ingests and, with -train, trainings. It generates two mid-sized graphs (one of dense ids
// with features, labels and a split, one of sparse ids in text), ingests each once
// undisturbed, and then again and again in a real gstore process that gets SIGKILL at a
// random moment and is followed, by turns, by --resume and by a fresh run. Every
// time the store must verify and its data files be those of the undisturbed one, byte
// for byte; what the kill itself left must either not open or be whole already.
//
// With -train it generates a knowledge graph, trains embeddings on it undisturbed with the plans comet, memory and beta, and
// then again in processes that get SIGKILL and are resumed until they end by themselves: after every kill
// the last checkpoint must verify, and every run must end with the bits of the undisturbed one.
//
//	go build -o /tmp/gstore ./tools/gstore && go run ./tools/killtest -gstore /tmp/gstore [-kills 300] [-json]
//	go run ./tools/killtest -gstore /tmp/gstore -train [-kills 200]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	var o options
	flag.StringVar(&o.Command, "gstore", "gstore", "path of the gstore binary")
	flag.StringVar(&o.Dir, "dir", "", "empty or new directory to work in, removed afterwards (default: a temporary one)")
	flag.IntVar(&o.Kills, "kills", 300, "processes to kill")
	flag.Int64Var(&o.Nodes, "nodes", 25_000, "nodes of each graph")
	flag.Int64Var(&o.Edges, "edges", 250_000, "edges of each graph")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the moments")
	training := flag.Bool("train", false, "kill trainings instead of ingests; then -nodes and -edges are a knowledge graph's, 4000 and 30000 by default")
	asJSON := flag.Bool("json", false, "print the result as JSON")
	flag.Parse()
	o.Log = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r interface{ print(io.Writer) }
	var err error
	if *training {
		given := map[string]bool{}
		flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["nodes"] {
			o.Nodes = 4000
		}
		if !given["edges"] {
			o.Edges = 30_000
		}
		r, err = killTraining(ctx, o)
	} else {
		r, err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "killtest:", err)
		stop()
		os.Exit(1)
	}
	if *asJSON {
		_ = json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	r.print(os.Stdout)
}

func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%d kills in %.0f s: all stores whole and equal to the undisturbed one\n", r.Kills, r.Seconds)
	fmt.Fprintf(w, "killed before anything was finished: %d, with finished phases to resume: %d, after the commit: %d\n", r.Nothing, r.Resumable, r.Committed)
	fmt.Fprintf(w, "then resumed: %d (%d of them took up finished phases), begun afresh: %d\n", r.Resumed, r.TookUp, r.Fresh)
}
