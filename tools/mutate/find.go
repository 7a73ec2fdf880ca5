package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is one changed decision. All mutants of a file are compiled together: each expression becomes one that asks
// a switch which of its forms to be.
type mutant struct {
	Number     int    // the switch that turns it on, from 1
	File       string // as the go command names it
	Line       int
	Func       string // the enclosing function
	What       string // the kind of change
	From, To   string // source text
	start, end int    // bytes of the file that are replaced
	// text makes what replaces them; part returns the file's bytes [lo, hi) with the mutants inside.
	text func(part func(lo, hi int) string) string
}

// key names a mutant whatever lines the file gets or loses above it.
func (m *mutant) key() string { return fmt.Sprintf("%s\t%s\t%s → %s", m.File, m.Func, m.From, m.To) }

// operators are the changes of an operator: a boundary that moves by one, an equality or a connective that turns.
var operators = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// finder walks a file.
type finder struct {
	name string
	src  []byte
	fset *token.FileSet
	fn   string
	out  []*mutant
}

// find returns the mutants of a file: of comparisons, connectives, conditions, constants that are added, and errors that
// are returned. Those of one expression stand in the order in which they enclose each other.
func find(name string, src []byte) ([]*mutant, error) {
	f := &finder{name: name, src: src, fset: token.NewFileSet()}
	file, err := parser.ParseFile(f.fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.fn = fn.Name.Name
			if fn.Recv != nil {
				f.fn = strings.TrimLeft(f.of(fn.Recv.List[0].Type), "*") + "." + f.fn
			}
			ast.Inspect(fn.Body, f.visit)
		}
	}
	slices.SortStableFunc(f.out, func(a, b *mutant) int { return cmp.Or(a.start-b.start, b.end-a.end) }) // the outer one first
	return f.out, nil
}

func (f *finder) at(p token.Pos) int   { return f.fset.Position(p).Offset }
func (f *finder) of(n ast.Node) string { return string(f.src[f.at(n.Pos()):f.at(n.End())]) }
func errNotNil(e ast.Expr) (ok bool) {
	b, is := e.(*ast.BinaryExpr)
	if !is || b.Op != token.NEQ {
		return false
	}
	x, isX := b.X.(*ast.Ident)
	y, isY := b.Y.(*ast.Ident)
	return isX && isY && y.Name == "nil" && strings.HasPrefix(strings.ToLower(x.Name), "err")
}

func (f *finder) add(n ast.Node, what, to string, text func(number int, part func(lo, hi int) string) string) {
	m := &mutant{File: f.name, Line: f.fset.Position(n.Pos()).Line, Func: f.fn, What: what,
		From: strings.Join(strings.Fields(f.of(n)), " "), To: strings.Join(strings.Fields(to), " "), start: f.at(n.Pos()), end: f.at(n.End())}
	m.text = func(part func(lo, hi int) string) string { return text(m.Number, part) }
	f.out = append(f.out, m)
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST // constants are no decisions
	case *ast.IfStmt:
		f.condition(n)
	case *ast.BinaryExpr:
		if errNotNil(n) {
			return true
		}
		if to, ok := operators[n.Op]; ok {
			f.operator(n, to)
		}
		if y, ok := n.Y.(*ast.BasicLit); ok && y.Kind == token.INT && (n.Op == token.ADD || n.Op == token.SUB) {
			f.constant(n)
		}
	}
	return true
}

// condition leaves out the return of an error, or turns a condition that no operator of its own decides.
func (f *finder) condition(n *ast.IfStmt) {
	lo, hi := f.at(n.Cond.Pos()), f.at(n.Cond.End())
	if errNotNil(n.Cond) {
		f.add(n.Cond, "error ignored", "false", func(number int, part func(lo, hi int) string) string {
			return fmt.Sprintf("(!%s(%d) && (%s))", switchName, number, part(lo, hi))
		})
		return
	}
	if b, ok := n.Cond.(*ast.BinaryExpr); ok {
		if _, ok := operators[b.Op]; ok {
			return
		}
	}
	f.add(n.Cond, "condition turned", "!("+f.of(n.Cond)+")", func(number int, part func(lo, hi int) string) string {
		return fmt.Sprintf("(%s(%d) != bool(%s))", switchName, number, part(lo, hi))
	})
}

