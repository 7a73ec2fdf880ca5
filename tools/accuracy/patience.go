package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// runPatience trains decoders with one learning rate and nothing else given on the edges of graphs of nodes, a tenth
// of them to validate and a tenth to test, and again with the epochs that they have at most: what patience gives and
// what it saves.
func runPatience(ctx context.Context, datasets string, first, seeds uint64, only string, threads int) (err error) {
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fmt.Println("| edges of | seed | by default: epochs, test MRR, s | all epochs: epochs, test MRR, s |")
	fmt.Println("|---|---:|---:|---:|")
	for _, data := range []string{"cora", "facebook-pages", "debdeps"} {
		if only != "" && only != data {
			continue
		}
		for seed := first; seed < first+seeds; seed++ {
			in, dir := filepath.Join(work, fmt.Sprintf("%s-%d", data, seed)), filepath.Join(work, fmt.Sprintf("%s-%d.gstore", data, seed))
			if err := holdOut(filepath.Join(datasets, data, "edge_index.npy"), in, seed); err != nil {
				return err
			}
			if err := makeStore(ctx, in, dir, ingest.Options{Seed: seed}); err != nil {
				return err
			}
			fmt.Printf("| %s | %d |", data, seed)
			for _, fixed := range []bool{false, true} {
				c := link.Config{Seed: seed, Threads: threads, LR: .1, Table: fmt.Sprint("table", fixed)}
				if fixed {
					if c.Epochs, err = defaultEpochs(ctx, dir); err != nil {
						return err
					}
				}
				s, err := trainTriples(ctx, dir, c)
				if err != nil {
					return err
				}
				epochs := fmt.Sprint(len(s.EpochSeconds))
				if s.DiscardedEpochs > 0 {
					epochs += fmt.Sprintf(" + %d", s.DiscardedEpochs)
				}
				fmt.Printf(" %s, %.4f, %.0f |", epochs, s.TestMRR, s.TotalSeconds)
			}
			fmt.Println()
		}
	}
	return nil
}

// defaultEpochs is how many epochs a run has at most if it is given none.
func defaultEpochs(ctx context.Context, dir string) (epochs int, err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	dev := host.New(host.Options{Threads: 1})
	defer func() { err = errors.Join(err, dev.Close()) }()
	var c link.Config
	if err := c.Normalize(); err != nil {
		return 0, err
	}
	d, err := link.Decide(ctx, st, dev.Info(), c)
	if err != nil {
		return 0, err
	}
	return d.Config.Epochs, d.Close()
}

// holdOut writes the edges of a .npy file of two rows, each once, as triples of one relation to train, validate and test on.
func holdOut(path, dir string, seed uint64) (err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r := bytes.NewReader(raw)
	h, err := npy.Read(r)
	if err != nil {
		return err
	}
	if len(h.Shape) != 2 || h.Shape[0] != 2 || h.Elem != blocks.Int64 {
		return fmt.Errorf("%s has shape %v of %v, expected two rows of int64", path, h.Shape, h.Elem)
	}
	n := int(h.Shape[1])
	ends := make([]int64, 2*n)
	if err := binary.Read(r, binary.LittleEndian, ends); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var files []*os.File
	var to []*bufio.Writer
	for _, name := range []string{"train", "valid", "test"} {
		f, err := os.Create(filepath.Join(dir, name+".tsv"))
		if err != nil {
			return err
		}
		files, to = append(files, f), append(to, bufio.NewWriter(f))
	}
	random := keyed.New(seed).Rand(0)
	for i := range n {
		list := [10]int{8: 1, 9: 2}[random.Below(10)]
		if _, err := fmt.Fprintf(to[list], "%d\tlinks\t%d\n", ends[i], ends[n+i]); err != nil {
			return err
		}
	}
	for i := range files {
		err = errors.Join(err, to[i].Flush(), files[i].Close())
	}
	return err
}
