// Command stays counts where an option of training is named between the command line and what it changes: the files, and the
// places in them, that name its field, flag or key. Where options follow from one structure an option has few.
//
//	go run ./tools/stays [-C DIR] [FIELD ...]
//
// Without fields it takes those of train.Config and link.Config whose names no other struct of the folders has.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// distinct are fields whose names mean nothing else where they are counted.
var distinct = []string{"InputDropout", "WeightDecay", "HistoryDtype", "PrecomputedHop", "BatchSize", "EvalEvery", "CheckpointEvery", "KeepCheckpoints", "DegreeShare", "LRDecay", "RemoveBatchEdges", "Negatives"}

func main() {
	dir := flag.String("C", ".", "the repository's folder")
	flag.Parse()
	fields := flag.Args()
	if len(fields) == 0 {
		fields = distinct
	}
	if err := run(*dir, fields); err != nil {
		fmt.Fprintln(os.Stderr, "stays:", err)
		os.Exit(1)
	}
}

func run(dir string, fields []string) error {
	places := map[string]map[string]int{} // field, file
	for _, f := range fields {
		places[f] = map[string]int{}
	}
	for _, top := range []string{"gpu", "tools/cli"} {
		err := filepath.WalkDir(filepath.Join(dir, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				count(file, path, fields, places)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	var files, all []int
	for _, f := range fields {
		n := 0
		for _, k := range places[f] {
			n += k
		}
		files, all = append(files, len(places[f])), append(all, n)
		fmt.Printf("%-18s %3d files %4d places\n", f, len(places[f]), n)
	}
	slices.Sort(files)
	slices.Sort(all)
	fmt.Printf("%-18s %3d files %4d places\n", "median", files[len(files)/2], all[len(all)/2])
	return nil
}

// count adds the places of a file that name a field, its flag or its key.
func count(file *ast.File, path string, fields []string, places map[string]map[string]int) {
	ast.Inspect(file, func(n ast.Node) bool {
		name := ""
		switch n := n.(type) {
		case *ast.Ident:
			name = n.Name
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				name = text
			}
		case *ast.Field: // its tag says what it is
			for _, ident := range n.Names {
				if slices.Contains(fields, ident.Name) {
					places[ident.Name][path]++
				}
			}
			return false
		}
		for _, f := range fields {
			if name == f || name == words(f, "-") || name == words(f, "_") {
				places[f][path]++
			}
		}
		return true
	})
}

// words writes HistoryDtype as history-dtype.
func words(field, between string) string {
	var b strings.Builder
	for i, r := range field {
		if i > 0 && r >= 'A' && r <= 'Z' && !(field[i-1] >= 'A' && field[i-1] <= 'Z' && (i+1 == len(field) || field[i+1] < 'a')) {
			b.WriteString(between)
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
