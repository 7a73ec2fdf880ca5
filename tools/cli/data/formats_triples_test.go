package data_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// triples is Cora as a knowledge graph: papers cite papers of the same subject, or of another.
// Every 20th edge is one to validate with, the one after it one to test with.
type triples struct {
	names, relations []string
	rows             map[string][]int64 // train, valid, test: head, relation, tail
}

func (c *coraArrays) triples() *triples {
	k := &triples{relations: []string{"cites another", "cites same"}, rows: map[string][]int64{}}
	for id := range coraNodes {
		k.names = append(k.names, fmt.Sprintf("paper %04d", id))
	}
	for i := range c.Src {
		part := "train"
		if i%20 < 2 {
			part = []string{"valid", "test"}[i%20]
		}
		same := int64(0)
		if c.Labels[c.Src[i]] == c.Labels[c.Dst[i]] {
			same = 1
		}
		k.rows[part] = append(k.rows[part], c.Src[i], same, c.Dst[i])
	}
	return k
}

// text has a line for each triple of a part, of names if not nil; order names its columns by place.
func (k *triples) text(part, format string, named bool) []byte {
	var b bytes.Buffer
	for r := k.rows[part]; len(r) > 0; r = r[3:] {
		if named {
			fmt.Fprintf(&b, format, k.names[r[0]], k.relations[r[1]], k.names[r[2]])
		} else {
			fmt.Fprintf(&b, format, r[0], r[1], r[2])
		}
	}
	return b.Bytes()
}

type parquetTriple struct {
	Head     string `parquet:"head,dict"`
	Relation string `parquet:"relation,dict"`
	Tail     string `parquet:"tail"`
}

// mapping has a line for each name with its id, backwards.
func mapping(names []string, format string) []byte {
	var b bytes.Buffer
	for id := len(names) - 1; id >= 0; id-- {
		fmt.Fprintf(&b, format, names[id], id)
	}
	return b.Bytes()
}

// tripleCases write the knowledge graph in each format that holds one.
func tripleCases() []formatCase {
	folder := func(files func(k *triples) map[string][]byte) func(*testing.T, *coraArrays) string {
		return func(t *testing.T, c *coraArrays) string { return clitest.Put(t, t.TempDir(), files(c.triples())) }
	}
	parts := []string{"train", "valid", "test"}
	return []formatCase{
		{name: "names, packed", write: folder(func(k *triples) map[string][]byte {
			files := map[string][]byte{}
			for _, p := range parts {
				files[p+".txt.gz"] = k.text(p, "%s\t%s\t%s\n", true)
			}
			return files
		})},
		{name: "arrays", write: folder(func(k *triples) map[string][]byte {
			files := map[string][]byte{"entities.txt": []byte(strings.Join(k.names, "\n")), "relations.txt": []byte(strings.Join(k.relations, "\n"))}
			for _, p := range parts {
				files[p+".npy"] = clitest.NpyFile("<i8", fmt.Sprintf("%d, 3", len(k.rows[p])/3), blocks.Bytes(k.rows[p]))
			}
			return files
		})},
		{name: "OpenKE", write: folder(func(k *triples) map[string][]byte {
			files := map[string][]byte{}
			for file, names := range map[string][]string{"entity2id.txt": k.names, "relation2id.txt": k.relations} {
				files[file] = append(fmt.Appendln(nil, len(names)), mapping(names, "%s\t%d\n")...)
			}
			for _, p := range parts {
				files[p+"2id.txt"] = append(fmt.Appendln(nil, len(k.rows[p])/3), k.text(p, "%[1]d %[3]d %[2]d\n", false)...)
			}
			return files
		})},
		{name: "Parquet", write: folder(func(k *triples) map[string][]byte {
			files := map[string][]byte{}
			for _, p := range parts {
				var rows []parquetTriple
				for r := k.rows[p]; len(r) > 0; r = r[3:] {
					rows = append(rows, parquetTriple{k.names[r[0]], k.relations[r[1]], k.names[r[2]]})
				}
				files[p+".parquet"] = parquetFile(rows)
			}
			return files
		})},
		{name: "MariusGNN", write: folder(func(k *triples) map[string][]byte {
			files := map[string][]byte{
				"dataset.yaml":           []byte(fmt.Sprintf("num_edges: %d\nnum_nodes: %d\nnum_relations: 2\n", len(k.rows["train"])/3, len(k.names))),
				"nodes/node_mapping.txt": mapping(k.names, "%s,%d\n"), "edges/relation_mapping.txt": mapping(k.relations, "%s,%d\n"),
			}
			for part, name := range map[string]string{"train": "train", "valid": "validation", "test": "test"} {
				files["edges/"+name+"_edges.bin"] = blocks.Bytes(int32s(k.rows[part]))
			}
			return files
		})},
	}
}

// TestTripleFormats: a knowledge graph makes the same store, to the byte, and the same training
// from every format.
func TestTripleFormats(t *testing.T) {
	c := readCora(t)
	k := c.triples()
	files := map[string][]byte{}
	for _, p := range []string{"train", "valid", "test"} {
		files[p+".tsv"] = k.text(p, "%s\t%s\t%s\n", true)
	}
	dir, want := ingestFiles(t, nil, clitest.Put(t, t.TempDir(), files))
	train := func(dir string) []float64 {
		return clitest.Losses(clitest.Events(t, "train", dir, "--epochs", "2", "--dim", "8", "--eval-every", "2"))
	}
	wantLoss := train(dir)
	if len(wantLoss) != 2 || wantLoss[1] >= wantLoss[0] {
		t.Fatalf("losses %v of the reference, expected two that fall", wantLoss)
	}
	for _, f := range tripleCases() {
		t.Run(f.name, func(t *testing.T) {
			dir, got := f.ingest(t, c)
			if !maps.Equal(got, want) {
				t.Errorf("files %v differ from the reference's %v", sizes(got), sizes(want))
			}
			if loss := train(dir); !slices.Equal(loss, wantLoss) {
				t.Errorf("losses %v, expected %v", loss, wantLoss)
			}
		})
	}
}
