package main

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
)

// graph is one shape of input.
type graph struct {
	name         string
	kind         string // of gstore generate
	nodes, edges int
	features     int  // a node; link prediction: numbers of an embedding
	relations    int  // for models of relations; 0: edges of nodes' graphs have one
	authors      int  // nodes of a second type, without features, each with three edges
	moments      bool // edges have times, and are what is learned
}

// graphs are of three shapes for each task: few nodes with skewed degrees, few nodes with wide rows, many nodes with few edges; one of
// several relations, and one of two types of nodes. Two more are small: one whose rows are so wide that the model is most of what is held,
// and one of edges with times.
var graphs = []graph{
	{name: "skewed", kind: "rmat", nodes: 50_000, edges: 1_000_000, features: 16},
	{name: "wide", kind: "sbm", nodes: 20_000, edges: 200_000, features: 512},
	{name: "widest", kind: "sbm", nodes: 3_327, edges: 9_104, features: 3_703},
	{name: "sparse", kind: "sbm", nodes: 100_000, edges: 150_000, features: 16},
	{name: "typed", kind: "rmat", nodes: 50_000, edges: 500_000, features: 64, relations: 8},
	{name: "authors", kind: "sbm", nodes: 30_000, edges: 300_000, features: 64, authors: 200_000},
	{name: "moments", kind: "rmat", nodes: 5_001, edges: 100_003, features: 16, moments: true},
	{name: "kg-dense", kind: "kg", nodes: 20_000, edges: 300_000, features: 64},
	{name: "kg-wide", kind: "kg", nodes: 20_000, edges: 60_000, features: 256},
	{name: "kg-sparse", kind: "kg", nodes: 100_000, edges: 100_000, features: 32},
}

// widest is from how many columns on the model's first layer is most of what a run holds.
const widest = 2000

// check is a command without its budget. What it makes lies in the folder work, which is removed before each run.
type check struct {
	name   string
	args   []string
	copied string // a store that work is a copy of
}

// prepare returns the commands that make a graph's files and store.
func (g graph) prepare(dir string, scale float64) [][]string {
	count := func(n int) string { return strconv.Itoa(int(float64(n) * scale)) }
	at := func(name string) string { return filepath.Join(dir, name) }
	generate := func(to string, more ...string) []string {
		return append([]string{"generate", g.kind, at(to), "--nodes", count(g.nodes), "--edges", count(g.edges), "--quiet"}, more...)
	}
	if g.kind == "kg" {
		return [][]string{generate("store", "--format", "store", "--partitions", "16", "--relations", "8")}
	}
	features := []string{"--features", strconv.Itoa(g.features), "--classes", "8"}
	store := at("store")
	both := [][]string{generate("npy", features...), {"ingest", at("npy"), store, "--partitioner", "random", "--partitions", "32", "--quiet"}}
	switch {
	case g.relations > 0:
		return both
	case g.moments: // what eval and predict read
		return append(both, []string{"train", store, "--task", "temporal", "--epochs", "1", "--quiet"})
	case g.features >= widest:
		both[1][6] = "8"
		return append(both, []string{"train", store, "--epochs", "1", "--hidden", "512", "--quiet"})
	case g.authors > 0:
		both[1][1] = at("authors")
		return append(both, []string{"train", store, "--model", "rsage", "--epochs", "1", "--fanouts", "5,5", "--quiet"})
	}
	return append(both, [][]string{
		{"export", store, at("tsv"), "--format", "tsv", "--quiet"},
		{"export", store, at("parquet"), "--format", "parquet", "--quiet"},
		{"train", store, "--epochs", "1", "--fanouts", "5,5", "--quiet"}, // what eval reads
	}...)
}

// relate gives the edges of the folder npy relations, of which each is half as frequent as the one before, and weights.
func (g graph) relate(dir string) (err error) {
	if g.relations == 0 || g.kind == "kg" {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, "npy", "edge_index.npy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h, err := npy.Read(f)
	if err != nil {
		return err
	}
	edges := max(h.Rows(), h.Dim()) // [2, E] or [E, 2]
	types, weights := npy.Append(nil, blocks.Uint8, false, uint64(edges)), npy.Append(nil, blocks.Float32, false, uint64(edges))
	for e := range uint64(edges) {
		types = append(types, byte(min(bits.TrailingZeros64(e+1), g.relations-1)))
		weights = binary.LittleEndian.AppendUint32(weights, math.Float32bits(float32(e%1000+1)))
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "npy", "edge_type.npy"), types, 0o666),
		os.WriteFile(filepath.Join(dir, "npy", "edge_weight.npy"), weights, 0o666))
}

