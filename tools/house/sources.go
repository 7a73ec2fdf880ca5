package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
)

// sources reads a checkout's packages. It resolves names as the compiler does, but without what lies outside the
// module: of that each package is empty, and what it would have said of a name's type stays unknown.
type sources struct {
	dir, module string
	set         *token.FileSet
	packages    map[string]*parsed // by folder
}

// parsed is a package's files without tests and generated files, and what their names mean.
type parsed struct {
	names []string
	files []*ast.File
	texts []string
	typed *types.Package
	info  types.Info
}

func newSources(dir string) (*sources, error) {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if module, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return &sources{dir: dir, module: module, set: token.NewFileSet(), packages: map[string]*parsed{}}, nil
		}
	}
	return nil, fmt.Errorf("%s names no module", f.Name())
}

// room measures a package by its folder.
func (s *sources) room(folder string) (*room, error) {
	p, err := s.load(folder)
	if err != nil {
		return nil, err
	}
	r := &room{uses: s.arrows(p)}
	for i, f := range p.files {
		r.file(s.set, p.names[i], f, p.texts[i])
	}
	r.arrows = len(r.uses)
	g := newGraph(p.names, r.uses)
	r.knot = g.knot()
	order := g.order()
	r.up = g.against(order)
	for _, v := range order {
		r.order = append(r.order, p.names[v])
	}
	return r, nil
}

// load parses a package and resolves its names. Where a folder has several packages it is that of its first file: the
// others are programs that its tests or generators run.
func (s *sources) load(folder string) (*parsed, error) {
	if p := s.packages[folder]; p != nil {
		return p, nil
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, filepath.FromSlash(folder)))
	if err != nil {
		return nil, err
	}
	p := &parsed{info: types.Info{Uses: map[*ast.Ident]types.Object{}}}
	s.packages[folder] = p
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(folder), e.Name()))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(s.set, e.Name(), text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if !ast.IsGenerated(f) && (len(p.files) == 0 || f.Name.Name == p.files[0].Name.Name) {
			p.names, p.files, p.texts = append(p.names, e.Name()), append(p.files, f), append(p.texts, string(text))
		}
	}
	conf := types.Config{Importer: s, FakeImportC: true, Error: func(error) {}}
	p.typed, _ = conf.Check(s.module+"/"+folder, s.set, p.files, &p.info) // what lies outside the module is unknown to it
	return p, nil
}

// Import implements types.Importer.
func (s *sources) Import(path string) (*types.Package, error) {
	if folder, ours := strings.CutPrefix(path, s.module+"/"); ours {
		p, err := s.load(folder)
		if err != nil {
			return nil, err
		}
		return p.typed, nil
	}
	p := types.NewPackage(path, strings.TrimPrefix(path[strings.LastIndexByte(path, '/')+1:], "go-"))
	p.MarkComplete()
	return p, nil
}

// arrows returns the arrows between a package's files and the names of each.
func (s *sources) arrows(p *parsed) map[arrow]map[string]bool {
	uses := map[arrow]map[string]bool{}
	for id, o := range p.info.Uses {
		if o.Pkg() != p.typed || !o.Pos().IsValid() || !shared(o, p.typed) {
			continue
		}
		a := arrow{s.set.Position(id.Pos()).Filename, s.set.Position(o.Pos()).Filename}
		if a.from == a.to {
			continue
		}
		if uses[a] == nil {
			uses[a] = map[string]bool{}
		}
		uses[a][o.Name()] = true
	}
	return uses
}

// shared reports whether other files can use a name: it is the package's, a method or a field.
func shared(o types.Object, p *types.Package) bool {
	switch o := o.(type) {
	case *types.Var:
		return o.IsField() || o.Parent() == p.Scope()
	case *types.Func:
		return true
	}
	return o.Parent() == p.Scope()
}
