package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/generate"
)

// LinkOptions say what RunLink measures. The zero value of a field means its default.
type LinkOptions struct {
	Dir         string // of the generated store; made if it is not there, kept for the next run
	MemoryBytes int64  // of the trainer; default 128 MiB
	Times       int    // embeddings and optimiser state are so many times the memory; default 8
	Dim         int    // default 64
	NodeEdges   int    // training triples a node; default 4, as Freebase86M has
	Partitions  int    // default 128
	Logical     int    // logical partitions of plan comet; 0: train's choice
	Threads     int    // 0: all
	Fio         string // path of fio; default: found, and left out if it is not there
	// Command runs the trainer in a process of its own: arguments are appended.
	Command  []string
	Progress func(string)
}

// LinkBench is what RunLink measured.
type LinkBench struct {
	Nodes       uint64  `json:"nodes"`
	Edges       uint64  `json:"edges"`
	TableBytes  int64   `json:"table_bytes"` // embeddings and state
	MemoryBytes int64   `json:"memory_bytes"`
	Limited     bool    `json:"limited"` // by a cgroup
	ReadGBps    float64 `json:"fio_read_gbps"`
	WriteGBps   float64 `json:"fio_write_gbps"`
	DiskSeconds float64 `json:"disk_s"` // the epoch's bytes, read and written, at fio's bandwidths
	Run         LinkRun `json:"run"`
	// Ratio is the epoch's time over the larger of disk time and in-memory time.
	Ratio float64 `json:"ratio"`
}

// LinkRun is what the trainer measured of itself in an epoch of plan comet.
type LinkRun struct {
	Seconds       float64 `json:"seconds"`
	InMemory      float64 `json:"in_memory_s"` // training the same batches with nothing being read or written
	Wait          float64 `json:"wait_s"`      // for macro-batches
	CPUSeconds    float64 `json:"cpu_s"`
	BytesRead     int64   `json:"bytes_read"`
	BytesWritten  int64   `json:"bytes_written"` // checkpoints apart
	Checkpoint    int64   `json:"checkpoint_bytes"`
	Amplification float64 `json:"write_amplification"`
	Bias          float64 `json:"bias"`
	Steps         int     `json:"steps"`
	Batches       int64   `json:"batches"`
	Buffer        int     `json:"buffer"` // partitions
	Logical       int     `json:"logical"`
	Engine        string  `json:"engine"`
	PeakRSSBytes  int64   `json:"peak_rss_bytes"`
}

func (o LinkOptions) withDefaults() LinkOptions {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Times, 8)
	def(&o.Dim, 64)
	def(&o.NodeEdges, 4)
	def(&o.Partitions, 128)
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 128 << 20
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// rowBytes is an embedding and its optimiser state.
func (o *LinkOptions) rowBytes() int64 {
	return int64(o.Dim) * 4 * int64((&link.Config{}).TablePlanes())
}

// RunLink trains learned embeddings that are many times the memory with plan comet, in a process under a
// cgroup memory limit, and compares an epoch with what bounds it: the disk's time for the bytes read
// and written, by fio, and the time of the same batches with nothing being moved.
func RunLink(ctx context.Context, o LinkOptions) (r LinkBench, err error) {
	o = o.withDefaults()
	if len(o.Command) == 0 {
		return r, errors.New("bench: no command to run a trainer with")
	}
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return r, err
	}
	dir := filepath.Join(o.Dir, "kg")
	if err := prepareLink(ctx, &o, dir); err != nil {
		return r, err
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return r, err
	}
	m := s.Manifest()
	r.Nodes, r.Edges, r.MemoryBytes = m.Nodes, m.Edges, o.MemoryBytes
	r.TableBytes = int64(m.Nodes) * o.rowBytes()
	if err := s.Close(); err != nil {
		return r, err
	}
	fio := func() error {
		read, write, err := fioBandwidths(ctx, o.Fio, o.Dir)
		r.ReadGBps, r.WriteGBps = max(r.ReadGBps, read), max(r.WriteGBps, write)
		return err
	}
	o.Progress("fio")
	if err := fio(); err != nil {
		return r, err
	}
	o.Progress("comet")
	if r.Run, r.Limited, err = o.child(ctx); err != nil {
		return r, err
	}
	o.Progress("fio") // the disk is shared: the better of both
	if err := fio(); err != nil {
		return r, err
	}
	if r.ReadGBps > 0 {
		r.DiskSeconds = float64(r.Run.BytesRead)/1e9/r.ReadGBps + float64(r.Run.BytesWritten)/1e9/r.WriteGBps
	}
	r.Ratio = r.Run.Seconds / max(r.DiskSeconds, r.Run.InMemory)
	return r, nil
}

