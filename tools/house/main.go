// Command house counts what a reader of the repository meets: a package's files and exported names, its longest function,
// the words of each page. -C compares another checkout, such as a worktree of an older commit.
//
//	go run ./tools/house [-C DIR] [-min FILES]
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// room is what one package shows. Tests are not counted.
type room struct {
	files, exported int // Go files; exported top-level names, methods apart
	lines           int // of the longest function
	longest         string
}

func main() {
	dir := flag.String("C", ".", "the repository's folder")
	least := flag.Int("min", 8, "leave out packages of fewer files and fewer exported names")
	flag.Parse()
	if err := run(*dir, *least); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(dir string, least int) error {
	rooms, words := map[string]*room{}, map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(rel, ".md"):
			b, err := os.ReadFile(path)
			words[rel] = len(strings.Fields(string(b)))
			return err
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			name := filepath.Dir(rel)
			if rooms[name] == nil {
				rooms[name] = &room{}
			}
			return rooms[name].add(path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var files, exported int
	fmt.Println("package                    files  exported  longest function")
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		r := rooms[name]
		files, exported = files+r.files, exported+r.exported
		if r.files >= least || r.exported >= least {
			fmt.Printf("%-26s %5d  %8d  %s, %d lines\n", name, r.files, r.exported, r.longest, r.lines)
		}
	}
	fmt.Printf("%-26s %5d  %8d\n", fmt.Sprintf("all %d", len(rooms)), files, exported)
	fmt.Println("\npage                       words")
	for _, name := range slices.Sorted(maps.Keys(words)) {
		fmt.Printf("%-26s %5d\n", name, words[name])
	}
	return nil
}

// add counts a file. One file of several for as many systems counts like the others; a name that they share counts once
// a file.
func (r *room) add(path string) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.files++
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				r.exported++
			}
			if n := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1; n > r.lines {
				r.lines, r.longest = n, d.Name.Name
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				r.exported += exportedNames(s)
			}
		}
	}
	return nil
}

func exportedNames(s ast.Spec) (n int) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			n++
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				n++
			}
		}
	}
	return n
}
