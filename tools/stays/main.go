// Command stays counts where each option of training is used: of every field of the configurations of the three tasks, the places
// and files of the product that name it. Fields are told from others of the same name by their types. Where options follow from one
// table an option has few.
//
//	go run ./tools/stays [-C DIR] [-all]
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// configs are the packages whose type Config is a task's configuration.
var configs = []string{"gpu/train/config", "gpu/link", "gpu/temporal"}

func main() {
	dir := flag.String("C", ".", "the repository's folder")
	all := flag.Bool("all", false, "a line for each field, not for the ten with most places alone")
	flag.Parse()
	if err := run(*dir, *all); err != nil {
		fmt.Fprintln(os.Stderr, "stays:", err)
		os.Exit(1)
	}
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
	Module                  *struct{ Path, Dir string }
}

// field is an option, and where it is used.
type field struct {
	name  string
	files map[string]int
}

func (f *field) places() (n int) {
	for _, k := range f.files {
		n += k
	}
	return n
}

func run(dir string, all bool) error {
	packages, err := list(dir)
	if err != nil {
		return err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	found := map[string]*field{} // by package, and name
	for _, p := range packages {
		if p.Module == nil || !strings.HasPrefix(p.Dir, p.Module.Dir) || p.Standard {
			continue
		}
		if err := count(fset, compiled, p, found); err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
	report(found, all)
	return nil
}

// list is what go list says of the product, with the compiled packages that its files import.
func list(dir string) (packages []listed, err error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Standard,Module", "./gpu/...", "./tools/cli/...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// count adds the uses of configurations' fields in a package's files.
func count(fset *token.FileSet, compiled types.Importer, p listed, found map[string]*field) error {
	if rel := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"); !strings.HasPrefix(rel, "gpu") && !strings.HasPrefix(rel, "tools/cli") {
		return nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: compiled, Error: func(error) {}} // cgo's files are not there
	own, _ := conf.Check(p.ImportPath, fset, files, info)
	for _, pkg := range append([]*types.Package{own}, own.Imports()...) {
		rel := strings.TrimPrefix(pkg.Path(), p.Module.Path+"/")
		if !slices.Contains(configs, rel) {
			continue
		}
		s, ok := pkg.Scope().Lookup("Config").Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for i := range s.NumFields() {
			f := s.Field(i)
			if !f.Exported() {
				continue
			}
			key := rel + "." + f.Name()
			if found[key] == nil {
				found[key] = &field{name: key, files: map[string]int{}}
			}
			for ident, object := range info.Uses {
				if object == f {
					found[key].files[fset.Position(ident.Pos()).Filename]++
				}
			}
		}
	}
	return nil
}

// report prints the fields, those with most places first, and the median and the most.
func report(found map[string]*field, all bool) {
	var fields []*field
	for _, f := range found {
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b *field) int {
		if d := b.places() - a.places(); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	var files, places []int
	for i, f := range fields {
		files, places = append(files, len(f.files)), append(places, f.places())
		if all || i < 10 {
			fmt.Printf("%-34s %3d files %4d places\n", f.name, len(f.files), f.places())
		}
	}
	slices.Sort(files)
	slices.Sort(places)
	n := len(fields)
	fmt.Printf("%-34s %3d files %4d places\n", fmt.Sprintf("median of %d fields", n), files[n/2], places[n/2])
	fmt.Printf("%-34s %3d files %4d places\n", "most", files[n-1], places[n-1])
}
