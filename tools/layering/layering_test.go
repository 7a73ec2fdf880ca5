package layering

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gstore/gstore/"

// layers maps a top-level folder to its height. Folders of one height do not
// import each other. testdata lies below all.
var layers = map[string]int{
	"testdata": 0, "blocks": 1, "partitioner": 2, "cache": 2, "store": 3, "sampler": 4, "gpu": 5, "tools": 6,
}

// inner holds, for each top folder, the packages in it that are told apart, from the lowest height to the
// highest. A package is what its longest prefix here is; those of one prefix import each other as they
// like, others only what lies lower.
var inner = map[string][][]string{
	"blocks":      {{"blocks/panics"}, {"blocks", "blocks/blockio"}, {"blocks/npy", "blocks/blockio/blockiotest"}},
	"partitioner": {{"partitioner/graph"}, {"partitioner/coarse", "partitioner/graphtest"}, {"partitioner"}},
	"store": {
		{"store/internal"},
		{"store"},
		{"store/budget"},
		{"store/table", "store/ingest", "store/stats", "store/storegraph", "store/remote"},
		{"store/adjacency", "store/buffer", "store/ingest/formats", "store/export", "store/verify", "store/storetest"},
		{"store/buffer/metrics", "store/rows", "store/ingest/ingesttest"},
	},
	"sampler": {{"sampler/keyed"}, {"sampler/macro", "sampler/mini"}, {"sampler/negative", "sampler/walk", "sampler/asof"}},
	"gpu": {
		{"gpu"},
		{"gpu/nn", "gpu/replay", "gpu/spill", "gpu/progress", "gpu/modelfile", "gpu/gputest", "gpu/rowcache", "gpu/sampling"},
		{"gpu/vectors", "gpu/run", "gpu/options"},
		{"gpu/eval"},
		{"gpu/precompute"},
		{"gpu/train/sparse"},
		{"gpu/train/config"},
		{"gpu/train/feed"},
		{"gpu/train/bound"},
		{"gpu/train/history"},
		{"gpu/train/planning"},
		{"gpu/train/loader"},
		{"gpu/train/ondevice"},
		{"gpu/train", "gpu/link", "gpu/temporal", "gpu/targets", "gpu/host", "gpu/cuda"},
		{"gpu/infer"},
		{"gpu/explain"},
	},
	"tools": {{"tools/generate", "tools/device", "tools/cgroup", "tools/webpage"}, {"tools/recipe"}, {"tools/accuracy", "tools/bench", "tools/python"}, {"tools/cli", "tools/killtest"}, {"tools/budgetcheck/child"}, {"tools/budgetcheck", "tools/budgetsweep", "tools/zoo"}, {"tools/gstore", "tools/gstore-lab"}, {"tools/remotebench/served"}, {"tools/remotebench", "tools/scalesim", "tools/mutate"}},
}

// onlyFor names, of packages that are not for everybody above them, who may import them outside tests.
var onlyFor = map[string][]string{
	"gpu/host": {"gpu/host", "tools"}, // a front end is handed a gpu.Device
	// Who reads an input asks formats.Open.
	"store/ingest/formats/files":   {"store/ingest/formats"},
	"store/ingest/formats/layouts": {"store/ingest/formats"},
	"store/ingest/formats/numpy":   {"store/ingest/formats"},
	"store/ingest/formats/parquet": {"store/ingest/formats"},
	"store/ingest/formats/parts":   {"store/ingest/formats"},
	"store/ingest/formats/table":   {"store/ingest/formats"},
	"store/ingest/formats/tables":  {"store/ingest/formats"},
	"store/ingest/formats/text":    {"store/ingest/formats"},
}

// testOnly are packages that only tests may import.
var testOnly = map[string]bool{"testing": true, "go.uber.org/goleak": true, "pgregory.net/rapid": true, "github.com/cockroachdb/datadriven": true}

func TestLayering(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Error", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	checked := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; checked++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			for _, problem := range violations(from, imp) {
				t.Errorf("%s imports %s: %s", from, imp, problem)
			}
		}
	}
	if checked < 5 {
		t.Fatalf("go list named only %d packages of %s", checked, module)
	}
}

