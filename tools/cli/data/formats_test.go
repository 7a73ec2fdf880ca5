package data_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// coraArrays are Cora in the forms that are ingested here.
type coraArrays struct{ *clitest.Cora }

const coraNodes, coraDim = clitest.CoraNodes, clitest.CoraDim

func readCora(t *testing.T) *coraArrays { return &coraArrays{clitest.ReadCora(t)} }

func int32s(x []int64) []int32 {
	out := make([]int32, len(x))
	for i := range x {
		out[i] = int32(x[i])
	}
	return out
}

// npzFile is an archive of .npy files, stored or deflated.
func npzFile(t *testing.T, method uint16, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, key := range slices.Sorted(maps.Keys(arrays)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: key + ".npy", Method: method})
		if err == nil {
			_, err = w.Write(arrays[key])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text has a line for each edge.
func (c *coraArrays) text(format string) []byte {
	var b bytes.Buffer
	for i := range c.Src {
		fmt.Fprintf(&b, format, c.Src[i], c.Dst[i])
	}
	return b.Bytes()
}

// column has a line for each number.
func column(x []int64) []byte {
	var b bytes.Buffer
	for _, v := range x {
		fmt.Fprintln(&b, v)
	}
	return b.Bytes()
}

// csrOf compresses coordinates into scipy's arrays under the prefix.
func csrOf(prefix string, rows, cols int64, row, col []int64, value []float32) map[string][]byte {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(row[a] - row[b]) })
	indptr := make([]int32, rows+1)
	var indices []int32
	var data []float32
	for _, k := range order {
		indptr[row[k]+1]++
		indices, data = append(indices, int32(col[k])), append(data, value[k])
	}
	for r := range rows {
		indptr[r+1] += indptr[r]
	}
	return map[string][]byte{
		prefix + "indptr":  clitest.NpyFile("<i4", fmt.Sprintf("%d,", len(indptr)), blocks.Bytes(indptr)),
		prefix + "indices": clitest.NpyFile("<i4", fmt.Sprintf("%d,", len(indices)), blocks.Bytes(indices)),
		prefix + "data":    clitest.NpyFile("<f4", fmt.Sprintf("%d,", len(data)), blocks.Bytes(data)),
		prefix + "shape":   clitest.NpyInts([]int64{rows, cols}),
	}
}

