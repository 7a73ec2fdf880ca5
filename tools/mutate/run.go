package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options says what is mutated and tested.
type options struct {
	Dir      string // of the module, "": the current one
	Packages []string
	By       []string       // packages whose tests are run for those that survive their own
	NotOwn   bool           // run those alone
	Zoo      int            // cases of the zoo that are run for those that survive all tests
	Only     *regexp.Regexp // of mutants' keys, as survivors are printed; nil: all
	Count    int            // mutants that are sampled, of all packages together; 0: all
	Seed     uint64
	Slow     time.Duration // tests that take more processor time alone are left out; 0: none
	MemoryKB int64         // of address space that a test may take; 0: no bound
	// Reasons are why mutants cannot be told from the original, by their key.
	Reasons map[string]string
	Log     io.Writer
}

// outcome is what became of a mutant.
type outcome struct {
	*mutant
	Killed bool
	Reason string // why one that survived cannot be told from the original
}

// pkg is what the go command says of a package.
type pkg struct {
	ImportPath, Dir, Name string
	GoFiles               []string

	TestGoFiles, XTestGoFiles []string
}

// list are packages with tests.
func (o *options) list(ctx context.Context, packages []string) (pkgs []pkg, err error) {
	list, err := command(ctx, o.Dir, append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %v: %w", packages, stderr(err))
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 && len(o.By) == 0 {
			fmt.Fprintf(o.Log, "left out: %s, which has no tests of its own\n", p.ImportPath)
			continue
		}
		pkgs = append(pkgs, p)
	}
}

// measure tests every sampled mutant by its package's own tests, and those that survive by others'.
func measure(ctx context.Context, o options) ([]outcome, error) {
	root, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	pkgs, err := o.list(ctx, o.Packages)
	if err != nil {
		return nil, err
	}
	var all []*mutant
	for _, p := range pkgs {
		for _, name := range p.GoFiles {
			path, err := filepath.Rel(root, filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			src, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				return nil, err
			}
			found, err := find(path, src)
			if err != nil {
				return nil, err
			}
			if o.Only != nil {
				found = slices.DeleteFunc(found, func(m *mutant) bool { return !o.Only.MatchString(m.key()) })
			}
			all = append(all, found...)
		}
	}
	fmt.Fprintf(o.Log, "%d mutants in %d packages\n", len(all), len(pkgs))
	sampled := sample(all, o.Count, o.Seed)
	var out []outcome
	for _, p := range pkgs {
		var own []*mutant
		for _, m := range sampled {
			if filepath.Join(root, filepath.Dir(m.File)) == p.Dir {
				own = append(own, m)
			}
		}
		if len(own) == 0 {
			continue
		}
		if o.NotOwn || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			for _, m := range own {
				out = append(out, outcome{mutant: m, Reason: o.Reasons[m.key()]})
			}
			continue
		}
		got, err := o.test(ctx, root, p, own)
		out = append(out, got...)
		if err != nil {
			return out, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
	if err := o.byOthers(ctx, root, pkgs, out); err != nil {
		return out, err
	}
	return out, o.byZoo(ctx, root, pkgs, out)
}

// byOthers runs the tests of other packages for the mutants that survived their own.
func (o *options) byOthers(ctx context.Context, root string, pkgs []pkg, out []outcome) (err error) {
	if len(o.By) == 0 {
		return nil
	}
	by, err := o.list(ctx, o.By)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "gstore-mutate-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	for i, q := range by {
		left := alive(out)
		dir := filepath.Join(tmp, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		binary := filepath.Join(dir, "package.test")
		if left, err = o.compile(ctx, root, dir, binary, q.ImportPath, pkgs, left, "test", "-c"); err != nil {
			return fmt.Errorf("%s: %w", q.ImportPath, err)
		}
		tests, err := o.tests(ctx, q, binary, filepath.Join(dir, "reached"))
		if err != nil {
			return fmt.Errorf("%s: %w", q.ImportPath, err)
		}
		for _, m := range left {
			killed, err := o.kills(ctx, q, binary, tests, m)
			if err != nil {
				return err
			}
			if k := slices.IndexFunc(out, func(r outcome) bool { return r.mutant == m }); killed {
				out[k].Killed = true
				fmt.Fprintf(o.Log, "killed by %s: %s:%d %s: %s → %s\n", q.ImportPath, m.File, m.Line, m.Func, m.From, m.To)
			}
		}
	}
	return nil
}

// alive are the mutants that nothing killed and that could be.
func alive(out []outcome) (left []*mutant) {
	for _, r := range out {
		if !r.Killed && r.Reason == "" {
			left = append(left, r.mutant)
		}
	}
	return left
}

// sample draws n mutants and numbers them.
func sample(all []*mutant, n int, seed uint64) []*mutant {
	if n <= 0 || n > len(all) {
		n = len(all)
	}
	drawn := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n]
	slices.Sort(drawn)
	var out []*mutant
	for i, k := range drawn {
		all[k].Number = i + 1
		out = append(out, all[k])
	}
	return out
}

