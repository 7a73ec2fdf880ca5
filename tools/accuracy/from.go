package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
)

// runFrom holds a tenth of the edges to train on back, trains on the others with nothing given, appends the tenth, and trains with nothing
// given once more, from new embeddings and from those of before.
func runFrom(ctx context.Context, datasets string, first, seeds uint64, only string, threads int) (err error) {
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	data, model, _ := strings.Cut(only, " ")
	fmt.Println("| edges of | seed | model | before | after, anew: epochs, test MRR, s | from before: epochs, test MRR, s |")
	fmt.Println("|---|---:|---|---:|---:|---:|")
	for _, name := range []string{"cora", "facebook-pages", "debdeps", "fb15k-237", "wn18rr"} {
		if data != "" && data != name {
			continue
		}
		for seed := first; seed < first+seeds; seed++ {
			in, err := triplesOf(filepath.Join(datasets, name), work, seed)
			if err != nil {
				return err
			}
			part := filepath.Join(work, fmt.Sprintf("%s-%d.part", name, seed))
			for _, decoder := range []string{nn.DistMult, nn.ComplEx, nn.TransE, nn.RotatE} {
				if model != "" && model != decoder {
					continue
				}
				if err := fromRow(ctx, in, part, name, link.Config{Model: decoder, Seed: seed, Threads: threads}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fromRow prints a row about the triples of folder in; what it makes is beside part.
func fromRow(ctx context.Context, in, part, data string, c link.Config) (err error) {
	dir, more := part+".gstore", part+".more.tsv"
	if err := errors.Join(os.RemoveAll(dir), holdBack(in, part, more, c.Seed)); err != nil {
		return err
	}
	if err := makeStore(ctx, part, dir, ingest.Options{Seed: c.Seed}); err != nil {
		return err
	}
	before, err := trainTriples(ctx, dir, c)
	if err != nil {
		return err
	}
	src, err := formats.Open(more, formats.Options{Text: formats.TextOptions{Columns: []string{"src", "relation", "dst"}, IDs: store.IDsStrings}})
	if err != nil {
		return err
	}
	_, err = grow.Append(ctx, dir, src, grow.Options{})
	if err = errors.Join(err, src.Close()); err != nil {
		return err
	}
	fmt.Printf("| %s | %d | %s | %.4f |", data, c.Seed, c.Model, before.TestMRR)
	c.Table = "anew"
	anew, err := trainTriples(ctx, dir, c)
	if err != nil {
		return err
	}
	c.Table, c.From = "from", "embeddings"
	from, err := trainTriples(ctx, dir, c)
	if err != nil {
		return err
	}
	for _, s := range []*link.Summary{anew, from} {
		fmt.Printf(" %d, %.4f, %.0f |", len(s.EpochSeconds)+s.DiscardedEpochs, s.TestMRR, s.TotalSeconds)
	}
	fmt.Println()
	return nil
}

// holdBack writes the triples of folder in to folder out, and a tenth of those to train on to file more.
func holdBack(in, out, more string, seed uint64) (err error) {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	rest, err := os.Create(more)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rest.Close()) }()
	random := keyed.New(seed).Rand(1)
	for _, name := range []string{"train.tsv", "valid.tsv", "test.tsv"} {
		if err := eachLine(filepath.Join(in, name), func(lines *bufio.Scanner) (err error) {
			f, err := os.Create(filepath.Join(out, name))
			if err != nil {
				return err
			}
			w, held := bufio.NewWriter(f), bufio.NewWriter(rest)
			for lines.Scan() {
				to := w
				if name == "train.tsv" && random.Below(10) == 0 {
					to = held
				}
				if _, err := fmt.Fprintln(to, lines.Text()); err != nil {
					return errors.Join(err, f.Close())
				}
			}
			return errors.Join(lines.Err(), w.Flush(), held.Flush(), f.Close())
		}); err != nil {
			return err
		}
	}
	return nil
}

// eachLine has use read the lines of a file, or of one that is compressed in its place.
func eachLine(path string, use func(*bufio.Scanner) error) (err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		f, err = os.Open(path + ".gz")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var r io.Reader = f
	if filepath.Ext(f.Name()) == ".gz" {
		if r, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	return use(bufio.NewScanner(r))
}
