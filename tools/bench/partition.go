package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/tools/generate"
)

// PartitionOptions of [Partition].
type PartitionOptions struct {
	Graph      string // "rmat:NODES:EDGES", "sbm:NODES:EDGES:CLASSES:HOMOPHILY", or a directory with edge_index.npy
	Methods    []partitioner.Method
	Partitions []int
	Seed       uint64
	Flat       bool
	Passes     int
	Threads    int // 0 = GOMAXPROCS
	Repeat     int // runs of each, METIS and methods by turns; 0 = 1
	Order      partitioner.Order
	Metis      string // path of gpmetis; "" = leave it out
	Temp       string
}

// PartitionRow is one line of the comparison: medians of the runs for times, the largest for memory.
type PartitionRow struct {
	Method     string    `json:"method"` // with the order, "flat" or "metis"
	Partitions int       `json:"partitions"`
	Runs       int       `json:"runs"`
	Seconds    float64   `json:"seconds"`
	CPUSeconds float64   `json:"cpu_seconds"`
	Passes     int       `json:"passes"`
	Pass       []float64 `json:"pass_seconds"` // of the last run
	// EdgesPerSecond is undirected edges over the median pass; each is seen from both its ends.
	EdgesPerSecond float64 `json:"edges_per_second"`
	Cut            uint64  `json:"cut"`
	CutRate        float64 `json:"cut_rate"`
	Largest        float64 `json:"largest_over_mean"`
	// PeakBytes is, for gstore, the process's resident peak while it ran, with runtime, code and graph, 0 where the system does
	// not say; for gpmetis what it reports as its peak.
	PeakBytes int64 `json:"peak_bytes"`
	// What METIS took at the same number of partitions, of this: times the cut, times the CPU seconds, times the memory.
	CutOfMetis  float64 `json:"cut_of_metis,omitempty"`
	CPUOfMetis  float64 `json:"cpu_of_metis,omitempty"`
	PeakOfMetis float64 `json:"peak_of_metis,omitempty"`
}

// PartitionGraph loads or makes a graph; classes is nil if it has no labels.
func PartitionGraph(spec string, seed uint64) (*graph.CSR, []uint16, error) {
	f := strings.Split(spec, ":")
	number := func(i int) uint64 {
		if i >= len(f) {
			return 0
		}
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil || v < 0 {
			return 0
		}
		return uint64(v)
	}
	var g generate.Graph
	var err error
	switch f[0] {
	case "rmat":
		g, err = generate.NewRMAT(generate.RMATOptions{Nodes: number(1), Edges: number(2), Seed: seed})
	case "sbm":
		homophily := 0.8
		if len(f) > 4 {
			if homophily, err = strconv.ParseFloat(f[4], 64); err != nil {
				return nil, nil, fmt.Errorf("graph %q: homophily: %w", spec, err)
			}
		}
		g, err = generate.NewSBM(generate.SBMOptions{Nodes: number(1), Edges: number(2), Classes: int(number(3)), Homophily: homophily, Seed: seed})
	default:
		return numpyGraph(spec)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("graph %q: %w", spec, err)
	}
	info := g.Info()
	csr, err := graph.BuildCSR(info.Nodes, generatedEdges(g), true)
	if err != nil {
		return nil, nil, err
	}
	var classes []uint16
	if info.Classes > 0 { // a tenth of the nodes is for training
		labels := make([]int64, info.Nodes)
		g.Labels(0, labels)
		classes = make([]uint16, info.Nodes)
		for i := range info.Nodes / 10 {
			v := g.Split(i)
			classes[v] = uint16(labels[v] + 1)
		}
	}
	return csr, classes, nil
}

