package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

// room is what one package shows.
type room struct {
	files, order []string // their names; as the arrows order them, the most used first
	lines, wide  int      // of all files; those of more than columnsMax
	exported     int      // top-level names, methods apart
	functions    []function
	uses         map[arrow]map[string]bool // the names of an arrow
	arrows, up   int                       // distinct ones; those against order
	knot         int                       // files of the largest circle, 0 without one
}

// function is a function or method with a body or without.
type function struct {
	file, name                   string
	lines, complexity, arguments int
}

func (f function) long() bool        { return f.lines > linesMax }
func (f function) complicated() bool { return f.complexity > complexityMax }
func (f function) crowded() bool     { return f.arguments > argumentsMax }

// count returns the number of functions of which is true.
func (r *room) count(is func(function) bool) (n int) {
	for _, f := range r.functions {
		if is(f) {
			n++
		}
	}
	return n
}

// most returns the function with the highest of a figure, the zero function where there is none.
func (r *room) most(of func(function) int) function {
	if len(r.functions) == 0 {
		return function{}
	}
	return slices.MaxFunc(r.functions, func(a, b function) int { return of(a) - of(b) })
}

// add adds the figures of a package to those of all.
func (r *room) add(o *room) {
	r.files, r.functions = append(r.files, o.files...), append(r.functions, o.functions...)
	r.lines, r.wide, r.exported = r.lines+o.lines, r.wide+o.wide, r.exported+o.exported
	r.arrows, r.up, r.knot = r.arrows+o.arrows, r.up+o.up, max(r.knot, o.knot)
}

// file adds a file to a room. One of several files for as many systems counts like the others, and so do its names.
func (r *room) file(set *token.FileSet, name string, f *ast.File, text string) {
	r.files = append(r.files, name)
	for line := range strings.Lines(text) {
		r.lines++
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > columnsMax {
			r.wide++
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				r.exported++
			}
			r.functions = append(r.functions, function{
				file: name, name: d.Name.Name, complexity: complexity(d), arguments: d.Type.Params.NumFields(),
				lines: set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1,
			})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				r.exported += exportedNames(s)
			}
		}
	}
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

// complexity is McCabe's: the number of independent ways through a function.
func complexity(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