// violations says what is wrong with package from (relative to the module)
// importing imp (an import path).
func violations(from, imp string) (problems []string) {
	// Conformance suites (blockiotest, gputest, …) are test code that other tests import.
	if testOnly[imp] && !strings.HasSuffix(from, "test") {
		problems = append(problems, "only tests may")
	}
	to, ours := strings.CutPrefix(imp, module)
	if !ours {
		return problems
	}
	a, b := top(from), top(to)
	la, oka := layers[a]
	lb, okb := layers[b]
	switch {
	case !oka:
		problems = append(problems, "folder "+a+" has no layer")
	case !okb:
		problems = append(problems, "folder "+b+" has no layer")
	case a != b && lb >= la:
		problems = append(problems, b+" does not lie below "+a)
	}
	if strings.HasSuffix(to, "test") && a != b {
		problems = append(problems, "only tests may")
	}
	if a == b {
		problems = append(problems, inside(a, from, to)...)
	}
	for pkg, who := range onlyFor {
		if within(to, pkg) && !slices.ContainsFunc(who, func(w string) bool { return within(from, w) }) {
			problems = append(problems, "only "+strings.Join(who, ", ")+" and tests may")
		}
	}
	return problems
}

// inside says what is wrong with an import within a top folder.
func inside(folder, from, to string) (problems []string) {
	x, hx := innerLayer(folder, from)
	y, hy := innerLayer(folder, to)
	switch {
	case x == "" || y == "":
		problems = append(problems, "one of them is not in the table inner")
	case x != y && hy >= hx:
		problems = append(problems, y+" does not lie below "+x+" in the table inner")
	}
	return problems
}

// innerLayer returns the longest prefix of a package in a folder's table and its height; "" = none.
func innerLayer(folder, pkg string) (prefix string, height int) {
	for h, names := range inner[folder] {
		for _, n := range names {
			if within(pkg, n) && len(n) > len(prefix) {
				prefix, height = n, h
			}
		}
	}
	return prefix, height
}

// within reports whether pkg is root or lies under it.
func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

func top(path string) string {
	folder, _, _ := strings.Cut(path, "/")
	return folder
}

func TestViolationsAreFound(t *testing.T) {
	for _, c := range []struct {
		from, imp string
		bad       bool
	}{
		{"blocks", module + "store", true},
		{"cache", module + "partitioner", true},
		{"partitioner", module + "cache", true},
		{"store", module + "sampler/macro", true},
		{"store", module + "blocks/blockio", false},
		{"store/ingest", module + "store", false},
		{"tools/cli", module + "gpu/nn", false},
		{"gpu/train", module + "tools/cli", true},
		{"gpu/eval", module + "gpu/train", true},
		{"gpu/train", module + "gpu/host", true},
		{"gpu/link", module + "gpu/eval", false},
		{"store", "testing", true},
		{"blocks/blockio/blockiotest", "testing", false},
		{"tools/cli", module + "gpu/gputest", true},
		{"extra", module + "blocks", true},
		{"store", module + "store/buffer", true},
		{"store/internal/meta", module + "store", true},
		{"store/table", module + "store/buffer", true},
		{"store/table", module + "store/internal/meta", false},
		{"store/buffer/metrics", module + "store/buffer", false},
		{"store/ingest", module + "store/ingest/formats", true},
		{"store/ingest/formats", module + "store/ingest", false},
		{"store/stats", module + "store/ingest", true},
		{"gpu", module + "gpu/nn", true},
		{"gpu/train/link", module + "gpu/train", false},
		{"gpu/nn", module + "gpu/host", true},
		{"gpu/nn", module + "gpu/host/kernels", true},
		{"tools/cli", module + "gpu/host/kernels", false},
		{"sampler/macro", module + "sampler/mini", true},
		{"tools/bench", module + "tools/cli", true},
		{"tools/unheard", module + "tools/cli", true},
	} {
		if got := len(violations(c.from, c.imp)) > 0; got != c.bad {
			t.Errorf("%s imports %s: violation %v, want %v", c.from, c.imp, got, c.bad)
		}
	}
}