func generatedEdges(g generate.Graph) graph.Edges {
	return func(yield func(src, dst []uint32) error) error {
		const batch = 1 << 14
		a, b := make([]uint64, batch), make([]uint64, batch)
		src, dst := make([]uint32, batch), make([]uint32, batch)
		for first := uint64(0); first < g.Info().Edges; first += batch {
			n := min(batch, g.Info().Edges-first)
			g.Edges(first, a[:n], b[:n])
			for i := range n {
				src[i], dst[i] = uint32(a[i]), uint32(b[i])
			}
			if err := yield(src[:n], dst[:n]); err != nil {
				return err
			}
		}
		return nil
	}
}

// Partition compares partitioners on one graph; report is called with each row as it is done.
func Partition(ctx context.Context, g *graph.CSR, classes []uint16, o PartitionOptions, report func(PartitionRow)) error {
	metisFile := ""
	if o.Metis != "" {
		var err error
		if metisFile, err = writeMetis(g, o.Temp); err != nil {
			return err
		}
		defer os.Remove(metisFile) //nolint:errcheck // a temporary file
	}
	for _, k := range o.Partitions {
		runs := make([][]PartitionRow, 1+len(o.Methods)) // METIS's and each method's
		for range max(o.Repeat, 1) {
			if metisFile != "" {
				row, err := runMetis(ctx, g, o.Metis, metisFile, k)
				if err != nil {
					return err
				}
				runs[0] = append(runs[0], row)
			}
			for i, method := range o.Methods {
				row, err := partitionOnce(ctx, g, classes, method, k, o)
				if err != nil {
					return err
				}
				runs[1+i] = append(runs[1+i], row)
			}
		}
		var metis PartitionRow
		for i, rows := range runs {
			if len(rows) == 0 {
				continue
			}
			row := summarize(rows)
			if i == 0 {
				metis = row
			} else if metisFile != "" {
				row.CutOfMetis = float64(row.Cut) / max(float64(metis.Cut), 1)
				row.CPUOfMetis, row.PeakOfMetis = row.CPUSeconds/metis.CPUSeconds, float64(row.PeakBytes)/float64(metis.PeakBytes)
			}
			report(row)
		}
	}
	return nil
}

// summarize is the runs of one method, which all find the same.
func summarize(rows []PartitionRow) PartitionRow {
	row := rows[len(rows)-1]
	row.Runs = len(rows)
	seconds, cpu := make([]float64, len(rows)), make([]float64, len(rows))
	for i, r := range rows {
		seconds[i], cpu[i] = r.Seconds, r.CPUSeconds
		row.PeakBytes = max(row.PeakBytes, r.PeakBytes)
	}
	row.Seconds, row.CPUSeconds = median(seconds), median(cpu)
	return row
}

func partitionOnce(ctx context.Context, g *graph.CSR, classes []uint16, method partitioner.Method, k int, o PartitionOptions) (PartitionRow, error) {
	if method == partitioner.MethodGAP && classes == nil {
		return PartitionRow{}, errors.New("gap needs a graph with labels")
	}
	row := PartitionRow{Method: string(method), Partitions: k}
	if o.Flat && (method == partitioner.MethodFennel || method == partitioner.MethodGAP) {
		row.Method += " flat"
	}
	peak := residentPeak()
	start, cpu := time.Now(), usage.CPUSeconds()
	last := start
	a, err := partitioner.Partition(ctx, g, partitioner.Options{
		Method: method, Partitions: k, Seed: o.Seed, Classes: classes, Flat: o.Flat, Passes: o.Passes, Order: o.Order, Threads: o.Threads,
		Progress: func(partitioner.Pass) {
			now := time.Now()
			row.Pass, last = append(row.Pass, now.Sub(last).Seconds()), now
		},
	})
	if err != nil {
		return row, err
	}
	row.Seconds, row.CPUSeconds, row.Passes = time.Since(start).Seconds(), usage.CPUSeconds()-cpu, len(row.Pass)
	if len(row.Pass) > 0 {
		row.EdgesPerSecond = float64(g.Entries()/2) / median(row.Pass)
	}
	row.PeakBytes = peak()
	return row, row.measure(ctx, g, a, k)
}

