package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cgroup"
)

// EpochOptions say what RunEpoch measures. The zero value of a field means its
// default.
type EpochOptions struct {
	Dir          string // store and flat copies; made if it is not there, kept for the next run
	FeatureBytes int64  // of the graph; default 8 GiB, rounded to partitions of 65536 nodes
	Dim          int    // float32 columns; default 256
	MemoryBytes  int64  // each trainer's cgroup limit and budget; default 1 GiB
	Threads      int    // default: all processors
	Device       string // trains, as --device names it; default host
	Metrics      string // the hanoi trainer's metrics file; default none
	Batches      int    // of the mmap trainer to time; default 2, negative leaves it out
	Fio          string // path of fio; default: found, and left out if it is not there
	// Command runs a trainer in a process of its own: arguments are appended.
	Command  []string
	Progress func(string)
}

// EpochResult is what RunEpoch measured.
type EpochResult struct {
	FeatureBytes int64    `json:"feature_bytes"`
	MemoryBytes  int64    `json:"memory_bytes"`
	Limited      bool     `json:"limited"` // by a cgroup
	FioGBps      float64  `json:"fio_gbps"`
	DiskSeconds  float64  `json:"disk_s"` // the hanoi epoch's bytes at fio's bandwidth
	Hanoi        EpochRun `json:"hanoi"`
	Mmap         EpochRun `json:"mmap"`
	// Ratio is the hanoi epoch's time over the larger of disk time and in-memory time.
	Ratio float64 `json:"ratio"`
}