// scipy is the archive of gnn-benchmark: adjacency and features as CSR.
func (c *coraArrays) scipy() map[string][]byte {
	ones := slices.Repeat([]float32{1}, len(c.Src))
	out := csrOf("adj_", coraNodes, coraNodes, c.Src, c.Dst, ones)
	var row, col []int64
	var value []float32
	for i, x := range c.X {
		if x != 0 {
			row, col, value = append(row, int64(i/coraDim)), append(col, int64(i%coraDim)), append(value, x)
		}
	}
	maps.Copy(out, csrOf("attr_", coraNodes, coraDim, row, col, value))
	out["labels"] = clitest.NpyInts(c.Labels)
	masks := map[string]string{"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
	for part, ids := range c.Split {
		mask := make([]byte, coraNodes)
		for _, id := range ids {
			mask[id] = 1
		}
		out[masks[part]] = clitest.NpyFile("|b1", fmt.Sprintf("%d,", coraNodes), mask)
	}
	return out
}

// formatCase writes Cora in one format and names what the store must equal.
type formatCase struct {
	name  string
	write func(t *testing.T, c *coraArrays) string // the input's path
	args  []string
	// edgesOnly says that the format has no features, labels and split.
	edgesOnly bool
	stdin     func(c *coraArrays) []byte
}

func formatCases() []formatCase {
	folder := func(files func(t *testing.T, c *coraArrays) map[string][]byte) func(*testing.T, *coraArrays) string {
		return func(t *testing.T, c *coraArrays) string { return clitest.Put(t, t.TempDir(), files(t, c)) }
	}
	file := func(name string, content func(t *testing.T, c *coraArrays) []byte) func(*testing.T, *coraArrays) string {
		return func(t *testing.T, c *coraArrays) string {
			return filepath.Join(clitest.Put(t, t.TempDir(), map[string][]byte{name: content(t, c)}), name)
		}
	}
	return []formatCase{
		{name: "numpy, packed and [E, 2]", write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			files := c.Numpy()
			pairs := make([]int64, 0, 2*len(c.Src))
			for i := range c.Src {
				pairs = append(pairs, c.Src[i], c.Dst[i])
			}
			files["edge_index.npy.gz"] = clitest.NpyFile("<i8", fmt.Sprintf("%d, 2", len(c.Src)), blocks.Bytes(pairs))
			files["node_feat.npy.gz"] = files["node_feat.npy"]
			delete(files, "edge_index.npy")
			delete(files, "node_feat.npy")
			return files
		})},
		{name: "npz of the same arrays, stored", write: file("g.npz", func(t *testing.T, c *coraArrays) []byte {
			return npzFile(t, zip.Store, map[string][]byte{"edge_index": c.Ends(), "x": c.Features(), "y": clitest.NpyInts(c.Labels),
				"train_idx": clitest.NpyInts(c.Split["train"]), "valid_idx": clitest.NpyInts(c.Split["valid"]), "test_idx": clitest.NpyInts(c.Split["test"])})
		})},
		{name: "npz of scipy matrices, deflated", write: file("cora.npz", func(t *testing.T, c *coraArrays) []byte {
			return npzFile(t, zip.Deflate, c.scipy())
		})},
		{name: "npz of scipy.sparse.save_npz", edgesOnly: true, write: file("adj.npz", func(t *testing.T, c *coraArrays) []byte {
			arrays := csrOf("", coraNodes, coraNodes, c.Dst, c.Src, slices.Repeat([]float32{1}, len(c.Src))) // its transpose is csc
			arrays["format"] = clitest.NpyFile("|S3", "", []byte("csc"))
			return npzFile(t, zip.Deflate, arrays)
		})},
		{name: "OGB binary", write: folder(func(t *testing.T, c *coraArrays) map[string][]byte {
			files := map[string][]byte{
				"raw/data.npz": npzFile(t, zip.Deflate, map[string][]byte{"edge_index": c.Ends(), "node_feat": c.Features(),
					"num_nodes_list": clitest.NpyInts([]int64{coraNodes}), "num_edges_list": clitest.NpyInts([]int64{int64(len(c.Src))})}),
				"raw/node-label.npz": npzFile(t, zip.Deflate, map[string][]byte{"node_label": clitest.NpyFile("<i8", "2708, 1", blocks.Bytes(c.Labels))}),
			}
			for part, ids := range c.Split {
				files["split/split/"+part+".csv.gz"] = column(ids)
			}
			return files
		})},
		{name: "OGB text", write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			var x bytes.Buffer
			for i, v := range c.X {
				sep := ","
				if i%coraDim == coraDim-1 {
					sep = "\n"
				}
				fmt.Fprintf(&x, "%g%s", v, sep)
			}
			files := map[string][]byte{"raw/edge.csv.gz": c.text("%d,%d\n"), "raw/num-node-list.csv.gz": column([]int64{coraNodes}),
				"raw/num-edge-list.csv.gz": column([]int64{int64(len(c.Src))}), "raw/node-feat.csv.gz": x.Bytes(), "raw/node-label.csv.gz": column(c.Labels)}
			for part, ids := range c.Split {
				files["split/split/"+part+".csv.gz"] = column(ids)
			}
			return files
		})},
		{name: "GraphBolt, numpy", write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			files := c.graphBolt()
			files["edges/e.npy"] = c.Ends()
			files["metadata.yaml"] = []byte(strings.Replace(boltYAML, "EDGES", "format: numpy, path: edges/e.npy", 1))
			return files
		})},
		{name: "GraphBolt, CSV", write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			files := c.graphBolt()
			files["edges/e.csv"] = c.text("%d,%d\n")
			files["metadata.yaml"] = []byte(strings.Replace(boltYAML, "EDGES", "format: csv, path: edges/e.csv", 1))
			return files
		})},
		{name: "TSV with header, packed", edgesOnly: true, args: []string{"--ids", "dense"}, write: file("e.tsv.gz", func(_ *testing.T, c *coraArrays) []byte {
			return append([]byte("# Cora\nfrom\tto\n"), c.text("%d\t%d\n")...)
		})},
		{name: "CSV of other columns", edgesOnly: true, args: []string{"--ids", "dense", "--columns", "-,dst,src"},
			write: file("e.csv", func(_ *testing.T, c *coraArrays) []byte {
				return c.text("7,%[2]d,%[1]d\n")
			})},
		{name: "MariusGNN", write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			files := map[string][]byte{
				"dataset.yaml": []byte(fmt.Sprintf("dataset_dir: /gone/\nnum_edges: %d\nnum_nodes: %d\nnum_relations: 1\nnum_train: %d\nnode_feature_dim: %d\nnum_classes: 7\n",
					len(c.Src), coraNodes, len(c.Split["train"]), coraDim)),
				"edges/train_edges.bin": blocks.Bytes(int32s(c.pairs())), "nodes/features.bin": blocks.Bytes(c.X), "nodes/labels.bin": blocks.Bytes(int32s(c.Labels)),
			}
			for part, name := range map[string]string{"train": "train", "valid": "validation", "test": "test"} {
				files["nodes/"+name+"_nodes.bin"] = blocks.Bytes(int32s(c.Split[part]))
			}
			return files
		})},
		{name: "TSV from standard input, packed", edgesOnly: true, args: []string{"--ids", "dense"}, stdin: func(c *coraArrays) []byte {
			return clitest.Gzipped(c.text("%d\t%d\n"))
		}},
		{name: "raw pairs from standard input", edgesOnly: true, args: []string{"--format", "binary64"}, stdin: func(c *coraArrays) []byte {
			return blocks.Bytes(c.pairs())
		}},
		{name: "Parquet, features in lists", args: []string{"--ids", "dense"}, write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			return map[string][]byte{"edges.parquet": parquetFile(c.edgeRows()), "nodes.parquet": parquetFile(c.nodeRows())}
		})},
		{name: "Parquet in parts, named", args: []string{"--ids", "dense"}, write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			edges, nodes := c.edgeRows(), c.nodeRows()
			return map[string][]byte{"edges/a.parquet": parquetFile(edges[:100]), "edges/b.parquet": parquetFile(edges[100:]),
				"nodes/a.parquet": parquetFile(nodes[:2000]), "nodes/b.parquet": parquetFile(nodes[2000:])}
		})},
		{name: "CSV with a table of nodes, packed", args: []string{"--ids", "dense", "--normalize=none"}, write: folder(func(_ *testing.T, c *coraArrays) map[string][]byte {
			return map[string][]byte{"edges.csv.gz": c.text("%d,%d\n"), "nodes.csv.gz": c.nodeText()}
		})},
		{name: "Parquet of edges", edgesOnly: true, args: []string{"--ids", "dense", "--columns", "src,dst"}, write: file("e.parquet", func(_ *testing.T, c *coraArrays) []byte {
			return parquetFile(c.edgeRows())
		})},
		{name: "Parquet from standard input", edgesOnly: true, args: []string{"--ids", "dense"}, stdin: func(c *coraArrays) []byte {
			return parquetFile(c.edgeRows())
		}},
		{name: "raw pairs of 32 bits", edgesOnly: true, write: file("e.i32", func(_ *testing.T, c *coraArrays) []byte {
			return blocks.Bytes(int32s(c.pairs()))
		})},
		{name: "raw pairs of 64 bits", edgesOnly: true, write: file("e.i64", func(_ *testing.T, c *coraArrays) []byte {
			return blocks.Bytes(c.pairs())
		})},
	}
}

