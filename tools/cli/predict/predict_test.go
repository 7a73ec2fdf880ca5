package predict_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// ask runs gstore predict with something on standard input, as CSV, and returns the rows without the header.
func ask(t *testing.T, stdin string, args ...string) [][]string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), append([]string{"predict", "--format", "csv"}, args...), strings.NewReader(stdin), &out, &errs); code != cli.ExitOK {
		t.Fatalf("gstore predict %v: exit code %d: %s", args, code, errs.String())
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v: %d lines, %v", args, len(lines), err)
	}
	return lines[1:]
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// floats reads a .npy file of float32.
func floats(t *testing.T, path string) []float32 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = b[10+int(binary.LittleEndian.Uint16(b[8:])):]
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// TestNodes: predict says of a node what eval writes of it, whichever way it is asked, in every format and within a budget.
func TestNodes(t *testing.T) {
	work := t.TempDir()
	dir, out := filepath.Join(work, "cora.gstore"), filepath.Join(work, "eval")
	clitest.MustRun(t, "demo", "--dir", dir, "--epochs", "2", "--quiet")
	clitest.MustRun(t, "eval", dir, "--out", out, "--write", "probabilities", "--quiet")
	want := floats(t, filepath.Join(out, "node_probabilities.npy"))
	classes := strings.Fields("Case_Based Genetic_Algorithms Neural_Networks Probabilistic_Methods Reinforcement_Learning Rule_Learning Theory")
	check := func(line []string) {
		t.Helper()
		node := int(number(t, line[0]))
		row := want[7*node : 7*node+7]
		best := 0
		for c, p := range row {
			if p > row[best] {
				best = c
			}
			if got := number(t, line[3+c]); math.Abs(got-float64(p)) > 1e-6 { // sums over neighbours are in another order within a budget
				t.Fatalf("node %d, class %d: %v, eval says %v", node, c, got, p)
			}
		}
		if line[1] != classes[best] || line[2] != line[3+best] {
			t.Fatalf("node %d: %v, expected class %s, %v", node, line[:3], classes[best], row[best])
		}
	}
	all := ask(t, "", dir)
	for i, line := range all {
		if check(line); line[0] != strconv.Itoa(i) {
			t.Fatalf("line %d is of node %s", i, line[0])
		}
	}
	if len(all) != clitest.CoraNodes {
		t.Errorf("%d lines of all nodes", len(all))
	}
	file := filepath.Join(work, "ids.txt")
	if err := os.WriteFile(file, []byte("2707\n3\r\n\n1200\n3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][][]string{ask(t, "", dir, "2707", "3", "1200", "3"), ask(t, "", dir, "--input", file), ask(t, "2707\n3\n1200\n3", dir, "--input", "-", "--mem", "88MiB")} {
		var ids []string
		for _, line := range lines {
			check(line)
			ids = append(ids, line[0])
		}
		if got := strings.Join(ids, " "); got != "2707 3 1200 3" {
			t.Errorf("nodes %s", got)
		}
	}
	// Files.
	for _, name := range []string{"all.csv", "all.tsv", "all.jsonl", "all.parquet", "all.txt"} {
		clitest.MustRun(t, "predict", dir, "--out", filepath.Join(work, name), "--quiet")
	}
	b, err := os.ReadFile(filepath.Join(work, "all.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll(); err != nil || clitest.MustJSON(t, lines[1:]) != clitest.MustJSON(t, all) {
		t.Errorf("CSV in a file is another than on standard output (%v)", err)
	}
	if b, err = os.ReadFile(filepath.Join(work, "all.tsv")); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"); len(lines) != len(all)+1 || lines[7] != strings.Join(all[6], "\t") {
		t.Errorf("TSV has %d lines, %q among them, expected %q", len(lines), lines[7], all[6])
	}
	type row struct {
		Node        uint64  `json:"node" parquet:"node"`
		Class       string  `json:"class" parquet:"class"`
		Probability float32 `json:"probability" parquet:"probability"`
		Theory      float32 `json:"p_Theory" parquet:"p_Theory"`
	}
	read, err := parquet.ReadFile[row](filepath.Join(work, "all.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var decoded []row
	if b, err = os.ReadFile(filepath.Join(work, "all.jsonl")); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, r)
	}
	if !slices.Equal(read, decoded) || len(read) != len(all) {
		t.Errorf("Parquet and JSON differ: %d and %d rows", len(read), len(decoded))
	}
	for i, r := range read {
		if got := []string{fmt.Sprint(r.Node), r.Class, strconv.FormatFloat(float64(r.Probability), 'g', -1, 32), strconv.FormatFloat(float64(r.Theory), 'g', -1, 32)}; !slices.Equal(got, []string{all[i][0], all[i][1], all[i][2], all[i][9]}) {
			t.Fatalf("Parquet has %v, CSV %v", got, all[i])
		}
	}
}

// TestUnlabelled: a model predicts for a store that has neither labels nor a split, and knows its classes' names.
func TestUnlabelled(t *testing.T) {
	work := t.TempDir()
	dir, other := filepath.Join(work, "cora.gstore"), filepath.Join(work, "other.gstore")
	clitest.MustRun(t, "demo", "--dir", dir, "--epochs", "1", "--quiet")
	c := clitest.ReadCora(t)
	clitest.MustRun(t, "ingest", clitest.Put(t, t.TempDir(), map[string][]byte{"edge_index.npy": c.Ends(), "node_feat.npy": c.Features()}), other, "--undirected", "--quiet")
	model := filepath.Join(dir, "runs", "1.gsm")
	for i, line := range ask(t, "", other, "--checkpoint", model) {
		if want := ask(t, "", dir, strconv.Itoa(i))[0]; line[1] != want[1] || math.Abs(number(t, line[2])-number(t, want[2])) > 1e-4 {
			t.Errorf("node %d: %v, with labels %v", i, line[:3], want[:3])
		}
		if i == 5 {
			break
		}
	}
}

// TestOtherFeatures: a store whose features are not those that the model reads is refused with both.
func TestOtherFeatures(t *testing.T) {
	work := t.TempDir()
	dir, other := filepath.Join(work, "cora.gstore"), filepath.Join(work, "other.gstore")
	clitest.MustRun(t, "demo", "--dir", dir, "--epochs", "1", "--quiet")
	model := filepath.Join(dir, "runs", "1.gsm")
	in := clitest.Put(t, t.TempDir(), map[string][]byte{"edges.csv": []byte("src,dst\n0,1\n1,2\n"), "nodes.csv": []byte("id,age\n0,1\n1,2\n2,3\n")})
	clitest.MustRun(t, "ingest", in, other, "--quiet")
	if code, _, stderr := clitest.Run(t, "predict", other, "--checkpoint", model); code != cli.ExitFailed || !strings.Contains(stderr, "reads 1433 columns of features [\"x\"], the store's have 1") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	bare := filepath.Join(work, "bare.gstore")
	clitest.MustRun(t, "ingest", filepath.Join(in, "edges.csv"), bare, "--quiet")
	if code, _, stderr := clitest.Run(t, "predict", bare, "--checkpoint", model); code != cli.ExitFailed || !strings.Contains(stderr, "feature \"x\", which the model reads") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// kg is a trained store of a knowledge graph with names, its triples and its vectors.
type kg struct {
	dir   string
	names []string // of the rows of e
	known map[[3]string]bool
	e, r  []float32
	dim   int
}

func newKG(t *testing.T, train ...string) *kg {
	t.Helper()
	work := t.TempDir()
	g := &kg{dir: filepath.Join(work, "kg.gstore"), known: map[[3]string]bool{}, dim: 8}
	files := map[string][]byte{}
	n := uint64(1)
	next := func(below uint64) uint64 { n = n*6364136223846793005 + 1442695040888963407; return n >> 33 % below }
	for _, part := range []string{"train", "valid", "test"} {
		for range map[string]int{"train": 900, "valid": 60, "test": 60}[part] {
			e := [3]string{fmt.Sprintf("node %d", next(40)), []string{"likes", "is near", "knows"}[next(3)], fmt.Sprintf("node %d", next(150))}
			g.known[e] = true
			files[part+".tsv"] = append(files[part+".tsv"], strings.Join(e[:], "\t")+"\n"...)
		}
	}
	clitest.MustRun(t, "ingest", clitest.Put(t, t.TempDir(), files), g.dir, "--partitions", "8", "--quiet")
	clitest.MustRun(t, append([]string{"train", g.dir, "--epochs", "2", "--dim", "8", "--negatives", "20", "--eval-every", "-1", "--quiet"}, train...)...)
	out := filepath.Join(work, "out")
	clitest.MustRun(t, "export", g.dir, out, "--what", "model,embeddings", "--quiet")
	b, err := os.ReadFile(filepath.Join(out, "entities.txt"))
	if err != nil {
		t.Fatal(err)
	}
	g.names, g.e = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), floats(t, filepath.Join(out, "node_embedding.npy"))
	if b, err = os.ReadFile(filepath.Join(out, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	b = b[8+binary.LittleEndian.Uint64(b):] // the only tensor: relations
	for ; len(b) > 0; b = b[4:] {
		g.r = append(g.r, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return g
}

// scores are those of every node, distmult's, or with relation −1 the cosines, in float64.
func (g *kg) scores(end string, relation int) (s []float64) {
	row := func(x []float32, i int) []float32 { return x[i*g.dim : (i+1)*g.dim] }
	a := row(g.e, slices.Index(g.names, end))
	for n := range g.names {
		b, sum, aa, bb := row(g.e, n), 0., 0., 0.
		for j := range a {
			x := float64(a[j]) * float64(b[j])
			if relation >= 0 {
				x *= float64(row(g.r, relation)[j])
			}
			sum, aa, bb = sum+x, aa+float64(a[j])*float64(a[j]), bb+float64(b[j])*float64(b[j])
		}
		if relation < 0 {
			sum /= math.Sqrt(aa * bb)
		}
		s = append(s, sum)
	}
	return s
}

// best are the names of the k largest scores that are not left out.
func (g *kg) best(s []float64, k int, out func(name string) bool) (names []string, scores []float64) {
	order := make([]int, len(s))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s[b], s[a]) })
	for _, i := range order {
		if len(names) < k && !out(g.names[i]) {
			names, scores = append(names, g.names[i]), append(scores, s[i])
		}
	}
	return names, scores
}

// TestLinks: the best answers are those of a computation by hand over the exported vectors, with what is known and without, at any budget.
func TestLinks(t *testing.T) {
	g := newKG(t)
	relations := []string{}
	for e := range g.known {
		if !slices.Contains(relations, e[1]) {
			relations = append(relations, e[1])
		}
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(g.dir), "out", "model.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Relations []string `json:"relations"`
	}
	if err := json.Unmarshal(b, &d); err != nil || len(d.Relations) != len(relations) {
		t.Fatalf("relations %v of %v: %v", d.Relations, relations, err)
	}
	var stdin strings.Builder
	type question struct {
		end, relation string
		heads         bool
	}
	var asked []question
	for i := range 30 {
		q := question{fmt.Sprintf("node %d", i), d.Relations[i%3], i%2 == 1}
		if !slices.Contains(g.names, q.end) {
			continue
		}
		asked = append(asked, q)
		if q.heads {
			fmt.Fprintf(&stdin, "?\t%s\t%s\n", q.relation, q.end)
		} else {
			fmt.Fprintf(&stdin, "%s\t%s\t?\n", q.end, q.relation)
		}
	}
	for _, filter := range []string{"none", "known"} {
		for _, mem := range []string{"1GiB", "76MiB"} {
			got := ask(t, stdin.String(), g.dir, "--top", "12", "--filter", filter, "--mem", mem)
			for i, q := range asked {
				row := slices.Index(d.Relations, q.relation)
				if q.heads {
					row += len(d.Relations)
				}
				names, scores := g.best(g.scores(q.end, row), 12, func(name string) bool {
					e := [3]string{q.end, q.relation, name}
					if q.heads {
						e = [3]string{name, q.relation, q.end}
					}
					return filter == "known" && g.known[e]
				})
				for k := range names {
					line := got[0]
					got = got[1:]
					want := []string{strconv.Itoa(i + 1), strconv.Itoa(k + 1), q.end, q.relation, names[k]}
					if q.heads {
						want[2], want[4] = want[4], want[2]
					}
					if !slices.Equal(line[:5], want) || math.Abs(number(t, line[5])-scores[k]) > 1e-5 {
						t.Fatalf("--filter %s --mem %s: %v, expected %v %v", filter, mem, line, want, scores[k])
					}
				}
			}
			if len(got) > 0 {
				t.Errorf("%d lines too many", len(got))
			}
		}
	}
	lines := ask(t, "", g.dir, "node 3", "--nearest", "cosine", "--top", "5")
	names, scores := g.best(g.scores("node 3", -1), 5, func(name string) bool { return name == "node 3" })
	for k, line := range lines {
		if want := []string{"node 3", strconv.Itoa(k + 1), names[k]}; !slices.Equal(line[:3], want) || math.Abs(number(t, line[3])-scores[k]) > 1e-5 {
			t.Errorf("nearest: %v, expected %v %v", line, want, scores[k])
		}
	}
	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		text  string
	}{
		{"node 3\tlikes\t?\nnode 3\tlike\t?\n", nil, cli.ExitFailed, "standard input, line 2: the store has no relation \"like\": did you mean likes?"},
		{"?\tlikes\t?\n", nil, cli.ExitFailed, "line 1: \"?\\tlikes\\t?\": expected head, relation and tail"},
		{"", nil, cli.ExitUsage, "standard input asks for nothing"},
		{"", []string{"nobody", "likes", "?"}, cli.ExitUsage, "no node \"nobody\""},
		{"", []string{"node 3"}, cli.ExitUsage, "--nearest"},
		{"", []string{"node 3", "--nearest", "angle"}, cli.ExitUsage, "cosine or dot"},
		{"", []string{"node 3", "--nearest", "dot", "--filter", "known"}, cli.ExitUsage, "--filter is for links"},
		{"", []string{"--table", "other", "node 3", "likes", "?"}, cli.ExitFailed, "other"},
		{"", []string{"--mem", "10MiB", "node 3", "likes", "?"}, cli.ExitFailed, "the smallest that works is"},
	} {
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), append([]string{"predict", g.dir}, c.args...), strings.NewReader(c.stdin), &out, &errs); code != c.code || !strings.Contains(errs.String(), c.text) || out.Len() > 0 {
			t.Errorf("%q, %v: exit code %d, %q, %q, expected %d and %q", c.stdin, c.args, code, out.String(), errs.String(), c.code, c.text)
		}
	}
}