func (r *PartitionRow) measure(ctx context.Context, g *graph.CSR, a partitioner.Assigner, k int) error {
	q, err := partitioner.Measure(ctx, g, a, partitioner.QualityOptions{Hops: 1})
	if err != nil {
		return err
	}
	r.Cut, r.CutRate, r.Largest = q.CutEdges, q.CutRate, q.NodeSpread.MaxOverMean
	return nil
}

// writeMetis writes g in METIS's text format.
func writeMetis(g *graph.CSR, dir string) (string, error) {
	f, err := os.CreateTemp(dir, "gstore-*.graph")
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	fmt.Fprintln(w, g.Nodes(), g.Entries()/2)
	var line []byte
	for v := range g.Nodes() {
		line = line[:0]
		for _, u := range g.Neighbours(uint32(v)) {
			line = append(strconv.AppendUint(line, uint64(u)+1, 10), ' ')
		}
		_, _ = w.Write(append(line, '\n')) // Flush returns the first error
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

var metisMemory = regexp.MustCompile(`Max memory used:\s+([0-9.]+) MB`)

func runMetis(ctx context.Context, g *graph.CSR, gpmetis, file string, k int) (PartitionRow, error) {
	row := PartitionRow{Method: "metis", Partitions: k}
	start := time.Now()
	cmd := exec.CommandContext(ctx, gpmetis, file, strconv.Itoa(k))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return row, fmt.Errorf("%s: %w: %.300s", gpmetis, err, out)
	}
	row.Seconds, row.Passes = time.Since(start).Seconds(), 1
	row.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	// Its own figure: Maxrss of a child begins with what this process had when it forked.
	if m := metisMemory.FindSubmatch(out); m != nil {
		mib, _ := strconv.ParseFloat(string(m[1]), 64) // the expression has digits and a point only
		row.PeakBytes = int64(mib * (1 << 20))
	}
	result := file + ".part." + strconv.Itoa(k)
	defer os.Remove(result) //nolint:errcheck // a temporary file
	a, err := partitioner.ReadFile(result, g.Nodes(), k)
	if err != nil {
		return row, err
	}
	return row, row.measure(ctx, g, a, k)
}

// numpyGraph reads edge_index.npy, and labels and the training split beside it, as the project's data sets have them.
func numpyGraph(dir string) (*graph.CSR, []uint16, error) {
	index, err := readNpyInts(filepath.Join(dir, "edge_index.npy"))
	if err != nil {
		return nil, nil, err
	}
	m := len(index) / 2
	src, dst := make([]uint32, m), make([]uint32, m)
	nodes := uint64(0)
	for i := range m {
		src[i], dst[i] = uint32(index[i]), uint32(index[m+i])
		nodes = max(nodes, uint64(index[i])+1, uint64(index[m+i])+1)
	}
	var classes []uint16
	labels, err := readNpyInts(filepath.Join(dir, "node_label.npy"))
	switch {
	case err == nil:
		nodes = uint64(len(labels))
		train, err := readNpyInts(filepath.Join(dir, "split", "train.npy"))
		if err != nil {
			return nil, nil, err
		}
		classes = make([]uint16, nodes)
		for _, v := range train {
			if v < 0 || uint64(v) >= nodes {
				return nil, nil, fmt.Errorf("%s: training node %d of %d", dir, v, nodes)
			}
			classes[v] = uint16(labels[v] + 1)
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, nil, err
	}
	g, err := graph.BuildCSR(nodes, func(yield func(src, dst []uint32) error) error { return yield(src, dst) }, true)
	return g, classes, err
}

// readNpyInts reads an int64 array of any shape.
func readNpyInts(path string) ([]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	h, err := npy.Read(f)
	if err == nil && (h.Elem != blocks.Int64 || h.Columns) {
		err = fmt.Errorf("%v of shape %v, expected int64 row by row", h.Elem, h.Shape)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	x := make([]int64, h.Rows()*h.Dim())
	_, err = io.ReadFull(f, blocks.Bytes(x))
	return x, err
}