// boltYAML is a metadata.yaml, as GraphBolt's documentation shows it.
const boltYAML = `
dataset_name: cora
graph:
  nodes: [{num: 2708}]
  edges: [{EDGES}]
feature_data:
  - {domain: node, name: x, format: numpy, in_memory: false, path: data/x.npy}
tasks:
  - name: node_classification
    num_classes: 7
    train_set:
      - data:
          - {name: seeds, format: numpy, path: set/train.npy}
          - {name: labels, format: numpy, path: set/train-labels.npy}
    validation_set:
      - data:
          - {name: seeds, format: numpy, path: set/valid.npy}
          - {name: labels, format: numpy, path: set/valid-labels.npy}
    test_set:
      - data:
          - {name: seed_nodes, format: numpy, path: set/test.npy}
          - {name: labels, format: numpy, path: set/test-labels.npy}
`

// graphBolt is what GraphBolt's file names, but for the edges. Every node of
// Cora is in a set, so that all labels are there.
func (c *coraArrays) graphBolt() map[string][]byte {
	files := map[string][]byte{"data/x.npy": c.Features()}
	for part, ids := range c.Split {
		labels := make([]int64, len(ids))
		for i, id := range ids {
			labels[i] = c.Labels[id]
		}
		files["set/"+part+".npy"], files["set/"+part+"-labels.npy"] = clitest.NpyInts(ids), clitest.NpyInts(labels)
	}
	return files
}

