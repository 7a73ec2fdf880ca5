package layering

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestOtherPlatforms type-checks all packages and their tests for platforms other than this one, as a build would. What
// they import is taken without the bodies of its functions, so that a platform takes seconds where a build takes minutes.
func TestOtherPlatforms(t *testing.T) {
	for _, p := range []struct{ goos, goarch string }{{"darwin", "arm64"}, {"linux", "arm64"}} {
		t.Run(p.goos+"/"+p.goarch, func(t *testing.T) {
			t.Parallel()
			list := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "../../...")
			list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.goos, "GOARCH="+p.goarch)
			list.Stderr = os.Stderr
			out, err := list.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := list.Start(); err != nil {
				t.Fatal(err)
			}
			c := checker{fset: token.NewFileSet(), sizes: types.SizesFor("gc", p.goarch), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
			d, own := json.NewDecoder(out), 0
			for {
				var l listed
				if err := d.Decode(&l); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if l.ImportPath == "unsafe" || strings.HasSuffix(l.ImportPath, ".test") {
					continue
				}
				if l.own() {
					own++
				}
				for _, err := range c.check(&l) {
					t.Error(err)
				}
			}
			if err := list.Wait(); err != nil {
				t.Fatal(err)
			}
			if own < 200 {
				t.Errorf("%d packages and tests, expected some 250", own)
			}
		})
	}
}

// listed is a package as go list prints it; those that a package imports come before it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		GoVersion string
		Main      bool
	}
}

func (l *listed) own() bool { return l.Module != nil && l.Module.Main }

// checker type-checks packages from their sources.
type checker struct {
	fset    *token.FileSet
	sizes   types.Sizes
	checked map[string]*types.Package
}

// check type-checks a package and returns the errors of one of this module.
func (c *checker) check(l *listed) (errs []error) {
	files := make([]*ast.File, len(l.GoFiles))
	parsed := make([]error, len(l.GoFiles))
	var wg sync.WaitGroup
	for i, name := range l.GoFiles {
		wg.Go(func() {
			files[i], parsed[i] = parser.ParseFile(c.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		})
	}
	wg.Wait()
	if err := errors.Join(parsed...); err != nil {
		return []error{err}
	}
	config := types.Config{Importer: imports{c, l.ImportMap}, Sizes: c.sizes, IgnoreFuncBodies: !l.own(), Error: func(err error) { errs = append(errs, err) }}
	if l.Module != nil && l.Module.GoVersion != "" {
		config.GoVersion = "go" + l.Module.GoVersion
	}
	path, _, _ := strings.Cut(l.ImportPath, " ")
	c.checked[l.ImportPath], _ = config.Check(path, c.fset, files, nil) // its error is the first of errs
	if !l.own() {
		return nil // without bodies an import may be unused
	}
	return errs
}

// imports resolves what one package imports.
type imports struct {
	c    *checker
	maps map[string]string
}

// Import implements types.Importer.
func (i imports) Import(path string) (*types.Package, error) {
	if to := i.maps[path]; to != "" {
		path = to
	}
	if p := i.c.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}

// TestCheckerFindsMistakes: a call of what another platform does not have is found.
func TestCheckerFindsMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nfunc f() int { return missing() }\n\nfunc g() string { return 1 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := checker{fset: token.NewFileSet(), checked: map[string]*types.Package{}}
	l := listed{ImportPath: "a", Dir: dir, GoFiles: []string{"a.go"}}
	if errs := c.check(&l); len(errs) > 0 {
		t.Errorf("a package of others: %v", errs)
	}
	l.Module = new(struct {
		GoVersion string
		Main      bool
	})
	l.Module.Main = true
	errs := c.check(&l)
	if len(errs) != 2 || !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), "undefined: missing") }) {
		t.Errorf("found %v", errs)
	}
}
