// Package layering holds the rule that lower layers never import upper ones:
//
//	blocks < partitioner, cache < store < sampler < gpu < tools
//
// and that code outside tests imports no test helpers. Its other tests check the pages.
package layering

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/gstore/gstore/"

// layers maps a top-level folder to its height. Folders of one height do not
// import each other. testdata lies below all.
var layers = map[string]int{
	"testdata": 0, "blocks": 1, "partitioner": 2, "cache": 2, "store": 3, "sampler": 4, "gpu": 5, "tools": 6,
}

// rooms are the heights of packages inside gpu; those that are not named may be imported by all of them. A device is
// handed in: nothing in gpu imports one.
var rooms = map[string]int{
	"gpu": 1, "gpu/nn": 2, "gpu/spill": 2, "gpu/progress": 2, "gpu/eval": 3, "gpu/precompute": 4, "gpu/train": 5, "gpu/link": 5, "gpu/host": 5, "gpu/cuda": 5,
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
	if ra, rb := rooms[from], rooms[to]; ra > 0 && rb >= ra {
		problems = append(problems, to+" does not lie below "+from)
	}
	if strings.HasSuffix(to, "test") && a != b {
		problems = append(problems, "only tests may")
	}
	return problems
}

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
	} {
		if got := len(violations(c.from, c.imp)) > 0; got != c.bad {
			t.Errorf("%s imports %s: violation %v, want %v", c.from, c.imp, got, c.bad)
		}
	}
}