// times gives the edges of the folder npy times, a few to each.
func (g graph) times(dir string, scale float64) error {
	if !g.moments {
		return nil
	}
	edges := uint64(float64(g.edges) * scale)
	b := npy.Append(nil, blocks.Int64, false, edges)
	for e := range edges {
		b = binary.LittleEndian.AppendUint64(b, 1_000_000+e/3*60)
	}
	return os.WriteFile(filepath.Join(dir, "npy", "edge_time.npy"), b, 0o666)
}

// write makes a folder of two types of nodes: those of the folder npy, papers that cite each other, and their authors.
func (g graph) write(dir string) (err error) {
	if g.authors == 0 {
		return nil
	}
	from, to := filepath.Join(dir, "npy"), filepath.Join(dir, "authors")
	papers, cites, writes := filepath.Join(to, "nodes", "paper"), filepath.Join(to, "edges", "paper__cites__paper"), filepath.Join(to, "edges", "author__writes__paper")
	for _, folder := range []string{papers, cites, writes} {
		err = errors.Join(err, os.MkdirAll(folder, 0o777))
	}
	for name, at := range map[string]string{"edge_index.npy": cites, "node_feat.npy": filepath.Join(papers, "feat.npy"), "node_label.npy": filepath.Join(papers, "label.npy"), "split": to} {
		if at == cites || at == to {
			at = filepath.Join(at, name)
		}
		err = errors.Join(err, os.Rename(filepath.Join(from, name), at))
	}
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(papers, "label.npy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	labels, err := npy.Read(f)
	if err != nil {
		return err
	}
	const papersEach = 3
	edges := papersEach * g.authors
	b := npy.Append(nil, blocks.Int64, false, 2, uint64(edges))
	for e := range edges {
		b = binary.LittleEndian.AppendUint64(b, uint64(e/papersEach))
	}
	for e := range edges {
		b = binary.LittleEndian.AppendUint64(b, uint64(e)*7919%uint64(labels.Rows()))
	}
	return os.WriteFile(filepath.Join(writes, "edge_index.npy"), b, 0o666)
}

// ask writes what predict is asked for: questions for links, and nodes.
func (g graph) ask(dir string) error {
	var questions, nodes strings.Builder
	for n := range 1000 {
		if n%2 == 0 {
			fmt.Fprintf(&questions, "%d\t%d\t?\n", n, n%8)
		} else {
			fmt.Fprintf(&questions, "?\t%d\t%d\n", n%8, n)
		}
		fmt.Fprintln(&nodes, n)
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "questions.tsv"), []byte(questions.String()), 0o666),
		os.WriteFile(filepath.Join(dir, "nodes.txt"), []byte(nodes.String()), 0o666))
}

