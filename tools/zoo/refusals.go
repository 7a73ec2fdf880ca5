package zoo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Site is a place in the source that refuses what a user asked for.
type Site struct {
	At     string // file:line, below the root
	Format string // of its message
}

// refusing are the functions that make a usage error, and the errors that a refusal wraps. Refusals of damaged input files
// (ingest.Inputf) are those of the formats' own tests.
var (
	refusing = []string{"Usagef"}
	wrapped  = []string{"ErrInvalid", "ErrOption", "ErrOptions", "ErrPlan", "ErrBudget", "ErrNotFound", "ErrNoNodes", "ErrExists", "ErrTooLarge"}
)

// Sites lists the refusals in the Go files below root, tests left out.
func Sites(root string) (sites []Site, err error) {
	files := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != root:
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !refuses(call) {
				return true
			}
			text, ok := call.Args[0].(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			format, err := strconv.Unquote(text.Value)
			if err != nil {
				return true
			}
			at := files.Position(call.Pos())
			name, err := filepath.Rel(root, at.Filename)
			if err != nil {
				name = at.Filename
			}
			sites = append(sites, Site{At: name + ":" + strconv.Itoa(at.Line), Format: format})
			return true
		})
		return nil
	})
	return sites, err
}

// refuses reports whether a call makes a usage error, or an error that wraps one of a refusal.
func refuses(call *ast.CallExpr) bool {
	name := nameOf(call.Fun)
	if slices.Contains(refusing, name) {
		return true
	}
	return name == "Errorf" && slices.ContainsFunc(call.Args[1:], func(a ast.Expr) bool { return slices.Contains(wrapped, nameOf(a)) })
}

// nameOf is the last name of an identifier, with its package or without.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

var verb = regexp.MustCompile(`%[-+# 0]*[0-9*]*(?:\.[0-9*]+)?[a-zA-Z]`)

// Met reports whether one of the messages is of the site.
func (s Site) Met(messages map[string]bool) bool {
	var parts []string
	for _, p := range verb.Split(strings.ReplaceAll(s.Format, "%%", "%"), -1) {
		parts = append(parts, regexp.QuoteMeta(p))
	}
	of := regexp.MustCompile("(?s)" + strings.Join(parts, ".*"))
	for m := range messages {
		if of.MatchString(m) {
			return true
		}
	}
	return false
}