func (c *coraArrays) pairs() []int64 {
	out := make([]int64, 0, 2*len(c.Src))
	for i := range c.Src {
		out = append(out, c.Src[i], c.Dst[i])
	}
	return out
}

// ingestFiles ingests an input and returns the store's directory and data files.
func ingestFiles(t *testing.T, stdin []byte, args ...string) (string, map[string]string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	args = append([]string{"ingest", args[0], dir, "--partitions", "3", "--quiet"}, args[1:]...)
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), args, bytes.NewReader(stdin), &out, &errs); code != cli.ExitOK {
		t.Fatalf("gstore %v: exit code %d: %s", args, code, errs.String())
	}
	paths, err := filepath.Glob(filepath.Join(dir, "data", "*"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(p)] = string(b)
	}
	return dir, files
}

// TestFormats: Cora makes the same store, to the byte, from whichever format it comes in,
// and the same training: its losses are compared to the bit.
func TestFormats(t *testing.T) {
	c := readCora(t)
	dir, want := ingestFiles(t, nil, clitest.Put(t, t.TempDir(), c.Numpy()))
	train := func(dir, epochs string) []float64 {
		return clitest.Losses(clitest.Events(t, "train", dir, "--epochs", epochs, "--hidden", "8", "--fanouts", "3,3"))
	}
	wantLoss := train(dir, "2")
	if len(wantLoss) != 2 || wantLoss[1] >= wantLoss[0] {
		t.Fatalf("losses %v of the reference, expected two that fall", wantLoss)
	}
	_, wantEdges := ingestFiles(t, nil, clitest.Put(t, t.TempDir(), map[string][]byte{"edge_index.npy": c.Ends()}))
	for k, f := range formatCases() {
		t.Run(f.name, func(t *testing.T) {
			dir, got := f.ingest(t, c)
			want := want
			if f.edgesOnly {
				want = wantEdges
			}
			if !maps.Equal(got, want) {
				t.Errorf("files %v differ from the reference's %v", sizes(got), sizes(want))
			}
			if !f.edgesOnly && k%race.Sample(8, 8) == 0 { // equal files are one store
				if loss := train(dir, "1"); !slices.Equal(loss, wantLoss[:1]) {
					t.Errorf("losses %v, expected %v", loss, wantLoss[:1])
				}
			}
		})
	}
}

