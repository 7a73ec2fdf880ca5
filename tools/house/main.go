// Command house counts what a reader of the repository meets. Of each package: its files and lines, its exported names,
// its longest function, its highest cyclomatic complexity, its functions of more than six arguments, its lines of more
// than 120 columns, the arrows between its files and how many of them run against their order. Of each page: its words.
// Neither tests nor generated files are counted. -C counts another checkout, such as a worktree of an older commit, so
// that before and after are one command each.
//
//	go run ./tools/house [-C DIR] [-min FILES] [-of PACKAGE]
//
// # Measures
//
// The cyclomatic complexity of a function is 1, and 1 more for each if, for, case, && and || in it, its closures
// included. A receiver is no argument. A tab is one column.
//
// An arrow leads from a file to another file of the package whose name it uses: a function, a type, a constant, a
// variable, a method or a field. However many names it uses, it is one arrow. A package reads well when its files have
// an order in which each uses only files before itself. "up" counts the arrows that run against the best order that is
// found, by the greedy heuristic of Eades, Lin and Smyth and then by moving single files for as long as that helps.
// Without circles it is 0, and no package exceeds a half. Because a few arrows can close a circle through many files,
// "knot" is the number of files in the largest circle: files that all reach one another.
//
// -of prints one package's files in that order, the arrows against it with the names that they use, and the functions
// that exceed the house's limits.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of the house: of a function's lines, complexity and arguments, and of a line's columns.
const (
	linesMax      = 80
	complexityMax = 25
	argumentsMax  = 6
	columnsMax    = 120
)

func main() {
	dir := flag.String("C", ".", "the repository's folder")
	least := flag.Int("min", 8, "leave out packages of fewer files and fewer exported names")
	of := flag.String("of", "", "print only this package, such as gpu/train, in detail")
	flag.Parse()
	if err := run(os.Stdout, *dir, *of, *least); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir, of string, least int) error {
	s, err := newSources(dir)
	if err != nil {
		return err
	}
	if of != "" {
		return s.detail(w, filepath.ToSlash(filepath.Clean(of)))
	}
	folders, words := map[string]bool{}, map[string]int{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(rel, ".md"):
			b, err := os.ReadFile(path)
			words[rel] = len(strings.Fields(string(b)))
			return err
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			folders[filepath.ToSlash(filepath.Dir(rel))] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.table(w, slices.Sorted(maps.Keys(folders)), least); err != nil {
		return err
	}
	fmt.Fprintln(w, "\npage                       words")
	for _, name := range slices.Sorted(maps.Keys(words)) {
		fmt.Fprintf(w, "%-26s %5d\n", name, words[name])
	}
	return nil
}

// table prints a line for each package, and one for all of them.
func (s *sources) table(w io.Writer, folders []string, least int) error {
	fmt.Fprintf(w, "%-26s %5s %6s %8s %4s %5s  %6s %4s %3s %4s  %s\n",
		"package", "files", "lines", "exported", "args", "wide", "arrows", "up", "%", "knot",
		"longest, most complex function")
	var all room
	for _, name := range folders {
		r, err := s.room(name)
		if err != nil {
			return err
		}
		all.add(r)
		if len(r.files) >= least || r.exported >= least {
			r.print(w, name)
		}
	}
	all.print(w, fmt.Sprintf("all %d", len(folders)))
	fmt.Fprintf(w, "functions of more than %d lines: %d; of a complexity above %d: %d; of more than %d arguments: %d\n",
		linesMax, all.count(function.long), complexityMax, all.count(function.complicated),
		argumentsMax, all.count(function.crowded))
	return nil
}

// print prints a package's line.
func (r *room) print(w io.Writer, name string) {
	longest, complex := r.most(func(f function) int { return f.lines }),
		r.most(func(f function) int { return f.complexity })
	fmt.Fprintf(w, "%-26s %5d %6d %8d %4d %5d  %6d %4d %3.0f %4d  %s %d, %s %d\n", name, len(r.files), r.lines, r.exported,
		r.count(function.crowded), r.wide, r.arrows, r.up, 100*float64(r.up)/max(1, float64(r.arrows)), r.knot,
		longest.name, longest.lines, complex.name, complex.complexity)
}

// detail prints one package: its files in their order, arrows against it, and what exceeds the limits.
func (s *sources) detail(w io.Writer, name string) error {
	r, err := s.room(name)
	if err != nil {
		return err
	}
	r.print(w, name)
	fmt.Fprintln(w, "\nfiles, each using those before it:")
	place := map[string]int{}
	for i, f := range r.order {
		place[f] = i
		fmt.Fprintln(w, " ", f)
	}
	fmt.Fprintln(w, "\narrows against that order:")
	for _, a := range slices.SortedFunc(maps.Keys(r.uses), compareArrows) {
		if place[a.from] < place[a.to] {
			fmt.Fprintf(w, "  %s -> %s: %s\n", a.from, a.to, strings.Join(slices.Sorted(maps.Keys(r.uses[a])), ", "))
		}
	}
	fmt.Fprintln(w, "\nfunctions beyond the limits:")
	for _, f := range r.functions {
		if f.long() || f.complicated() || f.crowded() {
			fmt.Fprintf(w, "  %s: %s, %d lines, complexity %d, %d arguments\n", f.file, f.name, f.lines, f.complexity,
				f.arguments)
		}
	}
	return nil
}
