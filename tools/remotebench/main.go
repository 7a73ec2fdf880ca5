// Command remotebench compares training on a store that lies on object storage with training on the same store on disk. It starts an S3
// server behind a proxy of a given rate and latency, pushes the store to it, and prints, as medians over repeats, an epoch of the store on
// disk, one at its address when nothing of it is kept here, and one when all of it is, beside the time that the server takes to send all data.
//
//	tools/s3server/build
//	go run ./tools/remotebench -gstore gstore -store papers.gstore -rate 400 -latency 10ms -- --mem 1GiB
//
// What follows -- are flags of gstore train. The page cache is emptied before each epoch where that is allowed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/tools/remotebench/served"
)

func main() {
	var b bench
	flag.StringVar(&b.gstore, "gstore", "gstore", "the program")
	flag.StringVar(&b.server, "server", ".cache/versitygw", "the S3 server, which tools/s3server/build makes")
	flag.StringVar(&b.store, "store", "", "the store")
	flag.StringVar(&b.dir, "dir", os.TempDir(), "where the server and the cache have their files: a disk with room for the store twice")
	flag.Float64Var(&b.rate, "rate", 0, "MB a second that the proxy lets through (0 = no proxy)")
	flag.DurationVar(&b.latency, "latency", 0, "how long the proxy lets each request wait")
	flag.IntVar(&b.repeats, "repeats", 3, "how often each is measured")
	flag.Parse()
	b.train = flag.Args()
	if err := b.run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type bench struct {
	gstore, server, store, dir string
	rate                       float64
	latency                    time.Duration
	repeats                    int
	train                      []string

	folder  string
	address string
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.folder, err = os.MkdirTemp(b.dir, "remotebench-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	bucket, stop, err := served.Start(served.Options{Server: b.server, Folder: filepath.Join(b.folder, "server"), MBPerSecond: b.rate, Latency: b.latency})
	if err != nil {
		return err
	}
	defer stop()
	b.address = bucket("store")
	if _, err := b.command("push", b.store, b.address); err != nil {
		return err
	}
	objects, err := remote.Open(b.address)
	if err != nil {
		return err
	}
	s, err := remote.Read(ctx, objects, 0)
	if err != nil {
		return err
	}
	var sent, disk, cold, warm []float64
	for range b.repeats {
		began := time.Now()
		if err := sendAll(ctx, objects, s); err != nil {
			return err
		}
		sent = append(sent, time.Since(began).Seconds())
		for _, m := range []struct {
			of    string
			to    *[]float64
			fresh bool
		}{{b.store, &disk, false}, {b.address, &cold, true}, {b.address, &warm, false}} {
			if m.fresh {
				if err := os.RemoveAll(b.cache()); err != nil {
					return err
				}
			}
			seconds, err := b.epoch(m.of)
			if err != nil {
				return err
			}
			*m.to = append(*m.to, seconds)
		}
		last := len(sent) - 1
		fmt.Printf("%d: server %.1f s, on disk %.1f s, cold %.1f s, warm %.1f s\n", last+1, sent[last], disk[last], cold[last], warm[last])
	}
	limit := median(sent)
	fmt.Printf("the server sends all data, %.2f GB, in %.1f s (%.0f MB/s)\n", float64(dataBytes(s))/1e9, limit, float64(dataBytes(s))/1e6/limit)
	fmt.Printf("epoch on disk %.1f s; by the address: cold %.1f s, %.2f × the longer of that and the server's; warm %.1f s, %.2f × that on disk\n",
		median(disk), median(cold), median(cold)/max(median(disk), limit), median(warm), median(warm)/median(disk))
	return nil
}

func (b *bench) cache() string { return filepath.Join(b.folder, "cache") }

// epoch trains for one epoch and returns its seconds.
func (b *bench) epoch(store string) (float64, error) {
	_ = exec.Command("sync").Run()
	_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) // root's alone
	out, err := b.command(slices.Concat([]string{"train", store, "--epochs", "1", "--json"}, b.train)...)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(out) {
		var e struct {
			Event   string
			Seconds float64
		}
		if json.Unmarshal(line, &e) == nil && e.Event == "epoch" {
			return e.Seconds, nil
		}
	}
	return 0, fmt.Errorf("no epoch in %.200s", out)
}

func (b *bench) command(args ...string) ([]byte, error) {
	cmd := exec.Command(b.gstore, args...)
	cmd.Env = append(os.Environ(), "GSTORE_CACHE_DIR="+b.cache())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return out, nil
}

// sendAll has the server send all data files, in requests of 16 MiB, eight at a time.
func sendAll(ctx context.Context, b remote.Bucket, s *remote.Snapshot) error {
	const part = 16 << 20
	type piece struct {
		key        string
		at, length int64
	}
	var pieces []piece
	for i := range s.Files {
		f := &s.Files[i]
		for at := int64(0); f.Footer != nil && at < f.Size; at += part {
			pieces = append(pieces, piece{"objects/" + f.SHA256[:2] + "/" + f.SHA256, at, min(part, f.Size-at)})
		}
	}
	next := make(chan piece, len(pieces))
	for _, p := range pieces {
		next <- p
	}
	close(next)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			for p := range next {
				r, err := b.Get(ctx, p.key, p.at, p.length)
				if err == nil {
					_, err = io.Copy(io.Discard, r)
					err = errors.Join(err, r.Close())
				}
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// dataBytes are those of files that an address keeps until they are needed.
func dataBytes(s *remote.Snapshot) (n int64) {
	for i := range s.Files {
		if s.Files[i].Footer != nil {
			n += s.Files[i].Size
		}
	}
	return n
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