// operator replaces an operator. A function literal keeps && and || from computing what they need not.
func (f *finder) operator(n *ast.BinaryExpr, to token.Token) {
	x, xEnd, op, y, yEnd := f.at(n.X.Pos()), f.at(n.X.End()), f.at(n.OpPos), f.at(n.Y.Pos()), f.at(n.Y.End())
	after := op + len(n.Op.String())
	f.add(n, "operator", f.of(n.X)+" "+to.String()+" "+f.of(n.Y), func(number int, part func(lo, hi int) string) string {
		form := func(o token.Token) string {
			return part(x, xEnd) + string(f.src[xEnd:op]) + o.String() + string(f.src[after:y]) + part(y, yEnd)
		}
		return fmt.Sprintf("func() bool { if %s(%d) { return %s }; return %s }()", switchName, number, form(to), form(n.Op))
	})
}

// constant makes what is added or taken away larger by one.
func (f *finder) constant(n *ast.BinaryExpr) {
	x, xEnd := f.at(n.X.Pos()), f.at(n.X.End())
	y := f.of(n.Y)
	f.add(n, "constant", fmt.Sprintf("%s %s (%s + 1)", f.of(n.X), n.Op, y), func(number int, part func(lo, hi int) string) string {
		name := map[token.Token]string{token.ADD: switchName + "Add", token.SUB: switchName + "Sub"}[n.Op]
		return fmt.Sprintf("%s(%d, %s, %s)", name, number, part(x, xEnd), y)
	})
}

// render returns a file with all its mutants, switched off until they are asked for.
func render(src []byte, mutants []*mutant) string {
	var part func(lo, hi, k int) string
	part = func(lo, hi, k int) string {
		var b strings.Builder
		for ; k < len(mutants) && mutants[k].start < hi; k++ {
			m := mutants[k]
			if m.start < lo || m.end > hi {
				continue
			}
			b.Write(src[lo:m.start])
			b.WriteString(m.text(func(l, h int) string { return part(l, h, k+1) }))
			lo = m.end
		}
		b.Write(src[lo:hi])
		return b.String()
	}
	return part(0, len(src), 0)
}

// switchName is the function that says whether a mutant is on. "Add" and "Sub" after it are sums of which the mutant's is
// one further.
const switchName = "mutantOn"

// switchEnv is the environment's variable that names the mutant that is on, reachEnv the one that names a file for the numbers of
// the mutants that a run comes by.
const (
	switchEnv = "GSTORE_MUTANT"
	reachEnv  = "GSTORE_MUTANTS_REACHED"
)

// switchFile is added to a package that is mutated.
const switchFile = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var mutantNumber, _ = strconv.Atoi(os.Getenv("` + switchEnv + `"))

var mutantsFile, mutantsSeen = os.Getenv("` + reachEnv + `"), sync.Map{}

func mutantOn(n int) bool {
	if mutantsFile != "" {
		if _, seen := mutantsSeen.LoadOrStore(n, true); !seen {
			if f, err := os.OpenFile(mutantsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				_, _ = f.WriteString(strconv.Itoa(n) + "\n")
				_ = f.Close()
			}
		}
	}
	return n == mutantNumber
}

type mutantSum interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantOnAdd[T mutantSum](n int, x, y T) T {
	if mutantOn(n) {
		return x + y + 1
	}
	return x + y
}

func mutantOnSub[T mutantSum](n int, x, y T) T {
	if mutantOn(n) {
		return x - y - 1
	}
	return x - y
}
`