// prepareLink makes the store unless dir holds one of the same shape.
func prepareLink(ctx context.Context, o *LinkOptions, dir string) error {
	nodes := uint64(int64(o.Times) * o.MemoryBytes / o.rowBytes())
	s, err := store.Open(dir, store.Options{})
	if err == nil {
		defer s.Close()
		if m := s.Manifest(); m.Nodes != nodes || len(m.Partitions) != o.Partitions {
			return fmt.Errorf("%s holds another store: remove it or choose another directory", dir)
		}
		return nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	o.Progress("generate")
	options := generate.KGOptions{Entities: nodes, Triples: nodes * uint64(o.NodeEdges), Valid: 1000, Test: 1000, Seed: 1}
	kg, err := generate.NewKG(options)
	if err != nil {
		return err
	}
	src, err := generate.SourceKG(kg, options)
	if err != nil {
		return err
	}
	_, err = ingest.Run(ctx, dir, src, ingest.Options{Partitions: o.Partitions, Seed: 1})
	return err
}

// child runs the trainer in a process under the memory limit and decodes the JSON that it prints.
func (o *LinkOptions) child(ctx context.Context) (run LinkRun, limited bool, err error) {
	args := append(slices.Clone(o.Command), "--trainer", "--dir", o.Dir, "--mem", strconv.FormatInt(o.MemoryBytes, 10), "--dim", strconv.Itoa(o.Dim), "--threads", strconv.Itoa(o.Threads), "--logical", strconv.Itoa(o.Logical))
	if _, limited, err = runChild(ctx, args, o.MemoryBytes, &run); err != nil {
		return run, limited, fmt.Errorf("trainer: %w", err)
	}
	return run, limited, nil
}

// linkHeapBytes bounds the trainer's Go heap: what train counts for the program, less code and stacks.
const linkHeapBytes = 40 << 20

// linkComputeSteps is about how many steps are timed with nothing being moved.
const linkComputeSteps = 32

// RunLinkChild is the trainer: an epoch to warm up, one that is measured, and then steps of the next one with the
// disk at rest, scaled to an epoch.
func RunLinkChild(ctx context.Context, o LinkOptions) (run LinkRun, err error) {
	o = o.withDefaults()
	debug.SetMemoryLimit(linkHeapBytes)
	s, err := store.Open(filepath.Join(o.Dir, "kg"), store.Options{})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cfg := link.Config{Plan: "comet", Logical: o.Logical, Dim: o.Dim, Negatives: 100, Epochs: 2, EvalEvery: -1, CheckpointEvery: "0", MemoryBytes: o.MemoryBytes, Threads: o.Threads, Seed: 1}
	dev := host.New(host.Options{Threads: o.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	var epoch link.Epoch
	r, err := link.Train(ctx, s, dev, cfg, link.Hooks{Epoch: func(e link.Epoch) { epoch = e }})
	if err != nil {
		return run, err
	}
	run = LinkRun{Seconds: epoch.Seconds, Wait: epoch.Profile.Wait.Seconds(), CPUSeconds: epoch.CPUSeconds, BytesRead: epoch.BytesRead, BytesWritten: epoch.BytesWritten,
		Checkpoint: r.Summary.CheckpointBytes, Amplification: r.Summary.Amplification, Bias: epoch.Bias, Steps: epoch.Steps, Batches: epoch.Batches,
		Buffer: r.Config.Buffer, Logical: r.Config.Logical, Engine: r.Summary.IOEngine, PeakRSSBytes: r.Summary.PeakRSSBytes}
	c, err := link.MeasureCompute(ctx, s, dev, r.Config, max(1, epoch.Steps/linkComputeSteps))
	if err != nil {
		return run, err
	}
	run.InMemory = c.Seconds * float64(2*s.Manifest().Edges) / float64(max(1, c.Queries))
	return run, nil
}

// String prints the result as a table for people.
func (r LinkBench) String() string {
	var b strings.Builder
	limit := "cgroup limit"
	if !r.Limited {
		limit = "no cgroup could be made"
	}
	fmt.Fprintf(&b, "%d nodes, %d edges; embeddings and state %.2f GiB, memory %.2f GiB (%s), %d steps of %d partitions, %d logical ones, bias %.2f\n",
		r.Nodes, r.Edges, float64(r.TableBytes)/(1<<30), float64(r.MemoryBytes)/(1<<30), limit, r.Run.Steps, r.Run.Buffer, r.Run.Logical, r.Run.Bias)
	row := func(name string, seconds float64, note string) {
		fmt.Fprintf(&b, "%-34s %9.2f s   %s\n", name, seconds, note)
	}
	row("disk: the epoch's bytes, by fio", r.DiskSeconds, fmt.Sprintf("%.2f GB read at %.2f GB/s, %.2f GB written at %.2f GB/s", float64(r.Run.BytesRead)/1e9, r.ReadGBps, float64(r.Run.BytesWritten)/1e9, r.WriteGBps))
	row("the same batches in memory", r.Run.InMemory, fmt.Sprintf("%d batches", r.Run.Batches))
	row("epoch, comet", r.Run.Seconds, fmt.Sprintf("%.2f × the larger; waiting %.2f s, CPU %.1f s, write amplification %.3f, peak RSS %d MiB, %s",
		r.Ratio, r.Run.Wait, r.Run.CPUSeconds, r.Run.Amplification, r.Run.PeakRSSBytes>>20, r.Run.Engine))
	return b.String()
}

// fioBytes is what bandwidths are measured with.
const fioBytes = 1 << 30

// fioBandwidths returns fio's best sequential bandwidths, in GB/s, of writing a file below dir and of
// reading it again; zeros where there is no fio.
func fioBandwidths(ctx context.Context, path, dir string) (read, write float64, err error) {
	readers, err := fioReaders(path)
	if err != nil {
		return 0, 0, nil // not installed: the result says 0
	}
	file := filepath.Join(dir, "fio.tmp")
	defer func() {
		if e := os.Remove(file); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	best := func(test string) (gbps float64, err error) {
		for _, f := range readers {
			seconds, _, err := f.run(ctx, test, file, fioBytes)
			if err != nil {
				return 0, err
			}
			gbps = max(gbps, fioBytes/seconds/1e9)
		}
		return gbps, nil
	}
	if write, err = best("write"); err == nil {
		read, err = best("sequential")
	}
	return read, write, err
}
