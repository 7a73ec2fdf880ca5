// Command scalesim says what graphs of other sizes cost on machines that are not here. It replays an epoch's plan, which partitions are read
// when, what is trained while they are, what is written back, against a disk, an object store, a network and a trainer of given rates, for
// one machine or several ranks.
//
//	go build -o /tmp/gstore ./tools/gstore && tools/s3server/build
//	go run ./tools/scalesim -check -gstore /tmp/gstore   # replays beside epochs that are trained here
//	go run ./tools/scalesim                              # the tables of docs/scale.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	var c checker
	m := node()
	check := flag.Bool("check", false, "train epochs here, and say by how much their replays are off")
	measure := flag.Bool("measure", false, "train a sample of each graph here, and print what a mini-batch takes")
	flag.StringVar(&c.gstore, "gstore", "gstore", "the program")
	flag.StringVar(&c.server, "server", ".cache/versitygw", "the S3 server, which tools/s3server/build makes")
	flag.StringVar(&c.dir, "dir", os.TempDir(), "where graphs are made: a disk with room for four times 512 bytes a node")
	flag.IntVar(&c.nodes, "nodes", 4_000_000, "nodes of the graph whose epochs are foretold")
	flag.Float64Var(&c.rate, "rate", 200, "MB a second that the server sends")
	flag.DurationVar(&c.latency, "latency", 10*time.Millisecond, "how long each request to it waits")
	flag.IntVar(&c.repeats, "repeats", 1, "how often each epoch is trained, of which the median counts")
	flag.StringVar(&c.only, "only", "", "of -check and -measure: only epochs or graphs whose name contains this")
	flag.Float64Var(&m.cores, "cores", m.cores, "of the tables' machine: processors")
	flag.Float64Var(&m.memory, "memory", m.memory, "bytes of memory")
	flag.Float64Var(&m.disk.bytesPerSecond, "disk", m.disk.bytesPerSecond, "bytes a second that its disk reads")
	flag.Float64Var(&m.diskWrites, "disk-writes", m.diskWrites, "bytes a second that it writes")
	flag.Float64Var(&m.server.bytesPerSecond, "network", m.server.bytesPerSecond, "bytes a second that come from the object store")
	flag.Float64Var(&m.diskBytes, "disk-bytes", m.diskBytes, "bytes that its disk has")
	flag.Float64Var(&m.disk.latency, "disk-latency", m.disk.latency, "seconds that a request to it takes")
	flag.Float64Var(&m.server.latency, "store-latency", m.server.latency, "seconds that a request to the object store takes")
	flag.Float64Var(&m.dollars, "dollars", m.dollars, "an hour")
	flag.Float64Var(&m.get, "dollars-get", m.get, "of a request to the object store")
	flag.Float64Var(&m.keep, "dollars-stored", m.keep, "of a GB and month there")
	flag.Parse()
	m.network.bytesPerSecond = m.server.bytesPerSecond
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func(context.Context) error { return tables(os.Stdout, m) }
	switch {
	case *check:
		run = c.run
	case *measure:
		run = c.measure
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scalesim:", err)
		stop()
		os.Exit(1)
	}
}
