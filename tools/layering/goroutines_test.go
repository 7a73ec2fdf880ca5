package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// ownGoroutines are the files whose goroutines are started without package panics, and why their panics may end the process,
// or do not.
var ownGoroutines = map[string]string{
	"blocks/panics/panics.go":             "the package itself",
	"blocks/blockio/pread.go":             "a worker's transfers are called by panics.Call, so that each becomes its request's error",
	"blocks/blockio/uring_linux.go":       "the ring's owner: memory that the kernel writes to must not be given back under it",
	"blocks/blockio/uringops_linux.go":    "holds memory, and nothing else",
	"store/internal/meta/meta.go":         "a call of Pebble's, whose panic is its error",
	"store/ingest/formats/stdin.go":       "calls panics.Call, and is left behind by a reader that ends early",
	"gpu/eval/ahead.go":                   "calls panics.Call",
	"tools/python/native/ops.go":          "calls panics.Call",
	"blocks/blockio/blockiotest/suite.go": "tests'",
	"blocks/blockio/blockiotest/close.go": "tests'",
}

// TestGoroutinesOfCalls: whoever works for a call does so by package panics, since a panic in any other goroutine ends the
// process that gstore is embedded in. So of the packages that other languages reach none has a go statement, a
// sync.WaitGroup or an errgroup, but for the files above.
func TestGoroutinesOfCalls(t *testing.T) {
	const root = "../.."
	seen := map[string]bool{}
	for _, folder := range []string{"blocks", "cache", "partitioner", "store", "sampler", "gpu", "tools/python", "tools/recipe"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, what := range goroutines(t, path) {
				if name = filepath.ToSlash(name); ownGoroutines[name] == "" {
					t.Errorf("%s: %s: start it by package panics, so that its panic is an error of the call it works for", name, what)
				}
				seen[name] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range ownGoroutines {
		if !seen[name] {
			t.Errorf("%s starts no goroutine of its own any more: take it off the list", name)
		}
	}
}

// goroutines says how a file starts goroutines other than by package panics.
func goroutines(t *testing.T, path string) (found []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, set.Position(n.Pos()).String()+": a go statement")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && (x.Name == "sync" && n.Sel.Name == "WaitGroup" || x.Name == "errgroup") {
				found = append(found, set.Position(n.Pos()).String()+": "+x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}