// test compiles a package's tests once with all its mutants and runs them for each.
func (o *options) test(ctx context.Context, root string, p pkg, mutants []*mutant) (out []outcome, err error) {
	tmp, err := os.MkdirTemp("", "gstore-mutate-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	binary := filepath.Join(tmp, "package.test")
	if mutants, err = o.compile(ctx, root, tmp, binary, p.ImportPath, []pkg{p}, mutants, "test", "-c"); err != nil || len(mutants) == 0 {
		return nil, err
	}
	tests, err := o.tests(ctx, p, binary, filepath.Join(tmp, "reached"))
	if err != nil {
		return nil, err
	}
	for _, m := range mutants {
		killed, err := o.kills(ctx, p, binary, tests, m)
		if err != nil {
			return out, err
		}
		r := outcome{mutant: m, Killed: killed}
		verdict := "killed"
		if !r.Killed {
			verdict = "SURVIVED"
			if r.Reason = o.Reasons[m.key()]; r.Reason != "" {
				verdict = "equivalent"
			}
		}
		fmt.Fprintf(o.Log, "%-10s %s:%d %s: %s: %s → %s\n", verdict, m.File, m.Line, m.Func, m.What, m.From, m.To)
		out = append(out, r)
	}
	return out, nil
}

// compile builds a package, as how says, with the mutants of some packages, but for those that the compiler refuses, which it
// names.
func (o *options) compile(ctx context.Context, root, tmp, binary, path string, of []pkg, mutants []*mutant, how ...string) ([]*mutant, error) {
	for {
		replace := map[string]string{}
		write := func(path, text string) error {
			to := filepath.Join(tmp, strconv.Itoa(len(replace))+".go")
			replace[path] = to
			return os.WriteFile(to, []byte(text), 0o600)
		}
		for _, x := range of {
			if err := o.overlay(root, x, mutants, write); err != nil {
				return nil, err
			}
		}
		overlay, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return nil, err
		}
		file := filepath.Join(tmp, "overlay.json")
		if err := os.WriteFile(file, overlay, 0o600); err != nil {
			return nil, err
		}
		text, err := command(ctx, o.Dir, append(how, "-overlay", file, "-gcflags=-e", "-o", binary, path)...).CombinedOutput()
		if err == nil {
			return mutants, nil
		}
		left := refused(mutants, string(text))
		if len(left) == len(mutants) {
			return nil, fmt.Errorf("go %s: %w\n%s", how[0], err, text)
		}
		fmt.Fprintf(o.Log, "%d mutants of %s do not compile\n", len(mutants)-len(left), path)
		mutants = left
	}
}

// overlay writes a package's files with its mutants, and their switch.
func (o *options) overlay(root string, p pkg, mutants []*mutant, write func(path, text string) error) error {
	any := false
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		var in []*mutant
		for _, m := range mutants {
			if filepath.Join(root, m.File) == path {
				in = append(in, m)
			}
		}
		if len(in) == 0 {
			continue
		}
		any = true
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := write(path, render(src, in)); err != nil {
			return err
		}
	}
	if !any {
		return nil
	}
	return write(filepath.Join(p.Dir, "mutant_switch.go"), fmt.Sprintf(switchFile, p.Name))
}