// TestExportedFormats: what gstore export writes makes the same store, to the byte, when it is ingested.
func TestExportedFormats(t *testing.T) {
	c := readCora(t)
	dir, want := ingestFiles(t, nil, clitest.Put(t, t.TempDir(), c.Numpy()))
	for _, format := range []string{"numpy", "tsv", "parquet"} {
		t.Run(format, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			var stdout, errs bytes.Buffer
			if code := cli.Run(t.Context(), []string{"export", dir, out, "--format", format, "--quiet"}, nil, &stdout, &errs); code != cli.ExitOK {
				t.Fatalf("export: exit code %d: %s", code, errs.String())
			}
			args := []string{out}
			if format != "numpy" {
				args = append(args, "--ids", "dense")
			}
			if _, got := ingestFiles(t, nil, args...); !maps.Equal(got, want) {
				t.Errorf("files %v differ from those exported from, %v", sizes(got), sizes(want))
			}
		})
	}
}

// ingest makes the case's store.
func (f *formatCase) ingest(t *testing.T, c *coraArrays) (dir string, files map[string]string) {
	t.Helper()
	if f.stdin == nil {
		return ingestFiles(t, nil, append([]string{f.write(t, c)}, f.args...)...)
	}
	dir, files = ingestFiles(t, f.stdin(c), append([]string{"-"}, f.args...)...)
	if left, err := filepath.Glob(dir + ".stdin*"); err != nil || len(left) > 0 {
		t.Errorf("%v is left of standard input (%v)", left, err)
	}
	return dir, files
}

type parquetEdge struct {
	Source int64 `parquet:"source"`
	Target int64 `parquet:"target"`
}

type parquetNode struct {
	Split string    `parquet:"split,dict"`
	X     []float32 `parquet:"x,list"`
	Node  int32     `parquet:"node_id"`
	Label *int32    `parquet:"label,optional"`
}

func (c *coraArrays) edgeRows() []parquetEdge {
	var rows []parquetEdge
	for i := range c.Src {
		rows = append(rows, parquetEdge{c.Src[i], c.Dst[i]})
	}
	return rows
}

// nodeOrder is the order of nodes in tables: any but that of their ids.
func nodeOrder(k int) int { return (k*1409 + 77) % coraNodes }

// parts is the part of the split that each node is in.
func (c *coraArrays) parts() []string {
	out := make([]string, coraNodes)
	for part, ids := range c.Split {
		for _, id := range ids {
			out[id] = part
		}
	}
	return out
}

func (c *coraArrays) nodeRows() []parquetNode {
	split := c.parts()
	rows := make([]parquetNode, coraNodes)
	for k := range rows {
		id := nodeOrder(k)
		label := int32(c.Labels[id])
		rows[k] = parquetNode{split[id], c.X[id*coraDim : (id+1)*coraDim], int32(id), &label}
	}
	return rows
}

// nodeText is the table as CSV with a header.
func (c *coraArrays) nodeText() []byte {
	var b bytes.Buffer
	b.WriteString("id,label,split")
	for k := range coraDim {
		fmt.Fprintf(&b, ",w%d", k)
	}
	split := c.parts()
	for k := range coraNodes {
		id := nodeOrder(k)
		fmt.Fprintf(&b, "\n%d,%d,%s", id, c.Labels[id], split[id])
		for _, x := range c.X[id*coraDim : (id+1)*coraDim] {
			fmt.Fprintf(&b, ",%g", x)
		}
	}
	return b.Bytes()
}

// parquetFile is a file of rows in groups of 1000.
func parquetFile[T any](rows []T) []byte {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(1000), parquet.Compression(&parquet.Snappy))
	_, err := w.Write(rows)
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer does not fail
	}
	return b.Bytes()
}

// sizes lists files with their sizes and whether they hold what their name says.
func sizes(files map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, fmt.Sprintf("%s:%d", name, len(files[name])))
	}
	return out
}
