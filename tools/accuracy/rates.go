package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store/ingest"
)

// runRates trains decoders with nothing given, which choose their learning rate by validation, and with each of the rates that they try,
// on the edges of graphs of nodes, a tenth of them to validate and a tenth to test, and on FB15k-237 and WN18RR.
func runRates(ctx context.Context, datasets string, first, seeds uint64, only string, threads int) (err error) {
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fmt.Println("| edges of | seed | model | chosen | test MRR | of .1 | of .3 | s |")
	fmt.Println("|---|---:|---|---:|---:|---:|---:|---:|")
	for _, data := range []string{"cora", "facebook-pages", "debdeps", "fb15k-237", "wn18rr"} {
		if only != "" && only != data {
			continue
		}
		for seed := first; seed < first+seeds; seed++ {
			in, err := triplesOf(filepath.Join(datasets, data), work, seed)
			if err != nil {
				return err
			}
			dir := filepath.Join(work, fmt.Sprintf("%s-%d.gstore", data, seed))
			if err := makeStore(ctx, in, dir, ingest.Options{Seed: seed}); err != nil {
				return err
			}
			for _, model := range []string{nn.DistMult, nn.ComplEx, nn.TransE, nn.RotatE} {
				if err := rateRow(ctx, dir, data, link.Config{Model: model, Seed: seed, Threads: threads}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// triplesOf is the folder of a data set's triples: its own, or the edges of its nodes, held out from by a seed, in folder work.
func triplesOf(set, work string, seed uint64) (string, error) {
	if _, err := os.Stat(filepath.Join(set, "valid.npy")); err == nil {
		return set, nil
	}
	in := filepath.Join(work, fmt.Sprintf("%s-%d", filepath.Base(set), seed))
	return in, holdOut(filepath.Join(set, "edge_index.npy"), in, seed)
}

func rateRow(ctx context.Context, dir, data string, c link.Config) error {
	s, err := trainTriples(ctx, dir, c)
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %d | %s | %v | %.4f |", data, c.Seed, c.Model, link.BestRate(s.Rates).LR, s.TestMRR)
	for _, r := range s.Rates {
		c.LR = r.LR
		given, err := trainTriples(ctx, dir, c)
		if err != nil {
			return err
		}
		fmt.Printf(" %.4f |", given.TestMRR)
	}
	fmt.Printf(" %.0f |\n", s.TotalSeconds)
	return nil
}