// pack makes an archive, npz, of the folder npy: as numpy.savez does, of arrays that are not compressed.
func (g graph) pack(dir string) (err error) {
	if g.kind == "kg" || g.relations > 0 || g.authors > 0 || g.moments {
		return nil
	}
	f, err := os.Create(filepath.Join(dir, "graph.npz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := zip.NewWriter(f)
	for _, name := range []string{"edge_index", "node_feat", "node_label"} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		in, err := os.Open(filepath.Join(dir, "npy", name+".npy"))
		if err != nil {
			return err
		}
		_, err = io.Copy(w, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return z.Close()
}

// checks are the commands that take a budget.
func (g graph) checks(dir string) []check {
	at := func(name string) string { return filepath.Join(dir, name) }
	store, work := at("store"), at("work")
	if g.kind == "kg" {
		train := []string{"train", store, "--plan", "comet", "--overwrite", "--epochs", "1", "--negatives", "100", "--dim", strconv.Itoa(g.features)}
		return []check{
			{name: "train link sage, comet", args: append(train[:len(train):len(train)], "--encoder", "sage", "--fanouts", "10")},
			{name: "train link distmult, comet", args: train},
			{name: "eval link", args: []string{"eval", store, "--lists", "test", "--candidates", "500"}},
			{name: "predict link", args: []string{"predict", store, "--input", at("questions.tsv"), "--filter", "known", "--top", "100", "--out", work}},
			{name: "predict link nearest", args: []string{"predict", store, "--input", at("nodes.txt"), "--nearest", "cosine", "--out", work}},
			{name: "export model", args: []string{"export", store, work, "--what", "model"}},
			{name: "export embeddings", args: []string{"export", store, work, "--what", "embeddings"}},
		}
	}
	switch {
	case g.moments:
		return g.temporalChecks(at, store, work)
	case g.features >= widest:
		return g.widestChecks(store)
	}
	train := []string{"train", store, "--epochs", "1", "--absent", "ignore"}
	with := func(name string, args ...string) check {
		return check{name: "train " + name, args: append(train[:len(train):len(train)], args...)}
	}
	if g.authors > 0 {
		train = append(train, "--overwrite") // vectors that a run before learned, in a table
		return []check{
			{name: "ingest types", args: []string{"ingest", at("authors"), work}},
			{name: "partition types", args: []string{"partition", work, "--partitioner", "fennel"}, copied: store},
			with("rsage, memory, types", "--plan", "memory", "--model", "rsage"),
			with("rsage, rows, types", "--plan", "rows", "--model", "rsage"),
			with("rsage, hanoi, types", "--plan", "hanoi", "--model", "rsage"),
			with("rgcn, hanoi, types", "--plan", "hanoi", "--model", "rgcn"),
			with("rgat, memory, types", "--plan", "memory", "--model", "rgat"),
			with("rgat, hanoi, types", "--plan", "hanoi", "--model", "rgat"),
			with("rsage, hanoi, history, types", "--plan", "hanoi", "--model", "rsage", "--history"),
			{name: "eval types", args: []string{"eval", store, "--auc=false", "--write", "embeddings,predictions", "--out", work}},
			{name: "export types", args: []string{"export", store, work}},
		}
	}
	if g.relations > 0 {
		return []check{
			with("rsage, memory", "--plan", "memory", "--model", "rsage"),
			with("rsage, fanouts of relations", "--plan", "memory", "--model", "rsage", "--fanouts", "2,2", "--relation-fanouts", "0=10,10"),
			with("rgcn, hanoi", "--plan", "hanoi", "--model", "rgcn"),
			with("sage, weights, rows", "--plan", "rows", "--edge-weights"),
			with("rgcn, weighted, rows", "--plan", "rows", "--model", "rgcn", "--sampler", "weighted"),
			with("rsage, hanoi, history", "--plan", "hanoi", "--model", "rsage", "--history"),
		}
	}
	checks := []check{
		{name: "ingest npy", args: []string{"ingest", at("npy"), work}},
		{name: "ingest tsv", args: []string{"ingest", at("tsv"), work}},
		{name: "ingest parquet", args: []string{"ingest", at("parquet"), work}},
		{name: "ingest npz", args: []string{"ingest", at("graph.npz"), work}},
	}
	for _, p := range []string{"random", "fennel", "gap"} {
		checks = append(checks, check{name: "partition " + p, args: []string{"partition", work, "--partitioner", p}, copied: store})
	}
	return append(checks,
		check{name: "precompute", args: []string{"precompute", work}, copied: store},
		with("sage 2 layers, memory", "--plan", "memory"),
		with("sage 2 layers, hanoi", "--plan", "hanoi"),
		with("sage 3 layers, hanoi", "--plan", "hanoi", "--layers", "3"),
		with("gat 2 layers, hanoi", "--plan", "hanoi", "--model", "gat"),
		with("sage 2 layers, rows", "--plan", "rows"),
		with("sage 2 layers, labor", "--sampler", "labor"),
		with("sage 3 layers, jumping cat", "--layers", "3", "--x", "jumping=cat"),
		with("sage 2 layers, hanoi, history", "--plan", "hanoi", "--history"),
		check{name: "eval", args: []string{"eval", store, "--auc=false", "--write", "embeddings,predictions", "--out", work}},
		check{name: "predict", args: []string{"predict", store, "--out", work}},
		check{name: "predict to parquet", args: []string{"predict", store, "--format", "parquet", "--out", work}},
		check{name: "predict nearest", args: []string{"predict", store, "--input", at("nodes.txt"), "--nearest", "cosine", "--out", work}},
		check{name: "export numpy", args: []string{"export", store, work}},
		check{name: "export parquet", args: []string{"export", store, work, "--format", "parquet"}},
	)
}
