package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store"
)

// IngestOptions configure RunIngest.
type IngestOptions struct {
	Dir         string // for inputs (kept) and stores (removed)
	Nodes       int64  // of the R-MAT graph
	Edges       int64
	Features    int      // float32 columns; 0 = none
	Formats     []string // "tsv" (ids are remapped), "binary", "numpy"
	MemoryBytes []int64  // a run for each
	Command     []string // gstore
	Log         func(format string, args ...any)
}

// IngestRun is one ingest, as its process reported it.
type IngestRun struct {
	Format      string  `json:"format"`
	MemoryBytes int64   `json:"memory_bytes"` // budget
	InputBytes  int64   `json:"input_bytes"`
	CPUSeconds  float64 `json:"cpu_seconds"` // user and system, all threads
	Seconds     float64 `json:"seconds"`
	PeakRSS     int64   `json:"peak_rss_bytes"`
	Edges       int64   `json:"edges"`
	Stored      int64   `json:"bytes_stored"`
	Spilled     int64   `json:"bytes_spilled"`
	Topology    int64   `json:"topology_bytes"`
}

// BytesPerEdge is the size of the stored topology by edge.
func (r *IngestRun) BytesPerEdge() float64 { return float64(r.Topology) / float64(max(1, r.Edges)) }

// WriteAmplification is bytes written, spilled ones included, by byte stored.
func (r *IngestRun) WriteAmplification() float64 {
	return float64(r.Stored+r.Spilled) / float64(max(1, r.Stored))
}

// RunIngest generates an R-MAT graph in each format, unless it is there from an earlier
// run, and ingests it in a process of its own with each budget.
func RunIngest(ctx context.Context, o IngestOptions) ([]IngestRun, error) {
	var runs []IngestRun
	for _, format := range o.Formats {
		dir := filepath.Join(o.Dir, fmt.Sprintf("rmat-%d-%d-%d-%s", o.Nodes, o.Edges, o.Features, format))
		if _, err := os.Stat(dir); err != nil {
			o.Log("generate %s", dir)
			if _, err := output(ctx, o.Command, "generate", "rmat", dir, "--quiet", "--format", format, "--nodes", strconv.FormatInt(o.Nodes, 10),
				"--edges", strconv.FormatInt(o.Edges, 10), "--features", strconv.Itoa(o.Features)); err != nil {
				return nil, err
			}
		}
		for _, memory := range o.MemoryBytes {
			o.Log("ingest %s in %d MiB", dir, memory>>20)
			r, err := ingestOnce(ctx, o, format, dir, memory)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

func ingestOnce(ctx context.Context, o IngestOptions, format, dir string, memory int64) (r IngestRun, err error) {
	r = IngestRun{Format: format, MemoryBytes: memory}
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			r.InputBytes += info.Size()
		}
		return err
	})
	if err != nil {
		return r, err
	}
	path := dir
	if format == "tsv" {
		path = filepath.Join(dir, "edges.tsv")
	}
	to := filepath.Join(o.Dir, "ingest-bench.gstore")
	if err := os.RemoveAll(to); err != nil {
		return r, err
	}
	out, err := output(ctx, o.Command, "ingest", path, to, "--json", "--quiet", "--mem", strconv.FormatInt(memory, 10))
	if err != nil {
		return r, err
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return r, fmt.Errorf("summary of the ingest: %w", err)
	}
	s, err := store.Open(to, store.Options{})
	if err != nil {
		return r, err
	}
	for _, f := range s.Manifest().Files {
		if strings.HasPrefix(f.Name, "topology") {
			r.Topology += f.Size
		}
	}
	if err := s.Close(); err != nil {
		return r, err
	}
	return r, os.RemoveAll(to)
}

// output runs command with args and returns its standard output.
func output(ctx context.Context, command []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], append(append([]string{}, command[1:]...), args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd.Args, err, errs.Bytes())
	}
	return out, nil
}
