package data_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// readTensors returns a safetensors file's shapes by name, and its data.
func readTensors(t *testing.T, path string) (shapes map[string][]int, data []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	head := map[string]struct {
		Shape []int `json:"shape"`
	}{}
	if err := json.Unmarshal(b[8:8+n], &head); err != nil {
		t.Fatal(err)
	}
	shapes = map[string][]int{}
	for name, h := range head {
		shapes[name] = h.Shape
	}
	delete(shapes, "__metadata__")
	return shapes, b[8+n:]
}

// TestExportModel: the tensors are the model file's to the bit, of the run that is named or the best; tools/newuser computes with them.
func TestExportModel(t *testing.T) {
	work := t.TempDir()
	dir := filepath.Join(work, "cora.gstore")
	clitest.MustRun(t, "demo", "--dir", dir, "--epochs", "2", "--quiet")
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--model", "gat", "--heads", "2", "--layers", "1", "--quiet")
	for _, c := range []struct {
		args   []string
		run    string
		shapes map[string][]int
	}{
		{nil, "1", map[string][]int{"0.weight": {2866, 128}, "0.bias": {1, 128}, "1.weight": {256, 7}, "1.bias": {1, 7}}},
		{[]string{"--checkpoint", "2", "--mem", "72MiB"}, "2", map[string][]int{"0.weight": {1433, 14}, "0.src": {14, 1}, "0.dst": {14, 1}, "0.bias": {1, 7}}},
	} {
		out := filepath.Join(work, "model-"+c.run)
		ev := clitest.Events(t, append([]string{"export", dir, out, "--what", "model"}, c.args...)...)
		if which := ev[len(ev)-1]["model"].(string); !strings.HasPrefix(which, "run "+c.run) {
			t.Errorf("%v: exported %q, expected run %s", c.args, which, c.run)
		}
		shapes, data := readTensors(t, filepath.Join(out, "model.safetensors"))
		if clitest.MustJSON(t, shapes) != clitest.MustJSON(t, c.shapes) {
			t.Errorf("%v: shapes %v, expected %v", c.args, shapes, c.shapes)
		}
		cp, err := train.LoadFile(filepath.Join(dir, "runs", c.run+".gsm"))
		if err != nil {
			t.Fatal(err)
		}
		if string(cp.Params) != string(data) {
			t.Errorf("%v: %d bytes of tensors, the model file has %d others", c.args, len(data), len(cp.Params))
		}
		sameModel(t, dir, out, c.run)
	}
	refuseModels(t, dir, filepath.Join(work, "model-1"))
	refuseFlips(t, dir, filepath.Join(work, "model-1"))
	kg := filepath.Join(work, "kg.gstore")
	clitest.MustRun(t, "generate", "kg", kg, "--nodes", "100", "--edges", "600", "--relations", "3", "--format", "store", "--quiet")
	if code, _, stderr := clitest.Run(t, "export", kg, filepath.Join(work, "none"), "--what", "model"); code != cli.ExitFailed || !strings.Contains(stderr, "train first") {
		t.Errorf("a store without a model: exit code %d, %s", code, stderr)
	}
	clitest.MustRun(t, "export", kg, filepath.Join(work, "all"), "--what", "all", "--quiet")
	clitest.MustRun(t, "train", kg, "--epochs", "1", "--dim", "8", "--encoder", "sage", "--negatives", "10", "--eval-every", "-1", "--quiet")
	out := filepath.Join(work, "link")
	clitest.MustRun(t, "export", kg, out, "--what", "model,embeddings", "--quiet")
	shapes, _ := readTensors(t, filepath.Join(out, "model.safetensors"))
	want := map[string][]int{"relations": {6, 8}, "0.weight": {16, 8}, "0.bias": {1, 8}}
	if clitest.MustJSON(t, shapes) != clitest.MustJSON(t, want) {
		t.Errorf("link prediction: shapes %v, expected %v", shapes, want)
	}
}

// sameModel: eval of the exported model says what it says of the run.
func sameModel(t *testing.T, dir, out, run string) {
	t.Helper()
	of := func(checkpoint string) map[string]any {
		ev := clitest.Events(t, "eval", dir, "--checkpoint", checkpoint)
		return ev[len(ev)-1]
	}
	a, b := of(run), of(filepath.Join(out, "model.safetensors"))
	for _, key := range []string{"train_loss", "valid_loss", "test_loss", "test_accuracy"} {
		if x, y := a[key].(float64), b[key].(float64); math.Abs(x-y) > 1e-5*x {
			t.Errorf("run %s: %s is %v, of the exported model %v", run, key, x, y)
		}
	}
}