// TestEncoded: with an encoder the answers do not depend on the budget, and similar nodes are those of the encoder's states.
func TestEncoded(t *testing.T) {
	g := newKG(t, "--encoder", "sage", "--model", "transe")
	asked := []string{g.dir, "node 1", "knows", "?", "--top", "150"}
	first := ask(t, "", asked...)
	for i, line := range ask(t, "", append(asked, "--mem", "76MiB")...) {
		if math.Abs(number(t, line[5])-number(t, first[i][5])) > 1e-4 {
			t.Fatalf("answer %d: %v, without a budget %v", i, line, first[i])
		}
	}
}

// TestMemoryKept: the smallest budget that predict names is one that its process keeps.
func TestMemoryKept(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	work := t.TempDir()
	kg, sbm := filepath.Join(work, "kg.gstore"), filepath.Join(work, "sbm.gstore")
	clitest.MustRun(t, "generate", "kg", kg, "--nodes", "40k", "--edges", "60k", "--relations", "5", "--format", "store", "--partitions", "16", "--quiet")
	clitest.MustRun(t, "train", kg, "--epochs", "1", "--negatives", "20", "--dim", "64", "--eval-every", "-1", "--quiet")
	clitest.MustRun(t, "generate", "sbm", sbm, "--nodes", "40k", "--edges", "80k", "--features", "64", "--classes", "8", "--format", "store", "--partitions", "16", "--quiet")
	clitest.MustRun(t, "train", sbm, "--epochs", "1", "--layers", "1", "--fanouts", "3", "--eval-every", "1", "--quiet")
	for _, args := range [][]string{
		{"predict", kg, "7", "1", "?", "--top", "1000", "--filter", "known", "--out", filepath.Join(work, "a.csv")},
		{"predict", kg, "7", "8", "--nearest", "cosine", "--out", filepath.Join(work, "b.parquet")},
		{"predict", sbm, "--out", filepath.Join(work, "c.parquet")},
		{"predict", sbm, "7", "8", "--nearest", "dot", "--out", filepath.Join(work, "d.csv")},
	} {
		_, said, err := clitest.Child(t, append(args, "--json", "--mem", "30MiB")...)
		at := regexp.MustCompile(`the smallest that works is (\d+)MiB`).FindStringSubmatch(said)
		if err == nil || at == nil {
			t.Fatalf("%v: 30 MiB: %q (%v), expected a refusal that names the smallest budget", args, said, err)
		}
		sum, said, err := clitest.Child(t, append(args, "--json", "--mem", at[1]+"MiB")...)
		if err != nil {
			t.Fatalf("%v: %s MiB, which was named: %v: %s", args, at[1], err, said)
		}
		if peak, _ := sum["peak_rss_bytes"].(float64); peak == 0 || peak > number(t, at[1])*(1<<20) {
			t.Errorf("%v: a peak of %.1f MiB with --mem %sMiB", args, peak/(1<<20), at[1])
		} else {
			t.Logf("%v: a peak of %.1f MiB with --mem %sMiB", args[2:], peak/(1<<20), at[1])
		}
	}
}