var compilerLine = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// refused drops the mutants of the lines that the compiler complains of. Lines are the source's: what replaces an
// expression begins in its line.
func refused(mutants []*mutant, text string) (left []*mutant) {
	bad := map[string]bool{}
	for _, l := range compilerLine.FindAllStringSubmatch(text, -1) {
		bad[filepath.Base(l[1])+":"+l[2]] = true
	}
	for _, m := range mutants {
		if !bad[fmt.Sprintf("%s:%d", filepath.Base(m.File), m.Line)] {
			left = append(left, m)
		}
	}
	return left
}

// testRun is a test and what it does without a mutant.
type testRun struct {
	name    string
	took    time.Duration // processor time: the machine may be busy
	reaches map[int]bool  // mutants by number
}

// tests runs each of a package's tests alone, without a mutant, the quick ones first in the result.
func (o *options) tests(ctx context.Context, p pkg, binary, reached string) (out []testRun, err error) {
	cmd := exec.CommandContext(ctx, binary, "-test.list", ".*")
	cmd.Dir = p.Dir
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", stderr(err))
	}
	for name := range strings.FieldsSeq(string(list)) {
		text, took, err := o.run(ctx, p, binary, []string{name}, time.Hour, reachEnv+"="+reached)
		if err != nil && ctx.Err() == nil { // as those that count what is allocated, and reaching a mutant allocates
			fmt.Fprintf(o.Log, "left out: %s, which fails without a mutant: %v\n%s", name, err, text)
			if err := os.RemoveAll(reached); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		t := testRun{name: name, took: took}
		if t.reaches, err = readReached(reached); err != nil {
			return nil, err
		}
		if o.Slow > 0 && took > o.Slow {
			fmt.Fprintf(o.Log, "left out: %s, which takes %.1f CPU s\n", name, took.Seconds())
			continue
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b testRun) int { return cmp.Compare(a.took, b.took) })
	return out, nil
}

// readReached reads which mutants a run came by, by number, and removes the file.
func readReached(path string) (map[int]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	reaches := map[int]bool{}
	for line := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(line); err == nil {
			reaches[n] = true
		}
	}
	return reaches, os.RemoveAll(path)
}

// quick is how long tests may take together that are run in one process.
const quick = 2 * time.Second

// kills reports whether a test that comes by a mutant fails with it on, or takes twenty times as long and a minute: the quick ones
// are run first, the slow ones only if these pass.
func (o *options) kills(ctx context.Context, p pkg, binary string, tests []testRun, m *mutant) (bool, error) {
	var names []string
	var took time.Duration
	for i, t := range tests {
		if t.reaches[m.Number] {
			names, took = append(names, t.name), took+t.took
		}
		if len(names) == 0 || took < quick && i < len(tests)-1 {
			continue
		}
		_, _, err := o.run(ctx, p, binary, names, time.Minute+20*took, switchEnv+"="+strconv.Itoa(m.Number))
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			return true, nil
		}
		names, took = nil, 0
	}
	return false, nil
}

// run runs some of a package's tests and returns what they print and the processor time that they take; an error is a failure.
func (o *options) run(ctx context.Context, p pkg, binary string, names []string, limit time.Duration, env string) (text []byte, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	// A mutant that allocates without end must not take the machine with it.
	cmd := exec.CommandContext(ctx, "sh", "-c", `[ "$1" = 0 ] || ulimit -v "$1"; shift; exec "$@"`, "sh", strconv.FormatInt(o.MemoryKB, 10),
		binary, "-test.failfast", "-test.timeout", limit.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = 10 * time.Second
	text, err = cmd.CombinedOutput()
	if s := cmd.ProcessState; s != nil {
		took = s.UserTime() + s.SystemTime()
	}
	return text, took, err
}

func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	return cmd
}

// stderr adds to an error what the command said.
func stderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