// TestExportEdgeFeatures: an exported model names the columns of edges that it reads, and computes what its run does.
func TestExportEdgeFeatures(t *testing.T) {
	g := storetest.Random(storetest.Options{Undirected: true})
	g.EdgeDim = 2
	for i := range g.Edges {
		g.Weights, g.EdgeRows = append(g.Weights, float32(i%5)), append(g.EdgeRows, float32(i%3), float32(i%7))
	}
	dir, out := storetest.Create(t, g), filepath.Join(t.TempDir(), "model")
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--model", "gat", "--heads", "2", "--hidden", "8", "--edge-features", "rows,weight", "--quiet")
	clitest.MustRun(t, "export", dir, out, "--what", "model", "--quiet")
	shapes, _ := readTensors(t, filepath.Join(out, "model.safetensors"))
	if want := []int{3, 8}; !slices.Equal(shapes["0.edge_weight"], want) || !slices.Equal(shapes["0.edge"], []int{8, 1}) {
		t.Errorf("shapes %v, expected 0.edge_weight of %v", shapes, want)
	}
	sameModel(t, dir, out, "1")
	b, err := os.ReadFile(filepath.Join(out, "model.json"))
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.NewReplacer(`"edge_features"`, `"none"`, `"tensors_sha256"`, `"none2"`, `"description_sha256"`, `"none3"`).Replace(string(b)))
	if err := os.WriteFile(filepath.Join(out, "model.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := clitest.Run(t, "eval", dir, "--checkpoint", out); code != cli.ExitFailed || !strings.Contains(stderr, "have 0 columns, the model reads 3") {
		t.Errorf("a model that names no features of edges: exit code %d, %s", code, stderr)
	}
}

// refuseFlips: a bit that changed anywhere in the two files is told as damage, and so are weights that are not finite.
func refuseFlips(t *testing.T, dir, out string) {
	t.Helper()
	for _, name := range []string{"model.json", "model.safetensors"} {
		whole, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for k := range 12 {
			b := slices.Clone(whole)
			at := k * (len(b) - 1) / 11
			b[at] ^= 1 << (k % 7)
			if err := os.WriteFile(filepath.Join(out, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := clitest.Run(t, "eval", dir, "--checkpoint", out); code != cli.ExitCorrupt {
				t.Errorf("byte %d of %s changed from %q to %q: exit code %d, %s", at, name, whole[at], b[at], code, stderr)
			}
		}
		b := slices.Clone(whole)
		if name == "model.safetensors" {
			binary.LittleEndian.PutUint32(b[len(b)-4:], math.Float32bits(float32(math.NaN())))
			about, err := os.ReadFile(filepath.Join(out, "model.json"))
			if err != nil {
				t.Fatal(err)
			}
			about = []byte(strings.NewReplacer(`"tensors_sha256"`, `"none"`, `"description_sha256"`, `"none2"`).Replace(string(about)))
			if err := errors.Join(os.WriteFile(filepath.Join(out, name), b, 0o644), os.WriteFile(filepath.Join(out, "model.json"), about, 0o644)); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := clitest.Run(t, "predict", dir, "--checkpoint", out); code != cli.ExitFailed || !strings.Contains(stderr, "of tensor 1.bias is NaN") {
				t.Errorf("a weight that is NaN: exit code %d, %s", code, stderr)
			}
		}
		if err := os.WriteFile(filepath.Join(out, name), whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// refuseModels: an exported model that is not the store's, or not whole, is told by what of it.
func refuseModels(t *testing.T, dir, out string) {
	t.Helper()
	sums := regexp.MustCompile(`\n *"(tensors|description)_sha256": "[0-9a-f]+",`)
	for _, c := range []struct{ file, old, new, text string }{
		{"model.json", `"from"`, `"from"`, ""},
		{"model.json", `"classes": [`, `"classes": ["one more",`, "8 classes are named, the last layer has 7"},
		{"model.json", "2866", "2867", "tensor 0.weight is [2866 128], the description says [2867 128]"},
		{"model.json", `"task": "node"`, `"task": "link"`, `task "link", expected node`},
		{"model.json", `"undirected": true`, `"undirected": false`, "of a graph that is directed, the store's is undirected"},
		{"model.json", `"column": "x"`, `"column": "z"`, `column "z"`},
		{"model.json", `"column": "x"`, `"column": "x", "mean": [1]`, "feature x: the model's values are standardised otherwise"},
		{"model.json", `"kind": "sage"`, `"kind": "gcn"`, "parameter 0.weight is [2866 128], expected [1433 128]"},
		{"model.safetensors", `"F32"`, `"I32"`, "of I32, expected two dimensions of F32"},
		{"model.safetensors", "1.bias", "2.bias", "parameter 1.bias is missing"},
	} {
		broken := t.TempDir()
		for _, name := range []string{"model.json", "model.safetensors"} {
			b, err := os.ReadFile(filepath.Join(out, name))
			if err != nil {
				t.Fatal(err)
			}
			if name == c.file {
				if !strings.Contains(string(b), c.old) {
					t.Fatalf("%s has no %s", name, c.old)
				}
				b = []byte(strings.ReplaceAll(string(b), c.old, c.new))
			}
			if name == "model.json" { // as an earlier version wrote it
				b = sums.ReplaceAll(b, nil)
			}
			if err := os.WriteFile(filepath.Join(broken, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		code, _, stderr := clitest.Run(t, "eval", dir, "--checkpoint", broken)
		if c.text == "" {
			if code != cli.ExitOK || !strings.Contains(stderr, "carries no checksum") {
				t.Errorf("a model without checksums: exit code %d, %s", code, stderr)
			}
			continue
		}
		if code != cli.ExitFailed || !strings.Contains(stderr, c.text) {
			t.Errorf("%s for %s: exit code %d, %s, expected %q in it", c.new, c.old, code, stderr, c.text)
		}
	}
	if code, _, stderr := clitest.Run(t, "eval", dir, "--checkpoint", t.TempDir()); code != cli.ExitFailed || !strings.Contains(stderr, "gstore.save_model") {
		t.Errorf("an empty folder: exit code %d, %s", code, stderr)
	}
}