func (o EpochOptions) withDefaults() EpochOptions {
	if o.FeatureBytes == 0 {
		o.FeatureBytes = 8 << 30
	}
	if o.Dim == 0 {
		o.Dim = 256
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 1 << 30
	}
	if o.Batches == 0 {
		o.Batches = 2
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// partitions is how many the generated graph has.
func (o *EpochOptions) partitions() int {
	partitionBytes := int64(epochPartitionNodes * o.Dim * 4)
	return int((o.FeatureBytes + partitionBytes - 1) / partitionBytes)
}

// RunEpoch compares an epoch out of core with what bounds it: the disk's time
// for the same bytes by fio, and the trainer's for the same batches in memory.
// Beside it runs a naive trainer on mapped files. Trainers run in processes of
// their own under a cgroup memory limit, where one can be made, so that the
// page cache cannot help.
func RunEpoch(ctx context.Context, o EpochOptions) (r EpochResult, err error) {
	o = o.withDefaults()
	if len(o.Command) == 0 {
		return r, errors.New("bench: no command to run a trainer with")
	}
	partitionBytes := int64(epochPartitionNodes * o.Dim * 4)
	parts := o.partitions()
	if err := prepare(ctx, &o, parts); err != nil {
		return r, err
	}
	r.FeatureBytes, r.MemoryBytes = int64(parts)*partitionBytes, o.MemoryBytes
	s, err := store.Open(filepath.Join(o.Dir, "store"), store.Options{})
	if err != nil {
		return r, err
	}
	file, _, err := s.Files().Column("x", 0)
	if err := errors.Join(err, s.Close()); err != nil {
		return r, err
	}
	fioBest := func() error {
		readers, err := fioReaders(o.Fio)
		if err != nil {
			return nil // not installed: the result says 0
		}
		for _, f := range readers {
			if err := dropCache(file.Path()); err != nil {
				return err
			}
			n := min(r.FeatureBytes, 4<<30)
			seconds, _, err := f.run(ctx, "sequential", file.Path(), n)
			if err != nil {
				return err
			}
			r.FioGBps = max(r.FioGBps, float64(n)/seconds/1e9)
		}
		return nil
	}
	o.Progress("fio")
	if err := fioBest(); err != nil {
		return r, err
	}
	o.Progress("hanoi")
	if r.Hanoi, r.Limited, err = o.child(ctx, "hanoi"); err != nil {
		return r, err
	}
	o.Progress(fmt.Sprintf("hanoi: %.2f s, the same in memory %.2f s, %.2f GB", r.Hanoi.Seconds, r.Hanoi.InMemory, float64(r.Hanoi.BytesRead)/1e9))
	// The disk is shared: fio again, and the better of both.
	if err := fioBest(); err != nil {
		return r, err
	}
	if o.Batches > 0 {
		o.Progress("mmap")
		if r.Mmap, _, err = o.child(ctx, "mmap"); err != nil {
			return r, err
		}
	}
	if r.FioGBps > 0 {
		r.DiskSeconds = float64(r.Hanoi.BytesRead) / 1e9 / r.FioGBps
	}
	r.Ratio = r.Hanoi.Seconds / max(r.DiskSeconds, r.Hanoi.InMemory)
	return r, nil
}

// prepare makes the store unless the directory holds one of the same shape.
func prepare(ctx context.Context, o *EpochOptions, parts int) error {
	dir := filepath.Join(o.Dir, "store")
	s, err := store.Open(dir, store.Options{})
	if err == nil {
		defer s.Close()
		x, err := s.Manifest().Column("x")
		if err != nil || len(s.Manifest().Partitions) != parts || x.Dim != o.Dim {
			return fmt.Errorf("%s holds another store: remove it or choose another directory", dir)
		}
		return nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	return generateEpochStore(ctx, o.Dir, parts, o.Dim, o.Progress)
}

// child runs a trainer in a process under the memory limit and decodes the
// JSON that it prints.
func (o *EpochOptions) child(ctx context.Context, trainer string) (run EpochRun, limited bool, err error) {
	args := append(slices.Clone(o.Command), "--trainer", trainer, "--dir", o.Dir, "--mem", strconv.FormatInt(o.MemoryBytes, 10),
		"--threads", strconv.Itoa(o.Threads), "--device", o.Device, "--batches", strconv.Itoa(max(0, o.Batches)), "--metrics", o.Metrics)
	var memory int64
	if trainer != trainerFree {
		memory = o.MemoryBytes
	}
	if memory > 0 && o.Device != "" && o.Device != "host" {
		memory += driverBytes
	}
	state, limited, err := runChild(ctx, args, memory, &run)
	if err != nil {
		return run, limited, fmt.Errorf("trainer %s: %w", trainer, err)
	}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		run.PeakRSSBytes = u.Maxrss << 10
	}
	return run, limited, nil
}

// driverBytes is what a GPU's driver may hold of the host's memory beside a trainer's.
const driverBytes = 1 << 30

// interruptGrace is how long a child has to end after an interrupt until it is killed: one whose mapped pages do not fit
// its memory may be minutes in a mini-batch. It has nothing to save.
const interruptGrace = 2 * time.Second

// runChild runs a command, in a control group of so many bytes of memory where one can be made (0: without), and
// decodes the JSON that it prints.
func runChild(ctx context.Context, args []string, memory int64, result any) (state *os.ProcessState, limited bool, err error) {
	if memory > 0 {
		if group, err := cgroup.New("gstore-bench", memory); err == nil {
			defer group.Remove()
			args, limited = group.Within(args), true
		}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if stopped := ctx.Err(); stopped != nil { // the child ended as it was told to, by a signal to both or by this process
			return nil, limited, fmt.Errorf("%s: %w", strings.Join(args, " "), stopped)
		}
		return nil, limited, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(stdout.Bytes(), result); err != nil {
		return nil, limited, fmt.Errorf("printed %.200q: %w", &stdout, err)
	}
	return cmd.ProcessState, limited, nil
}

// String prints the result as a table for people.
func (r EpochResult) String() string {
	var b strings.Builder
	limit := "cgroup limit"
	if !r.Limited {
		limit = "no cgroup could be made: the page cache may help the mmap trainer"
	}
	fmt.Fprintf(&b, "features %.1f GiB, memory %.2f GiB (%s), %d steps of %d partitions\n",
		float64(r.FeatureBytes)/(1<<30), float64(r.MemoryBytes)/(1<<30), limit, r.Hanoi.Steps, r.Hanoi.Capacity)
	row := func(name string, seconds float64, note string) {
		fmt.Fprintf(&b, "%-34s %9.2f s   %s\n", name, seconds, note)
	}
	row("disk: the epoch's bytes, by fio", r.DiskSeconds, fmt.Sprintf("%.2f GB at %.2f GB/s", float64(r.Hanoi.BytesRead)/1e9, r.FioGBps))
	row("the same batches in memory", r.Hanoi.InMemory, fmt.Sprintf("%d batches", r.Hanoi.Batches))
	if r.Hanoi.DeviceSeconds > 0 {
		row("at work on "+r.Hanoi.Device, r.Hanoi.DeviceSeconds, fmt.Sprintf("%.0f %% of the epoch", 100*r.Hanoi.DeviceSeconds/r.Hanoi.Seconds))
	}
	row("epoch, hanoi", r.Hanoi.Seconds, fmt.Sprintf("%.2f × the larger; stall %.2f s, assembly %.2f s, CPU %.1f s, GC %.2f %%, peak RSS %d MiB, %s",
		r.Ratio, r.Hanoi.Stall, r.Hanoi.Assemble, r.Hanoi.CPUSeconds, 100*r.Hanoi.GCShare, r.Hanoi.PeakRSSBytes>>20, r.Hanoi.Engine))
	if r.Mmap.Measured == 0 {
		return b.String()
	}
	row("epoch, naive mmap", r.Mmap.Seconds, fmt.Sprintf("%.1f × hanoi; from %d of %d batches", r.Mmap.Seconds/r.Hanoi.Seconds, r.Mmap.Measured, r.Mmap.Batches))
	return b.String()
}
