package data_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // writes an input

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// pageCommand finds a command line between back quotes, or on a line of its own in a block of code.
var pageCommand = regexp.MustCompile("`(gstore [^`]+)`|(?m:^((?:zcat|gstore) .+)$)")

// pageCommands returns the commands of docs/formats.md that a user can paste: those
// that name files.
func pageCommands(t *testing.T) (lines []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	synopsis := regexp.MustCompile(` (STORE|INPUT|OUT)\b`)
	for _, m := range pageCommand.FindAllStringSubmatch(string(page), -1) {
		line := m[1] + m[2]
		if len(strings.Fields(line)) > 2 && !synopsis.MatchString(line) && !strings.Contains(line, "postgres://") { // a server's: store/ingest/formats/database
			lines = append(lines, line)
		}
	}
	return lines
}

// savedKG is what torch.save writes of {"num_entities": 5, "num_relations": 2}.
func savedKG() []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, _ := z.Create("meta/data.pkl") // into memory
	_, _ = io.WriteString(w, "\x80\x02}(X\x0c\x00\x00\x00num_entitiesK\x05X\x0d\x00\x00\x00num_relationsK\x02u.")
	_ = z.Close()
	return b.Bytes()
}

// pageInputs writes what the page's commands read, by the path that they read it from, into the
// working directory; pickles is the folder of files that Python wrote.
func pageInputs(c *coraArrays, pickles string) map[string]func(t *testing.T) {
	written := func(cases []formatCase, name, path string) func(t *testing.T) {
		return func(t *testing.T) {
			k := slices.IndexFunc(cases, func(f formatCase) bool { return f.name == name })
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(cases[k].write(t, c), path); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := func(files map[string][]byte) func(t *testing.T) {
		return func(t *testing.T) { clitest.Put(t, ".", files) }
	}
	store := func(input func(t *testing.T), path string, args ...string) func(t *testing.T) {
		return func(t *testing.T) {
			input(t)
			if code, _, stderr := clitest.Run(t, append(args, path, "--quiet")...); code != cli.ExitOK {
				t.Fatalf("the store: exit code %d: %s", code, stderr)
			}
		}
	}
	nodes := []byte("id,code,label,age,income\nann,7,0,31,2.5\nbob,8,1,25,1\ncy,9,,44,0\n")
	numpy := files(map[string][]byte{"in/edge_index.npy": c.Ends(), "in/node_label.npy": clitest.NpyInts(c.Labels), "in/split/train.npy": clitest.NpyInts(c.Split["train"])})
	triples := files(map[string][]byte{"fb/train.tsv": c.triples().text("train", "%s\t%s\t%s\n", true), "fb/test.tsv": c.triples().text("test", "%s\t%s\t%s\n", true)})
	matrix := map[string][]byte{"indptr": clitest.NpyInts([]int64{0, 1, 2, 2}), "indices": clitest.NpyInts([]int64{1, 2}), "data": clitest.NpyFile("|b1", "2,", []byte{1, 1}), "shape": clitest.NpyInts([]int64{3, 3})}
	return map[string]func(t *testing.T){
		"cora": func(t *testing.T) {
			written(formatCases(), "numpy, packed and [E, 2]", "cora")(t)
			clitest.Put(t, ".", map[string][]byte{"cora.part": []byte(strings.Repeat("0\n3\n1\n2\n", len(c.Labels)/4))})
		},
		"cora.npz":                written(formatCases(), "npz of scipy matrices, deflated", "cora.npz"),
		"dataset/ogbn_papers100M": written(formatCases(), "OGB binary", "dataset/ogbn_papers100M"),
		"dataset/ogbn_arxiv":      written(formatCases(), "OGB text", "dataset/ogbn_arxiv"),
		"dataset/mag240m_kddcup2021": files(map[string][]byte{
			"dataset/mag240m_kddcup2021/processed/paper/node_feat.npy":                  clitest.NpyFile("<f2", "3, 1", make([]byte, 6)),
			"dataset/mag240m_kddcup2021/processed/paper/node_label.npy":                 clitest.NpyFile("<f4", "3,", blocks.Bytes([]float32{0, 1, 0})),
			"dataset/mag240m_kddcup2021/processed/paper___cites___paper/edge_index.npy": clitest.NpyFile("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 1, 2}))}),
		"dataset/wikikg90m-v2": files(map[string][]byte{
			"dataset/wikikg90m-v2/meta.pt":                 savedKG(),
			"dataset/wikikg90m-v2/processed/train_hrt.npy": clitest.NpyFile("<i8", "1, 3", blocks.Bytes([]int64{0, 1, 2}))}),
		"Flickr": func(t *testing.T) {
			clitest.Put(t, "Flickr/raw", map[string][]byte{"adj_full.npz": npzFile(t, zip.Deflate, matrix), "feats.npy": clitest.NpyFile("<f8", "3, 1", make([]byte, 24)),
				"class_map.json": []byte(`{"0": 1, "1": 0, "2": 1}`), "role.json": []byte(`{"tr": [0], "va": [1], "te": [2]}`)})
		},
		"Gowalla": files(map[string][]byte{"Gowalla/train.txt": []byte("0 1 2\n1 0\n"), "Gowalla/test.txt": []byte("0 3\n")}),
		"data/Cora": func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(pickles, "pyg", "set.pt"))
			if err != nil {
				t.Fatal(err)
			}
			clitest.Put(t, "data/Cora/processed", map[string][]byte{"data.pt": b, "pre_filter.pt": []byte("any")})
		},
		"import": func(t *testing.T) {
			clitest.Put(t, "import", map[string][]byte{"people.csv": []byte("code:ID(Person),age:int\na,5\nb,6\n"), "films.csv": []byte("id:ID(Movie),year:int\n1,1999\n"),
				"acted.csv": []byte(":START_ID(Person),:END_ID(Movie),:TYPE\na,1,ACTED\nb,1,ACTED\n")})
		},
		"DBLP": func(t *testing.T) {
			clitest.Put(t, "DBLP", map[string][]byte{"node.dat": []byte("0\tp\t0\t1,0\n1\tq\t0\t0,1\n2\ta\t1\n"), "link.dat": []byte("0\t2\t0\t1\n1\t2\t0\t1\n"),
				"label.dat": []byte("0\tp\t0\t1\n"), "label.dat.test": []byte("1\tq\t0\t0\n")})
		},
		"cora/cora.cites": func(t *testing.T) {
			clitest.Put(t, "cora", map[string][]byte{"cora.content": []byte("31\t1\t0\tTheory\n7\t0\t1\tRules\n"), "cora.cites": []byte("31\t7\n")})
		},
		"data/CiteSeer": func(t *testing.T) {
			if err := os.CopyFS("data/CiteSeer/raw", os.DirFS(filepath.Join(pickles, "planetoid"))); err != nil {
				t.Fatal(err)
			}
		},
		"Reddit": func(t *testing.T) {
			clitest.Put(t, "Reddit", map[string][]byte{"reddit_graph.npz": npzFile(t, zip.Store, matrix),
				"reddit_data.npz": npzFile(t, zip.Store, map[string][]byte{"feature": clitest.NpyFile("<f4", "3, 1", make([]byte, 12)), "label": clitest.NpyInts([]int64{1, 0, 1}), "node_types": clitest.NpyInts([]int64{1, 2, 3})})})
		},
		"IGB260M/medium": files(map[string][]byte{
			"IGB260M/medium/processed/paper/node_feat.npy":                clitest.NpyFile("<f4", "3, 1", make([]byte, 12)),
			"IGB260M/medium/processed/paper/node_label_19.npy":            clitest.NpyFile("<f4", "3,", blocks.Bytes([]float32{0, 1, 0})),
			"IGB260M/medium/processed/paper__cites__paper/edge_index.npy": clitest.NpyFile("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 1, 2}))}),
		"dataset/ogbn_mag": files(map[string][]byte{"dataset/ogbn_mag/raw/num-node-dict.csv.gz": []byte("author,paper\n2,3\n"),
			"dataset/ogbn_mag/raw/triplet-type-list.csv.gz":                               []byte("author,writes,paper\npaper,cites,paper\n"),
			"dataset/ogbn_mag/raw/relations/author___writes___paper/edge.csv.gz":          []byte("0,2\n1,0\n"),
			"dataset/ogbn_mag/raw/relations/author___writes___paper/num-edge-list.csv.gz": []byte("2\n"),
			"dataset/ogbn_mag/raw/relations/paper___cites___paper/edge.csv.gz":            []byte("1,2\n"),
			"dataset/ogbn_mag/raw/relations/paper___cites___paper/num-edge-list.csv.gz":   []byte("1\n"),
			"dataset/ogbn_mag/raw/node-feat/paper/node-feat.csv.gz":                       []byte("1.5,2\n3,4\n5,6\n"),
			"dataset/ogbn_mag/raw/node-label/paper/node-label.csv.gz":                     []byte("1\n0\n1\n"),
			"dataset/ogbn_mag/split/time/paper/train.csv.gz":                              []byte("0\n1\n")}),
		"datasets/ogbn-arxiv":        written(formatCases(), "GraphBolt, CSV", "datasets/ogbn-arxiv"),
		"fb15k-237":                  written(tripleCases(), "names, packed", "fb15k-237"),
		"OpenKE/benchmarks/FB15K237": written(tripleCases(), "OpenKE", "OpenKE/benchmarks/FB15K237"),
		"datasets/fb15k_237_example": written(tripleCases(), "MariusGNN", "datasets/fb15k_237_example"),
		"soc.txt.gz":                 files(map[string][]byte{"soc.txt.gz": []byte("# soc\n0 1 .5\n1 two\n7 0 2\n")}),
		"people":                     files(map[string][]byte{"people/edges.tsv": []byte("ann\tbob\nbob\tcy\n"), "people/nodes.csv": nodes}),
		"crawl/":                     written(formatCases(), "Parquet in parts, named", "crawl"),
		"debhet": files(map[string][]byte{"debhet/edges/user__buys__item/edge_index.npy": clitest.NpyFile("<i8", "2, 2", blocks.Bytes([]int64{0, 3, 1, 0})), "debhet/nodes/item/label.npy": clitest.NpyInts([]int64{1, 0}),
			"debhet/edges/user__buys__item/edge_time.npy": clitest.NpyInts([]int64{7, 8}), "debhet/split/train.npy": clitest.NpyInts([]int64{1})}),
		"shop": files(map[string][]byte{"shop/nodes/person.csv": []byte("id,age,label,split\nann,31,0,train\nbob,25,1,test\n"), "shop/edges/person-bought-item.csv": []byte("person_id,item_id,weight\nann,1,.5\nbob,1,2\n"),
			"shop/edges/person-follows-person.tsv": []byte("src\tdst\nann\tbob\n"), "shop/nodes/item.parquet": parquetFile([]struct {
				Item int64   `parquet:"item_id"`
				X    float64 `parquet:"price"`
			}{{1, 2.5}})}),
		"rel-f1": files(map[string][]byte{"rel-f1/manifest.yaml": []byte("tables: {drivers: {pkey: driverId}, results: {pkey: resultId, time_col: date, fkeys: {driverId: drivers}}}\n"),
			"rel-f1/db/drivers.csv": []byte("driverId,surname\n1,Hill\n"), "rel-f1/db/results.csv": []byte("resultId,driverId,points,date\n7,1,10,1996-03-10\n8,1,6,1996-03-31\n")}),
		"f1.sqlite": func(t *testing.T) {
			db, err := sql.Open("sqlite", "f1.sqlite")
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Exec("CREATE TABLE drivers (driverId INTEGER PRIMARY KEY, surname TEXT); INSERT INTO drivers VALUES (1, 'Hill'); " +
				"CREATE TABLE results (resultId INTEGER PRIMARY KEY, driverId REFERENCES drivers, points REAL, date TEXT); INSERT INTO results VALUES (7, 1, 10, '1996-03-10'), (8, 1, 6, '1996-03-31')")
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		},
		"latest-truthy.nt.bz2": files(map[string][]byte{"latest-truthy.nt.bz2": []byte("\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x52\x03\x07\x6b\x00\x00\x02\xd9\x80\x00\x10\x40\x01\x00\x05\x30\x00\x40\x00\x20\x00\x31\x0c\x08\x23\x46\x9a\x7a\x99\xa9\xbb\xae\x01\x78\xbb\x92\x29\xc2\x84\x82\x90\x18\x3b\x58")}),
		"bio.mtx":              files(map[string][]byte{"bio.mtx": []byte("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n")}),
		"edges.bin":            written(formatCases(), "raw pairs of 32 bits", "edges.bin"),
		"follows.tsv.gz": files(map[string][]byte{"follows.tsv.gz": []byte("ann\tbob\nbob\tcy\n"), "people.csv": nodes, "embeddings.parquet": parquetFile([]struct {
			ID        string    `parquet:"id"`
			Embedding []float32 `parquet:"embedding,list"`
		}{{"cy", []float32{1, 2}}, {"ann", []float32{3, 4}}})}),
		"follows.csv": files(map[string][]byte{"follows.csv": []byte("ann,bob,1,1700000000\nbob,cy,.5,1700000001\n"), "people.csv": nodes}),
		"interactions.parquet": files(map[string][]byte{"users.csv": []byte("user_id,age\n1,30\n"), "items.csv": []byte("item_id,price\n1,2.5\n"), "interactions.parquet": parquetFile([]struct {
			User int64 `parquet:"user_id"`
			Item int64 `parquet:"item_id"`
		}{{1, 1}})}),
		"-":             files(map[string][]byte{"soc-LiveJournal1.txt.gz": []byte("# FromNodeId\tToNodeId\n0\t1\n1\t7\n")}),
		"cora.gstore":   store(numpy, "cora.gstore", "ingest", "in"),
		"papers.gstore": store(numpy, "papers.gstore", "ingest", "in"),
		"fb.gstore":     store(triples, "fb.gstore", "ingest", "fb"),
	}
}

// TestFormatsPage runs every command of docs/formats.md as it stands there, on small files
// where it looks for them, and verifies the store.
func TestFormatsPage(t *testing.T) {
	pickles, err := filepath.Abs(filepath.Join("..", "..", "..", "store", "ingest", "formats", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	inputs := pageInputs(readCora(t), pickles)
	lines := pageCommands(t)
	if len(lines) < 15 {
		t.Fatalf("%d commands were found on the page: %q", len(lines), lines)
	}
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var stdin io.Reader = strings.NewReader("")
			packed, rest, piped := strings.Cut(line, " | ")
			args := strings.Fields(line)
			if piped {
				args = strings.Fields(rest)
			}
			input := inputs[args[2]]
			if input == nil {
				t.Fatalf("the test has nothing for %s", args[2])
			}
			input(t)
			if piped {
				f, err := os.Open(strings.TrimPrefix(packed, "zcat "))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if stdin, err = gzip.NewReader(f); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			if code := cli.Run(t.Context(), args[1:], stdin, &stdout, &stderr); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			switch args[1] {
			case "ingest":
				if code, out, stderr := clitest.Run(t, "verify", args[3]); code != cli.ExitOK || !strings.Contains(out, "is whole") {
					t.Errorf("verify: exit code %d: %s%s", code, out, stderr)
				}
			case "walks": // a file
				if b, err := os.ReadFile(args[3]); err != nil || !bytes.HasPrefix(b, []byte("\x93NUMPY")) {
					t.Errorf("walks wrote %d bytes (%v)", len(b), err)
				}
			default:
				if entries, err := os.ReadDir(args[3]); err != nil || len(entries) < 2 {
					t.Errorf("%s wrote %v (%v)", args[1], entries, err)
				}
			}
		})
	}
}
